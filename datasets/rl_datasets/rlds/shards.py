"""Cuts one stream of TFRecords into shards without knowing beforehand how many there will be.

Records go to parts of about 64 MB. A TFRecord file is only its records end to end, so at the end the parts are either the
shards, or are cut anew at other records. The cut depends on the records alone.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from rl_datasets.rlds.quiet_tensorflow import tf

SHARD_BYTES = 64 * 2**20
MIN_SHARDS = 8  # so that several readers have work; fewer only where there are fewer episodes
_FRAME = 16  # bytes around each record: length, its checksum, the content's checksum
_CHUNK = 2**20  # bytes copied at once


class ShardWriter:
    """A context that takes records; `finish` gives them their files. Memory does not grow but for one number a record."""

    def __init__(self, folder: Path, split: str, shard_bytes: int = SHARD_BYTES):
        self.sizes: list[int] = []  # of each record, with its frame
        self._prefix = folder / f".{split}.part"
        self._shard_bytes = shard_bytes
        self._parts: list[int] = []  # records in each
        self._part_size = 0
        self._writer: tf.io.TFRecordWriter | None = None

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, record: bytes) -> None:
        if self._writer is None:
            self._writer = tf.io.TFRecordWriter(str(self._part(len(self._parts))))
            self._parts.append(0)
            self._part_size = 0
        self._writer.write(record)
        self._parts[-1] += 1
        self.sizes.append(len(record) + _FRAME)
        self._part_size += self.sizes[-1]
        if self._part_size >= self._shard_bytes:
            self._close_part()

    @property
    def content_bytes(self) -> int:
        return sum(self.sizes) - _FRAME * len(self.sizes)

    def shard_lengths(self, shards: int | None) -> list[int]:
        """Returns the number of records of each shard: as many shards as asked, or parts as they are but at least eight."""
        if shards is None and len(self._parts) >= MIN_SHARDS:
            return list(self._parts)
        count = min(shards or MIN_SHARDS, len(self.sizes))
        edges = [len(self.sizes) * i // count for i in range(count + 1)]
        return [end - start for start, end in pairwise(edges)]

    def finish(self, files: Sequence[Path], lengths: Sequence[int]) -> None:
        """Moves the records into these files, so many each, and removes the parts."""
        self._close_part()
        if list(lengths) == self._parts:
            for number, file in enumerate(files):
                self._part(number).rename(file)
            return
        start, sizes = 0, []
        for length in lengths:
            sizes.append(sum(self.sizes[start : start + length]))
            start += length
        _recut([self._part(number) for number in range(len(self._parts))], files, sizes)

    def _close_part(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _part(self, number: int) -> Path:
        return self._prefix.with_name(f"{self._prefix.name}-{number:05d}")


def _recut(parts: Sequence[Path], files: Sequence[Path], sizes: Sequence[int]) -> None:
    """Writes all bytes of the parts, end to end, into files of these sizes. A part is removed once it is read."""
    remaining = iter(parts)
    part = next(remaining)
    source = part.open("rb")
    for file, size in zip(files, sizes, strict=True):
        with file.open("wb") as target:
            while size:
                if chunk := source.read(min(size, _CHUNK)):
                    target.write(chunk)
                    size -= len(chunk)
                else:
                    source.close()
                    part.unlink()
                    part = next(remaining)
                    source = part.open("rb")
    source.close()
    part.unlink()
