"""`SampledSteps`: some steps of the data, the same whenever the data are, for what is drawn of their values."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rl_datasets.checks.block import Block
from rl_datasets.checks.check import Fault, Running
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.fingerprint import mixed

STEPS = 1 << 13  # at least so many are kept where there are, and at most twice as many
COLUMNS = 64  # of an array; of a wider one, the first
ALL = np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Steps:
    """S steps that hold a transition, in the order of the data. `is_whole` where these are all of them."""

    arrays: dict[str, np.ndarray]  # [S, up to COLUMNS] by name; none of an image
    episode: np.ndarray  # [S] int64, the number of each step's episode
    is_whole: bool


class _Part(NamedTuple):
    ranks: np.ndarray  # [S] uint64
    episode: np.ndarray  # [S]
    arrays: list[np.ndarray]  # each [S, D]

    def where(self, kept: np.ndarray) -> "_Part":
        return _Part(self.ranks[kept], self.episode[kept], [array[kept] for array in self.arrays])


class SampledSteps(Running):
    """Keeps the steps whose hashed place in the data is below a limit, which is halved whenever they are too many."""

    def __init__(self, expected: Expected) -> None:
        self._leaves = {leaf.name: place for place, leaf in enumerate(expected.observation) if not leaf.spec.is_image}
        self._parts: list[_Part] = []
        self._kept = self._seen = 0
        self._limit = ALL

    def block(self, block: Block) -> Iterator[Fault]:
        ranks = mixed(np.arange(self._seen, self._seen + len(block.reward), dtype=np.uint64))
        self._seen += len(block.reward)
        rows = np.flatnonzero((ranks <= self._limit) & ~block.is_last)
        arrays = [*(block.observation[place] for place in self._leaves.values()), block.action, block.reward]
        episode = block.number[np.searchsorted(block.starts, rows, side="right") - 1]
        self._parts.append(_Part(ranks[rows], episode, [array.reshape(len(array), -1)[rows, :COLUMNS] for array in arrays]))
        self._kept += len(rows)
        while self._kept > 2 * STEPS:
            self._limit //= np.uint64(2)
            self._parts = [part.where(part.ranks <= self._limit) for part in self._parts]
            self._kept = sum(len(part.ranks) for part in self._parts)
        yield from ()

    def result(self) -> Steps:
        joined = [np.concatenate(parts) for parts in zip(*(part.arrays for part in self._parts), strict=True)]
        arrays = dict(zip([*self._leaves, "action", "reward"], joined, strict=True)) if joined else {}
        episode = np.concatenate([np.zeros(0, np.int64), *(part.episode for part in self._parts)])
        return Steps(arrays, episode, bool(self._limit == ALL))
