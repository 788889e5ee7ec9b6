"""Reads serialised tf.train.Examples without a Python object a number: the counterpart of `example`.

It takes the form that protobuf libraries write (a map entry's key before its value, packed lists) and raises NotCanonical for
any other, which the caller brings to that form with protobuf itself.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing

_FIRST, _SECOND = 0x0A, 0x12  # tags of fields 1 and 2, length-delimited
BYTES, FLOATS, INT64S = 0x0A, 0x12, 0x1A  # tags of the kinds of list within a Feature
SHORT = 1024  # steps of an episode whose flags are remembered
_LAYOUTS = 4096  # remembered at most; some kilobytes each


class NotCanonical(ValueError):  # noqa: N818  (no error: another form of the same message)
    """The bytes are no Example, or one in a form that is allowed but not usual."""


class StoredList(NamedTuple):
    """Where the list of a Feature lies within a record."""

    kind: int  # one of the tags above; 0 where the Feature is empty
    start: int
    end: int


Layout = dict[bytes, StoredList]  # by key, in UTF-8


class LayoutReader:
    """Finds the lists of records; fast where many records have the same layout, as short episodes of one length do."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Layout, list[tuple[int, int, bytes]]]] = {}  # by size of the record

    def read(self, record: bytes) -> Layout:
        """Raises NotCanonical."""
        known = self._known.get(len(record))
        if known and _holds(known[1], record):
            return known[0]
        layout = read_layout(record)
        if len(self._known) >= _LAYOUTS:
            self._known.clear()
        edges = [0, *(edge for stored in layout.values() for edge in (stored.start, stored.end)), len(record)]
        self._known[len(record)] = layout, [(start, end, record[start:end]) for start, end in zip(edges[::2], edges[1::2], strict=True)]
        return layout


def _holds(between: list[tuple[int, int, bytes]], record: bytes) -> bool:
    """Whether a record has the same bytes between its lists."""
    for start, end, content in between:  # noqa: SIM110  (all() takes twice the time)
        if record[start:end] != content:
            return False
    return True


def read_layout(record: bytes) -> Layout:
    """Returns where the list of each key lies. Raises NotCanonical."""
    layout = {}
    try:
        position, end = _enter(record, 0, _FIRST)
        while position < end:
            start, entry_end = _enter(record, position, _FIRST)
            key_start, key_end = _enter(record, start, _FIRST)
            value, value_end = _enter(record, key_end, _SECOND)
            kind, first, last = 0, value, value
            if value < value_end:
                kind = record[value]
                first, last = _enter(record, value, kind)
            if not last == value_end == entry_end <= end:
                raise NotCanonical
            if kind in (FLOATS, INT64S) and first < last:
                first, content_end = _enter(record, first, _FIRST)
                if content_end != last:
                    raise NotCanonical
            layout[record[key_start:key_end]] = StoredList(kind, first, last)
            position = entry_end
    except IndexError as error:
        raise NotCanonical from error
    if end != len(record):
        raise NotCanonical
    return layout


def floats(record: bytes, stored: StoredList) -> np.ndarray:
    """Returns float32 values; none where the list is of another kind."""
    size = (stored.end - stored.start) // 4 if stored.kind == FLOATS else 0
    return np.frombuffer(record, "<f4", size, stored.start).copy()  # where they lie they are not aligned


def int64s(record: bytes, stored: StoredList, dtype: np.typing.DTypeLike = np.int64) -> np.ndarray:
    """Returns integers of 64 bits as this dtype; uint64 takes them bit for bit."""
    return decode_varints(record[stored.start : stored.end] if stored.kind == INT64S else b"", dtype)


def integer(record: bytes, stored: StoredList) -> int:
    """Returns the one value of an int64 list. Raises ValueError where there is not exactly one."""
    (value,) = _integers(record[stored.start : stored.end] if stored.kind == INT64S else b"")
    return value - 2**64 if value >= 2**63 else value


def strings(record: bytes, stored: StoredList) -> list[bytes]:
    """Returns the values of a bytes list."""
    values, position = [], stored.start
    while stored.kind == BYTES and position < stored.end:
        start, position = _enter(record, position, _FIRST)
        values.append(record[start:position])
    return values


def rows(record: bytes, stored: StoredList, size: int) -> np.ndarray:
    """Returns the values of a bytes list, each of `size` bytes, as uint8 [N, size]. Raises ValueError on other sizes."""
    if stored.kind != BYTES or stored.start == stored.end:
        return np.zeros((0, size), np.uint8)
    content, content_end = _enter(record, stored.start, _FIRST)
    head = content - stored.start
    table = np.frombuffer(record, np.uint8, stored.end - stored.start, stored.start).reshape(-1, head + size)
    if content_end - content != size or (table[:, :head] != table[0, :head]).any():
        raise ValueError(f"its rows are not of {size} bytes each")
    return table[:, head:].copy()


def decode_varints(encoded: bytes, dtype: np.typing.DTypeLike = np.int64) -> np.ndarray:
    """Returns the values of concatenated varints; a few truth values read-only."""
    if dtype == np.bool_ and len(encoded) <= SHORT:
        return _short_bools(encoded)
    if encoded.isascii():  # each below 128, one byte
        return np.frombuffer(encoded, np.uint8).astype(dtype)
    return varints(np.frombuffer(encoded, np.uint8), dtype)


def varints(content: np.ndarray, dtype: np.typing.DTypeLike) -> np.ndarray:
    """Returns the values of concatenated varints [L] uint8. Raises ValueError where the last is cut short."""
    if content.max(initial=0) < 128:  # each of them one byte
        return content.astype(dtype)
    last = np.flatnonzero(content < 128)
    first = np.concatenate([[0], last[:-1] + 1])
    place = np.arange(len(content)) - np.repeat(first, last - first + 1)
    groups = (content & 127).astype(np.uint64) << (7 * place).astype(np.uint64)
    values: np.ndarray = np.add.reduceat(groups, first).view(np.int64)
    return values.astype(dtype, copy=False)


def counts_of_varints(content: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns how many varints there are in each of some parts [L] uint8 end to end. sizes: in bytes, none of them 0; [E] int64."""
    if content.max(initial=0) < 128:
        return sizes
    counts: np.ndarray = np.add.reduceat((content < 128).astype(np.int64), np.cumsum(sizes) - sizes)
    return counts


@lru_cache(maxsize=1024)
def _short_bools(encoded: bytes) -> np.ndarray:
    """Returns what flags of a few steps are, read-only: most episodes of one length have the same."""
    values = decode_varints(encoded).astype(bool)
    values.setflags(write=False)
    return values


def _integers(encoded: bytes) -> list[int]:
    """Returns the values of concatenated varints as they are, unsigned."""
    values, value, shift = [], 0, 0
    for byte in encoded:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value, shift = 0, 0
    return values


def _enter(record: bytes, position: int, tag: int) -> tuple[int, int]:
    """Returns where the content of a length-delimited field starts and ends. Raises NotCanonical where another field stands there."""
    if record[position] != tag:
        raise NotCanonical
    length = record[position + 1]
    position += 2
    if length > 127:
        length &= 127
        shift = 7
        while (byte := record[position]) > 127:
            length |= (byte & 127) << shift
            shift += 7
            position += 1
        length |= byte << shift
        position += 1
    return position, position + length
