"""Reads serialised tf.train.Examples without a Python object a number: the counterpart of `example`.

It takes the form that protobuf libraries write (a map entry's key before its value, packed lists) and raises NotCanonical for
any other, which the caller brings to that form with protobuf itself.
"""

import numpy as np

_FIRST, _SECOND, _BYTES, _FLOATS, _INT64S = 0x0A, 0x12, 0x0A, 0x12, 0x1A
_SHORT = 32  # bytes


class NotCanonical(ValueError):  # noqa: N818  (no error: another form of the same message)
    """The bytes are no Example, or one in a form that is allowed but not usual."""


def decode_example(record: bytes) -> dict[str, memoryview]:
    """Returns the serialised Feature of each key."""
    view = memoryview(record)
    features = {}
    try:
        position, end = _enter(view, 0, _FIRST)
        if end != len(view):
            raise NotCanonical
        while position < end:
            key_tag, entry_end = _enter(view, position, _FIRST)
            key, key_end = _enter(view, key_tag, _FIRST)
            value, value_end = _enter(view, key_end, _SECOND)
            if value_end != entry_end or entry_end > end:
                raise NotCanonical
            features[str(view[key:key_end], "utf-8")] = view[value:value_end]
            position = entry_end
    except (IndexError, UnicodeDecodeError) as error:
        raise NotCanonical from error
    return features


def floats(feature: memoryview) -> np.ndarray:
    """Returns float32 values; none where the feature holds another kind."""
    return np.frombuffer(_packed(feature, _FLOATS), "<f4").copy()  # where they lie they are not aligned


def int64s(feature: memoryview) -> np.ndarray:
    return decode_varints(np.frombuffer(_packed(feature, _INT64S), np.uint8))


def strings(feature: memoryview) -> list[memoryview]:
    """Returns the values of a bytes list."""
    content = _content(feature, _BYTES)
    values, position = [], 0
    while position < len(content):
        start, position = _enter(content, position, _FIRST)
        values.append(content[start:position])
    return values


def rows(feature: memoryview, size: int) -> np.ndarray:
    """Returns the values of a bytes list, each of `size` bytes, as uint8 [N, size]. Raises ValueError on other sizes."""
    content = _content(feature, _BYTES)
    if not len(content):
        return np.zeros((0, size), np.uint8)
    head, end = _enter(content, 0, _FIRST)
    table = np.frombuffer(content, np.uint8).reshape(-1, head + size)
    if end != head + size or (table[:, :head] != table[0, :head]).any():
        raise ValueError(f"its rows are not of {size} bytes each")
    return table[:, head:].copy()


def decode_varints(encoded: np.ndarray) -> np.ndarray:
    """Returns the int64 values of concatenated varints, given as uint8."""
    if not encoded.size or encoded.max() < 128:
        return encoded.astype(np.int64)
    if encoded.size <= _SHORT:
        return np.array(_integers(encoded.tobytes()), np.uint64).view(np.int64)
    last = np.flatnonzero(encoded < 128)
    first = np.concatenate([[0], last[:-1] + 1])
    place = np.arange(len(encoded)) - np.repeat(first, last - first + 1)
    groups = (encoded & 127).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(groups, first).view(np.int64)


def _integers(encoded: bytes) -> list[int]:
    """The plain way, faster for a few values."""
    values, value, shift = [], 0, 0
    for byte in encoded:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value, shift = 0, 0
    return values


def _packed(feature: memoryview, kind: int) -> memoryview:
    """Returns the bytes of a packed list."""
    content = _content(feature, kind)
    if not len(content):
        return content
    start, end = _enter(content, 0, _FIRST)
    if end != len(content):
        raise NotCanonical
    return content[start:end]


def _content(feature: memoryview, kind: int) -> memoryview:
    """Returns the list within a Feature: empty where it has no value or one of another kind."""
    if not len(feature) or feature[0] != kind:
        return feature[:0]
    start, end = _enter(feature, 0, kind)
    if end != len(feature):
        raise NotCanonical
    return feature[start:end]


def _enter(view: memoryview, position: int, tag: int) -> tuple[int, int]:
    """Returns where the content of a length-delimited field starts and ends. Raises NotCanonical where another field stands there."""
    if view[position] != tag:
        raise NotCanonical
    length = view[position + 1]
    position += 2
    if length > 127:
        length &= 127
        shift = 7
        while (byte := view[position]) > 127:
            length |= (byte & 127) << shift
            shift += 7
            position += 1
        length |= byte << shift
        position += 1
    if position + length > len(view):
        raise NotCanonical
    return position, position + length
