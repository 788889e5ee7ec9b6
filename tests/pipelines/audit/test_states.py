"""The states that a project may be in: cloned with and without data, moved, at another revision, edited, half merged, without records."""

import json
import shutil
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.audit import Finding, Verdict, audit_project, exit_code
from tests.pipelines.audit.record_faults import seal
from tests.pipelines.audit.small_project import commit, git

pytestmark = pytest.mark.slow


def broken(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.stage, finding.link) for finding in findings if finding.verdict is Verdict.BROKEN]


def test_moved_and_then_without_git(project: Path) -> None:
    findings = audit_project(deep=True)
    assert exit_code(findings) == 0
    assert Counter(finding.verdict for finding in findings)[Verdict.HOLDS] > 500
    result = CliRunner().invoke(app, ["audit"])
    assert (result.exit_code, result.output.splitlines()[-1].startswith("Every link holds (")) == (0, True)
    shutil.rmtree(".git")
    findings = audit_project()
    (finding,) = [finding for finding in findings if finding.verdict is Verdict.UNKNOWN]
    assert (finding.link, exit_code(findings)) == ("history of records", 2)


def test_what_was_read_is_remembered_until_it_changes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.lineage.audit.memory.SETTLED", -1.0)  # the files are seconds old
    assert not [finding for finding in audit_project() if finding.link == "bytes"]
    (note,) = [finding for finding in audit_project() if finding.link == "bytes"]
    assert (note.verdict, "were not read again" in note.found) == (Verdict.NOTE, True)
    assert not [finding for finding in audit_project(deep=True) if finding.link == "bytes"]
    file = sorted(Path("artifacts/raw/carts").rglob("*tfrecord*"))[0]
    file.write_bytes(bytes(file.stat().st_size))
    assert broken(audit_project()) == [("collect@carts", "output artifacts/raw/carts")]


