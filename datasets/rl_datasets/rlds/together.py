"""`read_together`: the episodes of a file end to end, many decoded at once, for one at a time costs more than what is asked of them.

Records of one size mostly have one form, so that one look at the first of them tells where everything lies in all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from rl_datasets.parts import FEWEST, Alike, alike, parts
from rl_datasets.recorded import EndToEnd, Recorded, end_to_end
from rl_datasets.rlds.decoding import Layout, LayoutReader
from rl_datasets.rlds.framing import HEAD, TAIL, Checksums, blocks
from rl_datasets.rlds.shards import Shard
from rl_datasets.rlds.stored import StoredLists

if TYPE_CHECKING:
    from rl_datasets.rlds.reader import RldsReader  # with TFDS, which decoding does without

LONG = 1 << 17  # bytes of a record, on average, above which copies for many cost more than one at a time
FORMS = 8  # of records of one size, behind which each is looked at by itself


def read_together(
    reader: "RldsReader", shard: Shard, *, with_flags: bool = False, with_step_metadata: bool = False
) -> Iterator[EndToEnd | Recorded]:
    """Yields the episodes of a file in order.

    Long ones, and all from the first place on where they cannot be taken together, come one at a time as from `reader.recorded_of`, which
    also raises the HindcastError that tells of damage.
    """
    if are_long(shard):
        yield from reader.recorded_of(shard)
        return
    number = 0
    try:
        for episodes in Together(reader, with_flags=with_flags, with_step_metadata=with_step_metadata).episodes(shard):
            yield episodes
            number += len(episodes.episode_id)
    except (ValueError, KeyError, OSError):
        yield from islice(reader.recorded_of(shard), number, None)


def read_end_to_end(
    reader: "RldsReader", shard: Shard, *, with_flags: bool = False, with_step_metadata: bool = False
) -> Iterator[EndToEnd]:
    """Yields what `read_together` does, one that comes by itself as an EndToEnd of one episode."""
    for item in read_together(reader, shard, with_flags=with_flags, with_step_metadata=with_step_metadata):
        yield replace(end_to_end([item.episode]), flags=item.flags) if isinstance(item, Recorded) else item


def are_long(shard: Shard) -> bool:
    """Whether the episodes of a file are read one at a time."""
    return shard.path.is_file() and shard.path.stat().st_size > LONG * shard.episodes


class Together:
    """Decodes records end to end. Raises ValueError, KeyError or OSError where that is not possible. It pickles, without the reader."""

    def __init__(self, reader: "RldsReader", *, with_flags: bool, with_step_metadata: bool) -> None:
        self._form, self._with_flags = reader.form, with_flags
        self._arrays = reader.stored_arrays(self._form.keys(with_flags, with_step_metadata))
        self._columns = reader.stored_columns(tuple(reader.columns))
        self._layouts = LayoutReader()

    def episodes(self, shard: Shard) -> Iterator[EndToEnd]:
        """Yields the episodes of a file in order, many at once."""
        number = 0
        for content, places in blocks(shard.path):
            episodes = self(content, places, shard.split, shard.first + number)
            if number + len(episodes.episode_id) > shard.episodes:
                raise ValueError("more episodes than there should be")
            yield episodes
            number += len(episodes.episode_id)
        if number != shard.episodes:
            raise ValueError("fewer episodes than there should be")

    def __call__(self, content: np.ndarray, places: np.ndarray, split: str, first: int) -> EndToEnd:
        """Decodes records whose frames [L] uint8 start at `places` [M + 1]; the first is of the episode of this number in the split."""
        lists = _located(content, places, [stored.key for stored in (*self._arrays.values(), *self._columns.values())], self._layouts)
        arrays, counts = {}, None
        for key, stored in self._arrays.items():
            arrays[key], own = stored.decode_all(lists[stored.key])
            if counts is not None and (own != counts).any():
                raise ValueError(f"{key} has other numbers of steps")
            counts = own
        if counts is None:
            raise ValueError("nothing is stored of a step")
        columns = {key: stored.decode_all(lists[stored.key]) for key, stored in self._columns.items()}
        return self._form.episodes(split, first, arrays, columns, np.cumsum([0, *counts]), self._with_flags)


def _located(content: np.ndarray, places: np.ndarray, keys: Sequence[bytes], layouts: LayoutReader) -> dict[bytes, StoredLists]:
    """Finds the lists of some keys in records whose checksums hold. Raises NotCanonical, KeyError or ValueError otherwise."""
    bodies, sizes = places[:-1] + HEAD, np.diff(places) - HEAD - TAIL
    found, form_of = list[Layout](), np.empty(len(sizes), np.int64)  # the place of each record's in the list
    groups, others = [], []
    checksums = Checksums()

    def note(layout: Layout, some: np.ndarray) -> None:
        form_of[some] = len(found)
        found.append(layout)
        groups.append(some) if len(some) >= FEWEST else others.extend(some.tolist())

    def records_of(some: np.ndarray) -> np.ndarray:
        frames = parts(content, places[some], HEAD + int(sizes[some[0]]) + TAIL)
        checksums.add(frames)
        return frames[:, HEAD:-TAIL]

    which = alike(sizes)
    for group in which.groups:
        rest, rows = group, records_of(group)
        for _ in range(FORMS):
            if not len(rest):
                break
            layout = layouts.read(rows[0].tobytes())
            same = _same(rows, layout)
            note(layout, rest[same])
            rest, rows = rest[~same], rows[~same]
        for place, row in zip(rest.tolist(), rows, strict=True):
            note(layouts.read(row.tobytes()), np.array([place]))
    for other in which.others:
        (row,) = records_of(single := np.array([other]))
        note(layouts.read(row.tobytes()), single)
    if not checksums.hold():
        raise ValueError("the checksum of a record is not that of its bytes")

    def lists(key: bytes) -> StoredLists:
        stored = [layout[key] for layout in found]
        (kind,) = {each.kind for each in stored}
        starts, ends = (np.array(edges) for edges in zip(*((each.start, each.end) for each in stored), strict=True))
        return StoredLists(content, kind, bodies + starts[form_of], (ends - starts)[form_of], Alike(groups, others))

    return {key: lists(key) for key in keys}


def _same(rows: np.ndarray, layout: Layout) -> np.ndarray:
    """Returns [M] bool: which records [M, size] uint8 have the layout of the first of them, whose this is."""
    is_between = np.full(rows.shape[1], 255, np.uint8)
    for stored in layout.values():
        is_between[stored.start : stored.end] = 0
    if not ((np.bitwise_or.reduce(rows) ^ np.bitwise_and.reduce(rows)) & is_between).any():
        return np.ones(len(rows), bool)
    different: np.ndarray = ((rows ^ rows[0]) & is_between).any(axis=1)
    return ~different
