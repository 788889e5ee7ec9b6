"""Checks of whether rewards and actions stand in the row where they belong, by what follows from what, without the environment.

A reward follows from its own row (observation, action, next observation) at least as well as from a neighbouring row; the change of the
observation follows from its own row's action. Where a neighbour explains much more, the column is shifted. Of data whose environment
is at hand, the check `replay` is exact.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.check import Check, Fault, NotApplicable, Running, Warns
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.leaf import Leaf
from rl_datasets.checks.regression import Regression, cross_errors, joined
from rl_datasets.checks.sample import Sample

FIT_ROWS = 2048
FEWEST = 200  # rows that a model can be fitted on
FEWEST_OF_EPISODE = 8
OF_STRETCH = 64  # rows of one episode that are looked at
CATEGORIES = 64  # values of a category that are told apart
COLUMNS = 64  # of the observation, beyond which a model would need more rows
LATE, EARLY = "late", "early"
EXPLAINED = 0.5  # greatest error of the neighbour's model, where 1 is no model
EFFECT = 0.3  # least share of the error that an action takes away, to be an effect
GUESSED = 0.3  # share of the actions' variance that the observation explains, from which on a policy may stand behind an effect


class ShiftOptions(Warns):
    ratio: float = Field(2.0, gt=1, description="error by the own row, as a multiple of that by the neighbour, for all data")
    episode_ratio: float = Field(9.0, gt=1, description="the same for one episode beside others that are right")


@dataclass(frozen=True)
class _Rows:
    """Rows of the sample with a neighbour on both sides and one more after that: each array is [N, D] float64."""

    observation: Mapping[int, np.ndarray]  # by offset, -1 to 2
    action: Mapping[int, np.ndarray]  # by offset, -1 to 1
    reward: np.ndarray
    owner: np.ndarray  # [N], the stretch
    step: np.ndarray  # [N]

    def change(self, offset: int) -> np.ndarray:
        change: np.ndarray = self.observation[offset + 1] - self.observation[offset]
        return change


class _RewardShift(Running):
    options: ShiftOptions

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:  # noqa: ARG002
        rows = _rows(self.sample, self.expected)
        if isinstance(rows, NotApplicable):
            yield rows
            return
        if np.ptp(rows.reward) <= 1e-6 * max(1.0, float(np.abs(rows.reward).max())):
            yield NotApplicable("rewards do not vary within episodes")
            return
        windows = {offset: joined([rows.observation[offset], rows.action[offset], rows.observation[offset + 1]]) for offset in (0, -1, 1)}
        fit = _fit_rows(rows)
        errors = {offset: _mean(cross_errors(window[fit], rows.reward[fit], rows.owner[fit])) for offset, window in windows.items()}
        best = -1 if errors[-1] <= errors[1] else 1
        if errors[best] < EXPLAINED and errors[0] > self.options.ratio * errors[best]:
            found = (
                f"rewards that follow from the {_side(best)} (error {errors[best]:.2g} of the variance) and not their own ({errors[0]:.2g})"
            )
            yield Fault(found, "rewards in the row of the action that earned them", evidence=_evidence(errors))
            return
        model = Regression(windows[0][fit], rows.reward[fit])
        own = model.errors(windows[0], rows.reward)
        shifted = {offset: model.errors(windows[offset], rows.reward) for offset in (-1, 1)}
        for stretch, offset in _odd_stretches(rows, own, shifted, self.options.episode_ratio):
            found = f"rewards that follow from the {_side(offset)}, unlike in other episodes"
            yield _of_stretch(self.sample, rows, stretch, found, "rewards in the row of the action that earned them")


class _ActionShift(Running):
    options: ShiftOptions

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:  # noqa: ARG002
        rows = _rows(self.sample, self.expected)
        if isinstance(rows, NotApplicable):
            yield rows
            return
        fit = _fit_rows(rows)
        change, before = rows.change(0), rows.observation[0]
        none = _mean(cross_errors(before[fit], change[fit], rows.owner[fit]))
        windows = {offset: joined([before, rows.action[offset]]) for offset in (0, 1, -1)}
        errors = {offset: _mean(cross_errors(window[fit], change[fit], rows.owner[fit])) for offset, window in windows.items()}
        effect = {offset: 1 - error / max(none, 1e-12) for offset, error in errors.items()}
        best = 1 if effect[1] >= effect[-1] else -1
        wanted = "actions in the row of the observation that they were taken at"
        if effect[best] > EFFECT and effect[0] < EFFECT * effect[best] and not (best == 1 and _is_reaction(rows, fit)):
            found = f"observations that change by the action of the {_side(best)} ({effect[best]:.0%} of the error) and not their own"
            yield Fault(found, wanted, evidence=_evidence(errors))
        elif effect[0] > EFFECT:
            model = Regression(windows[0][fit], change[fit])
            own = model.errors(windows[0], change)
            shifted = {offset: model.errors(windows[offset], change) for offset in (-1, 1)}
            for stretch, offset in _odd_stretches(rows, own, shifted, self.options.episode_ratio):
                found = f"observations that change by the action of the {_side(offset)}, unlike in other episodes"
                yield _of_stretch(self.sample, rows, stretch, found, wanted)


def _is_reaction(rows: _Rows, fit: np.ndarray) -> bool:
    """Whether the action follows from the observation of its own row much better than from the one before: then it tells of the change
    that led there because a policy reacted to it, not because it caused it."""
    own = _mean(cross_errors(rows.observation[0][fit], rows.action[0][fit], rows.owner[fit]))
    before = _mean(cross_errors(rows.observation[-1][fit], rows.action[0][fit], rows.owner[fit]))
    return 1 - own > GUESSED and own < before - 0.1


def _rows(sample: Sample | None, expected: Expected) -> _Rows | NotApplicable:
    if sample is None:
        return NotApplicable("there are no steps")
    arrays = list(zip(expected.observation, sample.observation, strict=True))
    wide = [leaf.name for leaf, array in arrays if array is None or (leaf.spec.num_values or 0) > CATEGORIES]
    columns = [_numeric(leaf, array) for leaf, array in arrays if array is not None and leaf.name not in wide]
    if not columns:
        return NotApplicable(f"the observation has only {', '.join(wide)}: images, or categories of more than {CATEGORIES} values")
    if (expected.action.spec.num_values or 0) > CATEGORIES:
        return NotApplicable(f"actions are a category of more than {CATEGORIES} values")
    observation, action = np.concatenate(columns, axis=1), _numeric(expected.action, sample.action)
    if observation.shape[1] > COLUMNS:
        return NotApplicable(f"the observation has {observation.shape[1]} columns, more than {COLUMNS}")
    at = np.flatnonzero(sample.owner[:-3] == sample.owner[3:]) + 1
    at = at[at - sample.starts[sample.owner[at]] <= OF_STRETCH]
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(joined([observation, action, sample.reward]).sum(axis=1))
    at = at[np.logical_and.reduce([finite[at + offset] for offset in (-1, 0, 1, 2)])] if len(at) else at
    if len(at) < FEWEST or len(np.unique(sample.owner[at])) < 2:
        return NotApplicable(f"fewer than {FEWEST} steps with neighbours, or a single episode")
    return _Rows(
        {offset: observation[at + offset] for offset in (-1, 0, 1, 2)},
        {offset: action[at + offset] for offset in (-1, 0, 1)},
        sample.reward[at].astype(np.float64),
        sample.owner[at],
        at - sample.starts[sample.owner[at]] + sample.first[sample.owner[at]],
    )


def _numeric(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    """Returns [N, D] float64: a category as one column a value."""
    if leaf.spec.num_values is None:
        return array.astype(np.float64)
    own: np.ndarray = array - int(leaf.spec.bounds()[0]) == np.arange(leaf.spec.num_values)
    return own.astype(np.float64)


def _fit_rows(rows: _Rows) -> np.ndarray:
    """Every so many rows, that there are at most FIT_ROWS."""
    return np.arange(0, len(rows.owner), -(-len(rows.owner) // FIT_ROWS))


def _odd_stretches(rows: _Rows, own: np.ndarray, shifted: Mapping[int, np.ndarray], ratio: float) -> Iterator[tuple[int, int]]:
    """Yields (stretch, offset) where the model that is right elsewhere is right only at a neighbour."""
    order = np.argsort(rows.owner, kind="stable")
    stretches, starts, counts = np.unique(rows.owner[order], return_index=True, return_counts=True)
    parts = [order[start : start + count] for start, count in zip(starts, counts, strict=True)]
    medians = np.array([np.median(own[part]) for part in parts])
    usual = max(float(np.median(medians)), 1e-9)
    for stretch, part, median in zip(stretches, parts, medians, strict=True):
        if len(part) >= FEWEST_OF_EPISODE and median > ratio * usual:
            others = {offset: float(np.median(errors[part])) for offset, errors in shifted.items()}
            best = min(others, key=lambda offset: others[offset])
            if median > ratio * others[best]:
                yield int(stretch), best


def _of_stretch(sample: Sample | None, rows: _Rows, stretch: int, found: str, wanted: str) -> Fault:
    assert sample is not None, "rows are of a sample"
    return Fault(found, wanted, int(sample.number[stretch]), int(rows.step[rows.owner == stretch][0]))


def _mean(errors: np.ndarray) -> float:
    """The mean of all but the greatest 5 %, which a few odd rows may hold."""
    return float(np.sort(errors)[: max(int(0.95 * len(errors)), 1)].mean())


def _side(offset: int) -> str:
    return "row before" if offset < 0 else "row after"


def _evidence(errors: Mapping[int, float]) -> dict[str, float]:
    return {name: round(errors[offset], 6) for name, offset in (("row_before", -1), ("own_row", 0), ("row_after", 1))}


REWARD_SHIFT = Check(
    "reward_shift",
    "Rewards that follow from the row before or after much better than from their own; in all data, or in one episode.",
    "A learner then credits every action with what another one earned.",
    "Shift the column in the builder (`reward_offset: 1` in an import), and see that the last row holds none.",
    ShiftOptions,
    _RewardShift,
)
ACTION_SHIFT = Check(
    "action_shift",
    "Observations that change by the action of the row before or after: actions paired with the next observation, or a row too early.",
    "A learner then learns what was done before a state was seen, not in it.",
    "Pair each action with the observation that it was chosen at; switch the check off where actuators lag.",
    ShiftOptions,
    _ActionShift,
)