def test_a_clone_without_data(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("clone", "-q", str(project), str(tmp_path / "clone"))
    monkeypatch.chdir(tmp_path / "clone")
    findings = audit_project(deep=True)
    assert (broken(findings), exit_code(findings)) == ([], 2)
    assert all(finding.is_missing for finding in findings if finding.verdict is Verdict.UNKNOWN)
    result = CliRunner().invoke(app, ["audit"])
    assert "paths are not in this clone: 'dvc pull' or 'dvc checkout' brings them" in result.output
    # What git holds is judged all the same: a lock that contradicts itself, an edited record.
    lock = Path("dvc.lock").read_text()
    before, _, after = lock.partition("  check@carts:\n")
    digits = after[after.index("path: artifacts/raw/carts\n") :].partition("md5: ")[2][:32]
    Path("dvc.lock").write_text(before + "  check@carts:\n" + after.replace(digits, digits[::-1], 1))
    assert broken(audit_project()) == [("check@carts", "input artifacts/raw/carts")]


def test_some_outputs_pulled_and_others_not(project: Path) -> None:
    shutil.rmtree("artifacts/models/carts_bc")
    Path("artifacts/evals/all_bc/metrics.json").unlink()
    for _ in range(2):
        findings = audit_project(deep=True)
        assert (broken(findings), exit_code(findings)) == ([], 2)
        shutil.rmtree(".dvc/cache", ignore_errors=True)  # then nothing tells what was in the folders that several outputs lie in
    sorted(Path("artifacts/splits/all").rglob("*tfrecord*"))[0].unlink()
    assert broken(audit_project()) == [("split@all", "output artifacts/splits/all")]


def test_a_bare_clone_has_its_head_audited(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git("clone", "-q", "--bare", str(project), str(tmp_path / "bare.git"))
    monkeypatch.chdir(tmp_path / "bare.git")
    findings = audit_project(deep=True)
    assert (broken(findings), exit_code(findings)) == ([], 2)
    assert Counter(finding.verdict for finding in findings)[Verdict.HOLDS] > 300  # the code, the parameters, the records
    assert CliRunner().invoke(app, ["audit", "carts_bc"]).exit_code == 2


def test_another_revision(project: Path) -> None:
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("episodes: 70", "episodes: 71"))
    Path("artifacts/evals/carts_bc/metrics.json").unlink()
    commit("Other parameters")
    assert exit_code(audit_project(revision="HEAD~1")) == 0  # from the workspace, and what is gone there from the cache
    assert exit_code(audit_project(revision="HEAD~1", deep=True)) == 0
    (finding,) = [finding for finding in audit_project(revision="HEAD") if finding.verdict is Verdict.BROKEN]
    assert (finding.stage, finding.subjects) == ("collect@carts", ("params.yaml/datasets/carts/options/episodes",))
    assert "Other parameters" in finding.since
    shutil.rmtree(".dvc/cache")
    assert exit_code(audit_project(revision="HEAD~1")) == 2
    assert "is no revision" in str(CliRunner().invoke(app, ["audit", "--rev", "nosuch"]).exception)


def test_a_dirty_tree_whose_changes_shape_nothing(project: Path) -> None:
    Path("notes.txt").write_text("to do")
    Path("pipelines/stage.py").write_text(Path("pipelines/stage.py").read_text() + "\n")
    assert exit_code(audit_project()) == 0


def test_a_half_merged_lock_is_named_and_the_rest_audited_by_the_last_commits(project: Path) -> None:
    lock = Path("dvc.lock").read_text()
    Path("dvc.lock").write_text(f"<<<<<<< HEAD\n{lock}=======\n{lock}>>>>>>> other\n")
    findings = audit_project()
    assert broken(findings) == [("", "dvc.lock")]
    assert "line 1: a merge left its marker" in findings[0].found
    assert Counter(finding.verdict for finding in findings)[Verdict.HOLDS] > 400
    assert CliRunner().invoke(app, ["audit"]).exit_code == 1
    git("checkout", "-q", "dvc.lock")
    Path("params.yaml").unlink()
    assert broken(audit_project()) == [("", "params.yaml")]


def test_without_records(project: Path) -> None:
    shutil.rmtree("artifacts/records")
    findings = audit_project()
    assert {link.split("/")[0] for _, link in broken(findings)} == {"record artifacts"}  # git has each of them
    commit("No records")
    findings = audit_project()
    assert {link.split("/")[0] for _, link in broken(findings)} == {"record artifacts"}
    assert all("No records" in finding.found for finding in findings if finding.verdict is Verdict.BROKEN)
    assert "record of the run in dvc.lock" in {finding.link for finding in findings if finding.verdict is Verdict.AFFECTED}
    git("checkout", "-q", "--orphan", "fresh")
    commit("As if there never had been any")
    assert exit_code(audit_project()) == 2


def test_a_failed_run_cannot_be_made_to_vanish_and_a_complete_one_only_for_a_later_one(project: Path) -> None:
    (path,) = Path("artifacts/records/train@carts_bc").glob("*.json")
    event = json.loads(path.read_bytes())

    def another(hours: int, **changes: str) -> Path:
        """A record of the same run some hours later, on another machine."""
        started = datetime.fromisoformat(ran) + timedelta(hours=hours)
        event["run"]["facets"]["hindcast_machine"]["processor"] = "another"
        event["run"]["facets"]["hindcast_run"]["started"] = started.isoformat(timespec="milliseconds")
        record = path.with_name(f"{started:%Y%m%dT%H%M%S}-{event['run']['runId'][:8]}.json")
        ended = (started + timedelta(minutes=1)).isoformat(timespec="milliseconds")
        record.write_text(json.dumps(seal({**event, "eventTime": ended, **changes})))
        return record

    ran = event["run"]["facets"]["hindcast_run"]["started"]
    event["run"]["facets"]["errorMessage"] = {"message": "ValueError: nan"}
    failed = another(-1, eventType="FAIL")
    del event["run"]["facets"]["errorMessage"]
    commit("A failed run")
    assert exit_code(audit_project()) == 0
    failed.unlink()
    commit("Tidy")
    assert broken(audit_project()) == [("train@carts_bc", f"record {failed.as_posix()} in git")]
    git("checkout", "-q", "HEAD~", "--", failed.as_posix())
    commit("As it was")
    path.unlink()
    another(1)
    commit("A later run")
    findings = audit_project()
    assert exit_code(findings) == 0
    (finding,) = [finding for finding in findings if finding.link == "records in git"]
    assert (finding.verdict, "A later run" in finding.found) == (Verdict.NOTE, True)
