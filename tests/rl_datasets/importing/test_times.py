"""Columns of times: texts in ISO 8601 as metadata, and an order of rows as a sequence."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl_datasets.builder import Context
from rl_datasets.builders.table import Builder, Options
from rl_datasets.errors import HindcastError
from rl_datasets.importing.tables import TablePart
from rl_datasets.inspection.inspect import inspect
from rl_datasets.schema import Episode

IDS = {"kind": "ids", "column": "run", "sequence": "stamp"}
ROWS = [  # (run, begun, stamp, o, a, r), not in their order
    ("b", "2026-02-01T00:00:00", "2026-02-01T00:01:00", 4, 0.1, 1),
    ("a", "2026-01-31T12:00:00", "2026-01-31T12:05:00", 3, 0.2, 1),
    ("b", "2026-02-01T00:00:00", "2026-02-01T00:00:00", 3, 0.3, 1),
    ("a", "2026-01-31T12:00:00", "2026-01-31T12:00:00.5", 1, 0.4, 1),
    ("a", "2026-01-31T12:00:00", "2026-01-31T12:00:01", 2, 0.5, 1),
]


def write(path: Path, rows: list[tuple[Any, ...]] = ROWS) -> Path:
    path.write_text("run,begun,stamp,o,a,r\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def imported(path: Path) -> tuple[list[Episode], str]:
    options = {"env_id": "Toy", "observation": "o", "action": "a", "reward": "r", "ends": IDS, "metadata": {"begun": "begun"}}
    builder = Builder(Options.model_validate(options), Context("log", source=path))
    builder.spec()
    return list(builder.episodes(0)), "\n".join(builder.notes)


def test_times_order_rows_and_are_kept_as_text(tmp_path: Path) -> None:
    episodes, notes = imported(write(tmp_path / "log.csv"))
    assert {e.episode_id: e.observation.reshape(-1).tolist() for e in episodes} == {"b": [3, 4], "a": [1, 2, 3]}
    assert [e.metadata["begun"] for e in episodes] == ["2026-02-01T00:00:00", "2026-01-31T12:00:00"]
    assert "'stamp' orders the rows of each episode by its times" in notes
    assert "metadata.begun: the times in 'begun' are kept as text in ISO 8601" in notes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [*rows, rows[0]], r"row 5: episode 'b' has 'stamp' 2026-02-01T00:01:00(\.0)? twice; expected each time once"),
        (lambda rows: [*rows, ("a", rows[1][1], "soon", 1, 1, 1)], "row 5 of 'stamp': found 'soon'; expected a whole number, or a time as"),
        (lambda rows: [*rows, ("a", rows[1][1], "", 1, 1, 1)], r"row 5 of 'stamp': found (None|'')"),
    ],
)
def test_what_is_no_order_is_refused(tmp_path: Path, change: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(HindcastError, match=words):
        imported(write(tmp_path / "log.csv", change(ROWS)))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.timestamp("s"), datetime(2026, 1, 31, 10, 20), "2026-01-31T10:20:00"),
        (pa.timestamp("us"), datetime(2026, 1, 31, 10, 20), "2026-01-31T10:20:00"),
        (pa.timestamp("ns"), datetime(2026, 1, 31, 10, 20, 30, 250000), "2026-01-31T10:20:30.25"),
        (pa.timestamp("ms", "Europe/Paris"), datetime(2026, 1, 31, 10, 20, tzinfo=UTC), "2026-01-31T10:20:00Z"),
        (pa.date32(), date(2026, 1, 30), "2026-01-30"),
        (pa.date64(), date(2026, 1, 30), "2026-01-30"),
    ],
)
def test_every_type_of_time_is_read_as_text(tmp_path: Path, kind: Any, value: Any, text: str) -> None:
    pq.write_table(pa.table({"begun": pa.array([value, None], kind)}), tmp_path / "times.parquet")
    part = TablePart(tmp_path / "times.parquet", "", {})
    assert part.columns["begun"].dtype == "time"
    assert part.read("begun", 0, 2).tolist() == [text, None]


def test_a_wish_for_metadata_is_met_or_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"r{run}", f"2026-01-{run + 1:02d}T00:00:00", f"2026-01-{run + 1:02d}T00:00:{step:02d}", step * 0.5 + run, step * 0.25, run)
        for run in range(5)
        for step in range(8)
    ]
    given = {"observation": ["o"], "action": ["a"], "reward": ["r"], "id": ["run"]}
    kept = inspect(write(tmp_path / "log.csv", rows), {**given, "metadata": ["begun"]})
    assert "metadata: {begun: begun}" in kept.entry
    assert "no_metadata" not in {oddity.kind for oddity in kept.oddities}
    refused = inspect(Path("log.csv"), {**given, "metadata": ["stamp"]})
    (told,) = [oddity.evidence for oddity in refused.oddities if oddity.kind == "no_metadata"]
    assert told.startswith("stamp: asked for as metadata, but not one value an episode")
    assert "sequence: stamp" in inspect(Path("log.csv"), {**given, "sequence": ["stamp"]}).entry
