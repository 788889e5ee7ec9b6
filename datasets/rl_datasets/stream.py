"""A split as an endless tf.data.Dataset of shuffled superbatches. Row by row, batch b of seed s is a function of (s, b) and the data.

The shuffle computes each window's permutation index by index from (seed, epoch, window): nothing is drawn in sequence, so to
resume is to start at a later batch, with no state of an iterator to save. A split that fits under the memory cap is one window,
read once, and its shuffle is global. A larger one is read a window of shards at a time, the next while this one is used; the
shards' order depends on the epoch alone, so all seeds share each window, and memory follows the cap for any size of data and
number of seeds.

tf.data makes the next element while one is used, and hands it on; arrays go through it to NumPy and JAX without a copy. Shuffle
and gathering are NumPy, whole windows at a time: the usual recipe of tf.data operations on single steps takes eighty times as
long (tests/benchmarks/test_streaming.py), and its order is no function that a run could be resumed by.

The number of readers, `scan`, the other seeds and the start change no batch. The cap does, once the split exceeds it.
"""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.permutation import permuted
from rl_datasets.rlds.form import true_discount
from rl_datasets.rlds.quiet_tensorflow import tf
from rl_datasets.rlds.reader import RldsReader
from rl_datasets.rlds.shards import Shard
from rl_datasets.schema import ArraySpec, EnvSpec, NextAction, Transition, Tree
from rl_datasets.windows import Plan, Segment

_CHUNK = 2**14  # rows gathered at once
_ALIGNMENT = 64  # bytes


class Superbatch(NamedTuple):
    """The batches of K consecutive updates for S seeds, as NumPy arrays in the dtypes that are stored."""

    transition: Transition  # leaves [S, K, B, ...]
    index: np.ndarray  # type: ignore[assignment]  # [S, K, B] int64, the number of each transition in the split as stored


class Table(NamedTuple):
    """A whole split in memory, N steps and M transitions: number i starts at step row[i] and ends at the next one."""

    observation: Tree  # [N, ...]
    action: np.ndarray  # [N, ...]
    reward: np.ndarray  # [N] float32
    discount: np.ndarray  # [N] float32
    row: np.ndarray  # [M] int64
    follows: np.ndarray | tuple[()] = ()  # [M] float32, whether a next action exists; where these are asked for


class Part(NamedTuple):
    """The rows of every batch that one of several processes feeds."""

    number: int  # of the process, from 0
    processes: int


WHOLE = Part(0, 1)


