"""TFRecord files: where each record lies, and the checksums around it.

A record stands between its length in 8 bytes with the checksum of these, and its own checksum: CRC-32C, rotated and shifted by a
constant (https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).

TensorFlow reads and writes such files at the speed of memory, and takes two seconds to import: it does so where there is much, or where it
is there already.
"""

import os
import struct
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import BufferedReader
from itertools import pairwise
from math import isqrt
from pathlib import Path

import numpy as np

HEAD, TAIL = 12, 4  # bytes before a record and behind it
BYTES = 1 << 25  # of the records that are looked at together; at least one
MUCH = 1 << 22  # bytes of a file
_BLOCK = 1 << 18  # bytes of which checksums are computed at once, about what a processor's cache holds
_POLYNOMIAL, _MASK = 0x82F63B78, np.array(0xA282EAD8, np.uint32)  # an array, which is added to modulo 2**32 without a warning
_BEGIN = (0x641F6454).to_bytes(4, "little")  # four bytes that bring the register from zero to all ones, with which CRC-32C begins
_length_at = struct.Struct("<Q").unpack_from
_framed = struct.Struct("<QI").pack


class DamagedFile(Exception):  # noqa: N818  (no error of a caller's: what a reader tells of it depends on where the file stands)
    """What is wrong with the file, in a few words."""


def write_records(file: Path, records: Sequence[bytes]) -> None:
    """Raises OSError where the disk fails."""
    if _is_for_tensorflow(sum(map(len, records))):
        _write_much(file, records)
        return
    sizes = [len(record) for record in records]
    heads = masked_checksums([size.to_bytes(8, "little") for size in sizes]).tolist()
    tails = masked_checksums(records).astype("<u4")
    with file.open("wb") as target:
        for size, head, record, tail in zip(sizes, heads, records, tails, strict=True):
            target.write(b"".join((_framed(size, head), record, tail)))


def read_records(file: Path) -> Iterator[bytes]:
    """Yields the records of a file. Raises DamagedFile after those that stand before the damage."""
    try:
        much = _is_for_tensorflow(file.stat().st_size)
        content = b"" if much else file.read_bytes()
    except OSError as error:
        raise DamagedFile(error.strerror or str(error)) from error
    if much:
        yield from _read_much(file)
        return
    places = _whole_frames(content)
    bodies = [content[start + HEAD : end - TAIL] for start, end in pairwise(places)]
    whole, fault = _damage(content, places, bodies)
    yield from bodies[:whole]
    if fault:
        raise DamagedFile(fault)


def blocks(path: Path, size: int = BYTES) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields a file in parts [L] uint8 of whole records, with the place of each record's frame and the part's end, [M + 1] int64.

    Raises ValueError where the frames do not fill the file.
    """
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size
        while left:
            content = _read(file, min(max(size, HEAD), left))
            places = _whole_frames(content.data)
            if len(places) == 1:
                whole = HEAD + TAIL + (_length_at(content.data)[0] if len(content) >= HEAD else 0)
                if not len(content) < whole <= left:
                    raise ValueError(f"{path} ends within a record")
                file.seek(-len(content), os.SEEK_CUR)
                content = _read(file, whole)
                places = _whole_frames(content.data)
            end = places[-1]
            file.seek(end - len(content), os.SEEK_CUR)
            left -= end
            yield content[:end], np.array(places)


def _read(file: BufferedReader, size: int) -> np.ndarray:
    """Returns the next bytes of a file, [size] uint8 or fewer at its end. NumPy asks for large pages, which cost less than many small."""
    content = np.empty(size, np.uint8)
    return content[: file.readinto(content.data)]


def _whole_frames(content: bytes | memoryview) -> list[int]:
    """Returns where the frames start that lie within the file as their lengths say, and where the last of them ends."""
    places, place, end, around = [0], 0, len(content), HEAD + TAIL
    try:
        while (place := place + _length_at(content, place)[0] + around) <= end:
            places.append(place)
    except struct.error:  # fewer bytes than a length has
        pass
    return places


def _damage(content: bytes, places: Sequence[int], bodies: Sequence[bytes]) -> tuple[int, str]:
    """Returns how many records are whole, and TensorFlow's words for what is wrong with the next, none where there is no next."""
    heads = [head for place in places if len(head := content[place : place + HEAD]) == HEAD]
    tails = b"".join([content[place - TAIL : place] for place in places[1:]])
    head_holds = masked_checksums([head[:-TAIL] for head in heads]) == np.frombuffer(b"".join(heads), "<u4")[2::3]
    body_holds = masked_checksums(bodies) == np.frombuffer(tails, "<u4")
    if not (head_holds.all() and body_holds.all()):
        whole = min(int(np.append(holds, False).argmin()) for holds in (head_holds, body_holds))
        return whole, f"corrupted record at {places[whole] + HEAD * bool(head_holds[whole])}"
    is_cut = len(heads) > len(bodies)  # fewer bytes than a head are passed over
    return len(bodies), f"truncated record at {places[-1]}" if is_cut else ""


