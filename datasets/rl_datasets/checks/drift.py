"""Whether two sets of episodes look drawn from one distribution, column by column, and where they differ most.

Numbers are compared by the Kolmogorov-Smirnov statistic, categories by chi-square, both also by the population stability index (PSI).
The steps of one episode resemble one another, so that as many steps say less than as many draws would: each set counts as its effective
number of episodes, (sum T)^2 / sum T^2 (Kish 1965), which is exact where all steps of an episode are alike and cautious otherwise.
P-values are corrected for the number of columns (Benjamini and Hochberg 1995). Memory is that of ROWS steps and episodes a set.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from rl_datasets.checks.block import Block, blocks
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves
from rl_datasets.words import count

ROWS = 20_000  # steps, and episodes, that are kept of a set; between these and twice as many
WIDE = 64  # elements of an array; a wider one is told by the mean and the deviation of its elements
CATEGORIES = 200  # of a column; the rest count as one
BINS = 10  # of a column of numbers, with equal shares of the first set; two more are for what lies outside of that
FLOOR = 1e-4  # the least share of a bin in the PSI
EXPECTED = 5  # draws of a category that each set would have were there no difference; rarer ones are joined (Cochran 1954)
SIGNIFICANCE = 0.01  # of the corrected p-value
NOTABLE = 0.1  # of the PSI, below which a difference is called none

_BUFFER = 1 << 16  # steps gathered before they are looked at
_STRIDE = 0x9E3779B97F4A7C15  # multiples of it fill 64 bits evenly, whatever the period of the data


class Sample(NamedTuple):
    """What is kept of a set of episodes."""

    numbers: Mapping[str, np.ndarray]  # column to values
    categories: Mapping[str, Mapping[str, int]]  # column to counts of all
    draws: Mapping[str, float]  # column to the number of independent draws that it counts as
    episodes: int
    transitions: int


@dataclass(frozen=True)
class ColumnDrift:
    """One column of two sets, called before and after."""

    column: str
    statistic: float  # the largest difference of distribution functions; of categories, half the sum of differences of shares
    p_value: float
    corrected: float  # for all columns together
    psi: float
    before: str
    after: str

    @property
    def drifted(self) -> bool:
        return self.corrected < SIGNIFICANCE and self.psi >= NOTABLE

    def __str__(self) -> str:
        return f"{self.column}: {self.before}; then {self.after} (PSI {self.psi:.2f}, p {self.corrected:.1g})"


@dataclass(frozen=True)
class Drift:
    """Two sets of episodes compared: columns in the order of their PSI, largest first."""

    columns: tuple[ColumnDrift, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    episodes: tuple[int, int]
    transitions: tuple[int, int]

    @property
    def drifted(self) -> tuple[ColumnDrift, ...]:
        return tuple(column for column in self.columns if column.drifted)

    def summary(self) -> list[str]:
        """Returns what changed, in a few lines for a reader."""
        sizes = (
            f"{count(self.episodes[0], 'episode')} ({count(self.transitions[0], 'transition')}) "
            f"and {self.episodes[1]:,} ({self.transitions[1]:,})"
        )
        gone = [f"Only the first has {', '.join(self.only_before)}."] if self.only_before else []
        new = [f"Only the second has {', '.join(self.only_after)}."] if self.only_after else []
        if not self.drifted:
            return [f"{sizes}: no difference in {count(len(self.columns), 'column')}.", *gone, *new]
        differ = f"{len(self.drifted)} of {count(len(self.columns), 'column')} differ{'s' * (len(self.drifted) == 1)}"
        head = f"{sizes}: {differ}, the most changed first."
        return [head, *(f"  {column}" for column in self.drifted), *gone, *new]

    def to_json(self) -> dict[str, Any]:
        columns = [{**asdict(column), "drifted": column.drifted} for column in self.columns]
        return {**asdict(self), "columns": columns}


class Sampler:
    """Takes a sample of the episodes that are added, all of one spec. A function of the episodes and their order."""

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._waiting: list[Episode] = []
        self._steps = 0
        self._step_rows, self._episode_rows = _Kept(), _Kept()
        self._categories: dict[str, Counter[str]] = {}
        self._episodes = self._transitions = self._squares = 0

    def add(self, episode: Episode) -> None:
        self._waiting.append(episode)
        self._steps += len(episode.reward)
        if self._steps >= _BUFFER:
            self._reduce()

    def result(self) -> Sample:
        self._reduce()
        numbers = self._step_rows.columns() | self._episode_rows.columns()
        of_steps = self._transitions**2 / max(self._squares, 1)
        per_episode = {"return", "length", "terminal", "policy"}
        draws = {name: self._episodes if name in per_episode else of_steps for name in [*numbers, *self._categories]}
        return Sample(numbers, self._categories, draws, self._episodes, self._transitions)

    def _reduce(self) -> None:
        for block in blocks(self._waiting, self._spec):
            if isinstance(block, Block):  # an episode that does not meet the spec has no columns
                self._add(block)
        self._waiting, self._steps = [], 0

    def _add(self, block: Block) -> None:
        self._episodes += len(block.lengths)
        self._transitions += int(block.lengths.sum())
        self._squares += int((block.lengths**2).sum())
        taken = np.flatnonzero(~block.is_last)
        leaves = named_leaves(self._spec.observation, "observation")
        arrays = [*zip(leaves, block.observation, strict=True), (("action", self._spec.action), block.action)]
        steps: dict[str, np.ndarray] = {"reward": block.reward[taken]}
        for (name, leaf), array in arrays:
            if leaf.is_discrete:
                self._count(name, array[taken])
            else:
                steps |= _columns(name, leaf, array[taken])
        self._step_rows.add(steps)
        returns = np.add.reduceat(np.where(block.is_last, 0, block.reward.astype(np.float64)), block.starts[:-1])
        self._episode_rows.add({"return": returns, "length": block.lengths.astype(np.float64)})
        self._count("terminal", block.is_terminal)
        self._count("policy", np.array([str(policy) for policy in block.label("policy", "")]))

    def _count(self, name: str, values: np.ndarray) -> None:
        found, counts = np.unique(values, return_counts=True)
        counter = self._categories.setdefault(name, Counter())
        for value, times in zip(found.tolist(), counts.tolist(), strict=True):
            counter[str(value) if str(value) in counter or len(counter) < CATEGORIES else "others"] += times


def sample(episodes: Iterable[Episode], spec: EnvSpec) -> Sample:
    """Returns a sample of episodes of one spec, in one pass."""
    sampler = Sampler(spec)
    for episode in episodes:
        sampler.add(episode)
    return sampler.result()


def compare(before: Sample, after: Sample) -> Drift:
    """Compares the columns that both samples have; the others are named."""
    from scipy.stats import false_discovery_control

    found = [_numbers(name, before, after) for name in before.numbers if name in after.numbers]
    found += [_categories(name, before, after) for name in before.categories if name in after.categories]
    corrected = np.asarray(false_discovery_control([column.p_value for column in found])) if found else np.zeros(0)
    columns = [ColumnDrift(**{**asdict(column), "corrected": float(value)}) for column, value in zip(found, corrected, strict=True)]
    names = [[*each.numbers, *each.categories] for each in (before, after)]
    return Drift(
        tuple(sorted(columns, key=lambda column: (-column.psi, column.column))),
        tuple(name for name in names[0] if name not in names[1]),
        tuple(name for name in names[1] if name not in names[0]),
        (before.episodes, after.episodes),
        (before.transitions, after.transitions),
    )


class _Kept:
    """Rows of columns, thinned evenly so that no more than twice ROWS are kept."""

    def __init__(self) -> None:
        self._seen, self._limit = 0, 2**64
        self._places: list[np.ndarray] = []
        self._parts: list[dict[str, np.ndarray]] = []
        self._count = 0

    def add(self, columns: Mapping[str, np.ndarray]) -> None:
        rows = len(next(iter(columns.values())))
        places = np.arange(self._seen, self._seen + rows, dtype=np.uint64) * np.uint64(_STRIDE)  # wraps around
        self._seen += rows
        self._keep(places, columns)
        while self._count > 2 * ROWS:
            self._limit //= 2
            parts, whole = list(zip(self._places, self._parts, strict=True)), self._count
            self._places, self._parts, self._count = [], [], 0
            for kept, part in parts:
                self._keep(kept, part)
            assert self._count < whole, "half of the places are above the new limit"

    def columns(self) -> dict[str, np.ndarray]:
        return {name: np.concatenate([part[name] for part in self._parts]) for name in (self._parts[0] if self._parts else ())}

    def _keep(self, places: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        inside = places <= np.uint64(self._limit - 1)
        self._places.append(places[inside])
        self._parts.append({name: values[inside] for name, values in columns.items()})
        self._count += int(inside.sum())


def _columns(name: str, leaf: ArraySpec, array: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the columns of an array [N, ...]."""
    rows = array.reshape(len(array), -1)
    if rows.shape[1] <= WIDE:
        return {f"{name}[{place}]" if leaf.shape else name: rows[:, place] for place in range(rows.shape[1])}
    with np.errstate(invalid="ignore", over="ignore"):
        return {f"{name} mean": rows.mean(axis=1, dtype=np.float64), f"{name} deviation": rows.std(axis=1, dtype=np.float64)}