class Stream:
    """A split opened for training, by `open_stream`."""

    def __init__(self, reader: RldsReader, split: str, plan: Plan, readers: int, next_action: bool) -> None:
        self._next_action = next_action
        self._loader = _Loader(reader, split, plan)
        self._plan = plan
        self._readers = readers
        self.transitions = sum(plan.transitions)  # of an epoch
        self.batches_per_epoch = plan.batches_per_epoch
        self.table_bytes = sum(plan.steps) * _bytes_per_step(reader.spec)  # what the whole split takes in memory
        self.dropped = self.transitions % plan.batch_size  # at the end of each epoch, for they fill no batch; others each time
        self.is_global = plan.is_global  # whether the whole split is in memory and the shuffle is over all of it

    def dataset(self, seeds: Sequence[int], scan: int, start: int = 0, part: Part = WHOLE) -> Any:
        """Returns the endless tf.data.Dataset of Superbatches, `scan` updates an element: start, start + 1, ...

        The next element is prepared while one is used. What fails while reading, TensorFlow raises as an error of its own.
        With a `part`, every batch holds only its rows of that part, [S, K, B / part.processes, ...]: what one of several processes
        feeds. Raises HindcastError where the batch cannot be shared evenly.
        """
        share = self._share(part)
        return self._dataset(lambda: self._superbatches(seeds, scan, start, share), len(seeds), scan, len(share))

    def batches(self, seeds: Sequence[int], scan: int, start: int = 0, part: Part = WHOLE) -> Iterator[Superbatch]:
        """Returns the elements of `dataset` as NumPy arrays, read-only. Raises HindcastError on missing or damaged files."""
        failures: list[Exception] = []
        share = self._share(part)

        def noted() -> Iterator[Superbatch]:
            try:
                yield from self._superbatches(seeds, scan, start, share)
            except Exception as error:  # of one that went through TensorFlow, only the text would come out
                failures.append(error)

        return _Batches(self._dataset(noted, len(seeds), scan, len(share)), failures)

    def table(self) -> Table:
        """Returns the whole split, which must fit under the memory cap (`is_global`). Raises HindcastError on missing or damaged files."""
        with _reading(self._readers) as pool:
            window = _Windows(self._loader, self._plan, pool).get(next(self._plan.segments(0, 1)))
        follows = _follows(window, np.arange(len(window.row))) if self._next_action else ()
        return Table(window.observation, window.action, window.reward, window.discount, window.row, follows)

    def indices(self, seeds: Sequence[int], scan: int, start: int = 0, part: Part = WHOLE) -> Iterator[np.ndarray]:
        """Yields the `index` of the elements of `batches` alone, [S, K, B] int64; only where `is_global`."""
        share = self._share(part)
        while True:
            index = np.empty((len(seeds), scan * len(share)), np.int64)
            for segment in self._plan.segments(start, scan):
                for place, seed in enumerate(seeds):
                    target, offsets = self._rows(segment, segment.target, share)
                    index[place, target] = permuted(offsets, self.transitions, (seed, segment.epoch, segment.window))
            yield index.reshape(len(seeds), scan, len(share))
            start += scan

    def _share(self, part: Part) -> range:
        """The rows of a batch that are the part's."""
        size, rest = divmod(self._plan.batch_size, part.processes)
        if rest:
            raise HindcastError(
                f"batch_size is {self._plan.batch_size}, but {part.processes} processes are to share each batch evenly. "
                f"Use a multiple of {part.processes}."
            )
        return range(part.number * size, (part.number + 1) * size)

    def _dataset(self, superbatches: Callable[[], Iterator[Superbatch]], seeds: int, scan: int, rows: int) -> Any:
        signature = tree.map_structure(
            lambda leaf: tf.TensorSpec((seeds, scan, rows, *leaf.shape[2:]), leaf.dtype),
            _empty(self._loader.spec, seeds, 0, self._next_action),
        )
        return tf.data.Dataset.from_generator(superbatches, output_signature=signature).prefetch(1)

    def _superbatches(self, seeds: Sequence[int], scan: int, start: int, share: range) -> Iterator[Superbatch]:
        size = len(share)
        with _reading(self._readers) as pool:
            windows = _Windows(self._loader, self._plan, pool)
            while True:
                output = _empty(self._loader.spec, len(seeds), scan * size, self._next_action)
                for segment in self._plan.segments(start, scan):
                    self._fill(output, seeds, segment, windows.get(segment), share)
                yield tree.map_structure(lambda leaf: leaf.reshape(len(seeds), scan, size, *leaf.shape[2:]), output)
                start += scan

    def _fill(self, output: Superbatch, seeds: Sequence[int], segment: Segment, window: "_Window", share: range) -> None:
        """Writes a segment's rows of every seed, a chunk at a time, so that the next observation is still in the cache."""
        for place, seed in enumerate(seeds):
            for start in range(segment.target.start, segment.target.stop, _CHUNK):
                chunk = slice(start, min(start + _CHUNK, segment.target.stop))
                target, offsets = self._rows(segment, chunk, share)
                order = permuted(offsets, len(window.row), (seed, segment.epoch, segment.window))
                row = window.row[order]
                _gather(output.transition[:4], window[:4], row, (place, target))
                _gather(output.transition.next_observation, window.observation, row + 1, (place, target))
                if isinstance(output.transition.next_action, NextAction):
                    _gather(output.transition.next_action.action, window.action, row + 1, (place, target))
                    output.transition.next_action.exists[place, target] = _follows(window, order)
                output.index[place, target] = order + _shift(window, order)

    def _rows(self, segment: Segment, chunk: slice, share: range) -> tuple[slice, np.ndarray]:
        """Of rows of whole batches end to end, those of the share: where they go among the share's, and their places in the order."""
        rows = np.arange(chunk.start, chunk.stop)
        if len(share) < self._plan.batch_size:
            rows = rows[np.isin(rows % self._plan.batch_size, share)]
        batch, row = divmod(chunk.start, self._plan.batch_size)
        first = batch * len(share) + min(max(row - share.start, 0), len(share))
        return slice(first, first + len(rows)), rows + (segment.begin - segment.target.start)


