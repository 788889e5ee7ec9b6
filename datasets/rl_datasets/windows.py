"""The order of a stream as arithmetic: which shards are in memory together, and which of their transitions make which batch.

Pure functions of their arguments; nothing is read and nothing is drawn in sequence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_SHARD_ORDER = 7  # sets the random numbers of this use apart from others that are keyed by the epoch


class Segment(NamedTuple):
    """A run of rows of consecutive batches that come from one window."""

    epoch: int
    window: int
    begin: int  # position in the window's shuffled order
    target: slice  # rows of the superbatch, [K, B] flattened


@dataclass(frozen=True)
class Plan:
    """How epochs are cut into windows and batches.

    An epoch's windows end to end are its order; batches are consecutive runs of it, across windows where they fall so, and
    the tail that fills no batch is dropped.
    """

    steps: tuple[int, ...]  # of each shard
    transitions: tuple[int, ...]  # of each shard
    window_steps: int  # the most of a window; no shard has more
    batch_size: int

    @property
    def is_global(self) -> bool:
        """Whether all shards are in memory at once, in stored order."""
        return sum(self.steps) <= self.window_steps

    @property
    def batches_per_epoch(self) -> int:
        return sum(self.transitions) // self.batch_size

    def windows(self, epoch: int) -> list[list[int]]:
        """Returns the shards of each window. Above the cap, shards are permuted by the epoch alone, then packed in that order."""
        if self.is_global:
            return [list(range(len(self.steps)))]
        windows: list[list[int]] = [[]]
        room = self.window_steps
        for shard in np.random.default_rng([_SHARD_ORDER, epoch]).permutation(len(self.steps)).tolist():
            if self.steps[shard] > room:
                windows.append([])
                room = self.window_steps
            windows[-1].append(shard)
            room -= self.steps[shard]
        return windows

    def segments(self, start: int, scan: int) -> Iterator[Segment]:
        """Yields the runs that make batches start, ..., start + scan - 1, in order."""
        done = 0
        while done < scan * self.batch_size:
            epoch, batch = divmod(start + done // self.batch_size, self.batches_per_epoch)
            position = batch * self.batch_size + done % self.batch_size
            window, begin, left = self._locate(epoch, position)
            left_in_epoch = self.batches_per_epoch * self.batch_size - position
            size = min(left, left_in_epoch, scan * self.batch_size - done)
            yield Segment(epoch, window, begin, slice(done, done + size))
            done += size

    def _locate(self, epoch: int, position: int) -> tuple[int, int, int]:
        """Returns the window that holds a position of an epoch, the position within it, and how many follow there."""
        for window, shards in enumerate(self.windows(epoch)):
            size = self.size(shards)
            if position < size:
                return window, position, size - position
            position -= size
        raise IndexError(position)

    def size(self, shards: Sequence[int]) -> int:
        """Returns the number of transitions of some shards."""
        return sum(self.transitions[shard] for shard in shards)
