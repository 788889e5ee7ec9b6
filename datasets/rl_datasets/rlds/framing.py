"""TFRecord files without a Python object a record: where each record lies, and whether the checksums around many are right.

A record stands between its length in 8 bytes with the checksum of these, and its own checksum: CRC-32C, rotated and shifted by a
constant (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).
"""

from functools import lru_cache
from mmap import mmap
from struct import Struct, error

import numpy as np

HEAD, TAIL = 12, 4  # bytes before a record and behind it
LONGEST = 1 << 14  # bytes of a record whose checksum is computed here; a kilobyte of table for each
_POLYNOMIAL, _MASK = 0x82F63B78, np.array(0xA282EAD8, np.uint32)  # an array, which is added to modulo 2**32 without a warning
_length_at = Struct("<Q").unpack_from


def record_places(content: bytes | mmap) -> np.ndarray | None:
    """Returns [N + 1] where the frame of each record starts, the end of the file last; None where the frames do not fill the file."""
    places, place, end, around = [0], 0, len(content), HEAD + TAIL
    try:
        while place < end:
            place += _length_at(content, place)[0] + around
            places.append(place)
    except error:
        return None
    return np.array(places) if place == end else None


def checksums_hold(frames: np.ndarray) -> bool:
    """Whether records of equal length, with their frames [N, HEAD + length + TAIL] uint8, have the checksums that are stored.

    The CRC of an XOR is the XOR of CRCs, so what is compared are sums of records, chosen so that no two records are in the same ones:
    one wrong record is seen, and so are two; that more of them escape takes intent, or one chance in four billion.
    """
    head, zeros = _constants(frames.shape[1] - HEAD - TAIL)
    if (frames[:, :HEAD] != head).any():
        return False
    odd = _sums(np.ones(len(frames), np.uint8)).astype(bool)
    expected = _linear(_sums(frames[:, HEAD:-TAIL])) ^ np.where(odd, zeros, np.uint32(0))
    rotated = np.ascontiguousarray(frames[:, -TAIL:]).view("<u4")[:, 0] - _MASK
    return bool((_sums((rotated >> np.uint32(17)) | (rotated << np.uint32(15))) == expected).all())


@lru_cache(maxsize=4096)
def _constants(length: int) -> tuple[np.ndarray, np.uint32]:
    """Returns the head of each record of this length, and the checksum of one of zeros."""
    size = np.frombuffer(length.to_bytes(8, "little"), np.uint8)
    crc = checksum(size)
    masked = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + _MASK
    return np.concatenate([size, np.frombuffer(masked.tobytes(), np.uint8)]), checksum(np.zeros(length, np.uint8))


def checksum(content: np.ndarray) -> np.uint32:
    """Returns the CRC-32C of bytes [length] uint8, of which there are at least 4."""
    begun = content.copy()
    begun[:4] ^= 255
    return np.uint32(~_linear(begun[None])[0])


def _linear(rows: np.ndarray) -> np.ndarray:
    """Returns [N] uint32: of bytes [N, length], the linear part of their CRC."""
    length = rows.shape[1]
    table = _table(1 << max(length - 1, 0).bit_length())
    found: np.ndarray = np.bitwise_xor.reduce(table[np.arange(length - 1, -1, -1), rows], axis=1)
    return found


@lru_cache(maxsize=16)
def _table(length: int) -> np.ndarray:
    """Returns [length, 256] uint32: what a byte adds that stands so many bytes before the end."""
    first: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = (first >> 1) ^ np.where(first & 1, _POLYNOMIAL, 0).astype(np.uint32)
    table = np.empty((length, 256), np.uint32)
    table[0] = first
    for place in range(1, length):
        before = table[place - 1]
        table[place] = first[before & 255] ^ (before >> 8)
    return table


def _sums(rows: np.ndarray) -> np.ndarray:
    """Returns the XOR of all rows, and of the later half of them, of the halves' later halves, and so on: about log2(N) + 1 sums."""
    rows, sums = rows.copy(), []
    while len(rows) > 1:
        half = (len(rows) + 1) // 2
        low, high = rows[:half], rows[half:]
        sums.append(np.bitwise_xor.reduce(high, axis=0))
        low[: len(high)] ^= high
        rows = low
    return np.array([*sums, rows[0]])
