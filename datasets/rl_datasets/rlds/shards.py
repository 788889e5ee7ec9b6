"""Shards: the files of a split, and how a stream of records is cut into them without knowing beforehand how many there will be.

Up to one shard's worth of records waits in memory. A small data set is cut from there; of a large one, each full load is
written to a file of its own. A TFRecord file is only its records end to end, so at the end these files are either the shards,
or are cut anew at other records. The cut depends on the records alone.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from rl_datasets.rlds.framing import HEAD, TAIL, write_records

SHARD_BYTES = 64 * 2**20
MIN_SHARDS = 8  # so that several readers have work; fewer only where there are fewer records
_CHUNK = 2**20  # bytes copied at once


class Shard(NamedTuple):
    """One file of a split."""

    split: str
    path: Path
    first: int  # number of its first episode in the split
    episodes: int


class ShardWriter:
    """Takes records by `write`; `finish` gives them their files."""

    def __init__(self, folder: Path, split: str, shard_bytes: int = SHARD_BYTES) -> None:
        self.sizes: list[int] = []  # of each record
        self._prefix = folder / f".{split}.part"
        self._shard_bytes = shard_bytes
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._parts: list[int] = []  # records in each file already written

    def write(self, record: bytes) -> None:
        self.sizes.append(len(record))
        self._waiting.append(record)
        self._waiting_bytes += len(record)
        if self._waiting_bytes >= self._shard_bytes:
            self._write_part()

    def shard_lengths(self, shards: int | None) -> list[int]:
        """Returns the number of records of each shard: as many shards as asked for, or of about 64 MB but at least eight."""
        if shards is None and len(self._parts) >= MIN_SHARDS:
            return [*self._parts, *([len(self._waiting)] if self._waiting else [])]
        count = min(shards or MIN_SHARDS, len(self.sizes))
        return [end - start for start, end in pairwise(len(self.sizes) * i // count for i in range(count + 1))]

    def finish(self, files: Sequence[Path], lengths: Sequence[int]) -> None:
        """Puts the records into these files, so many in each."""
        ends = list(accumulate(lengths, initial=0))
        if not self._parts:
            for file, (start, end) in zip(files, pairwise(ends), strict=True):
                write_records(file, self._waiting[start:end])
            return
        if self._waiting:
            self._write_part()
        parts = [self._part(number) for number in range(len(self._parts))]
        if self._parts == list(lengths):
            for part, file in zip(parts, files, strict=True):
                part.rename(file)
        else:
            _recut(parts, files, [sum(self.sizes[start:end]) + (HEAD + TAIL) * (end - start) for start, end in pairwise(ends)])

    def _write_part(self) -> None:
        write_records(self._part(len(self._parts)), self._waiting)
        self._parts.append(len(self._waiting))
        self._waiting, self._waiting_bytes = [], 0

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
