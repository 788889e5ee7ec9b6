"""Moments of arrays in one pass over episodes, and the statistics of a split that learners normalise by.

Float64 throughout: the two-pass moments of a block of episodes, joined by the parallel formula of Chan, Golub and LeVeque
(1979), so a large mean beside a small deviation costs no digits and memory is that of a block. The result depends on the
episodes and their order alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.recorded import EndToEnd
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves

FILE_NAME = "stats.json"
MAX_COVARIANCE = 128  # columns; a wider array, an image say, has no covariance in stats.json
BLOCK = 1 << 20  # numbers gathered before they are reduced; a bound on memory, and part of the result's last digit


class Moments(NamedTuple):
    """Of `rows` rows of D columns; every array is float64 [D]."""

    rows: int
    mean: np.ndarray
    squares: np.ndarray  # the sum of squared deviations from the mean
    minimum: np.ndarray
    maximum: np.ndarray
    products: np.ndarray | None = None  # [D, D], the sums of products of two columns' deviations; None where not asked for

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation."""
        return np.sqrt(self.squares / self.rows)


def moments(rows: np.ndarray, products: bool = False) -> Moments:
    """Returns the moments of rows [N, D], N >= 1, with products if asked for.

    A column that isn't finite gives moments that aren't, without a warning.
    """
    columns = np.ascontiguousarray(rows.T, np.float64)  # NumPy sums pairwise, and fast, only along memory
    with np.errstate(invalid="ignore", over="ignore"):
        mean = columns.mean(axis=1)
        deviations = columns - mean[:, None]
        squares = (deviations**2).sum(axis=1)
        joint = deviations @ deviations.T if products else None
        return Moments(len(rows), mean, squares, columns.min(axis=1), columns.max(axis=1), joint)


def merge(a: Moments, b: Moments) -> Moments:
    """Returns the moments of the rows of both."""
    count = a.rows + b.rows
    with np.errstate(invalid="ignore", over="ignore"):
        delta = b.mean - a.mean
        mean = a.mean + delta * (b.rows / count)
        squares = a.squares + b.squares + delta**2 * (a.rows * b.rows / count)
        joint = None
        if a.products is not None and b.products is not None:
            joint = a.products + b.products + np.outer(delta, delta) * (a.rows * b.rows / count)
    return Moments(count, mean, squares, np.minimum(a.minimum, b.minimum), np.maximum(a.maximum, b.maximum), joint)


class RunningMoments:
    """The moments of all rows added so far."""

    def __init__(self, products: bool = False) -> None:
        self._products = products
        self._total: Moments | None = None
        self._block: list[np.ndarray] = []
        self._size = 0

    def add(self, rows: np.ndarray) -> None:
        """Adds rows [N, ...]; the axes after the first are flattened in C order."""
        self._block.append(rows.reshape(len(rows), -1))
        self._size += rows.size
        if self._size >= BLOCK:
            self._reduce()

    def join(self, other: "RunningMoments") -> None:
        """Adds the rows that were added to another."""
        self._reduce()
        theirs = other.result()
        if theirs is not None:
            self._total = theirs if self._total is None else merge(self._total, theirs)

    def result(self) -> Moments | None:
        """Returns None where no row was added."""
        self._reduce()
        return self._total

    def _reduce(self) -> None:
        if self._size:
            block = moments(np.concatenate(self._block), self._products)
            self._total = block if self._total is None else merge(self._total, block)
        self._block, self._size = [], 0


@dataclass(frozen=True)
class Statistics:
    """Of the episodes of one split. Observations count every step, o_T included; actions and rewards every transition."""

    observation: dict[str, Moments]  # by leaf name, float leaves only
    action: dict[str, Moments]  # empty where actions are not floats
    reward: Moments
    episode_return: Moments
    episodes: int
    transitions: int

    def to_json(self) -> dict[str, Any]:
        """Returns `stats.json`: mean and std of each column, in C order, and the covariance of observations of few columns.

        A column that never varies has mean 0 and std 1, so that normalising leaves it as it is, and is listed in `constant`.
        Raises HindcastError where a number is not finite.
        """
        constant = {name: np.flatnonzero(m.minimum == m.maximum).tolist() for name, m in (self.observation | self.action).items()}
        return {
            "observation": {name: _normaliser(m, name) for name, m in self.observation.items()},
            "action": {name: _normaliser(m, name) for name, m in self.action.items()},
            "reward": _scalar(self.reward, "reward"),
            "episode_return": _scalar(self.episode_return, "episode_return"),
            "constant": {name: columns for name, columns in constant.items() if columns},
            "episodes": self.episodes,
            "transitions": self.transitions,
        }


