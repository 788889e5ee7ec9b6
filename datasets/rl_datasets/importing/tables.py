"""Tables in text or columnar files as a part: `TablePart`. Only this file, `tabletext` and `textblocks` know Arrow.

Parquet is read row group by row group. Text is parsed once into an Arrow file in a temporary folder, which is mapped into memory.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from rl_datasets.errors import HindcastError
from rl_datasets.importing.dialect import Dialect
from rl_datasets.importing.parts import TIME, BasePart, Column, Scratch
from rl_datasets.importing.source import require_kind
from rl_datasets.importing.tabletext import parse_text
from rl_datasets.schema import TEXT

_COUNT = "count"
Step = int | str  # into a nested column: the number of a struct's field, or _COUNT


class Blocks(NamedTuple):
    """A columnar file: runs of rows, each read one column at a time."""

    schema: Any
    lengths: Sequence[int]
    read: Callable[[int, str], Any]  # (number of a run, name of a column) -> pyarrow array
    close: Callable[[], None]
    is_cut: bool = False  # the file has more rows than these


class TablePart(BasePart):
    """One file. A column is decoded for a run of the file's rows at a time, of which the last is kept."""

    def __init__(
        self,
        path: Path,
        label: str,
        types: Mapping[str, str],
        read: Dialect = Dialect(),  # noqa: B008  # it is frozen
        kept: Scratch | None = None,
        most: int | None = None,
    ) -> None:
        """`kept` holds what a text is parsed into beyond the life of the part; opened with it again, the text is not parsed again.

        Of a text no more than the first `most` bytes are parsed; `is_cut` then says whether there are more.
        """
        self._scratch, self._is_kept = kept or Scratch(), kept is not None
        self._kept: dict[str, tuple[int, Any]] = {}  # by column of the file: the run that was read last
        try:
            self._blocks = _open(path, self._scratch, types, read, most)
            self.is_cut = self._blocks.is_cut
            found = list(self._described())
        except HindcastError:
            self._close_scratch()
            raise
        except (pa.ArrowException, OSError, EOFError, ValueError) as error:
            self._close_scratch()
            raise HindcastError(
                f"{path} cannot be read as a table: {' '.join(str(error).split())}. Mend the file, or download it again."
            ) from error
        self._edges = np.concatenate([[0], np.cumsum(self._blocks.lengths, dtype=np.int64)])
        self._places = {column.name: (root, steps) for column, root, steps in found}
        super().__init__(str(path), label, {column.name: column for column, _, _ in found})

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        number = max(int(np.searchsorted(self._edges, start, side="right")) - 1, 0)
        blocks, row = [], start
        while row < stop:
            first, end = int(self._edges[number]), min(stop, int(self._edges[number + 1]))
            values = self._values(name, number).slice(row - first, end - row)
            blocks.append(to_numpy(values, self.columns[name], self.name, row))
            row, number = end, number + 1
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks) if blocks else np.zeros((0, *self.columns[name].shape))

    def close(self) -> None:
        self._kept.clear()
        self._blocks.close()
        self._close_scratch()

    def _close_scratch(self) -> None:
        if not self._is_kept:
            self._scratch.close()

    def _values(self, name: str, number: int) -> Any:
        root, steps = self._places[name]
        if self._kept.get(root, (-1, None))[0] != number:
            self._kept[root] = number, self._blocks.read(number, root)
        return _descend(self._kept[root][1], steps)

    def _described(self) -> Iterator[tuple[Column, str, tuple[Step, ...]]]:
        rows = sum(self._blocks.lengths)
        first = next((number for number, length in enumerate(self._blocks.lengths) if length), None)
        for field in self._blocks.schema:
            sample = pa.nulls(0, field.type) if first is None else self._blocks.read(first, field.name)
            for name, steps, values in _flattened(field.name, (), sample):
                yield Column(name, *_described(values), rows, may_miss=True), field.name, steps


