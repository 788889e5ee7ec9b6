"""What a check is given and what it gives: Expected, Fault, Finding, and the shape of the two kinds of check.

A check is a function without state. An EpisodeCheck sees one episode at a time, in one pass over the data; a DatasetCheck
sees the table of all episodes after it. A check yields at most a few faults an episode, each naming the first step at fault.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import tree

from rl_datasets.checks.params import CheckParams, Severity
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves


class Leaf(NamedTuple):
    """One array's spec with its name, and its inclusive bounds widened by the tolerance (None where it has none)."""

    name: str
    spec: ArraySpec
    bounds: tuple[np.ndarray, np.ndarray] | None  # each of the spec's shape, float64


@dataclass(frozen=True)
class Expected:
    """The spec and the parameters, unfolded once for all episodes."""

    spec: EnvSpec
    params: CheckParams
    observation: tuple[Leaf, ...]
    action: Leaf
    reward_range: tuple[float, float]  # before rounding to float32

    @classmethod
    def of(cls, spec: EnvSpec, params: CheckParams) -> "Expected":
        minimum = spec.reward_range[0] if params.reward_minimum is None else params.reward_minimum
        maximum = spec.reward_range[1] if params.reward_maximum is None else params.reward_maximum
        observation = tuple(
            Leaf(name, leaf, _bounds(leaf, params.observation_tolerance)) for name, leaf in named_leaves(spec.observation, "observation")
        )
        return cls(
            spec, params, observation, Leaf("action", spec.action, _bounds(spec.action, params.action_tolerance)), (minimum, maximum)
        )

    def observations(self, episode: Episode) -> Iterator[tuple[Leaf, np.ndarray]]:
        """Yields each leaf of the observation with the episode's array of it, which must be nested as the spec says."""
        yield from zip(self.observation, tree.flatten(episode.observation), strict=True)


class Fault(NamedTuple):
    """One thing wrong: where, what was found, what was expected. `step` is None where no single step is at fault."""

    step: int | None
    found: str
    expected: str
    episode_id: str = ""  # filled in by a DatasetCheck; an EpisodeCheck's is the episode's


@dataclass(frozen=True)
class Finding:
    """A fault, with the check that found it, how severe that is, and what to do."""

    check: str
    severity: Severity
    episode_id: str
    step: int | None
    found: str
    expected: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: found {self.found}; expected {self.expected}. {self.remedy}"

    @property
    def where(self) -> str:
        if not self.episode_id:
            return "data set"
        return f"episode '{self.episode_id}'" + ("" if self.step is None else f", step {self.step}")


EpisodeCheck = Callable[[Episode, Expected], Iterator[Fault]]
DatasetCheck = Callable[[pd.DataFrame, Expected], Iterator[Fault]]  # columns as EpisodeRow


class EpisodeRow(NamedTuple):
    """A row of the table of episodes, in the order of the data."""

    episode_id: str
    length: int
    episode_return: float
    is_terminal: bool
    policy: str
    seed: int
    content: str  # a hash of all arrays and of is_terminal


def limits(leaf: ArraySpec) -> tuple[np.ndarray, np.ndarray]:
    """Returns the inclusive bounds, float64 of the spec's shape; a category's follow from its number of values."""
    low, high = leaf.bounds()
    if leaf.num_values is not None and np.isfinite(low).all():
        high = np.minimum(high, low + leaf.num_values - 1)
    return low, high


def and_more(wrong: np.ndarray) -> str:
    """Says how many steps are wrong where there are several. wrong: [T, ...] bool."""
    steps = int(wrong.reshape(len(wrong), -1).any(axis=1).sum())
    return "" if steps == 1 else f" ({steps} steps are wrong)"


def _bounds(leaf: ArraySpec, tolerance: float) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the limits widened by the tolerance; None where the dtype itself keeps within them."""
    low, high = limits(leaf)
    if np.issubdtype(leaf.dtype, np.integer):
        info = np.iinfo(leaf.dtype)
        restricts = (low > info.min).any() or (high < info.max).any()
    else:
        low, high = low - tolerance * np.maximum(1, np.abs(low)), high + tolerance * np.maximum(1, np.abs(high))
        restricts = np.isfinite(low).any() or np.isfinite(high).any()
    return (low, high) if restricts else None