class _Batches(Iterator[Superbatch]):
    """The elements of an endless dataset. Its thread calls Python, so it ends with this object, and before the interpreter does."""

    def __init__(self, dataset: Any, failures: Sequence[Exception]) -> None:
        self._running = [dataset.as_numpy_iterator()]
        self._failures = failures  # what ended the dataset nevertheless
        weakref.finalize(self, self._running.clear)

    def __next__(self) -> Superbatch:
        for superbatch in self._running[0]:
            return superbatch  # type: ignore[no-any-return]
        raise self._failures[0]


@contextmanager
def _reading(readers: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that ends as soon as the files are read that it has begun."""
    pool = ThreadPoolExecutor(readers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def open_stream(path: Path, split: str, *, batch_size: int, readers: int, memory_cap_mb: int, next_action: bool = False) -> Stream:
    """Opens a split of an RLDS directory; reading starts with the first batch. With `next_action`, transitions hold it.

    Raises HindcastError where the split is missing, has fewer transitions than a batch, or has a shard of which two do not
    fit under the cap though the whole split does not fit either.
    """
    reader = RldsReader(path)
    where = f"{path}, split '{split}'"
    episodes = [shard.episodes for shard in reader.shards(split)]
    steps = reader.steps_per_shard(split)
    transitions = sum(steps) - sum(episodes)
    if transitions < batch_size:
        raise HindcastError(f"{where} has {transitions} transitions, fewer than a batch of {batch_size}. Lower batch_size or collect more.")
    step_bytes = _bytes_per_step(reader.spec)
    cap = memory_cap_mb * 2**20 // step_bytes
    if sum(steps) > cap and max(steps) > cap // 2:
        raise HindcastError(
            f"{where} takes {sum(steps) * step_bytes / 2**20:.1f} MB in memory and its largest shard {max(steps) * step_bytes / 2**20:.1f} "
            f"MB, but memory_cap_mb = {memory_cap_mb} must hold all of it or two shards. Raise it, or write the data with more shards."
        )
    window_steps = cap if sum(steps) <= cap else cap // 2  # two windows at once: one in use, one being read
    counts = tuple(all_steps - all_episodes for all_steps, all_episodes in zip(steps, episodes, strict=True))
    return Stream(reader, split, Plan(tuple(steps), counts, window_steps, batch_size), readers, next_action)


class _Window(NamedTuple):
    """Whole shards in memory, end to end: N steps, M transitions."""

    observation: Tree  # [N, ...]
    action: np.ndarray  # [N, ...]
    reward: np.ndarray  # [N] float32
    discount: np.ndarray  # [N] float32, zero into a terminal state
    row: np.ndarray  # [M] int64, the step at which a transition starts; it ends at the next step
    begin: np.ndarray  # the first transition of each run of shards in the window
    shift: np.ndarray  # by run, from the place in the window to the number in the split


class _Loader:
    """Reads windows, each shard of one by a task of its own."""

    def __init__(self, reader: RldsReader, split: str, plan: Plan) -> None:
        self.spec = reader.spec
        self.resident: _Window | None = None  # the only window, once it is read
        self._reader = reader
        self._shards = reader.shards(split)
        self._plan = plan

    def submit(self, numbers: Sequence[int], pool: ThreadPoolExecutor) -> "_Pending":
        """Starts to read some shards into one window."""
        steps = _starts([self._plan.steps[number] for number in numbers])
        transitions = _starts([self._plan.transitions[number] for number in numbers])
        shift = _starts(self._plan.transitions)[:-1][list(numbers)] - transitions[:-1]
        is_run_start = np.diff(shift, prepend=-1) != 0  # shards that follow one another in the split are one run
        window = _Window(
            tree.map_structure(lambda leaf: leaf.zeros(steps[-1]), self.spec.observation),
            self.spec.action.zeros(steps[-1]),
            np.zeros(steps[-1], np.float32),
            np.zeros(steps[-1], np.float32),
            np.zeros(transitions[-1], np.int64),
            transitions[:-1][is_run_start],
            shift[is_run_start],
        )
        tasks = [
            pool.submit(self._read, self._shards[number], window, slice(*steps[i : i + 2]), slice(*transitions[i : i + 2]))
            for i, number in enumerate(numbers)
        ]
        return _Pending(window, tasks)

    def _read(self, shard: Shard, window: _Window, steps: slice, transitions: slice) -> None:
        """Fills a shard's part of a window."""
        step, transition = steps.start, transitions.start
        for episode in self._reader.stored_episodes([shard], with_metadata=False):
            length = len(episode.reward) - 1
            rows = slice(step, step + length + 1)
            if rows.stop > steps.stop:
                break
            for target, leaf in zip(tree.flatten(window.observation), episode.observation, strict=True):
                target[rows] = leaf
            window.action[rows], window.reward[rows], window.discount[rows] = episode.action, episode.reward, true_discount(episode)
            window.row[transition : transition + length] = np.arange(step, step + length)
            step, transition = rows.stop, transition + length
        if (step, transition) != (steps.stop, transitions.stop):
            raise HindcastError(
                f"{shard.path} does not hold the {steps.stop - steps.start} steps that metadata.json says. Rebuild it with 'dvc repro'."
            )


class _Pending(NamedTuple):
    """A window that is being read."""

    window: _Window
    tasks: Sequence[Future[None]]

    def result(self) -> _Window:
        for task in self.tasks:
            task.result()
        return self.window


class _Windows:
    """The windows of a stream in the order of their use; the next one is read while this one is used."""

    def __init__(self, loader: _Loader, plan: Plan, pool: ThreadPoolExecutor) -> None:
        self._loader = loader
        self._plan = plan
        self._pool = pool
        self._current: tuple[tuple[int, int], _Window] | None = None
        self._next: tuple[tuple[int, int], _Pending] | None = None

    def get(self, segment: Segment) -> _Window:
        if self._plan.is_global:
            if self._loader.resident is None:
                self._loader.resident = self._loader.submit(self._plan.windows(0)[0], self._pool).result()
            return self._loader.resident
        key = segment.epoch, segment.window
        if self._current is None or self._current[0] != key:
            self._current = None  # frees its memory before another window is allocated
            pending = self._next[1] if self._next and self._next[0] == key else self._submit(key)
            self._next = None
            self._current = key, pending.result()
            following = self._following(key)
            self._next = following, self._submit(following)
        return self._current[1]

    def _submit(self, key: tuple[int, int]) -> _Pending:
        epoch, window = key
        return self._loader.submit(self._plan.windows(epoch)[window], self._pool)

    def _following(self, key: tuple[int, int]) -> tuple[int, int]:
        epoch, window = key
        return (epoch, window + 1) if window + 1 < len(self._plan.windows(epoch)) else (epoch + 1, 0)


def _shift(window: _Window, order: np.ndarray) -> np.ndarray:
    """Returns what leads from transitions of a window to their numbers in the split."""
    if len(window.shift) == 1:
        return window.shift
    shift: np.ndarray = window.shift[np.searchsorted(window.begin, order, side="right") - 1]
    return shift


def _follows(window: _Window, order: np.ndarray) -> np.ndarray:
    """Returns whether the transition after each of some, in their window, goes on where it ends: float32."""
    following = window.row[np.minimum(order + 1, len(window.row) - 1)]
    follows: np.ndarray = (following == window.row[order] + 1).astype(np.float32)
    return follows


def _gather(targets: Tree, sources: Tree, rows: np.ndarray, where: tuple[int, slice]) -> None:
    """Copies rows of every source to a place in its target."""
    for target, source in zip(tree.flatten(targets), tree.flatten(sources), strict=True):
        np.take(source, rows, axis=0, out=target[where], mode="clip")  # mode "raise" would copy through a buffer


def _empty(spec: EnvSpec, seeds: int, rows: int, next_action: bool) -> Superbatch:
    """Returns a superbatch to be filled, its [K, B] flattened."""

    def array(leaf: ArraySpec) -> np.ndarray:
        return _aligned((seeds, rows, *leaf.shape), np.dtype(leaf.dtype))

    observation, next_observation = (tree.map_structure(array, spec.observation) for _ in range(2))
    reward, discount, index = map(array, (ArraySpec((), "float32"), ArraySpec((), "float32"), ArraySpec((), "int64")))
    following = NextAction(array(spec.action), array(ArraySpec((), "float32"))) if next_action else ()
    return Superbatch(Transition(observation, array(spec.action), reward, discount, next_observation, following), index)


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Returns an array to be filled that starts where TensorFlow and JAX want theirs, so that both take it without a copy."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + size].view(dtype).reshape(shape)


def _starts(sizes: Sequence[int]) -> np.ndarray:
    """Returns where each of several runs starts, and where the last one ends."""
    return np.cumsum([0, *sizes])


def _bytes_per_step(spec: EnvSpec) -> int:
    """Returns what one step takes in a window: its arrays, reward, discount and row number."""
    leaves = [*tree.flatten(spec.observation), spec.action]
    return 16 + sum(int(leaf.zeros().nbytes) for leaf in leaves)
