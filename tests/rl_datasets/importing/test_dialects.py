"""Tables written in every way: refused with what was seen where it is not declared, and read as the plain one where it is."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rl_datasets.builder import Context, load_builder
from rl_datasets.errors import HindcastError
from rl_datasets.importing import tabletext
from rl_datasets.importing.dialect import Dialect, adopt
from rl_datasets.importing.sniffing import sniff
from rl_datasets.importing.tables import TablePart
from rl_datasets.inspection.inspect import inspect
from rl_datasets.schema import Episode

NAMES = ["batch", "minute", "heat", "mass", "fan", "taste", "baker"]
MAPPING = {
    "env_id": "Oven",
    "observation": {"columns": ["heat", "mass"], "missing": -1},
    "action": {"columns": "fan", "categories": ["high", "low"]},
    "reward": "taste",
    "ends": {"kind": "ids", "column": "batch", "sequence": "minute"},
    "metadata": {"baker": "baker"},
}
HEAT = [(0.5, 1000.25), (20.5, -2345.5), (21.25, 30.125), (100.5, 999999.5), (-3.75, 4.5)]
ROWS = [("N", minute, *values, "high" if minute % 2 else "low", minute / 4, "Bärbel") for minute, values in enumerate(HEAT)]
ROWS += [("S", minute, *values, "low", -minute / 4, "Jörg") for minute, values in enumerate(reversed(HEAT))]


class Writing(NamedTuple):
    """How a table is written, and what an entry must say to have it read."""

    read: dict[str, Any]
    sep: str = ","
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"
    before: str = ""
    has_header: bool = True
    missing: str | None = None  # stands in the place of the heat of every third row
    quoted: bool = False
    end: str = "\n"
    baker: Callable[[str], str] = str

    def number(self, value: float, row: int, is_heat: bool) -> str:
        if is_heat and row % 3 == 2 and self.missing is not None:
            return self.missing
        return f"{value:,}".translate({ord(","): self.thousands, ord("."): self.decimal})

    def text(self) -> str:
        lines = [NAMES] if self.has_header else []
        for row, (batch, minute, heat, mass, fan, taste, baker) in enumerate(ROWS):
            numbers = [self.number(value, row, value is heat) for value in (heat, mass, taste)]
            lines.append([batch, str(minute), *numbers[:2], fan, numbers[2], self.baker(baker)])
        quote = '"' if self.quoted else ""
        return self.before + "".join(self.sep.join(f"{quote}{field}{quote}" for field in line) + self.end for line in lines)

    def write(self, path: Path) -> Path:
        path.write_bytes(self.text().encode(self.encoding))
        return path


WRITINGS: dict[str, tuple[Writing, list[str]]] = {
    "semicolons": (Writing({"sep": ";"}, sep=";"), ["one column named 'batch;minute;heat;", "7 columns if split at ';'"]),
    "tabs": (Writing({"sep": "\t"}, sep="\t"), ["7 columns if split at a tab"]),
    "bars": (Writing({"sep": "|"}, sep="|"), ["7 columns if split at '|'"]),
    "a European export": (
        Writing({"sep": ";", "decimal": ",", "encoding": "latin-1"}, sep=";", decimal=",", encoding="latin-1", end="\r\n"),
        ["byte E4 on line 2 is not utf-8", "Bärbel", "one column named 'batch;minute", "column 'heat' holds '0,5'", "decimal comma"],
    ),
    "one of Excel": (
        Writing({"sep": ";", "decimal": ",", "thousands": ".", "skiprows": 1}, ";", ",", ".", before="sep=;\r\n", end="\r\n"),
        ["'sep=;' stands before the header, which is on line 2", "'1.000,25', with '.' between thousands"],
    ),
    "quoted decimal commas": (Writing({"decimal": ","}, decimal=",", quoted=True), ["'0,5', a number with a decimal comma"]),
    "thousands": (Writing({"thousands": ","}, thousands=",", quoted=True), ["'1,000.25', with ',' between thousands"]),
    "narrow spaces": (
        Writing({"sep": ";", "decimal": ",", "thousands": "\u202f"}, ";", ",", "\u202f"),
        ["a narrow no-break space between thousands"],
    ),
    "UTF-16": (Writing({"encoding": "utf-16"}, encoding="utf-16"), ["its first bytes, FF FE, are those of UTF-16"]),
    "UTF-16 without a mark": (Writing({"encoding": "utf-16-be"}, encoding="utf-16-be"), ["bytes are zero, as in UTF-16"]),
    "the code page of Windows": (
        Writing({"encoding": "cp1252"}, encoding="cp1252", baker=lambda name: f"{name} \u2013 day"),
        ["read as cp1252", "Bärbel \u2013"],
    ),
    "comments": (Writing({"comment": "#"}, before="# oven 7\n# in; degrees, C\n"), ["2 lines before the header begin with '#'"]),
    "a title": (Writing({"skiprows": 3}, before="Oven report\n\nby; M\n"), ["'Oven report' stands before the header, which is on line 4"]),
    "no header": (Writing({"names": NAMES}, has_header=False), ["its first line names no columns but holds values "]),
    "a dash for what is missing": (
        Writing({"na_values": ["-"]}, missing="-"),
        ["column 'heat' is of numbers, but '-' on 3 of the first 10 lines", 'read: {na_values: ["-"]}', "types: {NAME: text}"],
    ),
}  # fmt: skip
AS_THEY_ARE = {
    "plain": Writing({}),
    "a byte order mark": Writing({}, encoding="utf-8-sig"),
    "quotes": Writing({}, quoted=True),
    "line breaks within quotes": Writing({}, quoted=True, baker=lambda name: f'{name},\n""S""'),
    "missing marks that everyone knows": Writing({}, missing="n/a"),
    "the line ends of Windows": Writing({}, end="\r\n"),
}


def imported(path: Path, read: dict[str, Any], **options: Any) -> list[Episode]:
    module = load_builder("table")
    builder = module.Builder(module.Options.model_validate({**MAPPING, "path": str(path), "read": read, **options}), Context("oven"))
    return list(builder.episodes(0))


def check(episodes: list[Episode], writing: Writing) -> None:
    expected = np.array(HEAT, np.float32)
    heat = {"N": expected.copy(), "S": expected[::-1].copy()}
    if writing.missing is not None:
        heat["N"][2, 0] = heat["S"][0, 0] = heat["S"][3, 0] = -1
    assert [episode.episode_id for episode in episodes] == ["N", "S"]
    for episode in episodes:
        np.testing.assert_array_equal(episode.observation, heat[episode.episode_id])
    assert episodes[0].reward.tolist() == [0, 0.25, 0.5, 0.75, 0]
    assert episodes[0].action.tolist() == [1, 0, 1, 0, 0]
    assert episodes[0].metadata["baker"] == writing.baker("Bärbel").replace('""', '"')


@pytest.mark.parametrize("name", WRITINGS)
def test_a_writing_is_refused_undeclared_and_read_declared(tmp_path: Path, name: str) -> None:
    writing, seen = WRITINGS[name]
    path = writing.write(tmp_path / "oven.csv")
    with pytest.raises(HindcastError) as error:
        imported(path, {})
    told = str(error.value)
    assert "\n" not in told
    assert all(words in told for words in seen), told
    assert all(f"{key}: " in told for key in writing.read), told
    check(imported(path, writing.read), writing)


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_what_a_file_itself_tells_needs_no_word(tmp_path: Path, name: str) -> None:
    check(imported(AS_THEY_ARE[name].write(tmp_path / "oven.csv"), {}), AS_THEY_ARE[name])


@pytest.mark.parametrize("name", [*WRITINGS, *AS_THEY_ARE])
@pytest.mark.parametrize("size", [40, 2**24])
def test_inspect_finds_each_and_writes_an_entry_that_imports_it(tmp_path, monkeypatch, name: str, size: int) -> None:
    monkeypatch.setattr(tabletext, "_PARSED_AT_ONCE", size)
    writing, seen = WRITINGS.get(name) or (AS_THEY_ARE[name], [])
    path = writing.write(tmp_path / "oven.csv")
    headed = NAMES if writing.has_header else [f"column_{i}" for i in range(len(NAMES))]
    found = inspect(path, {"observation": headed[2:4], "action": [headed[4]], "reward": [headed[5]]})
    told = [oddity.evidence for oddity in found.oddities if oddity.kind == "dialect"]
    assert bool(told) == bool(seen)
    options = YAML(typ="safe", pure=True).load(found.entry)["oven"]["options"]
    assert options.get("read", {}) == {**writing.read, **({} if writing.has_header else {"names": headed})}
    check(imported(path, {**options.get("read", {}), **({} if writing.has_header else {"names": NAMES})}), writing)


def test_what_shows_late_is_told_with_its_place(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tabletext, "_PARSED_AT_ONCE", 4096)
    lines = [f"N,{minute},{minute}.5,1,low,0,M" for minute in range(20_000)]
    for value, words in (("-", "'heat' is of numbers, but '-'"), ("1,5", "'heat' holds '1,5', a number with a decimal comma")):
        late = [*lines[:-1], lines[-1].replace("19999.5", f'"{value}"')]
        (tmp_path / "late.csv").write_text("\n".join([",".join(NAMES), *late]) + "\n")
        with pytest.raises(HindcastError, match=words):
            imported(tmp_path / "late.csv", {})
    (tmp_path / "late.csv").write_bytes("\n".join([",".join(NAMES), *lines[:-1], "N,19999,0,1,low,0,Jörg"]).encode("latin-1"))
    with pytest.raises(HindcastError, match=r"byte F6 on line 20001 is not utf-8: read as latin-1, ',0,1,low,0,Jörg' stands there"):
        imported(tmp_path / "late.csv", {})
    found = inspect(tmp_path / "late.csv", {"observation": ["heat"], "action": ["fan"], "reward": ["taste"]})
    assert (found.total_rows, found.is_whole, "read: {encoding: latin-1}" in found.entry) == (20_000, True, True)


def test_a_number_between_thousands_that_shows_late_widens_its_column(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tabletext, "_PARSED_AT_ONCE", 64)
    lines = [f"N;{minute};{minute},5;{'1.234' if minute == 30 else minute};low;0;M" for minute in range(40)]
    (tmp_path / "late.csv").write_text("\n".join([";".join(NAMES), *lines]) + "\n")
    read = {"sep": ";", "decimal": ",", "thousands": "."}
    assert imported(tmp_path / "late.csv", read)[0].observation[29:32].tolist() == [[29.5, 29], [30.5, 1234], [31.5, 31]]


def test_a_comma_that_may_be_either_is_told_as_such(tmp_path) -> None:
    lines = [f"N;{minute};2{minute % 10},125;1;low;0;M" for minute in range(20)]
    (tmp_path / "oven.csv").write_text("\n".join([";".join(NAMES), *lines]) + "\n")
    with pytest.raises(
        HindcastError, match=r"'20,125', which may have a decimal comma, or \(then thousands: \",\"\) one between thousands"
    ):
        imported(tmp_path / "oven.csv", {})
    assert imported(tmp_path / "oven.csv", {"sep": ";", "thousands": ","})[0].observation[0].tolist() == [20125, 1]
    assert imported(tmp_path / "oven.csv", {"sep": ";", "decimal": ","})[0].observation[0].tolist() == [20.125, 1]


@pytest.mark.parametrize(
    ("values", "form", "words", "first"),
    [
        (["31.01.2026 08:30", "01.02.2026 08:00"], "%d.%m.%Y %H:%M", "such as '31.01.2026 08:30'", "2026-01-31T08:30:00"),
        (["1/31/2026", "2/1/2026"], "%m/%d/%Y", "such as '1/31/2026'", "2026-01-31T00:00:00"),
        (["02/01/26 08:00:01", "02/01/26 08:00:02"], "%m/%d/%y %H:%M:%S", "and no value tells day from month", "2026-02-01T08:00:01"),
    ],
)
def test_times_that_are_not_in_iso_8601(tmp_path, values: list[str], form: str, words: str, first: str) -> None:
    lines = [f"N,{value},0,1,low,0,{value}" for value in values]
    (tmp_path / "oven.csv").write_text("\n".join([",".join(NAMES), *lines]) + "\n")
    with pytest.raises(HindcastError, match=words):
        imported(tmp_path / "oven.csv", {})
    part = TablePart(tmp_path / "oven.csv", "", {}, Dialect(date_format=form))
    assert part.columns["minute"].dtype == "time"
    assert part.read("minute", 0, 1).tolist() == [first]
    found = inspect(tmp_path / "oven.csv", {"action": ["fan"], "reward": ["taste"]})
    assert f'read: {{date_format: "{form}"}}' in found.entry


def test_what_is_text_is_left_alone(tmp_path) -> None:
    """Texts that look like other writings: lists within a text, versions, headers of numbers, names that a type declares."""
    for sample in (
        b'a,b,note\n1,2,"x;y;z"\n3,4,"u;v;w"\n',
        b"a,b,note\n1,2,x;y;z\n3,4,u;v;w\n",
        b"0,1,2\n5,6,7\n8,9,10\n",
        b"a,version\n1,1.2.3\n2,1.10.0\n",
        b"a,word\n1,-\n2,none\n",
        b"a,b\n",
        b"a\n1\n2\n",
    ):
        assert sniff(sample, True, Dialect(sep=",")) == []
    assert sniff(b"a;code\n1;-\n2;7\n3;8\n", True, Dialect(sep=";"), ["code"]) == []


def test_what_cannot_be_meant_is_refused(tmp_path) -> None:
    path = Writing({}).write(tmp_path / "oven.csv")
    with pytest.raises(ValueError, match="no encoding is named 'latin1x'"):
        imported(path, {"encoding": "latin1x"})
    with pytest.raises(HindcastError, match="it is not utf-16, but all of it is UTF-8"):
        imported(path, {"encoding": "utf-16"})
    with pytest.raises(HindcastError, match="7 columns if split at ','"):
        imported(path, {"sep": ";"})


def test_a_compressed_table_is_written_in_some_way_too(tmp_path) -> None:
    writing, _ = WRITINGS["a European export"]
    (tmp_path / "oven.csv.gz").write_bytes(gzip.compress(writing.text().encode(writing.encoding)))
    with pytest.raises(HindcastError, match="decimal comma"):
        imported(tmp_path / "oven.csv.gz", {})
    check(imported(tmp_path / "oven.csv.gz", writing.read), writing)


NUMBERS = st.floats(-1e5, 1e5, width=32).map(lambda value: round(value, 2))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=12),
    sep=st.sampled_from([",", ";", "\t", "|"]),
    marks=st.sampled_from([(".", ""), (",", ""), (",", "."), (".", ","), (",", "\u00a0"), (".", "'")]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
)
def test_what_is_found_reads_any_table_as_it_was_meant(tmp_path, rows, sep, marks, encoding) -> None:
    decimal, thousands = marks
    values = [(0.25, 1234.5), *rows]  # one of each, so that it can be told
    shown = [[f"{v:,.2f}".translate({ord(","): thousands, ord("."): decimal}) for v in row] for row in values]
    lines = [["trip", "höhe", "weit"], *([f"{i // 2}", *row] for i, row in enumerate(shown))]
    path = tmp_path / "any.csv"
    path.write_bytes("".join(sep.join(f'"{field}"' for field in line) + "\n" for line in lines).encode(encoding))
    signs = sniff(path.read_bytes(), True, Dialect(sep=","))
    mapping = {"env_id": "Any", "observation": ["höhe", "weit"], "action": "weit", "reward": "höhe", "bounds": "data"}
    read = adopt(Dialect(), signs)
    found = imported(path, read.model_dump(exclude_unset=True), **mapping, ends={"kind": "groups"}, metadata={}, ignore="trip")
    np.testing.assert_allclose(found[0].observation, np.array(values, np.float32), rtol=1e-6)


def test_the_page_names_every_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "import-a-table.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(Dialect.model_fields)
