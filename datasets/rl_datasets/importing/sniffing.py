"""What the first lines of a CSV show of how it is written, beyond what is declared: each with its evidence, in the words of `Dialect`.

A sign is only what can be told; of a file that may be read in two ways, the evidence says so. Nothing is read by a sign alone: an import
refuses the file, and `inspect` writes the entry.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from rl_datasets.importing.dialect import Dialect, Sign, adopt

SAMPLE_BYTES = 2**16
NULLS = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan",
     "null")
)  # fmt: skip
MARKS = frozenset(
    ("-", "--", "---", "?", ".", "..", "*", "None", "none", "Null", "nil", "missing", "NaT", "N.A.", "n.a.", "na", "Na", "k.A.", "k. A.",
     "\\N", "#NV", "#WERT!", "#VALUE!", "#DIV/0!", "#REF!")
)  # fmt: skip
_SEPARATORS = (",", ";", "\t", "|", " ")
_SPELLED = {"\t": "a tab", " ": "a space", "\u00a0": "a no-break space", "\u202f": "a narrow no-break space"}
_COMMENTS = "#%!"
_CONSISTENT = 0.9  # of a table's lines have the same number of fields
_CLEARLY = 0.3  # more of the fields hold no other separator
_FEWEST_NUMBERS = 0.5  # of a column's values, where what else is there may be marks of missing ones
_EXPONENT = r"(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(rf"[+-]?(?:\d+\.?\d*|\.\d+){_EXPONENT}|[+-]?(?:inf|Inf|INF|infinity)")
_COMMA = re.compile(rf"[+-]?\d*,\d+{_EXPONENT}")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:([., '\u2019\u00a0\u202f])\d{3})(?:\1\d{3})*(?:(?!\1)([.,])\d+)?")
_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?:([ T])\d{1,2}:\d{2}(:\d{2})?)?")


class _Split(NamedTuple):
    """The lines of a sample at one separator. `first` is the first row that has as many fields as most."""

    sep: str
    rows: Sequence[Sequence[str]]
    line_before: Sequence[int]  # how many lines of the text stand before each row
    width: int
    first: int
    is_table: bool
    clean: float  # the part of all fields that hold no other separator


def sniff(sample: bytes, is_whole: bool, read: Dialect, typed: Collection[str] = ()) -> list[Sign]:
    """Returns what the first bytes of a file ask for, of which some may be declared otherwise; columns that are `typed` count as told."""
    signs = _encoding(sample, is_whole, read)
    text = sample.decode(adopt(read, signs).encoding, "replace").removeprefix("\ufeff")
    if not is_whole:
        text = text[: text.rfind("\n") + 1]
    split, found = _separator(text, read)
    signs += found
    if split is None:
        return signs
    before = _preamble(text, split, read)
    rows = split.rows[split.first :]
    header, named = _header(rows, read)
    columns = [[row[i] if i < len(row) else "" for row in rows[not read.names and not named :]] for i in range(split.width)]
    told = {name: values for name, values in zip(header, columns, strict=False) if name not in typed}
    return signs + before + named + _values(told, adopt(read, found))


def number_signs(name: str, value: str, read: Dialect) -> list[Sign]:
    """Returns what a value that is no number as declared asks for, in a column of numbers; nothing where it is simply a text."""
    if value in MARKS:
        return [Sign("na_values", (value,), f"column '{name}' is of numbers, but '{value}' beyond its first lines")]
    return _values({name: [value]}, read)


def encoding_sign(raw: bytes, at: int, encoding: str, line: int) -> Sign:
    """Returns the encoding that bytes seem to have which are not of the one that is declared, beginning with byte `at`."""
    likely = "cp1252" if any(0x80 <= byte <= 0x9F for byte in raw) else "latin-1"
    start, end = raw.rfind(b"\n", 0, at) + 1, raw.find(b"\n", at)
    around = raw[max(start, at - 12) : min(end if end >= 0 else len(raw), at + 12)]
    shown = around.decode(likely, "replace").strip()
    return Sign("encoding", likely, f"byte {raw[at]:02X} on line {line} is not {encoding}: read as {likely}, '{shown}' stands there")


def _encoding(sample: bytes, is_whole: bool, read: Dialect) -> list[Sign]:
    wide = next((mark for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if sample.startswith(mark)), None)
    if wide is not None and "16" not in read.encoding:
        return [Sign("encoding", "utf-16", f"its first bytes, {wide.hex(' ').upper()}, are those of UTF-16")]
    if "16" not in read.encoding and b"\0" in sample:
        ends = [sample[parity::2].count(b"\0") for parity in (0, 1)]
        likely = "utf-16-be" if ends[0] > ends[1] else "utf-16-le"
        return [Sign("encoding", likely, f"{sum(ends):,} of its first {len(sample):,} bytes are zero, as in UTF-16")]
    try:
        codecs.getincrementaldecoder(read.encoding)().decode(sample, final=is_whole)
    except UnicodeError as error:
        if _decodes(sample, "utf-8"):
            return [Sign("encoding", "utf-8", f"it is not {read.encoding}, but all of it is UTF-8")]
        at = error.start if isinstance(error, UnicodeDecodeError) else 0
        return [encoding_sign(sample, at, read.encoding, sample.count(b"\n", 0, at) + 1)]
    return []


def _decodes(sample: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeError:
        return False
    return True


def _separator(text: str, read: Dialect) -> tuple[_Split | None, list[Sign]]:
    """Returns the text at the separator that it seems to have, and a sign where that is another than the declared one."""
    assert read.sep is not None, "a separator is always given or the default"
    splits = {sep: _split(text, sep, read) for sep in dict.fromkeys((read.sep, *_SEPARATORS))}
    own = splits[read.sep]
    best = max(splits.values(), key=lambda split: (split.is_table, round(split.clean, 2), split.sep == read.sep))
    if not best.is_table or best is own or (own.is_table and best.clean - own.clean <= _CLEARLY):
        return (own if own.is_table else None), []
    line = text.split("\n")[best.line_before[best.first]].rstrip("\r")
    is_one = own.sep not in line
    seen = f"one column named '{line[:60]}'" if is_one else f"at {_spelled(own.sep)}, lines have unlike numbers of fields"
    return best, [Sign("sep", best.sep, f"{seen}, and {best.width} columns if split at {_spelled(best.sep)}")]


def _split(text: str, sep: str, read: Dialect) -> _Split:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sep, quotechar=read.quotechar)
    rows: list[Sequence[str]] = []
    line_before = [0]
    try:
        for row in reader:
            rows.append(row)
            line_before.append(reader.line_num)
    except csv.Error:  # what cannot be split at all
        rows, line_before = [], [0]
    counts = Counter(len(row) for row in rows[read.skiprows :] if row)
    width = max(counts, key=lambda count: (counts[count], count), default=0)
    first = next((i for i, row in enumerate(rows) if line_before[i] >= read.skiprows and len(row) == width), 0)
    body = [row for row in rows[first:] if row and not row[0].startswith(read.comment or "\0")]
    share = sum(len(row) == width for row in body) / len(body) if body else 0.0
    others = set(_SEPARATORS) - {sep, " "}
    fields = [field for row in body for field in row]
    clean = sum(not (others & set(field)) or bool(_COMMA.fullmatch(field) or _GROUPED.fullmatch(field)) for field in fields)
    return _Split(sep, rows, line_before, width, first, width > 1 and share >= _CONSISTENT, clean / (len(fields) or 1))


def _preamble(text: str, split: _Split, read: Dialect) -> list[Sign]:
    """Returns a sign where lines stand before the header that are not declared."""
    lines = text.split("\n")[: split.line_before[split.first]][read.skiprows :]
    told = [line.strip() for line in lines if line.strip() and not (read.comment and line.startswith(read.comment))]
    if not told:
        return []
    mark = told[0][0]
    if mark in _COMMENTS and all(line.startswith(mark) for line in told):
        are = "1 line before the header begins" if len(told) == 1 else f"{len(told)} lines before the header begin"
        return [Sign("comment", mark, f"{are} with '{mark}'")]
    skip = split.line_before[split.first]
    return [Sign("skiprows", skip, f"'{told[0][:60]}' stands before the header, which is on line {skip + 1}")]


def _header(rows: Sequence[Sequence[str]], read: Dialect) -> tuple[Sequence[str], list[Sign]]:
    """Returns the names of the columns, and a sign where no line names them: the first has numbers wherever all others have."""
    if read.names is not None:
        return read.names, []
    first, others = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    numbered = [i for i in range(len(first)) if others and all(_is_number(row[i]) or row[i] in NULLS for row in others)]
    told = [first[i] for i in numbered if first[i]]
    if not told or not all(map(_is_number, told)) or list(first) == [str(i) for i in range(len(first))]:
        return first, []
    names = tuple(f"column_{i}" for i in range(len(first)))
    shown = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
    return names, [Sign("names", names, f"its first line names no columns but holds values ({shown}), so name them")]


def _is_number(value: str) -> bool:
    return bool(_PLAIN.fullmatch(value) or _COMMA.fullmatch(value) or _GROUPED.fullmatch(value))


def _values(columns: dict[str, list[str]], read: Dialect) -> list[Sign]:
    """Returns signs of how numbers, missing values and times are written; `columns` are values by the column's name."""
    known = NULLS | set(read.na_values)
    told = {name: [value.strip() for value in values if value.strip() not in known] for name, values in columns.items()}
    numbers = {name: [value for value in values if _is_number(value)] for name, values in told.items()}
    mostly = {
        name: [value for value in values if value not in MARKS] == numbers[name] and len(numbers[name]) >= _FEWEST_NUMBERS * len(values) > 0
        for name, values in told.items()
    }
    signs = _numbers({name: values for name, values in numbers.items() if mostly[name]}, read)
    for name in (name for name in told if mostly[name]):
        marks = Counter(value for value in told[name] if value in MARKS)
        listed = {mark for sign in signs if sign.key == "na_values" for mark in sign.value}
        if new := sorted(set(marks) - listed):
            shown = " and ".join(f"'{mark}'" for mark in new)
            times = f"{sum(marks[mark] for mark in new):,} of the first {len(columns[name]):,} lines"
            signs.append(Sign("na_values", tuple(new), f"column '{name}' is of numbers, but {shown} on {times}"))
    return signs + list(_dates({name: values for name, values in told.items() if not mostly[name]}, read))


