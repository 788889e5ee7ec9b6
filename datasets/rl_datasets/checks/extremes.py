"""Checks of how far values lie from the others: single outliers, jumps between steps, columns that hardly vary."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.block import Block
from rl_datasets.checks.check import Check, Fault, NotApplicable, Options, Running, Warns
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.folding import as_columns, extremes_of
from rl_datasets.checks.leaf import Leaf
from rl_datasets.checks.sample import LEVELS, Sample
from rl_datasets.words import count

KEPT = 64  # candidates remembered a column
UNSPREAD = 250.0  # stands for the spread of a column that does not vary, as a multiple of max(1, |median|)
FEWEST = 100  # rows that say what is usual
LEAST_REPEATS = 3  # of a value that stands for something else
MOST_REPEATS = 0.1  # of the rows, above which it is a value like others
OUTERMOST = 4  # different values at either end that are looked at
GAP = 5.0  # its distance from all others, in widths of their range


class OutlierOptions(Warns):
    factor: float = Field(20.0, gt=1, description="distance from the median, in widths of the range that holds 99 % of the values")


class JumpOptions(Warns):
    factor: float = Field(4.0, gt=1, description="size of a change, as a multiple of what 99.5 % of the changes stay below")
    share: float = Field(0.25, ge=0, description="least size of a change, as a share of the range that holds 99 % of the values")


class ConstantOptions(Warns):
    share: float = Field(0.999, gt=0.5, le=1, description="of the steps that have one and the same value, from which on a column is named")


class _Candidate(NamedTuple):
    size: float  # how far off
    value: float
    number: int
    step: int


class _Off(Running):
    """Remembers the farthest of what is beyond the limits that the sample gives so far, and judges it by those of the whole sample."""

    def __init__(self, expected: Expected, options: Options) -> None:
        super().__init__(expected, options)
        self._candidates: dict[tuple[int | str, int], list[_Candidate]] = {}
        self._known: dict[int | str, tuple[int, np.ndarray]] = {}

    def limits(self, sample: Sample, place: int | str) -> np.ndarray:
        """Returns (low, middle, high) of each column, [3, D]."""
        raise NotImplementedError

    def current(self, place: int | str) -> np.ndarray:
        """The limits by the sample so far; computed anew when it is four times as large."""
        rows, limits = self._known.get(place, (0, np.zeros(0)))
        if self.expected.sampler.rows >= 4 * rows:
            sample = self.sample
            assert sample is not None, "the block was sampled before it came here"
            rows, limits = self._known[place] = len(sample.reward), self.limits(sample, place)
        return limits

    def compare(self, block: Block, place: int | str, rows: np.ndarray, extremes: tuple[np.ndarray, np.ndarray]) -> None:
        """rows: [N, D]. extremes: the least and the greatest value of each column, each [D]."""
        low, middle, high = self.current(place)
        with np.errstate(invalid="ignore"):
            beyond = np.flatnonzero((extremes[1] > high) | (extremes[0] < low))
        for column in beyond:
            values = rows[:, column]
            chosen = np.flatnonzero((values > high[column]) | (values < low[column]))
            sizes = np.abs(values[chosen].astype(np.float64) - middle[column])
            kept = self._candidates.setdefault((place, int(column)), [])
            for choice in np.argsort(-sizes, kind="stable")[:KEPT]:
                number, step = block.place(*_owner(block, int(chosen[choice])))
                kept.append(_Candidate(float(sizes[choice]), float(values[chosen[choice]]), number, step))
            kept.sort(key=lambda candidate: (-candidate.size, candidate.number, candidate.step))
            del kept[KEPT:]

    def confirmed(self) -> Iterator[tuple[int | str, int, _Candidate, np.ndarray]]:
        """Yields (place, column, the farthest step of an episode, limits) for what the whole sample still says is beyond."""
        sample = self.sample
        if sample is None:
            return
        for (place, column), candidates in self._candidates.items():
            limits = self.limits(sample, place)[:, column]
            seen: set[int] = set()
            for candidate in candidates:
                if candidate.size > max(limits[1] - limits[0], limits[2] - limits[1]) and candidate.number not in seen:
                    seen.add(candidate.number)
                    yield place, column, candidate, limits

    def name(self, place: int | str, column: int) -> str:
        leaf = self.expected.observation[place] if isinstance(place, int) else self.expected.action
        return "reward" if place == "reward" else leaf.column(column)


class _Outliers(_Off):
    options: OutlierOptions

    def limits(self, sample: Sample, place: int | str) -> np.ndarray:
        low, middle, high = sample.quantiles(place)
        width = np.where(high > low, high - low, UNSPREAD * np.maximum(1, np.abs(middle))) * self.options.factor
        return np.stack([middle - width, middle, middle + width])

    def block(self, block: Block) -> Iterator[Fault]:
        for place, leaf in enumerate(self.expected.observation):
            if leaf.is_float and leaf.is_narrow:
                self.compare(block, place, block.observation_rows(place), block.observation_extremes(place))
        if self.expected.action.is_float:
            self.compare(block, "action", block.action_rows, block.action_extremes)
        self.compare(block, "reward", block.reward_rows, block.reward_extremes)
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:  # noqa: ARG002
        if self.sample is None or len(self.sample.reward) < FEWEST:
            yield NotApplicable(f"fewer than {FEWEST} steps do not say what is usual")
            return
        yield from self._sentinels(self.sample)
        for place, column, candidate, (low, _, high) in self.confirmed():
            if np.isfinite(candidate.value):
                found = f"{self.name(place, column)} = {candidate.value:.9g}"
                inside = f"a value such as the others: {LEVELS[2] - LEVELS[0]:.0%} of them lie far inside {low:.4g} to {high:.4g}"
                yield Fault(found, inside, candidate.number, candidate.step)

    def _sentinels(self, sample: Sample) -> Iterator[Fault]:
        """Yields the first step of each episode at which a column has a value so frequent that it widens what is usual."""
        faults: list[Iterator[Fault]] = []  # of each value of each column
        places: list[int | str] = [i for i, leaf in enumerate(self.expected.observation) if leaf.is_float and leaf.is_narrow]
        for place in [*places, *(["action"] if self.expected.action.is_float else [])]:
            array = sample.observation[place] if isinstance(place, int) else np.where(sample.is_last[:, None], np.nan, sample.action)
            assert array is not None, "a wide array is not looked at"
            low, _, high = self.limits(sample, place)
            for column, values in enumerate(array.T):
                found = sentinels(values)
                rest = values[np.isfinite(values) & ~np.isin(values, found)] if found else values
                for value in found:
                    if low[column] <= value <= high[column]:  # what is beyond the limits is found anyway
                        faults.append(self._first_of(sample, self.name(place, column), values, value, rest))
        for in_turn in itertools.zip_longest(*faults):  # so that the first few are of all of them
            yield from (fault for fault in in_turn if fault)

    def _first_of(self, sample: Sample, name: str, values: np.ndarray, value: float, rest: np.ndarray) -> Iterator[Fault]:
        """Yields the first step of each episode at which a column has a value. rest: the column's values that stand for none."""
        rows = np.flatnonzero(values == np.float64(value))
        owners, first = np.unique(sample.owner[rows], return_index=True)
        for owner, row in list(zip(owners.tolist(), rows[first].tolist(), strict=True))[:KEPT]:
            step = int(sample.first[owner] + row - sample.starts[owner])
            found = f"{name} = {value:.9g}, as in {len(rows):,} of {len(values):,} steps that were looked at"
            wanted = f"a value such as all others, from {rest.min():.4g} to {rest.max():.4g}; it seems to stand for a missing one"
            yield Fault(found, wanted, int(sample.number[owner]), step)


