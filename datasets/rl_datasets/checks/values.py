"""Checks of the numbers in episodes that meet the spec: finite, and within bounds."""

from collections.abc import Iterator

import numpy as np
from pydantic import Field, model_validator

from rl_datasets.checks.block import SCALAR, Block
from rl_datasets.checks.check import Check, Fault, NotApplicable, Options, Running, Severity, per_block
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.leaf import Leaf
from rl_datasets.checks.words import and_more
from rl_datasets.schema import ArraySpec

ROUNDING = 1e-6  # rewards are float32 while their range is float64; as a part of max(1, |bound|)


class BoundsOptions(Options):
    tolerance: float = Field(1e-5, ge=0, description="beyond a bound, as a part of max(1, |bound|)")


class ObservationBoundsOptions(BoundsOptions):
    severity: Severity = "warn"


class RewardRangeOptions(Options):
    minimum: float | None = Field(None, description="least reward; the environment's own where there is none here")
    maximum: float | None = Field(None, description="greatest reward; the environment's own where there is none here")

    @model_validator(mode="after")
    def _ordered(self) -> "RewardRangeOptions":
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("minimum is above maximum: mend either")
        return self


def _finite(block: Block, expected: Expected, options: Options) -> Iterator[Fault]:  # noqa: ARG001
    arrays = [
        (leaf, block.observation[place])
        for place, leaf in enumerate(expected.observation)
        if leaf.is_float and not np.isfinite(block.observation_extremes(place)).all()
    ]
    arrays += [(expected.action, block.action)]
    arrays += [(Leaf(name, SCALAR), getattr(block, name)) for name in ("reward", "discount")]
    for leaf, array in arrays:
        if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            yield from _first_elements(block, leaf, array, ~finite, "a finite number")


class _Bounds(Running):
    """Every element of some arrays within the spec's bounds, give or take the tolerance. NaN is another check's matter."""

    def __init__(self, expected: Expected, options: BoundsOptions, of_action: bool) -> None:
        super().__init__(expected, options)
        self._of_action = of_action
        leaves = (expected.action,) if of_action else expected.observation
        self._leaves = [(i, leaf, bounds) for i, leaf in enumerate(leaves) if (bounds := widened(leaf.spec, options.tolerance))]

    def block(self, block: Block) -> Iterator[Fault]:
        for place, leaf, (low, high) in self._leaves:
            least, greatest = block.action_extremes if self._of_action else block.observation_extremes(place)
            if (least >= low.reshape(-1)).all() and (greatest <= high.reshape(-1)).all():
                continue
            array = block.action if self._of_action else block.observation[place]
            wrong = (array < low) | (array > high)
            if self._of_action:
                wrong[block.lasts] = False  # the last step has no action
            if wrong.any():
                yield from _first_elements(block, leaf, array, wrong, limits(leaf.spec))


def _action_bounds(expected: Expected, options: BoundsOptions) -> Running | NotApplicable:
    if widened(expected.action.spec, options.tolerance) is None:
        return NotApplicable("the spec has no bounds of actions")
    return _Bounds(expected, options, of_action=True)


def _observation_bounds(expected: Expected, options: ObservationBoundsOptions) -> Running | NotApplicable:
    if all(widened(leaf.spec, options.tolerance) is None for leaf in expected.observation):
        return NotApplicable("the spec has no bounds of observations that are narrower than their dtype")
    return _Bounds(expected, options, of_action=False)


class _RewardRange(Running):
    def __init__(self, expected: Expected, options: RewardRangeOptions) -> None:
        super().__init__(expected, options)
        self.low, self.high = _rewards(expected, options)

    def block(self, block: Block) -> Iterator[Fault]:
        low, high = self.low, self.high
        low, high = low - ROUNDING * max(1, abs(low)), high + ROUNDING * max(1, abs(high))
        least, greatest = block.reward_extremes
        if low <= least[0] and greatest[0] <= high:
            return
        wrong = np.logical_or.reduce([block.reward < low, block.reward > high])
        wrong[block.lasts] = False
        for index, row, count in block.first_wrong(wrong):
            found = f"reward {block.reward[row]:.9g}{and_more(count)}"
            yield Fault(found, f"between {self.low:g} and {self.high:g}", *block.place(index, row))