def _numbers(name: str, before: Sample, after: Sample) -> ColumnDrift:
    from scipy.stats import kstwobign

    a, b = (each.numbers[name].astype(np.float64) for each in (before, after))
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    if not (len(a) and len(b)):
        return ColumnDrift(name, 0.0, 1.0, 1.0, 0.0, _describe(a), _describe(b))
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    distance = float(np.abs(np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)).max())
    draws = [min(each.draws[name], len(values)) for each, values in ((before, a), (after, b))]
    p_value = float(kstwobign.sf(distance * np.sqrt(draws[0] * draws[1] / sum(draws))))
    edges = np.unique([np.nextafter(a[0], -np.inf), *np.quantile(a, np.arange(1, BINS) / BINS), a[-1]])
    shares = [np.bincount(np.searchsorted(edges, values, "left"), minlength=len(edges) + 1) / len(values) for values in (a, b)]
    return ColumnDrift(name, distance, p_value, 1.0, stability(*shares), _describe(a), _describe(b))


def _categories(name: str, before: Sample, after: Sample) -> ColumnDrift:
    from scipy.stats import chi2_contingency

    counts = before.categories[name], after.categories[name]
    keys = sorted(set(counts[0]) | set(counts[1]))
    table = np.array([[count.get(key, 0) for key in keys] for count in counts], np.float64)
    shares = table / table.sum(axis=1, keepdims=True)
    scaled = shares * np.array([[min(each.draws[name], row.sum())] for each, row in zip((before, after), table, strict=True)])
    common = scaled.sum(axis=1).min() * scaled.sum(axis=0) / scaled.sum() >= EXPECTED
    tested = np.column_stack([scaled[:, common], scaled[:, ~common].sum(axis=1)])
    tested = tested[:, tested.sum(axis=0) > 0]
    p_value = float(chi2_contingency(tested, correction=False).pvalue) if tested.shape[1] > 1 else 1.0
    described = [_listed(dict(zip(keys, row.tolist(), strict=True))) for row in shares]
    return ColumnDrift(name, float(np.abs(shares[0] - shares[1]).sum() / 2), p_value, 1.0, stability(*shares), *described)


def stability(before: np.ndarray, after: np.ndarray) -> float:
    """Returns the population stability index of two lists of shares, sum (b - a) ln(b / a); a share counts as FLOOR at least."""
    a, b = np.maximum(before, FLOOR), np.maximum(after, FLOOR)
    return float(((b - a) * np.log(b / a)).sum())


def _describe(values: np.ndarray) -> str:
    if not len(values):
        return "no finite value"
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return f"median {middle:.4g}, 90 % in {low:.4g} to {high:.4g}"


def _listed(shares: Mapping[str, float], most: int = 3) -> str:
    first: Sequence[tuple[str, float]] = sorted(
        ((key, share) for key, share in shares.items() if share), key=lambda item: (-item[1], item[0])
    )
    more = [f"{len(first) - most} more"] if len(first) > most else []
    return ", ".join([*(f"'{key}' {share:.1%}" for key, share in first[:most]), *more])
