"""`read_stacks`: the episodes of our own data, those of one length and form decoded together, unless they have step metadata.

Short episodes cost as much each as ten kilobytes of a long one when they are decoded one by one. Their records are bytes of the same
form where they have the same length, so that one look at the first of them tells where everything lies in all.
"""

import mmap
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.rlds.decoding import Layout, NotCanonical, read_layout
from rl_datasets.rlds.features import StoredArray
from rl_datasets.rlds.framing import HEAD, LONGEST, TAIL, checksums_hold, record_places
from rl_datasets.rlds.reader import RldsReader, Shard, records
from rl_datasets.schema import EpisodeStack, named_leaves, stack_of

FEWEST = 6  # records that are worth a stack
BLOCK = 1 << 21  # bytes of a stack, about what a processor's cache holds


class _Form(NamedTuple):
    """What records of one length have in common: where their lists lie, and the bytes between these."""

    layout: Layout
    between: np.ndarray  # [size] uint8
    is_between: np.ndarray  # [size] uint8, 255 or 0


def read_stacks(reader: RldsReader, shard: Shard) -> Iterator[EpisodeStack]:
    """Yields all episodes of a file, in any order. Raises HindcastError as `reader.episodes_of` does, on the same damage."""
    is_plain = reader.is_own and not reader.spec.step_metadata and shard.path.is_file()
    if not is_plain or shard.path.stat().st_size > shard.episodes * (LONGEST + HEAD + TAIL):
        yield from _one_by_one(reader, shard)
        return
    with shard.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        places = record_places(content)
        sizes = np.zeros(0) if places is None else np.diff(places)
        if places is None or len(sizes) != shard.episodes or sizes.max() > LONGEST:
            yield from _one_by_one(reader, shard)
            return
        for size in np.unique(sizes).tolist():
            numbers = np.flatnonzero(sizes == size)
            for some in np.array_split(numbers, len(numbers) * size // BLOCK + 1):
                frames = np.ndarray(len(content) - size + 1, f"V{size}", content, strides=(1,))[places[some]]
                yield from _stacked(reader, shard, some, frames.view(np.uint8).reshape(len(some), size))


def _one_by_one(reader: RldsReader, shard: Shard) -> Iterator[EpisodeStack]:
    return (stack_of(episode, place) for place, episode in enumerate(reader.episodes_of([shard])))


def _stacked(reader: RldsReader, shard: Shard, numbers: np.ndarray, frames: np.ndarray) -> Iterator[EpisodeStack]:
    """The episodes of records of one size, with their frames [N, size]."""
    if not checksums_hold(frames):
        for _ in records(shard):  # which says where it is damaged
            pass
        raise HindcastError(f"{shard.path} is damaged: the checksum of a record is not that of its bytes.")
    while len(numbers) >= FEWEST:
        form = _form(frames[0, HEAD:-TAIL])
        alike = _alike(frames[:, HEAD:-TAIL], form) if form else np.arange(len(numbers)) < 1
        stack = _stack(reader, form.layout, numbers[alike], frames[alike, HEAD:-TAIL]) if form and alike.sum() >= FEWEST else None
        yield from _singly(reader, shard, numbers[alike], frames[alike]) if stack is None else [stack]
        numbers, frames = numbers[~alike], frames[~alike]
    yield from _singly(reader, shard, numbers, frames)


def _singly(reader: RldsReader, shard: Shard, numbers: np.ndarray, frames: np.ndarray) -> Iterator[EpisodeStack]:
    for number, frame in zip(numbers.tolist(), frames, strict=True):
        yield stack_of(reader.episode(shard, number, frame[HEAD:-TAIL].tobytes()), number)


def _form(record: np.ndarray) -> _Form | None:
    try:
        layout = read_layout(record.tobytes())
    except NotCanonical:
        return None
    is_between = np.full(len(record), 255, np.uint8)
    for stored in layout.values():
        is_between[stored.start : stored.end] = 0
    return _Form(layout, record & is_between, is_between)


def _alike(rows: np.ndarray, form: _Form) -> np.ndarray:
    """Returns [N] bool: which records have the form, the first of them among these."""
    different: np.ndarray = ((rows & form.is_between) != form.between).any(axis=1)
    return ~different


def _stack(reader: RldsReader, layout: Layout, numbers: np.ndarray, rows: np.ndarray) -> EpisodeStack | None:
    """Decodes records of one form. None where that takes a look at each of them, as where one is damaged."""
    try:
        stored = {key: array for key, array in reader.episode_arrays.items() if isinstance(array, StoredArray)}
        arrays = {key: array.decode_alike(rows, layout[array.key]) for key, array in stored.items()}
        columns = {key: column.decode_alike(rows, layout[column.key]) for key, column in reader.episode_columns.items()}
        leaves = [arrays[name] for name, _ in named_leaves(reader.spec.observation, "observation")]
        action, reward, discount, is_terminal = (arrays[name] for name in ("action", "reward", "discount", "is_terminal"))
        ids = columns.pop("episode_id")
    except (LookupError, ValueError):
        return None
    if not reward.shape[1] or len({array.shape[1] for array in arrays.values()}) > 1:
        return None
    observation = tree.unflatten_as(reader.spec.observation, leaves)
    return EpisodeStack(numbers, [*map(str, ids)], observation, action, reward, discount, is_terminal[:, -1], columns, {})
