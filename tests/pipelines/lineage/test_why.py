"""Why a stage would run, and why it ran: each change is named with what it was and is, on a project that DVC itself has run."""

from dataclasses import fields

import pytest

from pipelines.commands.why import record_lines
from pipelines.lineage.changes import ABSENT, Change, Kind, flat, run_changes
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import Hasher
from pipelines.lineage.records import Record
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from pipelines.lineage.why import Why, explain
from pipelines.lineage.wording import why_lines
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.small_project import History, copy, edit, write

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie


def why(stage: str) -> Why:
    project = read_project(WorkingTree())
    return explain(project, Graph(project.stages), stage, Hasher())


def test_nothing_has_changed_and_the_last_run_is_explained_by_the_one_before(history: History, monkeypatch):
    monkeypatch.chdir(history.root)
    found = why("train@walks_iql")
    assert not found.would_run
    assert found.last is not None
    assert (found.last.commit.name, found.last.before.name) == (history.commented, history.edited)
    assert [(change.kind, change.name) for change in found.last.changes] == [(Kind.CODE, "trainer")]
    assert found.last.outputs == ()  # a comment changes no policy
    evaluated = why("evaluate@walks_iql").last
    assert (evaluated.commit.name, evaluated.before.name) == (history.edited, history.tuned)
    assert [(change.kind, change.name) for change in evaluated.changes] == [(Kind.UPSTREAM, "artifacts/models/walks_iql/policies")]
    first = why("collect@walks").last
    assert [change.name for change in first.changes] == ["data/walks.csv"]
    assert "nothing that it depends on has changed" in "\n".join(why_lines(found))


def test_every_kind_of_change_is_named_with_both_sides(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    edit(root / "params.yaml", "expectile: 2", "expectile: 0.7")
    edit(root / "params.yaml", "hidden_sizes: [8, 8]", "hidden_sizes: [8]")
    edit(root / "trainer/iql.py", "# IQL", "# IQL!\n# of")
    write(root / "trainer/new.py", "")
    edit(root / "data/walks.csv", "w3,9", "w3,10")
    edit(root / "dvc.yaml", "make.py evaluate ${key}", "make.py evaluate  ${key}")
    found = why("train@walks_iql")
    changes = {change.name: change for change in found.changes}
    assert (changes["learners.iql.small.expectile"].before, changes["learners.iql.small.expectile"].after) == (2, 0.7)
    assert changes["learners.iql.small.hidden_sizes"].after == [8]
    assert changes["trainer"].kind is Kind.CODE
    assert set(changes) == {"learners.iql.small.expectile", "learners.iql.small.hidden_sizes", "trainer"}
    assert found.since["trainer"].name == history.commented
    assert list(map(str, found.files["trainer"])) == ["trainer/iql.py (+2 -1 lines)"]
    assert list(found.above) == ["collect@walks", "split@walks"]
    assert [(change.kind, change.name) for change in found.above["collect@walks"]] == [(Kind.SOURCE, "data/walks.csv")]
    (command,) = why("evaluate@walks_iql").changes
    assert (command.kind, command.after) == (Kind.COMMAND, "python3 make.py evaluate  walks_iql")
    text = "\n".join(why_lines(found))
    assert "parameter learners.iql.small.expectile: 2 -> 0.7" in text
    assert "split@walks would run first, for it never ran, or for what stands above it." in text


def test_outputs_that_were_edited_or_are_not_here(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    metrics = root / "artifacts/evals/walks_iql/metrics.json"
    metrics.unlink()
    write(metrics, "{}")
    (change,) = why("evaluate@walks_iql").changes
    assert (change.kind, change.name) == (Kind.OUTPUT, "artifacts/evals/walks_iql/metrics.json")
    (root / "artifacts/splits").rename(root / "elsewhere")
    found = why("train@walks_iql")
    assert (found.changes, found.absent) == ((), ("artifacts/splits/walks",))
    assert [change.after for change in found.above["split@walks"]] == [ABSENT]
    edit(root / "dvc.lock", "train@walks_iql:", "other@walks_iql:")
    assert "dvc.lock has no run of it" in "\n".join(why_lines(why("train@walks_iql")))


def test_changes_are_those_of_leaves():
    assert flat({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "a.c": {}, "d": [1]}
    before = {"cmd": "x", "params": {"params.yaml": {"split": {"seed": 0, "kept": True}}}, "deps": [{"path": "made", "md5": "1"}]}
    after = {"cmd": "x", "params": {"params.yaml": {"split": {"seed": 1, "kept": 1}}}, "deps": [{"path": "code.py", "md5": "2"}]}
    assert run_changes(before, after, lambda path: path == "made") == [
        Change(Kind.PARAMETER, "split.kept", True, 1),
        Change(Kind.PARAMETER, "split.seed", 0, 1),
        Change(Kind.CODE, "code.py", ABSENT, "2"),
        Change(Kind.UPSTREAM, "made", "1", ABSENT),
    ]
    assert run_changes(before, before, bool) == []


def test_records_say_who_ran_it_when_and_with_which_other_packages():
    def record(started: str, **values: object) -> Record:
        empty = {field.name: {} if "Mapping" in str(field.type) else () if "tuple" in str(field.type) else "" for field in fields(Record)}
        return Record(
            **{**empty, "outcome": "COMPLETE", "started": started, "launcher": "dvc repro", "path": f"records/{started}", **values}
        )

    old = record("2026-01-01T10:00:00", packages={"jax": "0.10.1", "numpy": "2.4"})
    new = record(
        "2026-01-02T10:00:00", packages={"jax": "0.10.2", "numpy": "2.4"}, commit="abcdef0123456", difference="1", changed=("a.py",)
    )
    assert list(record_lines([new, old])) == [
        "Newest of 2 records: 2026-01-02T10:00, dvc repro, commit abcdef0123 with uncommitted changes in a.py: records/2026-01-02T10:00:00",
        "  package jax: 0.10.1 -> 0.10.2",
    ]
    failed = record("2026-01-03T10:00:00", outcome="FAIL", error="ValueError: x", launcher="by hand")
    assert list(record_lines([failed, HindcastError("r.json is no record.")])) == [
        "Newest of 1 records: 2026-01-03T10:00, by hand, no commit: FAIL: ValueError: x records/2026-01-03T10:00:00",
        "A record is broken: r.json is no record.",
    ]
    assert list(record_lines([])) == ["There is no record of a run of it."]
