"""`Sampler`: stretches of steps of some episodes, spread over the data, for checks that need quantiles or neighbouring steps at the end.

Of each kept episode it holds up to SEGMENT transitions in a row, from a step that its number decides; when they become too many, every
second episode is let go. So memory is bounded, small data are kept whole, and the sample depends on the data and their order alone.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from rl_datasets.checks.block import Block
from rl_datasets.checks.fingerprint import mixed
from rl_datasets.checks.leaf import Leaf

SEGMENT = 256  # transitions of one episode
ROWS = 1 << 15  # of the whole sample
VALUES = 1 << 23  # of all columns of the sample together
LEVELS = (0.005, 0.5, 0.995)  # of `quantiles`


@dataclass(frozen=True)
class Sample:
    """S stretches of N rows in all: the rows starts[s] to starts[s + 1], of which the last gives only its observation."""

    observation: tuple[np.ndarray | None, ...]  # leaves [N, D] as they are stored; None for a wide one
    action: np.ndarray  # [N, D]
    reward: np.ndarray  # [N, 1]
    starts: np.ndarray  # [S + 1]
    number: np.ndarray  # [S], of the episode in the data
    first: np.ndarray  # [S], the step of its first row

    @cached_property
    def is_last(self) -> np.ndarray:
        is_last = np.zeros(len(self.reward), bool)
        is_last[self.starts[1:] - 1] = True
        return is_last

    @cached_property
    def owner(self) -> np.ndarray:
        """The stretch of each row, [N]."""
        return np.repeat(np.arange(len(self.number)), np.diff(self.starts))

    def quantiles(self, place: int | str) -> np.ndarray:
        """Returns the quantiles at LEVELS of the finite values of each column, [3, D]; those of "action" and "reward" without last rows."""
        if place not in self._quantiles:
            self._quantiles[place] = self._quantiles_of(place)
        return self._quantiles[place]

    @cached_property
    def _quantiles(self) -> dict[int | str, np.ndarray]:
        return {}

    def _quantiles_of(self, place: int | str) -> np.ndarray:
        array = self.observation[place] if isinstance(place, int) else getattr(self, place)[~self.is_last]
        assert array is not None, "a wide array is not sampled"
        values = np.where(np.isfinite(array), array, np.nan).astype(np.float64)
        if not len(values):
            return np.zeros((3, values.shape[1]))
        if not np.isnan(values).any():
            return np.quantile(np.ascontiguousarray(values.T), LEVELS, axis=1)
        columns = [column[~np.isnan(column)] for column in values.T]
        return np.stack([np.quantile(column, LEVELS) if len(column) else np.zeros(3) for column in columns], axis=1)


class Sampler:
    """Gathers a Sample of the blocks that are added."""

    def __init__(self, leaves: tuple[Leaf, ...], action: Leaf) -> None:
        self._narrow = [leaf.is_narrow for leaf in leaves]
        width = sum(leaf.size for leaf in leaves if leaf.is_narrow) + action.size + 1
        self._limit = min(ROWS, max(VALUES // width, 4 * SEGMENT))
        self._stride = 1
        self._parts: list[Sample] = []
        self.rows = 0  # of the sample so far

    def add(self, block: Block) -> None:
        kept = np.flatnonzero(block.number % self._stride == 0)
        if not len(kept):
            return
        self._parts.append(self._cut(block, kept))
        self.rows += len(self._parts[-1].reward)
        while self.rows > self._limit and sum(len(part.number) for part in self._parts) > 1:
            self._stride *= 2
            self._parts = [_kept(part, part.number % self._stride == 0) for part in self._parts]
            self._parts = [part for part in self._parts if len(part.number)]
            self.rows = sum(len(part.reward) for part in self._parts)

    def result(self) -> Sample | None:
        """Returns the sample so far; None where nothing was added."""
        if len(self._parts) > 1:
            self._parts = [_joined(self._parts)]
        return self._parts[0] if self._parts else None

    def _cut(self, block: Block, kept: np.ndarray) -> Sample:
        lengths = block.lengths[kept]
        taken = np.minimum(lengths, SEGMENT)
        first = (mixed(block.number[kept].astype(np.uint64)) % (lengths - taken + 1).astype(np.uint64)).astype(np.int64)
        starts = np.cumsum([0, *(taken + 1)])
        rows = np.arange(starts[-1]) + np.repeat(block.starts[kept] + first - starts[:-1], taken + 1)
        arrays = [leaf if narrow else None for leaf, narrow in zip(block.observation, self._narrow, strict=True)]
        observation = tuple(None if array is None else array[rows].reshape(len(rows), -1) for array in arrays)
        action, reward = (array[rows].reshape(len(rows), -1) for array in (block.action, block.reward))
        return Sample(observation, action, reward, starts, block.number[kept], first)


def _kept(sample: Sample, kept: np.ndarray) -> Sample:
    """Returns some of the stretches. kept: [S] bool."""
    rows = np.repeat(kept, np.diff(sample.starts))
    return Sample(
        tuple(None if leaf is None else leaf[rows] for leaf in sample.observation),
        sample.action[rows],
        sample.reward[rows],
        np.cumsum([0, *np.diff(sample.starts)[kept]]),
        sample.number[kept],
        sample.first[kept],
    )


def _joined(parts: list[Sample]) -> Sample:
    leaves = zip(*(part.observation for part in parts), strict=True)
    sizes = [np.diff(part.starts) for part in parts]
    return replace(
        parts[0],
        observation=tuple(None if leaf[0] is None else np.concatenate([each for each in leaf if each is not None]) for leaf in leaves),
        starts=np.cumsum([0, *np.concatenate(sizes)]),
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in ("action", "reward", "number", "first")},
    )
