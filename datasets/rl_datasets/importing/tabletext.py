"""CSV, TSV and JSON lines, also compressed, parsed block by block into an Arrow file. Types are those that the values show.

How a CSV is written is declared (`Dialect`); a file that shows something else is refused, with what was seen.
"""

import codecs
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json

from rl_datasets.errors import HindcastError
from rl_datasets.importing.dialect import Dialect, Sign, UndeclaredError
from rl_datasets.importing.sniffing import NULLS, SAMPLE_BYTES, encoding_sign, number_signs, sniff
from rl_datasets.importing.source import kind_of, kind_of_content, refuse_kind
from rl_datasets.importing.textblocks import head_of, opened, row_blocks

TYPES: Mapping[str, Any] = {"text": pa.string(), "float64": pa.float64(), "int64": pa.int64(), "bool": pa.bool_()}
_GROUPED = pa.large_string()  # the type of a column of numbers with a mark between thousands, until that is taken out
_PARSED_AT_ONCE, _PARSED_BY_A_THREAD = 2**24, 2**20  # bytes
_WIDER = {"null": pa.float64(), "int64": pa.float64(), "bool": pa.string(), "double": pa.string()}  # for a value that doesn't fit
_MISFIT = re.compile(r"CSV column #(\d+).*conversion error to (\w+)(?:: invalid value '(.*)')?", re.DOTALL)


class _MisfitError(Exception):
    """A value does not fit the type of its column. `error` is Arrow's."""

    def __init__(self, column: str, kind: str, value: str, error: pa.ArrowInvalid) -> None:
        self.column, self.kind, self.value, self.error = column, kind, value, error


def parse_text(path: Path, target: Path, types: Mapping[str, str], read: Dialect, most: int | None = None) -> bool:
    """Writes a text file's rows as an Arrow file, or those of its first `most` bytes; returns whether there are more.

    Raises UndeclaredError where a table is written otherwise than `read` says, and HindcastError or an ArrowException where it is none.
    """
    name = path.name.lower()
    with opened(path) as source:
        refuse_kind(path, kind_of_content(source))
    if kind_of(path) in ("gzip", "bzip2", "zstd"):
        name = name.rpartition(".")[0]
    if name.endswith((".csv", ".tsv", ".txt")):
        return _parse_csv(path, target, types, read, "\t" if name.endswith(".tsv") else ",", most)
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return _parse_json(path, target, most)
    raise HindcastError(
        f"{path} is no Parquet or Arrow file, and its name tells no table of text. Name it .csv, .tsv or .jsonl, as what it is."
    )


def _parse_csv(path: Path, target: Path, types: Mapping[str, str], declared: Dialect, separator: str, most: int | None) -> bool:
    """The first block decides on types; where a later value does not fit one, all is read again with a wider one."""
    known = {name: _declared(path, name, value, declared) for name, value in types.items()}
    read = declared.model_copy(update={"sep": declared.sep or separator})
    with opened(path) as source:
        sample = source.read(SAMPLE_BYTES)
        if signs := sniff(sample, not source.read(1), read, types):
            raise UndeclaredError(path, declared, signs)
    while True:
        try:
            with opened(path) as source:
                text, is_cut = head_of(source, most)
                tables = _csv_tables(row_blocks(text, read, min(_PARSED_AT_ONCE, most or _PARSED_AT_ONCE), is_cut), read, known)
                first = next(tables, None)
                if first is None and is_cut:
                    raise HindcastError(
                        f"{path}: no row ends in its first {most:,} bytes. A table of text has one row a line; write it so."
                    )
                if first is None:
                    raise pa.ArrowInvalid("Empty CSV file")
                _require_unlike(path, first.schema.names)
                _write(target, first.schema, (batch for table in chain([first], tables) for batch in table.to_batches()))
                return is_cut
        except UnicodeDecodeError as error:
            raise UndeclaredError(path, declared, [_misencoded(path, read.encoding)]) from error
        except _MisfitError as misfit:
            wider = misfit.column not in types and _wider(misfit.kind, read)
            if not wider:
                raise misfit.error from misfit
            if misfit.kind in ("int64", "double", "large_string") and (signs := number_signs(misfit.column, misfit.value, read)):
                raise UndeclaredError(path, declared, signs) from misfit
            known[misfit.column] = wider


def _wider(kind: str, read: Dialect) -> Any:
    """Returns the type to try after a value did not fit this one, or None."""
    return _GROUPED if kind == "double" and read.thousands else pa.string() if kind == str(_GROUPED) else _WIDER.get(kind)