def to_numpy(values: Any, column: Column, where: str, row: int) -> np.ndarray:
    """Returns [n, ...] of the column's row shape; missing numbers are NaN, and missing texts None."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if column.dtype == TIME:
        values = _in_iso_8601(values)
    if column.is_text:
        return np.asarray(values.to_numpy(zero_copy_only=False), object)
    if not column.shape:
        return _scalars(values)
    flat = values
    for level, width in enumerate(column.shape):
        lengths = pc.fill_null(_lengths(flat), 0).to_numpy(zero_copy_only=False)
        wrong = lengths != width
        if wrong.any():
            place = int(wrong.argmax())
            raise HindcastError(
                f"{where}, row {row + place // int(np.prod(column.shape[:level]))}: '{column.name}' has {lengths[place]} elements, but "
                f"the first row has {width}. Rows have one shape; mend the row or ignore the column."
            )
        flat = flat.flatten()
    return _scalars(flat).reshape(len(values), *column.shape)


def _scalars(values: Any) -> np.ndarray:
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    if values.null_count and pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _lengths(values: Any) -> Any:
    if pa.types.is_fixed_size_list(values.type):
        return pc.if_else(values.is_valid(), values.type.list_size, 0)
    return pc.list_value_length(values)


def _flattened(name: str, steps: tuple[Step, ...], values: Any) -> Iterator[tuple[str, tuple[Step, ...], Any]]:
    """Yields (name of the column, steps to it, its values) for the columns that a nested one stands for."""
    kind = values.type
    if pa.types.is_struct(kind):
        for index, field in enumerate(kind):
            yield from _flattened(f"{name}.{field.name}", (*steps, index), _descend(values, (index,)))
    elif _is_list(kind) and not _is_number(_innermost(kind)):
        yield f"{name}.{_COUNT}", (*steps, _COUNT), _descend(values, (_COUNT,))
    else:
        yield name, steps, values


def _descend(values: Any, steps: tuple[Step, ...]) -> Any:
    for step in steps:
        values = _lengths(values).cast(pa.int64()) if step == _COUNT else pc.struct_field(values, [step])
    return values


def _described(values: Any) -> tuple[str, tuple[int, ...]]:
    """Returns the dtype and the shape of a row, which for lists of any length is that of the first."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if _is_text(kind):
        return TEXT, ()
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return TIME, ()
    shape: tuple[int, ...] = ()
    while _is_list(kind):
        lengths = _lengths(values).drop_null()
        shape = (*shape, kind.list_size if pa.types.is_fixed_size_list(kind) else lengths[0].as_py() if len(lengths) else 0)
        values, kind = values.flatten(), kind.value_type
    if pa.types.is_null(kind) or pa.types.is_decimal(kind):
        return "float64", shape
    return (np.dtype(kind.to_pandas_dtype()).name if _is_number(kind) else str(kind)), shape


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _in_iso_8601(values: Any) -> Any:
    """Returns dates and times as texts such as 2026-01-31T12:00:00.5; those of a zone in UTC, with a Z; and times of day as 12:00:00."""
    if pa.types.is_time(values.type):
        return values.cast(pa.string())
    if pa.types.is_date(values.type):
        return values.cast(pa.date32()).cast(pa.string())
    is_zoned = values.type.tz is not None
    texts = values.cast(pa.timestamp(values.type.unit)).cast(pa.string())
    texts = pc.replace_substring(texts, " ", "T")
    texts = pc.replace_substring_regex(texts, r"\.?0*$", "") if values.type.unit != "s" else texts
    return pc.binary_join_element_wise(texts, "Z", "") if is_zoned else texts


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind))


def _innermost(kind: Any) -> Any:
    while _is_list(kind):
        kind = kind.value_type
    return kind


def _open(path: Path, scratch: Scratch, types: Mapping[str, str], read: Dialect, most: int | None) -> Blocks:
    kind = require_kind(path, "parquet", "arrow", "gzip", "bzip2", "zstd", "other")
    if kind == "parquet":
        return _parquet(path)
    is_cut = False
    if kind != "arrow":
        target = scratch.path / "table.arrow"
        if not target.exists():
            is_cut = parse_text(path, target.with_suffix(".part"), types, read, most)
            target.with_suffix(".part").rename(target)
        path = target
    source = pa.memory_map(str(path))
    file = pa.ipc.open_file(source)
    lengths = [file.get_batch(number).num_rows for number in range(file.num_record_batches)]
    return Blocks(file.schema, lengths, lambda number, name: file.get_batch(number).column(name), source.close, is_cut)


def _parquet(path: Path) -> Blocks:
    file = pq.ParquetFile(path)
    lengths = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]

    def read(number: int, name: str) -> Any:
        column = file.read_row_group(number, columns=[name]).column(name).combine_chunks()
        return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column

    return Blocks(file.schema_arrow, lengths, read, file.close)
