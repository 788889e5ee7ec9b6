"""tf.train.Example in its wire format, written straight from the bytes of arrays.

Byte for byte what `Example.SerializeToString(deterministic=True)` gives: map keys sorted, number lists packed. The protobuf
library takes a Python object a number and its map order differs between processes; this does neither.
Wire format: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from rl_datasets.parts import side_by_side

_FIRST = b"\x0a"  # field 1, length-delimited: Example.features, Features.feature, a map entry's key, <kind>List.value, Feature.bytes_list
_SECOND = b"\x12"  # field 2: a map entry's value, Feature.float_list
_THIRD = b"\x1a"  # field 3: Feature.int64_list
_SHORT = 256  # values

# One value of an Example's map, before it is serialised: the tag of its kind of list, and the content of that list.
# Numbers are one packed field, strings a field each.
Content = bytes | memoryview
Feature = tuple[bytes, Content]


def encode_example(features: Mapping[str, Feature]) -> bytes:
    """Returns a serialised Example of features that were encoded by the functions below. Large content is copied once."""
    kinds = tuple([kind for kind, _ in features.values()])
    contents = [content for _, content in features.values()]
    order, frame = _frame(tuple(features), kinds, tuple(map(len, contents)))
    pieces = frame.copy()
    pieces[2::2] = [contents[place] for place in order]
    return b"".join(pieces)


def encode_examples(features: Mapping[str, tuple[bytes, Content | np.ndarray]], count: int) -> list[bytes]:
    """Returns as many Examples as `encode_example` would make one by one. Contents are the same in all, or [count, size] uint8."""
    contents = [content for _, content in features.values()]
    sizes = [content.shape[1] if isinstance(content, np.ndarray) else len(content) for content in contents]
    order, frame = _frame(tuple(features), tuple([kind for kind, _ in features.values()]), tuple(sizes))
    pieces: list[Content | np.ndarray] = [*frame]
    pieces[2::2] = [contents[place] for place in order]
    return [row.tobytes() for row in side_by_side(pieces, count)]


def float_feature(array: np.ndarray) -> Feature:
    """float32 values, in C order."""
    return _SECOND, np.ascontiguousarray(array, "<f4").data.cast("B") if array.size else b""


def int64_feature(array: np.ndarray) -> Feature:
    """Booleans and integers, in C order; uint64 is kept bit for bit in an int64."""
    return _THIRD, encode_varints(array)


def int_feature(value: int) -> Feature:
    """One integer. Raises OverflowError where it needs more than 64 bits."""
    return _THIRD, _varint(int.from_bytes(value.to_bytes(8, "little", signed=True), "little"))


def flags_feature(flags: bytes) -> Feature:
    """Integers below 128, one byte each."""
    return _THIRD, flags


def bytes_feature(values: Sequence[bytes]) -> Feature:
    return _FIRST, b"".join([_field(_FIRST, value) for value in values])


def rows_feature(array: np.ndarray) -> Feature:
    """One bytes value a row of an array [N, ...]: the row in C order."""
    rows = np.ascontiguousarray(array).reshape(len(array), -1).view(np.uint8)
    head = np.frombuffer(bytes_head(rows.shape[1]), np.uint8)
    return _FIRST, np.concatenate([np.broadcast_to(head, (len(rows), len(head))), rows], axis=1).tobytes()


def bytes_head(size: int) -> bytes:
    """Returns what stands before a bytes value of this size."""
    return _FIRST + _varint(size)


def encode_varints(array: np.ndarray) -> bytes:
    """Returns the concatenated varints of an array of booleans or integers; a negative number takes ten bytes."""
    if array.size <= _SHORT:
        try:
            small = bytes(array.ravel().tolist())
        except ValueError:  # not all are in range(256)
            small = b"\xff"
        if small.isascii():  # each below 128, one byte
            return small
    values = array.astype(np.int64, copy=False).reshape(-1).view(np.uint64)
    if not values.size or values.max() < 128:
        return values.astype(np.uint8).tobytes()
    groups = values[:, None] >> np.arange(0, 70, 7, dtype=np.uint64)[None, :9]
    groups = np.concatenate([groups, values[:, None] >> np.uint64(63)], axis=1)  # [N, 10], seven bits each
    used = np.maximum((groups != 0).sum(axis=1), 1)  # groups are nonzero up to the highest set bit
    column = np.arange(10)
    encoded: np.ndarray = (groups & np.uint64(127)).astype(np.uint8) | np.where(column < used[:, None] - 1, 128, 0).astype(np.uint8)
    bits: np.ndarray = encoded[column < used[:, None]]
    return bits.tobytes()


def _field(tag: bytes, content: bytes) -> bytes:
    return b"".join((tag, _varint(len(content)), content))


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


@lru_cache(maxsize=2**12)
def _frame(keys: tuple[str, ...], kinds: tuple[bytes, ...], sizes: tuple[int, ...]) -> tuple[list[int], list[Content]]:
    """Returns the order of the entries, and all pieces of the Example, those of the contents still empty; episodes of one length share it.

    protobuf sorts the keys of a map by their bytes, but "ab" before "a"; no UTF-8 byte reaches 255.
    """
    order = sorted(range(len(keys)), key=lambda place: keys[place].encode() + b"\xff")
    heads = [_before_content(keys[place], kinds[place], sizes[place]) for place in order]
    return order, [_FIRST + _varint(sum(map(len, heads)) + sum(sizes)), *(piece for head in heads for piece in (head, b""))]


def _before_content(key: str, kind: bytes, size: int) -> bytes:
    """Returns the bytes of a map entry that come before a content of this size."""
    head = _FIRST + _varint(size) if kind != _FIRST and size else b""
    feature = kind + _varint(len(head) + size) + head
    start = _field(_FIRST, key.encode()) + _SECOND + _varint(len(feature) + size) + feature
    return _FIRST + _varint(len(start) + size) + start
