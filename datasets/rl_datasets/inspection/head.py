"""The first rows of a part, in memory: as many as a stated number of bytes holds, and never half an episode that the file tells of."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.parts import BasePart, Column, Part

HEAD_BYTES = 64 * 2**20
TEXT_BYTES = 64  # that a text is taken to need


class Head(BasePart):
    """Columns of a part, cut to the same rows. `rows` of `total_rows` are here; what cannot be read is listed and has no values."""

    def __init__(self, part: Part, head_bytes: int = HEAD_BYTES) -> None:
        counts = row_counts(part)
        self.total_rows = counts[0] if counts else 0
        self.rows, self.episodes, lengths = _cut(part, self.total_rows, head_bytes)
        self.is_whole = self.rows == self.total_rows
        self.arrays: dict[str, np.ndarray] = {}
        columns = {}
        for name, column in part.columns.items():
            rows = self._rows_of(column)
            columns[name] = column._replace(rows=rows)
            if column.is_readable:
                self.arrays[name] = part.read(name, 0, rows)
        super().__init__(part.name, part.label, columns)
        if part.groups is not None:
            self.groups: Sequence[str] | None = list(part.groups)[: len(lengths)]
        self._lengths = lengths
        self._group_rows = {name: part.group_rows(name)[: len(lengths)] for name in columns} if part.groups is not None else {}

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        return self.arrays[name][start:stop]

    def group_rows(self, name: str) -> np.ndarray:
        return self._group_rows[name] if self.groups is not None else super().group_rows(name)

    def _rows_of(self, column: Column) -> int:
        """As many rows of a column as belong to the rows that are kept."""
        if self.rows == self.total_rows or column.rows == 1:
            return column.rows
        if column.rows >= self.total_rows:  # a row each, and perhaps one more an episode
            extra = self.episodes if self.episodes and column.rows > self.total_rows else 0
            return min(self.rows + extra, column.rows)
        return min(column.rows, self.episodes) if self.episodes else min(column.rows, self.rows)


def row_counts(part: Part) -> list[int]:
    """Returns the numbers of rows that columns have, the likeliest number of transitions first: the commonest, and of those the largest."""
    counts = Counter(column.rows for column in part.columns.values() if column.rows > 1)
    if not counts:
        return [column.rows for column in part.columns.values()][:1]
    return sorted(counts, key=lambda rows: (-counts[rows], -rows))


def episode_lengths(part: Part, rows: int) -> tuple[str, str, np.ndarray] | None:
    """Returns (name, "lengths" or "indices", lengths) of a short column of whole numbers that divides so many rows, or None."""
    for name, column in part.columns.items():
        if not (1 <= column.rows < rows and column.is_readable and not column.is_text and int(np.prod(column.shape)) == 1):
            continue
        if np.dtype(column.dtype).kind not in "iu":
            continue
        values = part.read(name, 0, column.rows).reshape(-1).astype(np.int64)
        if (values > 0).all() and int(values.sum()) == rows and len(values) > 1:
            return name, "lengths", values
        if len(values) > 1 and (np.diff(values) > 0).all() and values[0] > 0 and values[-1] <= rows and "ind" in name.lower() + _ends(name):
            edges = values if values[-1] == rows else values + 1 if values[-1] == rows - 1 else np.append(values, rows)
            return name, "indices", np.diff(np.concatenate([[0], edges]))
    return None


def _ends(name: str) -> str:
    """Whether a name says that it lists ends; "ind" where it does."""
    return "ind" if any(word in name.lower() for word in ("end", "split", "boundar", "offset")) else ""


def _cut(part: Part, total: int, head_bytes: int) -> tuple[int, int, np.ndarray]:
    """Returns the rows to keep, the episodes in them where the file tells of them (else 0), and their lengths."""
    row_bytes = sum(_bytes(column) for column in part.columns.values() if column.rows >= total > 0) or 1
    keep = max(head_bytes // row_bytes, 1)
    if part.groups is not None:
        main = next((name for name, column in part.columns.items() if column.rows == total), None)
        lengths = part.group_rows(main) if main else np.zeros(0, np.int64)
    else:
        told = episode_lengths(part, total)
        lengths = told[2] if told else np.zeros(0, np.int64)
    if keep >= total:
        return total, len(lengths), lengths
    if not len(lengths):
        return keep, 0, lengths
    count = int(np.searchsorted(np.cumsum(lengths), keep, side="right"))
    if count == 0:
        raise HindcastError(
            f"{part.name}: its first episode alone has {lengths[0]:,} rows, more than {head_bytes // 2**20} MiB hold. "
            "Write the entry by hand: datasets/README.md shows how."
        )
    return int(lengths[:count].sum()), count, lengths[:count]


def _bytes(column: Column) -> int:
    if not column.is_readable:
        return 0
    return TEXT_BYTES if column.is_text else np.dtype(column.dtype).itemsize * int(np.prod(column.shape, dtype=np.int64))