def _numbers(columns: dict[str, list[str]], read: Dialect) -> list[Sign]:
    """Returns signs of the decimal mark and of the mark between thousands, from the values of columns of numbers."""
    written = [(name, value) for name, values in columns.items() for value in values]
    signs = list(_decimals(written, read))
    return signs + list(_thousands(written, adopt(read, signs)))


def _decimals(written: Sequence[tuple[str, str]], read: Dialect) -> Iterator[Sign]:
    """Yields a sign where numbers have the other decimal mark, and none have the declared one."""
    found = {mark: next((pair for pair in written if _decimal(pair[1]) == mark), None) for mark in (",", ".")}
    other = "," if read.decimal == "." else "."
    if found[read.decimal] is None and (sure := found[other]) is not None:
        what = "comma" if other == "," else "point"
        yield Sign("decimal", other, f"column '{sure[0]}' holds '{sure[1]}', a number with a decimal {what}")
    elif found == {",": None, ".": None} and read.decimal == "." and read.sep != "," and read.thousands != ",":
        unclear = next((pair for pair in written if _COMMA.fullmatch(pair[1])), None)
        if unclear is not None:
            either = 'which may have a decimal comma, or (then thousands: ",") one between thousands'
            yield Sign("decimal", ",", f"column '{unclear[0]}' holds '{unclear[1]}', {either}")


