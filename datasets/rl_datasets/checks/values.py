"""Checks of the numbers in episodes that meet the spec: finite, and within bounds."""

from collections.abc import Iterator

import numpy as np

from rl_datasets.checks.findings import Expected, Fault, Leaf, and_more, limits
from rl_datasets.schema import Episode

ROUNDING = 1e-6  # rewards are float32 while their range is float64; as a part of max(1, |bound|)


def check_finite(episode: Episode, expected: Expected) -> Iterator[Fault]:
    """No NaN and no infinity in any array of floats."""
    arrays = [(leaf.name, array) for leaf, array in expected.observations(episode)]
    for name, array in [*arrays, ("action", episode.action), ("reward", episode.reward), ("discount", episode.discount)]:
        if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
            step, element = _first(~finite)
            yield Fault(step, f"{name}{_subscript(element)} = {array[(step, *element)]}{and_more(~finite)}", "a finite number")


def check_action_bounds(episode: Episode, expected: Expected) -> Iterator[Fault]:
    """Every action within the spec's bounds, give or take `action_tolerance`. The last step has no action."""
    yield from _outside(episode.action[:-1], expected.action)


def check_observation_bounds(episode: Episode, expected: Expected) -> Iterator[Fault]:
    """Every observation within the spec's bounds, give or take `observation_tolerance`."""
    for leaf, array in expected.observations(episode):
        yield from _outside(array, leaf)


def check_reward_range(episode: Episode, expected: Expected) -> Iterator[Fault]:
    """Every reward within the range of the parameters or, where they give none, of the spec."""
    low, high = expected.reward_range
    if low == -np.inf and high == np.inf:
        return
    reward = episode.reward[:-1]
    wrong = (reward < low - ROUNDING * max(1, abs(low))) | (reward > high + ROUNDING * max(1, abs(high)))
    if wrong.any():
        step = int(wrong.argmax())
        yield Fault(step, f"reward {reward[step]:.9g}{and_more(wrong)}", f"between {low:g} and {high:g}")


def _outside(array: np.ndarray, leaf: Leaf) -> Iterator[Fault]:
    """Yields the first step with an element outside the leaf's bounds. NaN is another check's matter."""
    if leaf.bounds is None:
        return
    low, high = leaf.bounds
    if ((array >= low) & (array <= high)).all():
        return
    wrong = (array < low) | (array > high)
    if wrong.any():
        step, element = _first(wrong)
        minimum, maximum = (bound[element] for bound in limits(leaf.spec))
        found = f"{leaf.name}{_subscript(element)} = {array[(step, *element)]:.9g}"
        yield Fault(step, f"{found}{and_more(wrong)}", f"between {minimum:g} and {maximum:g}")


def _first(wrong: np.ndarray) -> tuple[int, tuple[int, ...]]:
    """Returns the first step that is wrong and the index of its first wrong element. wrong: [T, ...], with at least one."""
    step, *element = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
    return step, tuple(element)


def _subscript(element: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, element))}]" if element else ""
