"""Parts of a buffer, many at once: without a Python object for each where many are of one size."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FEWEST = 6  # parts of one size that are worth being taken together


class Alike(NamedTuple):
    """Which of many things are alike: the places of each group of at least FEWEST, ascending, and of the others."""

    groups: Sequence[np.ndarray]
    others: Sequence[int]


def alike(kinds: np.ndarray) -> Alike:
    """Groups things by their kinds [M], integers."""
    order = np.argsort(kinds, kind="stable")
    cuts = np.flatnonzero(np.diff(kinds[order])) + 1
    groups = np.split(order, cuts) if len(order) else []
    few = [group for group in groups if len(group) < FEWEST]
    return Alike([group for group in groups if len(group) >= FEWEST], np.concatenate([np.zeros(0, int), *few]).tolist())


def parts(content: np.ndarray, starts: np.ndarray, size: int) -> np.ndarray:
    """Returns a copy of each of M parts of one size, [M, size], that start at `starts` [M] in bytes [L] uint8."""
    if not size:
        return np.zeros((len(starts), 0), np.uint8)
    copies: np.ndarray = _windows(content, size)[starts].view(np.uint8).reshape(len(starts), size)
    return copies


def joined(content: np.ndarray, starts: np.ndarray, sizes: np.ndarray, which: Alike) -> np.ndarray:
    """Returns M parts of bytes [L] uint8 end to end. Those of a group have one size."""
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    put(out, ends - sizes, content, starts, sizes, which)
    return out


def put(out: np.ndarray, places: np.ndarray, content: np.ndarray, starts: np.ndarray, sizes: np.ndarray, which: Alike) -> None:
    """Copies M parts of bytes to places [M] in others, both uint8. Those of a group have one size."""
    for group in which.groups:
        if size := int(sizes[group[0]]):
            _windows(out, size)[places[group]] = _windows(content, size)[starts[group]]
    source, target = content.data, out.data
    for part in which.others:
        place, start, size = int(places[part]), int(starts[part]), int(sizes[part])
        target[place : place + size] = source[start : start + size]


def side_by_side(pieces: Sequence[bytes | memoryview | np.ndarray], rows: int) -> np.ndarray:
    """Returns [rows, size] uint8 from pieces that are the same in all rows, or [rows, size of the piece]."""
    arrays = [piece if isinstance(piece, np.ndarray) else np.frombuffer(piece, np.uint8) for piece in pieces if len(piece)]
    joined, place = np.empty((rows, sum(array.shape[-1] for array in arrays)), np.uint8), 0
    for array in arrays:
        joined[:, place : place + array.shape[-1]] = array
        place += array.shape[-1]
    return joined


def each_row(rows: np.ndarray) -> list[bytes]:
    """Returns the bytes of each row [rows, size] uint8, C-contiguous."""
    contents: list[bytes] = rows.view(f"V{rows.shape[1]}").reshape(-1).tolist()
    return contents


def _windows(content: np.ndarray, size: int) -> np.ndarray:
    """Every part of this size, overlapping, as one value each."""
    return np.ndarray(len(content) - size + 1, f"V{size}", content, strides=(1,))