def _csv_tables(blocks: Iterable[bytes], read: Dialect, types: Mapping[str, Any]) -> Iterator[Any]:
    """Yields a table a block of whole rows, parsed by all cores: several times as fast as Arrow's own reader of streams."""
    nulls = sorted(NULLS | set(read.na_values))
    times = [read.date_format, pa.csv.ISO8601] if read.date_format else []
    names = list(read.names) if read.names else None
    is_first = True
    for text in blocks:
        if text.isspace():
            continue  # empty lines at the end
        is_quoted = read.quotechar.encode() in text
        parse = pa.csv.ParseOptions(delimiter=read.sep, quote_char=read.quotechar, newlines_in_values=is_quoted)
        convert = pa.csv.ConvertOptions(column_types=types, null_values=nulls, decimal_point=read.decimal, timestamp_parsers=times)
        options = pa.csv.ReadOptions(block_size=_PARSED_BY_A_THREAD, column_names=names)
        try:
            table = pa.csv.read_csv(pa.BufferReader(text), options, parse, convert)
        except pa.ArrowInvalid as error:
            if (found := _MISFIT.search(str(error))) is None:
                raise
            known = names or pa.csv.open_csv(pa.BufferReader(text), parse_options=parse).schema.names
            raise _MisfitError(known[int(found[1])], found[2], found[3] or "", error) from error
        if is_first and read.thousands:
            types = {**types, **dict.fromkeys(_grouped(table, read, types), _GROUPED)}
        for name in (name for name, kind in types.items() if kind == _GROUPED and name in table.column_names):
            place = table.column_names.index(name)
            table = table.set_column(place, name, _without_thousands(name, table.column(place), read, nulls))
        if is_first:
            names = table.schema.names
            types = {**dict(zip(names, table.schema.types, strict=True)), **{n: kind for n, kind in types.items() if kind == _GROUPED}}
            is_first = False
        yield table.combine_chunks()


def _grouped(table: Any, read: Dialect, types: Mapping[str, Any]) -> list[str]:
    """Returns the columns of text all of whose values are numbers with a mark between thousands, or without one."""
    texts = [field.name for field in table.schema if pa.types.is_string(field.type) and field.name not in types]
    return [name for name in texts if pc.all(_is_number(table.column(name), read)).as_py()]


def _is_number(texts: Any, read: Dialect) -> Any:
    mark, point = re.escape(read.thousands or ""), re.escape(read.decimal)
    pattern = rf"^\s*([+-]?(\d{{1,3}}({mark}\d{{3}})+|\d+)({point}\d+)?([eE][+-]?\d+)?)?\s*$"
    return pc.or_(pc.match_substring_regex(texts, pattern), pc.is_in(texts, pa.array(sorted(NULLS | set(read.na_values)))))


def _without_thousands(name: str, texts: Any, read: Dialect, nulls: list[str]) -> Any:
    """Returns float64 numbers. Raises _MisfitError where a text is none."""
    plain = texts.cast(pa.string())
    fits = _is_number(plain, read)
    if not pc.all(fits, min_count=0).as_py():
        value = plain.filter(pc.invert(fits))[0].as_py()
        error = pa.ArrowInvalid(f"In CSV column '{name}': invalid number '{value}'")
        raise _MisfitError(name, str(_GROUPED), value, error)
    plain = pc.utf8_trim_whitespace(plain)
    plain = pc.if_else(pc.is_in(plain, pa.array(nulls)), None, pc.replace_substring(plain, read.thousands, ""))
    return pc.replace_substring(plain, read.decimal, ".").cast(pa.float64())


def _require_unlike(path: Path, names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise HindcastError(f"{path} has two columns named '{twice}'. Rename one of them.")


def _misencoded(path: Path, encoding: str) -> Sign:
    """Returns what is told by the first line that is not of the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    with opened(path) as source:
        for number, line in enumerate(chain(source, [b""]), start=1):
            try:
                decoder.decode(line, final=not line)
            except UnicodeDecodeError as error:
                return encoding_sign(error.object, error.start, encoding, number)
    raise HindcastError(f"{path} was changed while it was read. Run the import again.")


def _parse_json(path: Path, target: Path, most: int | None) -> bool:
    """The first block decides on fields and types; where a later one has others, all is read at once, which takes the memory of it all."""
    options = pa.json.ReadOptions(block_size=_PARSED_AT_ONCE)
    with suppress(pa.ArrowInvalid), opened(path) as source:
        text, is_cut = _whole_lines(path, source, most)
        reader = pa.json.open_json(text, read_options=options)
        _write(target, reader.schema, reader)
        return is_cut
    with opened(path) as source:
        text, is_cut = _whole_lines(path, source, most)
        table = pa.json.read_json(text, read_options=options)
    _write(target, table.schema, table.to_batches())
    return is_cut


def _whole_lines(path: Path, source: IO[bytes], most: int | None) -> tuple[IO[bytes], bool]:
    text, is_cut = head_of(source, most)
    if not is_cut:
        return text, False
    head = text.read()
    if b"\n" not in head:
        raise HindcastError(f"{path}: no line ends in its first {most:,} bytes. Write one object a line.")
    return io.BytesIO(head[: head.rfind(b"\n") + 1]), True


def _write(target: Path, schema: Any, batches: Iterable[Any]) -> None:
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write(batch)


def _declared(path: Path, name: str, kind: str, read: Dialect) -> Any:
    if kind not in TYPES:
        raise HindcastError(f"{path}: types.{name} is '{kind}'; expected one of {', '.join(TYPES)}.")
    return _GROUPED if kind == "float64" and read.thousands else TYPES[kind]
