"""A check of consecutive episodes that differ from all others of their policy: in a column's scale or place, or in that it stands still.

Policies and environments are not compared with one another, for those do differ. An episode counts by its own steps in the sample: the
width of what it goes through, and its mean. So what occurs seldom, or in some episodes only, is no change of units: the values must fall
into two groups with nothing between them, and one of the two must be consecutive episodes, which chance does not make.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.check import Check, Fault, NotApplicable, Running, Warns
from rl_datasets.checks.leaf import Leaf
from rl_datasets.checks.sample import Sample
from rl_datasets.words import count

FEWEST = 12  # episodes of one policy, to compare some with the others
LEAST = 3  # episodes of either group
BETWEEN = 2.0  # widths by this factor lie between the two groups
APART = 6.0  # distance of two means, in deviations of the means within the groups
LABELS = ["policy", "environment"]
CHANCE = 0.01  # that so many of the episodes are consecutive, for any of the columns


class UnitOptions(Warns):
    factor: float = Field(8.0, gt=2, description="of the widths within episodes, from which on a range of episodes is of another scale")
    distance: float = Field(
        6.0, gt=1, description="of the means of episodes, in deviations within them, from which on a range of them is in another place"
    )


class _Column(NamedTuple):
    """A column by the stretches of the sample, each array [S]."""

    name: str
    width: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


class _Odd(NamedTuple):
    """Some consecutive stretches that differ from all others."""

    chosen: np.ndarray  # [S] bool
    told: str
    wanted: str
    evidence: dict[str, float]


class _Units(Running):
    options: UnitOptions

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:
        sample = self.sample
        if sample is None or len(sample.number) < FEWEST:
            yield NotApplicable(f"fewer than {FEWEST} episodes do not say what is usual")
            return
        labels = table[LABELS].iloc[sample.number].reset_index(drop=True)
        groups = [np.asarray(places) for places in labels.groupby(LABELS).indices.values()]
        columns = list(_columns(sample, self.expected.observation, self.expected.action))
        for column in columns:
            for places, odd in self._odd_of(column, groups, len(columns)):
                numbers = sample.number[places][odd.chosen]
                rows = table.iloc[int(numbers[0]) : int(numbers[-1]) + 1]  # those that the sample passed over, too
                if len(places) < len(sample.number):
                    rows = rows[(rows[LABELS] == rows[LABELS].iloc[0]).all(axis=1)]
                yield _fault(rows, column.name, odd)

    def _odd_of(self, column: _Column, groups: list[np.ndarray], columns: int) -> Iterator[tuple[np.ndarray, _Odd]]:
        """Yields (which stretches were compared, what is odd): all of them, or those of one policy after the other.

        Of all, a range counts that is a part of some policy: one that is all of it is how that policy differs.
        """
        everything = np.arange(len(column.width))
        if (odd := self._odd(column, columns)) and any(0 < odd.chosen[places].sum() < len(places) for places in groups):
            yield everything, odd
            return
        for places in groups if len(groups) > 1 else ():
            part = _Column(column.name, *(values[places] for values in column[1:]))
            if len(places) >= FEWEST and (odd := self._odd(part, columns)):
                yield places, odd

    def _odd(self, column: _Column, columns: int) -> _Odd | None:
        still = column.width == 0
        if column.name != "reward" and (chosen := _consecutive(still, columns)) is not None and (chosen == still).all():
            usual = float(np.median(column.width[~still]))
            told = f"stands still at {np.median(column.mean[still]):.4g}"
            return _Odd(chosen, told, f"a column that varies, by {usual:.4g} within an episode, as in the others", {"elsewhere": usual})
        return self._of_scale(column, columns) or self._of_place(column, columns)

    def _of_scale(self, column: _Column, columns: int) -> _Odd | None:
        width = column.width if (column.width > 0).any() or column.name != "reward" else np.abs(column.mean)
        some = width > 0
        values = np.log(width[some])
        part = _consecutive(_above_gap(values, math.log(BETWEEN)), columns)
        if part is None:
            return None
        here, there = (float(np.exp(np.median(values[each]))) for each in (part, ~part))
        if max(here / there, there / here) < self.options.factor:
            return None
        chosen = np.zeros(len(width), bool)
        chosen[some] = part
        words = "varies by" if width is column.width else "is"
        ratio = here / there
        times = f"{ratio:.4g} times" if ratio >= 1 else f"1/{1 / ratio:.4g} of"
        told = f"{words} {here:.4g} within an episode, {times} what it does in the others"
        return _Odd(chosen, told, f"one unit throughout: {there:.4g} in the others", {"here": here, "elsewhere": there})

    def _of_place(self, column: _Column, columns: int) -> _Odd | None:
        within = float(np.median(column.deviation))
        if within == 0:
            return None
        chosen = _consecutive(_above_gap(column.mean, self.options.distance * within), columns)
        if chosen is None:
            return None
        here, there = (float(np.median(column.mean[each])) for each in (chosen, ~chosen))
        between = max(float(column.mean[each].std()) for each in (chosen, ~chosen))
        if abs(here - there) < APART * between:
            return None
        told = f"is around {here:.4g}, and around {there:.4g} in the others"
        wanted = f"one unit and one zero throughout: within an episode it varies by {within:.4g}"
        return _Odd(chosen, told, wanted, {"here": here, "elsewhere": there})


def _columns(sample: Sample, observation: tuple[Leaf, ...], action: Leaf) -> Iterator[_Column]:
    """Yields what is a quantity; a category has no unit."""
    before_last = sample.starts[1:] - 2
    for leaf, array in zip(observation, sample.observation, strict=True):
        if array is not None and leaf.spec.num_values is None:
            yield from _described(sample, [leaf.column(place) for place in range(leaf.size)], array)
    transitions = [("reward", sample.reward)] + ([] if action.spec.num_values is not None else [("action", sample.action)])
    for name, array in transitions:
        repeated = array.copy()
        repeated[sample.starts[1:] - 1] = array[before_last]  # the last row holds only an observation
        names = [name] if name == "reward" else [action.column(place) for place in range(action.size)]
        yield from _described(sample, names, repeated)


def _described(sample: Sample, names: list[str], array: np.ndarray) -> Iterator[_Column]:
    """array: [N, D]. A stretch with a value that is not finite counts as one that does not vary around 0."""
    starts, rows = sample.starts[:-1], np.diff(sample.starts)[:, None]
    values = array.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        width = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts)
        mean = np.add.reduceat(values, starts) / rows
        deviation = np.sqrt(np.add.reduceat((values - np.repeat(mean, rows[:, 0], axis=0)) ** 2, starts) / rows)
    finite = np.isfinite(width) & np.isfinite(deviation)
    parts = (np.where(finite, each, 0.0) for each in (width, mean, deviation))
    yield from (_Column(*each) for each in zip(names, *(part.T for part in parts), strict=True))


def _above_gap(values: np.ndarray, least: float) -> np.ndarray:
    """Returns which values are above the widest gap between two of them, LEAST or more on either side; none where it is narrower."""
    ordered = np.sort(values)
    gaps = np.diff(ordered)[LEAST - 1 : len(values) - LEAST]
    if not len(gaps) or gaps.max() < least:
        return np.zeros(len(values), bool)
    above: np.ndarray = values > ordered[LEAST - 1 + int(np.argmax(gaps))]
    return above


def _consecutive(is_in: np.ndarray, columns: int) -> np.ndarray | None:
    """Returns the members of a group, or those of the rest, that are consecutive by more than chance, the smaller ones; None else."""
    for part in sorted((is_in, ~is_in), key=np.count_nonzero):
        places = np.flatnonzero(part)
        of, size = len(part), len(places)
        if size >= LEAST and places[-1] - places[0] == size - 1:
            log_ways = math.lgamma(of + 1) - math.lgamma(size + 1) - math.lgamma(of - size + 1)
            if math.log(of - size + 1) - log_ways < math.log(CHANCE / columns):
                return part
    return None


def _fault(rows: pd.DataFrame, name: str, odd: _Odd) -> Fault:
    """rows: of the table, those of the range."""
    ids = rows["episode_id"]
    found = f"{name} {odd.told}, in {count(len(ids), 'episode')} from '{ids.iloc[0]}' to '{ids.iloc[-1]}'"
    evidence = {"episodes": len(ids), **{key: float(f"{value:.6g}") for key, value in odd.evidence.items()}}
    numbers = tuple(int(number) for number in ids.index)
    return Fault(found, odd.wanted, numbers[0], evidence=evidence, set_aside=numbers)


UNITS = Check(
    "units",
    "A range of consecutive episodes in which a column's scale or place is far from that in all others of the same policy, such as degrees "
    "for radians, or in which it stands still.",
    "A learner takes the same number for the same thing, and a part of the data then tells it of other states or rewards.",
    "Multiply the column in these episodes in the builder (`scale`, `offset` in an import), or tell them apart by `policy` or "
    "`environment` in metadata where they do differ.",
    UnitOptions,
    _Units,
)