def _reward_range(expected: Expected, options: RewardRangeOptions) -> Running | NotApplicable:
    if _rewards(expected, options) == (-np.inf, np.inf):
        return NotApplicable("neither the spec nor the options have a range of rewards")
    return _RewardRange(expected, options)


def _rewards(expected: Expected, options: RewardRangeOptions) -> tuple[float, float]:
    low, high = expected.spec.reward_range
    return low if options.minimum is None else options.minimum, high if options.maximum is None else options.maximum


def limits(leaf: ArraySpec) -> tuple[np.ndarray, np.ndarray]:
    """Returns the inclusive bounds, float64 of the spec's shape; a category's follow from its number of values."""
    low, high = leaf.bounds()
    if leaf.num_values is not None and np.isfinite(low).all():
        high = np.minimum(high, low + leaf.num_values - 1)
    return low, high


def widened(leaf: ArraySpec, tolerance: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the limits of floats widened by the tolerance, those of integers as they are; None where the dtype keeps within them."""
    low, high = limits(leaf)
    if np.issubdtype(leaf.dtype, np.integer):
        info = np.iinfo(leaf.dtype)
        restricts = (low > info.min).any() or (high < info.max).any()
    else:
        low, high = low - tolerance * np.maximum(1, np.abs(low)), high + tolerance * np.maximum(1, np.abs(high))
        restricts = np.isfinite(low).any() or np.isfinite(high).any()
    return (low, high) if restricts else None


def _first_elements(
    block: Block, leaf: Leaf, array: np.ndarray, wrong: np.ndarray, expected: str | tuple[np.ndarray, np.ndarray]
) -> Iterator[Fault]:
    """Yields for each episode the first step with a wrong element, and its first such element. wrong: [N, ...] bool."""
    elements = wrong.reshape(len(wrong), -1)
    values = array.reshape(len(array), -1)
    for index, row, count in block.first_wrong(np.logical_or.reduce(elements, axis=1)):
        element = int(elements[row].argmax())
        found = f"{leaf.column(element)} = {values[row, element]:.9g}{and_more(count)}"
        words = (
            expected if isinstance(expected, str) else "between {:g} and {:g}".format(*(bound.reshape(-1)[element] for bound in expected))
        )
        yield Fault(found, words, *block.place(index, row))


FINITE = Check(
    "finite",
    "NaN or infinity in any array of floats.",
    "One of them makes every parameter of a learner NaN.",
    "Find where the builder or the simulator makes it, and mend or drop the episode (`missing` in an import fills it).",
    Options,
    per_block(_finite),
)
ACTION_BOUNDS = Check(
    "action_bounds",
    "An action outside the bounds of the spec.",
    "No squashed policy can produce it; the environment clipped it, or it is in other units.",
    "Clip or rescale actions in the builder, correct the bounds in spec(), or raise tolerance under 'checks'.",
    BoundsOptions,
    _action_bounds,
)
OBSERVATION_BOUNDS = Check(
    "observation_bounds",
    "An observation outside the bounds of the spec.",
    "It is in other units or of another sensor, or the bounds are wrong; some environments leave their own.",
    "Correct the bounds in spec(), or switch the check off under 'checks' where the environment leaves them.",
    ObservationBoundsOptions,
    _observation_bounds,
)
REWARD_RANGE = Check(
    "reward_range",
    "A reward outside the range of the options or, where they give none, of the spec.",
    "A reward that cannot occur is in other units, or an error code among the data.",
    "Correct the reward in the builder, or the range in spec(), or set minimum and maximum of reward_range under 'checks'.",
    RewardRangeOptions,
    _reward_range,
)
