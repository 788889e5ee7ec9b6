"""How batches reach the devices: from the host, superbatch by superbatch, or from a table that stays there, by index.

Either way the same updates see the same batches bit for bit, for the update's program is the same: batches from a table are
gathered by a program of their own, ahead of the updates.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import jax
import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Transition
from trainer.program import Table, gathered, shape_of

FeedName = Literal["auto", "stream", "device"]
SHARE = 0.25  # of the free memory of a device that a split may take there


class Superbatch(Protocol):
    """K batches for each of S seeds: batch b of a seed depends on the seed and b alone."""

    @property
    def transition(self) -> Transition: ...  # leaves [S, K, B, ...]

    @property
    def index(self) -> np.ndarray: ...  # [S, K, B] integers, which transitions of the split these are


Feed = Callable[[int], Iterator[Superbatch]]  # feed(start) begins with the batch of update `start`


@dataclass(frozen=True)
class TableFeed:
    """A split that stays on the devices, and the order of its transitions."""

    table: Table
    indices: Callable[[int], Iterator[np.ndarray]]  # indices(start): [S, K, B] an element, as a Superbatch's index

    def batch(self, index: np.ndarray) -> Transition:
        """The shapes of one batch [B, ...]."""
        shapes: Transition = jax.eval_shape(gathered, self.table, shape_of(index.shape[-1:], np.int32))
        return shapes


class Placed(NamedTuple):
    """A superbatch on the devices."""

    batches: Any
    index: np.ndarray  # type: ignore[assignment]  # [S, K, B]


class Ahead:
    """Hands on the elements of an iterator, which a thread prepares ahead. Use it as a context, which ends the thread."""

    def __init__(self, elements: Iterator[Any], prepare: Callable[[Any], Any]) -> None:
        self.waited = 0.0  # seconds, in all
        self._elements, self._convert = elements, prepare
        self._pool = ThreadPoolExecutor(1, "feed")
        self._next: Future[Any] | None = None

    def __enter__(self) -> "Ahead":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def prepare(self) -> None:
        """Begins with the next element."""
        self._next = self._next or self._pool.submit(self._converted)

    def take(self) -> Any:
        """Returns the next element, None after the last one. What the iterator raises is raised here, when its element is wanted."""
        before = time.perf_counter()
        self.prepare()
        assert self._next is not None
        current, self._next = self._next, None
        try:
            return current.result()
        finally:
            self.waited += time.perf_counter() - before

    def _converted(self) -> Any:
        element = next(self._elements, None)
        return None if element is None else self._convert(element)


def choose_feed(asked: FeedName, fits_memory: bool, table_bytes: int, device: jax.Device) -> tuple[Literal["stream", "device"], str]:
    """Returns the feed and the reason in words. `fits_memory`: whether the whole split is under the stream's memory cap.

    Raises HindcastError where the device is asked for and the split does not fit there.
    """
    stats = device.memory_stats() or {}
    free = stats["bytes_limit"] - stats.get("bytes_in_use", 0) if "bytes_limit" in stats else None
    size = f"{table_bytes / 2**20:,.1f} MB"
    if not fits_memory:
        why = f"the split ({size}) is above memory_cap_mb"
    elif free is not None and table_bytes > SHARE * free:
        why = f"the split ({size}) takes more than {SHARE:.0%} of the {free / 2**20:,.0f} MB that are free on {device.device_kind}"
    elif asked == "stream":
        return "stream", "as asked for"
    else:
        return "device", f"the split ({size}) fits on {device.device_kind}" if asked == "auto" else "as asked for"
    if asked == "device":
        raise HindcastError(f"feed is 'device', but {why}. Use feed: auto or stream, or raise the cap where there is memory.")
    return "stream", why


def scan_length(seeds: int, batch_bytes: int, device: jax.Device) -> int:
    """Returns K, the updates a superbatch: as many as memory has room for batches of all seeds. Changes no result.

    On a CPU a few megabytes, which caches like; on an accelerator a small share of its memory, so that calls are few. How long a
    call takes is seen to by `trainer.loop`, which cuts superbatches.
    """
    stats = device.memory_stats() or {}
    limit, longest = (64 << 20, 128) if device.platform == "cpu" else (min(stats.get("bytes_limit", 8 << 30) // 64, 1 << 30), 1024)
    return max(1, min(longest, limit // max(1, seeds * batch_bytes)))