def sentinels(values: np.ndarray) -> tuple[float, ...]:
    """Returns the values that seem to stand for missing ones, such as -999, ascending. values: [N] numbers.

    They are among the least or the greatest, occur several times but seldom, and are far from all others, which vary. A few values that
    occur less often may be as far out: they don't hide them.
    """
    finite = values[np.isfinite(values)]
    part = int(MOST_REPEATS * len(finite))
    if len(finite) < FEWEST:
        return ()
    widest = (float(finite.max()) - float(finite.min())) / GAP
    low, high = (float(finite.mean(dtype=np.float64)) + sign * widest / 2 for sign in (-1, 1))
    if min((finite <= low).sum(), (finite >= high).sum()) > part:
        return ()  # what remains without them is at least so wide; most columns are told by this, at a tenth of the cost
    inner = np.partition(finite, (part, len(finite) - 1 - part))
    if widest <= float(inner[-1 - part]) - float(inner[part]):
        return ()
    different, counts = np.unique(finite, return_counts=True)
    best: list[float] = []
    for below, above in itertools.product(range(OUTERMOST + 1), repeat=2):
        inside = slice(below, len(different) - above)
        outside = np.delete(np.arange(len(different)), inside)
        rest = different[inside].astype(np.float64)
        if len(rest) < 2 or counts[outside].sum() > part:
            continue
        away = np.maximum(rest[0] - different[outside], different[outside] - rest[-1])
        often = outside[counts[outside] >= LEAST_REPEATS]
        if (away > GAP * (rest[-1] - rest[0])).all() and len(often) > len(best):
            best = different[often].tolist()
    return tuple(float(value) for value in best)


