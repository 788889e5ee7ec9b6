"""Which record tells of a run in the history, and a stage of the same name on other data."""

import json
from dataclasses import fields, replace

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.changes import other_data, version_of
from pipelines.lineage.history import history as runs_of
from pipelines.lineage.past_runs import execution_of
from pipelines.lineage.records import CODE, CONTENT, INTEGRITY, MACHINE, PACKAGES, PARAMETERS, RUN, Content, Record
from pipelines.lineage.revisions import run_project, stages_here
from pipelines.lineage.store import Store
from tests.pipelines.lineage.small_project import History, copy, edit, git, reproduce, write

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie
MADE = {"path": "raw/walks", "md5": "a" * 32 + ".dir"}


def entry(**values: object) -> dict:
    return {"cmd": "x", "deps": [{"path": "code.py", "md5": "1"}, MADE], "params": {"params.yaml": {"split": {"seed": 0}}}, **values}


def record(name: str, ended: str, **values: object) -> Record:
    empty = {field.name: {} if "Mapping" in str(field.type) else () if "tuple" in str(field.type) else "" for field in fields(Record)}
    given = {"code": {"code.py": "1"}, "parameters": {"split": {"seed": 0}}, "outcome": "COMPLETE", "launcher": "dvc repro"}
    return Record(**{**empty, **given, "path": name, "ended": f"2026-01-0{ended}T10:00:00+00:00", **values})


def test_the_record_of_a_run_was_given_and_wrote_what_the_lock_says():
    project = run_project({"split@walks": entry(outs=[{"path": "splits/walks.csv", "md5": "5"}])})
    stage, store = project.stages["split@walks"], Store(project)

    def chosen(*records: Record, until: str = "") -> str | None:
        found = execution_of(stage, store, records, until)
        return None if found is None else found.path

    first, second = record("first", "1"), record("second", "2")
    assert chosen(first, second) == "second"
    assert chosen(first, second, until="2026-01-01T12:00:00+02:00") == "first"  # its very second, in another zone
    assert chosen(second, until="2026-01-01T10:00:00+00:00") == "second"  # a clock that was wrong, or a commit that was made anew
    assert chosen(first, replace(second, launcher="by hand")) == "first"
    assert chosen(replace(first, inputs=(Content("raw/walks", md5="b" * 32),))) == "first"  # the hash of its manifest
    for other in (
        {"outcome": "FAIL"},
        {"code": {"code.py": "2"}},
        {"parameters": {"split": {"seed": 1}}},
        {"inputs": (Content("raw/walks", md5="b" * 32 + ".dir"),)},
        {"outputs": (Content("splits", files={"walks.csv": "6"}),)},
    ):
        assert chosen(replace(first, **other)) is None, other
    assert chosen(replace(first, outputs=(Content("splits", files={"walks.csv": "5"}),))) == "first"


def test_history_names_the_version_the_record_and_the_machine(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    parameters = stages_here()["collect@walks"]["params"]["params.yaml"]
    run = {"started": "2026-01-01T10:00:00+00:00", "command": [], "launcher": "dvc repro", "experiment": "", "baseline": ""}
    facets = {
        RUN: run,
        CODE: {"commit": "", "difference": "", "changed": [], "files": {}, "untracked": []},
        PARAMETERS: {"values": parameters, "seeds": {}},
        PACKAGES: {"packages": {}},
        MACHINE: {"processor": "Z80", "cores": 2, "accelerators": [], "python": "3.11"},
        INTEGRITY: {"digest": ""},
    }
    md5 = {item["path"]: item["md5"] for item in stages_here()["collect@walks"]["deps"]}["data/walks.csv"]
    read = {"name": "data/walks.csv", "facets": {CONTENT: {"digest": "", "md5": md5, "keeper": "git", "files": {}}}}
    event = {"eventTime": run["started"], "eventType": "COMPLETE", "job": {"name": "collect@walks"}, "inputs": [read], "outputs": []}
    path = "artifacts/records/collect@walks/20260101T100000-0.json"
    write(root / path, json.dumps({**event, "run": {"runId": "0", "facets": facets}}))
    expected = ["", f"COMPLETE 2026-01-01T10:00, dvc repro, on processor Z80, cores 2, python 3.11: {path}"]
    for step in ("on disk", "committed", "removed"):
        edited, first = runs_of("collect@walks")
        assert (edited.version, first.version) == ("1.0.0", "1.0.0")
        assert ["" if first.record is None else str(first.record), str(edited.record)] == expected, step  # the first run read other data
        if step == "on disk":
            git("add", "-f", path, root=root)
            git("commit", "-qm", "Record", root=root)
        elif step == "committed":
            git("rm", "-q", path, root=root)
            git("commit", "-qm", "Forget", root=root)
    output = CliRunner().invoke(app, ["history", "collect@walks"]).output
    assert "  collect@walks 1.0.0 was run again\n" in output
    assert f"    {expected[1]}\n" in output
    assert "  collect@walks 1.0.0 was run for the first time\n" in output


def test_a_run_on_other_data_is_the_first_one(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    edit(root / "params.yaml", "  walks: {", "  hikes: {")
    edit(root / "params.yaml", "dataset: walks", "dataset: hikes")
    reproduce(root, "Other data")
    newest = next(run for run in runs_of("walks_iql") if run.stage == "train@walks_iql")
    assert (newest.is_first, newest.other, newest.changes) == (True, ("walks",), ())
    output = CliRunner().invoke(app, ["history", "train@walks_iql"]).output
    assert "train@walks_iql was run for the first time on its data (before, it was of walks)" in output
    output = CliRunner().invoke(app, ["why", "train@walks_iql"]).output
    assert "It was run for the first time on its data; the one in" in output
    assert "was of walks." in output
    assert "absent" not in output


def test_data_are_other_ones_where_none_is_shared():
    def given(*keys: str) -> dict:
        return {"params": {"params.yaml": {key: {"version": "1.2.0"} for key in keys}}}

    assert other_data(given("datasets.a", "datasets.c"), given("datasets.b")) == ("a", "c")
    assert other_data(given("datasets.a", "datasets.c"), given("datasets.a", "datasets.b")) == ()
    assert other_data(given("datasets"), given("datasets.version")) == ()  # a data set that is named version
    assert other_data(given("split"), given("datasets.b")) == other_data(given("datasets.b"), given("split")) == ()
    assert version_of("collect@b", given("datasets.b")) == "1.2.0"
    assert version_of("train@x", given("datasets.b")) == ""