class RunningStatistics:
    """Statistics of all episodes added so far, which must meet the spec."""

    def __init__(self, spec: EnvSpec) -> None:
        leaves = named_leaves(spec.observation, "observation")
        self._leaves = [RunningMoments(products=_is_narrow(leaf)) if _is_float(leaf.dtype) else None for _, leaf in leaves]
        self._names = [name for name, _ in leaves]
        self._action = {"action": RunningMoments()} if _is_float(spec.action.dtype) else {}
        self._reward, self._return = RunningMoments(), RunningMoments()
        self._episodes = self._transitions = 0

    def add(self, episode: Episode) -> None:
        arrays = tree.flatten(episode.observation)
        self._add(arrays, episode.action[:-1], episode.reward[:-1], np.array([episode.episode_return]))

    def add_all(self, episodes: EndToEnd) -> None:
        inner = ~episodes.is_last
        self._add(episodes.observation, episodes.action[inner], episodes.reward[inner], episodes.returns)

    def _add(self, observation: Sequence[np.ndarray], action: np.ndarray, reward: np.ndarray, returns: np.ndarray) -> None:
        """Adds leaves [steps, ...], actions and rewards [transitions, ...], and returns [episodes]."""
        for leaf, array in zip(self._leaves, observation, strict=True):
            if leaf is not None:
                leaf.add(array)
        for running in self._action.values():
            running.add(action)
        self._reward.add(reward)
        self._return.add(returns)
        self._episodes += len(returns)
        self._transitions += len(reward)

    def join(self, other: "RunningStatistics") -> None:
        """Adds the episodes that were added to another of the same spec."""
        for leaf, theirs in zip(self._all(), other._all(), strict=True):
            leaf.join(theirs)
        self._episodes += other._episodes
        self._transitions += other._transitions

    def _all(self) -> list[RunningMoments]:
        return [*(leaf for leaf in self._leaves if leaf is not None), *self._action.values(), self._reward, self._return]

    def result(self) -> Statistics | None:
        """Returns None where no episode was added."""
        reward, episode_return = self._reward.result(), self._return.result()
        if reward is None or episode_return is None:
            return None
        observation = {name: leaf for name, leaf in zip(self._names, self._leaves, strict=True) if leaf is not None}
        return Statistics(_results(observation), _results(self._action), reward, episode_return, self._episodes, self._transitions)


def statistics(episodes: Iterable[Episode], spec: EnvSpec) -> Statistics | None:
    """Returns the statistics of all episodes in one pass; None where there are none."""
    running = RunningStatistics(spec)
    for episode in episodes:
        running.add(episode)
    return running.result()


def _is_float(dtype: str) -> bool:
    return bool(np.issubdtype(dtype, np.floating))


def _is_narrow(leaf: ArraySpec) -> bool:
    return math.prod(leaf.shape) <= MAX_COVARIANCE


def _results(running: dict[str, RunningMoments]) -> dict[str, Moments]:
    return {name: result for name, moments in running.items() if (result := moments.result()) is not None}


def _normaliser(m: Moments, name: str) -> dict[str, list[Any]]:
    constant = m.minimum == m.maximum
    mean, std = np.where(constant, 0.0, m.mean), np.where(constant, 1.0, m.std)
    _require_finite(name, m.minimum, m.maximum, mean, std)
    values = {"mean": mean.tolist(), "std": std.tolist()}
    if m.products is not None:
        varies = np.outer(~constant, ~constant)
        values["covariance"] = np.where(varies, m.products / m.rows, np.diag(constant.astype(np.float64))).tolist()
    return values


def _scalar(m: Moments, name: str) -> dict[str, float]:
    values = {"mean": m.mean, "std": m.std, "minimum": m.minimum, "maximum": m.maximum}
    _require_finite(name, *values.values())
    return {key: float(value[0]) for key, value in values.items()}


def _require_finite(name: str, *arrays: Sequence[float] | np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise HindcastError(
            f"Statistics of '{name}' are not finite, but learners normalise by them. Set the check 'finite' to 'fail' "
            "to find the episode and step, and mend or drop it in the builder ('missing' in an import fills it)."
        )