def _is_for_tensorflow(size: int) -> bool:
    return size > MUCH or "tensorflow" in sys.modules


def _write_much(file: Path, records: Sequence[bytes]) -> None:
    from rl_datasets.rlds.quiet_tensorflow import tf

    try:
        with tf.io.TFRecordWriter(str(file)) as writer:
            for record in records:
                writer.write(record)
    except tf.errors.OpError as fault:
        raise OSError(fault.message) from fault


def _read_much(file: Path) -> Iterator[bytes]:
    from rl_datasets.rlds.quiet_tensorflow import tf

    try:
        yield from tf.compat.v1.io.tf_record_iterator(str(file))
    except tf.errors.OpError as fault:
        raise DamagedFile(fault.message) from fault


class Checksums:
    """Whether frames have the checksums that are stored, for many at once.

    The CRC of an XOR is the XOR of CRCs, so what is looked at are sums of frames, chosen so that no two frames are in the same ones:
    one wrong frame is seen, and so are two; that more of them escape takes intent, or one chance in four billion.
    """

    def __init__(self) -> None:
        self._heads_hold = True
        self._sums: defaultdict[tuple[int, int], list[np.ndarray]] = defaultdict(list)  # by width, and in which sums they are

    def add(self, frames: np.ndarray) -> None:
        """Adds frames [M, size] uint8. What stands around their records is overwritten.

        Of the head is left the register's begin, and of the checksum what it says of the register behind the record: together they
        leave nothing in it.
        """
        size = frames.shape[1] - HEAD - TAIL
        self._heads_hold &= bool((frames[:, :HEAD] == _head(size)).all())
        stored = np.ascontiguousarray(frames[:, -TAIL:]).view("<u4")
        rotated = stored - _MASK
        stored[...] = ~((rotated >> np.uint32(17)) | (rotated << np.uint32(15)))
        frames[:, -TAIL:] = stored.view(np.uint8)
        begin = HEAD - len(_BEGIN)
        frames[:, begin:HEAD] = np.frombuffer(_BEGIN, np.uint8)
        for kind, sums in enumerate(_sums(frames[:, begin:])):
            self._sums[_width(sums.shape[1]), kind].append(sums)

    def hold(self) -> bool:
        """Whether all do."""
        return self._heads_hold and not any(_linear(_halves(_to_the_right(sums, width))).any() for (width, _), sums in self._sums.items())


@lru_cache(maxsize=1 << 14)
def _head(size: int) -> np.ndarray:
    """Returns what stands before a record of this size, [HEAD] uint8."""
    (checksum,) = masked_checksums([size.to_bytes(8, "little")]).tolist()
    return np.frombuffer(_framed(size, checksum), np.uint8)


