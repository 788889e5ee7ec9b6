"""A part of a source: named columns that are read a block of rows at a time. What a builder makes of its kind of file.

No episode crosses from one part to another. A column has rows of its own number: one a row, one an episode, or one a file.
"""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import TEXT

TIME = "time"  # the dtype of dates and times, which are read as texts in ISO 8601
BLOCK_ROWS = 2**16


class Column(NamedTuple):
    """dtype is NumPy's name, TEXT, TIME, or the word for what cannot be read as an array. shape is that of a row.

    Where values may be missing, a block in which some are is read as float64, NaN in their place.

    Texts are read as an object array of str, None where missing.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    rows: int
    may_miss: bool = False

    @property
    def is_text(self) -> bool:
        return self.dtype in (TEXT, TIME)

    @property
    def is_readable(self) -> bool:
        if self.is_text:
            return True
        try:
            return np.dtype(self.dtype).kind in "biuf"
        except TypeError:
            return False


class Part(Protocol):
    """`groups` are the names of groups of rows, where the file has them; all columns are then the groups' rows end to end."""

    @property
    def name(self) -> str:
        """For messages: the path of the file."""
        ...

    @property
    def label(self) -> str:
        """What the ids of its episodes begin with; "" where it is the only part."""
        ...

    @property
    def columns(self) -> Mapping[str, Column]: ...

    @property
    def groups(self) -> Sequence[str] | None: ...

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows [start, stop) of a column, [stop - start, ...]."""
        ...

    def group_rows(self, name: str) -> np.ndarray:
        """The number of rows of a column in each group, int64 [G]."""
        ...

    def row_number(self, row: int) -> int:
        """The number of a row in the file, for messages."""
        ...

    def close(self) -> None: ...


class BasePart:
    """A part without groups, whose rows stand as they do in the file."""

    def __init__(self, name: str, label: str, columns: Mapping[str, Column]) -> None:
        self.name, self.label, self.columns = name, label, columns
        self.groups: Sequence[str] | None = None

    def group_rows(self, name: str) -> np.ndarray:
        """The whole part is one group."""
        return np.array([self.columns[name].rows], np.int64)

    def row_number(self, row: int) -> int:
        return row

    def close(self) -> None:
        """Nothing is open."""


class Scratch:
    """A temporary folder, made when its path is first asked for, and removed with the last reference to this at the latest."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._remove: Callable[[], object] = lambda: None

    @property
    def path(self) -> Path:
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="hindcast-"))
            self._remove = weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)
        return self._path

    def close(self) -> None:
        self._remove()


class ArrayPart(BasePart):
    """Arrays that lie in memory or are mapped into it. With `groups`, `lengths` gives the rows of each column in each."""

    def __init__(
        self,
        name: str,
        label: str,
        arrays: Mapping[str, np.ndarray],
        groups: Sequence[str] | None = None,
        lengths: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        super().__init__(name, label, {key: array_column(key, array) for key, array in arrays.items()})
        self.groups = groups
        self._arrays, self._lengths = arrays, lengths or {}

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        array = self._arrays[name]
        rows = array[start:stop] if array.ndim else array.reshape(1)
        if rows.dtype.kind == "S":
            rows = self._decoded(rows, name, start)
        return rows.astype(object) if rows.dtype.kind == "U" else np.asarray(rows)

    def _decoded(self, rows: np.ndarray, name: str, start: int) -> np.ndarray:
        try:
            return np.char.decode(rows, "utf-8")
        except UnicodeDecodeError as error:
            raise no_utf8(self, name, start, start + len(rows), error) from error

    def group_rows(self, name: str) -> np.ndarray:
        return self._lengths[name] if self.groups is not None else super().group_rows(name)


class OrderedPart(BasePart):
    """A part whose rows are read in another order. Columns are put in order in temporary files, so memory stays that of a block."""

    def __init__(self, part: Part, order: np.ndarray) -> None:
        super().__init__(part.name, part.label, part.columns)
        self._part, self._order = part, order
        self._scratch = Scratch()
        self._ordered: dict[str, np.ndarray] = {}

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        if self.columns[name].rows != len(self._order):
            return self._part.read(name, start, stop)
        if name not in self._ordered:
            self._ordered[name] = self._put_in_order(name)
        return np.asarray(self._ordered[name][start:stop])

    def row_number(self, row: int) -> int:
        return self._part.row_number(int(self._order[row]))

    def close(self) -> None:
        self._ordered.clear()
        self._scratch.close()

    def _put_in_order(self, name: str) -> np.ndarray:
        target = np.empty_like(self._order)
        target[self._order] = np.arange(len(target))
        ordered: np.ndarray | None = None
        for start in range(0, len(target), BLOCK_ROWS):
            block = self._part.read(name, start, min(start + BLOCK_ROWS, len(target)))
            if ordered is None:
                ordered = self._empty(len(self._ordered), block, len(target))
            ordered[target[start : start + len(block)]] = block
        assert ordered is not None, "there are rows to order"
        return ordered

    def _empty(self, number: int, like: np.ndarray, rows: int) -> np.ndarray:
        shape = (rows, *like.shape[1:])
        if like.dtype == object:
            return np.empty(shape, object)
        return np.lib.format.open_memmap(self._scratch.path / f"{number}.npy", "w+", like.dtype, shape)


def array_column(name: str, array: np.ndarray) -> Column:
    """A scalar counts as one row."""
    dtype = TEXT if array.dtype.kind in "US" else array.dtype.name
    return Column(name, dtype, tuple(array.shape[1:]), len(array) if array.ndim else 1)


def shown(value: Any) -> str:
    """Returns one value of a column as messages have it, such as 3.5 or 'word'."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def read_all(part: Part, name: str) -> np.ndarray:
    """Returns a whole column, block by block, so that what it is decoded from need not be in memory at once."""
    rows = part.columns[name].rows
    blocks = [part.read(name, start, min(start + BLOCK_ROWS, rows)) for start in range(0, rows, BLOCK_ROWS)]
    return np.concatenate(blocks) if blocks else part.read(name, 0, 0)


def no_utf8(part: Part, name: str, start: int, stop: int, error: UnicodeDecodeError) -> HindcastError:
    return HindcastError(
        f"{part.name}, rows {start} to {stop}: '{name}' holds bytes that are no UTF-8 ({error}). Save it as text, or ignore it."
    )


def require_readable(part: Part, name: str, where: str) -> None:
    """Raises HindcastError where a column holds something else than numbers or text."""
    column = part.columns[name]
    if column.dtype == "object":
        raise HindcastError(
            f"{part.name}: {where} names '{name}', a pickled object array. Unpickling runs code of the file, so it is never read. "
            "Save its content as plain arrays (numpy.savez without objects), or name another column."
        )
    if not column.is_readable:
        raise HindcastError(f"{part.name}: {where} names '{name}', which holds {column.dtype}; numbers or text are expected. Convert it.")
