"""What is stored of arrays, texts and metadata, and how it comes back: of one record, or of many at once. Without TensorFlow.

The lists of many records end to end are a list too, so that one look at it serves for all of them.
"""

import math
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rl_datasets.parts import Alike, joined
from rl_datasets.rlds.decoding import (
    BYTES,
    FLOATS,
    INT64S,
    StoredList,
    counts_of_varints,
    floats,
    int64s,
    integer,
    rows,
    strings,
    varints,
)
from rl_datasets.schema import ArraySpec

IMAGE = "image"  # the encoding of what TensorFlow alone decodes
_SHORT = 128  # bytes, below which a length is one byte


class StoredLists(NamedTuple):
    """The lists of one key in M records."""

    content: np.ndarray  # [L] uint8, in which they lie
    kind: int  # of each of them, as that of a StoredList
    starts: np.ndarray  # [M]
    sizes: np.ndarray  # [M], in bytes
    which: Alike  # those of a group have one size

    def joined(self) -> np.ndarray:
        """Returns their bytes end to end."""
        return joined(self.content, self.starts, self.sizes, self.which)

    def each(self) -> list[list[bytes]]:
        """Returns the values of each, where they are lists of bytes."""
        content, ends = self.joined().tobytes(), np.cumsum(self.sizes)
        edges = zip((ends - self.sizes).tolist(), ends.tolist(), strict=True)
        return [strings(content, StoredList(self.kind, start, end)) for start, end in edges]


class StoredArray:
    """How the arrays of one feature come back from an Example."""

    def __init__(self, name: str, spec: ArraySpec, encoding: str, decode_image: Callable[[bytes], np.ndarray] | None = None) -> None:
        self.key = name.encode()
        self.spec = spec
        self._encoding, self._decode_image = encoding, decode_image
        self._dtype = np.dtype(spec.dtype)
        self._row_bytes = math.prod(spec.shape) * self._dtype.itemsize
        self._is_plain = encoding == "none" and self._dtype == np.dtype("<f4")

    @property
    def is_integer(self) -> bool:
        return self._encoding == "none" and self.spec.dtype == "int64"

    def decode(self, record: bytes, stored: StoredList) -> np.ndarray:
        """Returns [steps, ...] from a list in a record. Raises ValueError where its values make no whole number of steps."""
        array = self._flat(record, stored)
        if array.dtype != self._dtype:
            array = array.astype(self._dtype)
        return array.reshape(-1, *self.spec.shape) if self.spec.shape else array

    def decode_all(self, lists: StoredLists) -> tuple[np.ndarray, np.ndarray]:
        """Returns the steps of a list in each record end to end, and how many there are of each, [M] int64.

        Raises ValueError where they cannot be taken together.
        """
        if self._encoding not in ("none", "bytes"):
            raise ValueError(f"steps of {self.key.decode()} are encoded one by one")
        content, are_varints = lists.joined(), self._encoding == "none" and self._dtype.kind != "f"
        if self._is_plain and lists.kind == FLOATS:
            array = content.view(self._dtype).reshape(-1, *self.spec.shape)
        elif are_varints and lists.kind == INT64S:
            array = varints(content, self._dtype).reshape(-1, *self.spec.shape)
        else:
            array = self.decode(content.tobytes(), StoredList(lists.kind, 0, len(content)))
        if not lists.sizes.all() or not array.size:
            raise ValueError(f"{self.key.decode()} has no step")
        if are_varints:
            values, unit = counts_of_varints(content, lists.sizes), math.prod(self.spec.shape)
        else:  # each step takes as much
            values, unit = lists.sizes, len(content) // len(array)
        counts = values // unit
        if (values % unit).any() or counts.sum() != len(array):
            raise ValueError(f"{self.key.decode()} holds no whole number of steps")
        return array, counts

    def _flat(self, record: bytes, stored: StoredList) -> np.ndarray:
        if self._encoding == "none":
            if self._dtype.kind == "f":
                return floats(record, stored)
            return int64s(record, stored, self._dtype)
        if self._encoding == "bytes":
            return rows(record, stored, self._row_bytes).view(self._dtype).reshape(-1, *self.spec.shape)
        if self._decode_image is None:
            return np.frombuffer(b"".join(zlib.decompress(value) for value in strings(record, stored)), self._dtype).copy()
        return np.array([self._decode_image(image) for image in strings(record, stored)], self._dtype)


class StoredTexts:
    """How the texts of one feature, one a step, come back from an Example."""

    def __init__(self, name: str) -> None:
        self.key = name.encode()

    def decode(self, record: bytes, stored: StoredList) -> np.ndarray:
        """Returns [steps], objects. Raises ValueError where one is not UTF-8."""
        return np.array([value.decode() for value in strings(record, stored)], object)

    def decode_all(self, lists: StoredLists) -> tuple[np.ndarray, np.ndarray]:
        """Returns the texts of a list in each record end to end, objects, and how many there are of each, [M] int64."""
        each = lists.each()
        return np.array([value.decode() for values in each for value in values], object), np.array([len(values) for values in each])


class StoredColumn:
    """How one string or number an episode comes back from an Example. array: how a number is stored; None for a text."""

    def __init__(self, name: str, array: StoredArray | None) -> None:
        self.key = name.encode()
        self._array = array
        self._is_integer = array is not None and array.is_integer

    def decode(self, record: bytes, stored: StoredList) -> str | int | float:
        """Raises ValueError where there is not exactly one value."""
        if self._is_integer:
            return integer(record, stored)
        if self._array is None:
            (text,) = strings(record, stored)
            return text.decode()
        value: bool | int | float = self._array.decode(record, stored).item()
        return int(value) if isinstance(value, bool) else value

    def decode_all(self, lists: StoredLists) -> list[str] | list[int] | list[float]:
        """Returns the value of each record. Raises ValueError where there is not exactly one in each."""
        if self._array is None:
            return _texts(lists)
        values, counts = self._array.decode_all(lists)
        if (counts != 1).any():
            raise ValueError(f"{self.key.decode()} has not one value in each episode")
        return [int(value) if isinstance(value, bool) else value for value in values.tolist()]


def _texts(lists: StoredLists) -> list[str]:
    """Returns the one text of each list. Raises ValueError where one is not UTF-8, or there is not exactly one in each."""
    content, sizes, ends = lists.joined(), lists.sizes, np.cumsum(lists.sizes)
    begins = ends - sizes
    if lists.kind != BYTES or (sizes < 2).any():
        raise ValueError("there is no text")
    if (sizes >= _SHORT).any() or (content[begins] != BYTES).any() or (content[begins + 1] != sizes - 2).any():
        return [text.decode() for (text,) in lists.each()]
    first = content[: sizes[0]]
    if (sizes == sizes[0]).all() and (content.reshape(len(sizes), -1) == first).all():  # as in most columns
        return [first[2:].tobytes().decode()] * len(sizes)
    encoded, edges = content.tobytes(), zip((begins + 2).tolist(), ends.tolist(), strict=True)
    if not encoded.isascii():
        return [encoded[begin:end].decode() for begin, end in edges]
    text = encoded.decode()
    return [text[begin:end] for begin, end in edges]