def _to_the_right(arrays: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Returns the rows of all arrays, none wider than `width`, with zeros in front of them, which change nothing in a CRC."""
    rows, end = np.zeros((sum(map(len, arrays)), width), np.uint8), 0
    for array in arrays:
        start, end = end, end + len(array)
        rows[start:end, width - array.shape[1] :] = array
    return rows


def masked_checksums(contents: Sequence[bytes]) -> np.ndarray:
    """Returns [N] uint32: the checksums of some contents as they are stored."""
    crc = checksums(contents)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + _MASK


def checksums(contents: Sequence[bytes]) -> np.ndarray:
    """Returns [N] uint32: the CRC-32C of some contents; those of about one size are computed together."""
    found = np.empty(len(contents), np.uint32)
    widths = np.array([_width(len(_BEGIN) + len(content)) for content in contents])
    for width in np.unique(widths).tolist():
        alike = np.flatnonzero(widths == width)
        for some in np.array_split(alike, min(len(alike), len(alike) * width // _BLOCK + 1)):
            rows = b"".join([(_BEGIN + contents[number]).rjust(width, b"\0") for number in some.tolist()])
            found[some] = ~_linear(np.frombuffer(rows, np.uint8).reshape(len(some), width))
    return found


def _width(length: int) -> int:
    """Returns the least number of bytes, four times a power of two, that is not below the length."""
    return 4 << (max(length - 1, 0) // 4).bit_length()


def _linear(rows: np.ndarray) -> np.ndarray:
    """Returns [N] uint32: of bytes [N, length], the linear part of their CRC, which zeros before them do not change.

    What stands in one half of a row is what would stand in the other, so many bytes later; halves are joined until one word is left.
    """
    count, length = rows.shape
    width = _width(length)
    padded = rows if width == length else np.concatenate([np.zeros((count, width - length), np.uint8), rows], axis=1)
    words = np.ascontiguousarray(padded).view("<u4")
    for level in range(width.bit_length() - 3):
        words = _moved(words[:, ::2], level) ^ words[:, 1::2]
    return _moved(words[:, 0], 0)


def _moved(registers: np.ndarray, level: int) -> np.ndarray:
    """Returns what the register becomes over 4 * 2**level bytes of zeros, for any number of registers."""
    low, high = _moves(level)
    moved: np.ndarray = low[registers & 0xFFFF] ^ high[registers >> 16]
    return moved


@lru_cache(maxsize=64)
def _moves(level: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns `_moved` of each number of 16 bits, [65536] uint32: of the register's lower half, and of its upper half."""
    bits: np.ndarray = np.uint32(1) << np.arange(32, dtype=np.uint32)
    if level:
        bits = _moved(_moved(bits, level - 1), level - 1)
    else:
        for _ in range(32):
            bits = (bits >> 1) ^ np.where(bits & 1, _POLYNOMIAL, 0).astype(np.uint32)
    halves = []
    for half in (bits[:16], bits[16:]):
        table = np.zeros(1, np.uint32)
        for bit in half:
            table = np.concatenate([table, table ^ bit])
        halves.append(table)
    return halves[0], halves[1]


def _sums(rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns XORs of rows [N, W] so that any two rows are not in the same of them: those of a table's columns, and of its rows."""
    if len(rows) < 3:
        return (rows,)
    side = isqrt(len(rows) - 1) + 1
    full = len(rows) // side
    table, rest = rows[: full * side].reshape(full, side, -1), rows[full * side :]
    down, along = np.bitwise_xor.reduce(table, axis=0), np.bitwise_xor.reduce(table, axis=1)
    if len(rest):
        down[: len(rest)] ^= rest
        along = np.concatenate([along, np.bitwise_xor.reduce(rest, axis=0, keepdims=True)])
    return down, along


def _halves(rows: np.ndarray) -> np.ndarray:
    """Returns XORs of rows [N, W] uint8, W a multiple of four: of all, of the later half, of the halves' later halves, and so on.

    These are about log2(N) + 1 sums.
    """
    rows, sums = rows.view(np.uint32).copy(), []
    while len(rows) > 1:
        half = (len(rows) + 1) // 2
        low, high = rows[:half], rows[half:]
        sums.append(np.bitwise_xor.reduce(high, axis=0))
        low[: len(high)] ^= high
        rows = low
    return np.array([*sums, rows[0]]).view(np.uint8)