class _Jumps(_Off):
    options: JumpOptions

    def limits(self, sample: Sample, place: int | str) -> np.ndarray:
        values = sample.observation[place] if isinstance(place, int) else None
        assert values is not None, "a wide array has no jumps"
        with np.errstate(invalid="ignore", over="ignore"):
            changes = np.abs(np.diff(values.astype(np.float64), axis=0))[~sample.is_last[:-1]]
            changes = np.where(np.isfinite(changes), changes, 0)
        usual = np.quantile(changes, LEVELS[2], axis=0) if len(changes) else np.zeros(values.shape[1])
        low, _, high = sample.quantiles(place)
        limit = np.where(usual > 0, np.maximum(usual * self.options.factor, (high - low) * self.options.share), np.inf)
        return np.stack([-limit, np.zeros_like(limit), limit])

    def block(self, block: Block) -> Iterator[Fault]:
        for place, leaf in enumerate(self.expected.observation):
            if leaf.is_float and leaf.is_narrow and len(block.reward) > 1:
                changes = block.observation_changes(place)
                self.compare(block, place, changes, extremes_of(changes))
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:  # noqa: ARG002
        if not any(leaf.is_float and leaf.is_narrow for leaf in self.expected.observation):
            yield NotApplicable("no observation is a vector of floats")
        elif self.sample is None or len(self.sample.reward) < FEWEST:
            yield NotApplicable(f"fewer than {FEWEST} steps do not say what is usual")
        else:
            for place, column, candidate, (_, _, high) in self.confirmed():
                found = f"{self.name(place, column)} changes by {candidate.value:.6g} in one step"
                yield Fault(found, f"a change such as the others, far below {high:.4g}", candidate.number, candidate.step)


class _Constant(Running):
    """Keeps the extremes of every column, and of wide arrays as a whole."""

    options: ConstantOptions

    def __init__(self, expected: Expected, options: ConstantOptions) -> None:
        super().__init__(expected, options)
        self._extremes: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def block(self, block: Block) -> Iterator[Fault]:
        for place, leaf in enumerate(self.expected.observation):
            array = block.observation[place]
            self._add(leaf.name, block.observation_extremes(place) if leaf.is_narrow else (array.min()[None], array.max()[None]))
        self._add("action", block.action_extremes)
        self._add("reward", block.reward_extremes)
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:
        sample = self.sample
        if sample is None or len(sample.reward) < FEWEST:
            yield NotApplicable(f"fewer than {FEWEST} steps do not say what varies")
            return
        for place, leaf in enumerate((*self.expected.observation, self.expected.action)):
            low, high = self._extremes[leaf.name]
            array = sample.action[~sample.is_last] if leaf is self.expected.action else sample.observation[place]
            key = "action" if leaf is self.expected.action else place
            hardly = np.zeros(len(low)) if array is None else as_columns(array == sample.quantiles(key)[1]).mean(axis=1)
            columns = np.flatnonzero((low == high) | (hardly >= self.options.share))
            if len(columns) and leaf.spec.num_values != 1:
                yield Fault(_named(leaf, columns, low, high), "columns that vary", evidence={"columns": columns.tolist()})
        low, high = self._extremes["reward"]
        if low == high and (low == 0 or table["length"].nunique() == 1):
            same = " in episodes of one length" if low else ""
            yield Fault(f"every reward is {low[0]:g}{same}", "rewards from which something can be learnt")

    def _add(self, name: str, extremes: tuple[np.ndarray, np.ndarray]) -> None:
        low, high = self._extremes.get(name, extremes)
        self._extremes[name] = np.minimum(low, extremes[0]), np.maximum(high, extremes[1])


def _named(leaf: Leaf, columns: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    """Names columns that hardly vary, a few of them with their value."""
    words = []
    for column in columns[:5]:
        value = f"is {low[column]:.6g} in every step" if low[column] == high[column] else "hardly varies"
        words.append(f"{leaf.column(int(column)) if len(low) == leaf.size else leaf.name} {value}")
    return ", ".join(words) + (f" and {count(len(columns) - 5, 'column')} more" if len(columns) > 5 else "")


def _owner(block: Block, row: int) -> tuple[int, int]:
    return block.locate(row)[0], row


OUTLIERS = Check(
    "outliers",
    "A value of a float observation, action or reward that is finite and yet far beyond the range of the others, such as a single 1e30.",
    "One of them sets the scale of normalisation, and of a loss, for all.",
    "Mend or drop the step in the builder (`missing_marks` with `missing` in an import, where the value stands for a missing one), or "
    "raise factor under 'checks' where such values occur.",
    OutlierOptions,
    _Outliers,
)
JUMPS = Check(
    "jumps",
    "A change of an observation between two steps that is many times what changes there are otherwise.",
    "Two episodes were joined, or rows are missing between the two steps.",
    "Divide the episode there in the builder, or fill in the rows; raise factor where the environment jumps.",
    JumpOptions,
    _Jumps,
)
CONSTANT = Check(
    "constant",
    "A column of an observation or action that never or hardly ever varies; rewards that are all alike.",
    "It holds nothing to learn from; often it is a sensor that was not connected or a column that was not filled in.",
    "Leave the column out in the builder, or look for what should be in it.",
    ConstantOptions,
    _Constant,
)