def _thousands(written: Sequence[tuple[str, str]], read: Dialect) -> Iterator[Sign]:
    for name, value in written:
        match = None if _fits(value, read) else _GROUPED.fullmatch(value)
        if match is not None and match[1] != read.decimal and match[2] in (None, read.decimal):
            yield Sign("thousands", match[1], f"column '{name}' holds '{value}', with {_spelled(match[1])} between thousands")
            return


def _fits(value: str, read: Dialect) -> bool:
    """Whether a number is written as declared."""
    match = _GROUPED.fullmatch(value)
    if match is not None and match[1] == read.thousands:
        return match[2] in (None, read.decimal)
    return bool((_PLAIN if read.decimal == "." else _COMMA).fullmatch(value)) or value.lstrip("+-").isdigit()


def _decimal(value: str) -> str | None:
    """Returns the decimal mark of a number, where it can only be that: 1,5 and 1.234,5 and 0,125, but not 1,234."""
    match = _GROUPED.fullmatch(value)
    if match is not None:
        return match[2] or ("," if match[1] == "," and value.lstrip("+-").startswith("0") else None)
    return "," if _COMMA.fullmatch(value) else "." if "." in value else None


def _dates(columns: dict[str, list[str]], read: Dialect) -> Iterator[Sign]:
    """Yields a sign for the first column of dates that are not in ISO 8601."""
    for name, values in columns.items():
        matches = [_DATE.fullmatch(value) for value in values]
        if read.date_format is not None or not values or None in matches:
            continue
        found = [match for match in matches if match is not None]
        forms = {_date_format(match, found) for match in found}
        if len(forms) == 1:
            form, is_told = next(iter(forms))
            unsure = "" if is_told else ", and no value tells day from month"
            yield Sign("date_format", form, f"column '{name}' holds times such as '{values[0]}'{unsure}")
            return


def _date_format(match: re.Match[str], every: Sequence[re.Match[str]]) -> tuple[str, bool]:
    """Returns the format of a time, and whether values tell the day from the month."""
    first, second = (max(int(other[group]) for other in every) for group in (1, 3))
    is_month_first = second > 12 or (first <= 12 and second <= 12 and match[2] == "/")
    mark, year = match[2], "%Y" if len(match[4]) == 4 else "%y"
    date = mark.join(("%m", "%d", year) if is_month_first else ("%d", "%m", year))
    time = f"{match[5]}%H:%M{':%S' if match[6] else ''}" if match[5] else ""
    return date + time, first > 12 or second > 12


def _spelled(mark: str) -> str:
    return _SPELLED.get(mark, f"'{mark}'")
