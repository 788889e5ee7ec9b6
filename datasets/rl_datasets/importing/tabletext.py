"""CSV, TSV and JSON lines, also compressed, parsed block by block into an Arrow file. Types are those that the values show."""

import bz2
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json

from rl_datasets.errors import HindcastError
from rl_datasets.importing.source import kind_of, kind_of_content, refuse_kind

TYPES: Mapping[str, Any] = {"text": pa.string(), "float64": pa.float64(), "int64": pa.int64(), "bool": pa.bool_()}
_PARSED_AT_ONCE, _PARSED_BY_A_THREAD = 2**24, 2**20  # bytes
_WIDER = {"null": pa.float64(), "int64": pa.float64(), "bool": pa.string(), "double": pa.string()}  # for a value that doesn't fit
_MISFIT = re.compile(r"CSV column #(\d+).*conversion error to (\w+)", re.DOTALL)


def parse_text(path: Path, target: Path, types: Mapping[str, str]) -> None:
    """Writes a text file's rows as an Arrow file. Raises HindcastError, or an ArrowException, where it is no table."""
    name = path.name.lower()
    with opened(path) as source:
        refuse_kind(path, kind_of_content(source))
    if kind_of(path) in ("gzip", "bzip2", "zstd"):
        name = name.rpartition(".")[0]
    if name.endswith((".csv", ".tsv", ".txt")):
        _parse_csv(path, target, types, "\t" if name.endswith(".tsv") else ",")
    elif name.endswith((".json", ".jsonl", ".ndjson")):
        _parse_json(path, target)
    else:
        raise HindcastError(
            f"{path} is no Parquet or Arrow file, and its name tells no table of text. Name it .csv, .tsv or .jsonl, as what it is."
        )


def _parse_csv(path: Path, target: Path, types: Mapping[str, str], delimiter: str) -> None:
    """The first block decides on types; where a later value does not fit one, all is read again with a wider one."""
    known = {name: _declared(path, name, value) for name, value in types.items()}
    parse = pa.csv.ParseOptions(delimiter=delimiter)
    names: list[str] = []
    while True:
        try:
            with opened(path) as source:
                tables = _csv_tables(source, parse, known)
                first = next(tables)
                names = first.schema.names
                _write(target, first.schema, (batch for table in chain([first], tables) for batch in table.to_batches()))
        except pa.ArrowInvalid as error:
            misfit = _MISFIT.search(str(error))
            names = names or _csv_names(path, parse)
            wider = misfit and names[int(misfit[1])] not in types and _WIDER.get(misfit[2])
            if not wider or not misfit:
                raise
            known[names[int(misfit[1])]] = wider
        else:
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise HindcastError(f"{path} has two columns named '{twice}'. Rename one of them.")
            return


def _csv_tables(source: IO[bytes], parse: Any, types: Mapping[str, Any]) -> Iterator[Any]:
    """Yields some megabytes of whole lines at a time, parsed by all cores: several times as fast as Arrow's own reader of streams."""
    names: list[str] | None = None
    while text := source.read(_PARSED_AT_ONCE):
        text += source.readline()
        if names is not None and not text.strip():
            continue  # empty lines at the end
        read = pa.csv.ReadOptions(block_size=_PARSED_BY_A_THREAD, column_names=names)
        table = pa.csv.read_csv(pa.BufferReader(text), read, parse, pa.csv.ConvertOptions(column_types=types))
        if names is None:
            names, types = table.schema.names, dict(zip(table.schema.names, table.schema.types, strict=True))
        yield table.combine_chunks()
    if names is None:
        raise pa.ArrowInvalid("Empty CSV file")


def _csv_names(path: Path, parse: Any) -> list[str]:
    """The header alone, where the first block does not fit the declared types."""
    with opened(path) as source:
        return list(pa.csv.open_csv(source, parse_options=parse).schema.names)


def _parse_json(path: Path, target: Path) -> None:
    """The first block decides on fields and types; where a later one has others, all is read at once, which takes the memory of it all."""
    options = pa.json.ReadOptions(block_size=_PARSED_AT_ONCE)
    with suppress(pa.ArrowInvalid), opened(path) as source:
        reader = pa.json.open_json(source, read_options=options)
        _write(target, reader.schema, reader)
        return
    with opened(path) as source:
        table = pa.json.read_json(source, read_options=options)
    _write(target, table.schema, table.to_batches())


def _write(target: Path, schema: Any, batches: Iterable[Any]) -> None:
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write(batch)


def opened(path: Path) -> IO[bytes]:
    """The text of a file, without its compression."""
    kind = kind_of(path)
    if kind == "gzip":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if kind == "bzip2":
        return bz2.open(path, "rb")
    if kind == "zstd":
        return io.BytesIO(pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "zstd").read())  # its stream cannot go back
    return path.open("rb")


def _declared(path: Path, name: str, kind: str) -> Any:
    if kind not in TYPES:
        raise HindcastError(f"{path}: types.{name} is '{kind}'; expected one of {', '.join(TYPES)}.")
    return TYPES[kind]
