"""Checks of actions as a whole: at the bounds, in another scale, of few kinds."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.block import Block
from rl_datasets.checks.check import Check, Fault, NotApplicable, Options, Running, Warns
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.folding import as_columns

AT_BOUND = 1e-4  # of the range; nearer than this is at the bound
FEWEST = 20  # transitions of an episode, or of a data set, that say something
RARE = 0.05  # share of the episodes up to which one that is saturated stands out
KEPT = 64  # episodes remembered
CELLS = 16  # of the histogram of a continuous action
MANY = 1 << 12  # values of a category, beyond which they are not counted
TRIES = 50  # transitions a value of a category, from which on one that never occurs is named


class SaturationOptions(Warns):
    share: float = Field(0.98, gt=0, le=1, description="of a column's actions at its bounds, from which on it is named")


class RangeOptions(Warns):
    share: float = Field(0.1, gt=0, lt=1, description="of the range that the bounds allow, below which use of it is too little")


class CoverageOptions(Warns):
    entropy: float = Field(0.02, ge=0, lt=1, description="least entropy of actions, as a share of that of all alike")


class _Saturated(Running):
    options: SaturationOptions

    def __init__(self, expected: Expected, options: SaturationOptions) -> None:
        super().__init__(expected, options)
        low, high = (bound.reshape(-1) for bound in expected.action.spec.bounds())
        margin = AT_BOUND * (high - low)
        self._low, self._high = low + margin, high - margin
        self._count = np.zeros(len(low))
        self._steps = self._episodes = self._full = 0
        self._first: list[tuple[int, int]] = []  # (number, transitions) of episodes that are saturated throughout

    def block(self, block: Block) -> Iterator[Fault]:
        self._steps += len(block.reward) - len(block.number)
        self._episodes += len(block.number)
        least, greatest = block.action_extremes
        if (least > self._low).all() and (greatest < self._high).all():
            return
        at_bound = as_columns((block.action_rows <= self._low) | (block.action_rows >= self._high))
        self._count += (at_bound & ~block.is_last).sum(axis=1)
        inside = np.add.reduceat((~at_bound.all(axis=0)).astype(np.int64), block.starts[:-1])
        full = np.flatnonzero((inside <= (1 - self.options.share) * block.lengths) & (block.lengths >= FEWEST))
        self._full += len(full)
        self._first += [(int(block.number[index]), int(block.lengths[index])) for index in full[: KEPT - len(self._first)]]
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault]:  # noqa: ARG002
        if self._steps < FEWEST:
            return
        wanted = "actions inside the bounds"
        for column in np.flatnonzero(self._count >= self.options.share * self._steps):
            yield Fault(
                f"{self.expected.action.column(int(column))} at a bound in {self._count[column] / self._steps:.1%} of the steps", wanted
            )
        if 0 < self._full <= max(1, RARE * self._episodes):
            for number, length in self._first:
                yield Fault(f"actions at a bound in all but a few of {length} steps", f"{wanted}, as in other episodes", number, 0)


class _Range(Running):
    options: RangeOptions

    def __init__(self, expected: Expected, options: RangeOptions) -> None:
        super().__init__(expected, options)
        self._low = np.full(expected.action.size, np.inf)
        self._high = -self._low
        self._ones = np.zeros(expected.action.size)  # how often an action is just 1 or -1
        self._steps = 0

    def block(self, block: Block) -> Iterator[Fault]:
        low, high = block.action_extremes
        self._low, self._high = np.fmin(self._low, low), np.fmax(self._high, high)
        if ((self._low >= -1) & (self._high <= 1)).any():
            self._ones += as_columns(np.abs(block.action_rows) == 1).sum(axis=1)
        self._steps += len(block.reward)
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault]:  # noqa: ARG002
        if self._steps < FEWEST:
            return
        for column, (low, high) in enumerate(zip(*(bound.reshape(-1) for bound in self.expected.action.spec.bounds()), strict=True)):
            used = f"{self.expected.action.column(column)} between {self._low[column]:.6g} and {self._high[column]:.6g}"
            wanted = f"use of the range from {low:g} to {high:g}"
            if self._low[column] < self._high[column] < self._low[column] + self.options.share * (high - low):
                yield Fault(used, f"{wanted}: are they in other units?")
            elif (self._low[column], self._high[column]) == (-1, 1) and low < -1.5 and high > 1.5 and self._ones[column] > 1:
                yield Fault(f"{used}, often just there", f"{wanted}: are they normalised?")


class _Coverage(Running):
    options: CoverageOptions

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:  # noqa: ARG002
        sample, spec = self.sample, self.expected.action.spec
        if sample is None or (~sample.is_last).sum() < FEWEST:
            yield NotApplicable(f"fewer than {FEWEST} transitions say little of what was tried")
            return
        if (spec.num_values or 0) > MANY:
            yield NotApplicable(f"actions are a category of more than {MANY:,} values")
            return
        actions = sample.action[~sample.is_last]
        for column, values in enumerate(actions.T):
            name = self.expected.action.column(column)
            if spec.num_values is not None:
                low = int(spec.bounds()[0])
                counts: np.ndarray = np.bincount((values - low).clip(0, spec.num_values - 1), minlength=spec.num_values)
                never = np.flatnonzero(counts == 0)
                if len(never) and len(values) > TRIES * spec.num_values:
                    yield Fault(f"{name} never {', '.join(str(value + low) for value in never[:10])}", "every action tried at least once")
            else:
                finite = values[np.isfinite(values)].astype(np.float64)
                counts = np.histogram(finite, CELLS)[0] if len(finite) and np.ptp(finite) > 0 else np.ones(1)
            if len(counts) > 1 and (found := _entropy(counts)) < self.options.entropy:
                yield Fault(f"entropy of {name} {found:.4f} of the greatest", f"at least {self.options.entropy:g}")


def _entropy(counts: np.ndarray) -> float:
    """Returns the entropy of a histogram as a share of the greatest that it can have."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum() / np.log(len(counts)))


def _of_bounded(made: type[Running]) -> Callable[[Expected, Options], Running | NotApplicable]:
    def make(expected: Expected, options: Options) -> Running | NotApplicable:
        if expected.action.is_float and expected.action.spec.is_bounded:
            return made(expected, options)
        return NotApplicable("actions are not floats with bounds")

    return make


SATURATED_ACTIONS = Check(
    "saturated_actions",
    "A column of actions that is nearly always at its bounds; an episode that is while others are not.",
    "Actions were clipped, so that what was recorded is not what the policy chose, or they are in units that overflow the bounds.",
    "Record actions before they are clipped, or rescale them; raise share where the behaviour is bang-bang.",
    SaturationOptions,
    _of_bounded(_Saturated),
)
ACTION_RANGE = Check(
    "action_range",
    "Actions that use a small part of what their bounds allow, or just -1 to 1 where the bounds are wider.",
    "They are normalised or in other units than the environment takes, and a policy learnt from them barely moves.",
    "Multiply by the right factor in the builder, or correct the bounds in spec().",
    RangeOptions,
    _of_bounded(_Range),
)
COVERAGE = Check(
    "coverage",
    "Actions of hardly any entropy, or a category that is never taken.",
    "Offline learning cannot tell what an action does that nobody tried.",
    "Collect with more exploration, or take what is missing as given.",
    CoverageOptions,
    _Coverage,
)
