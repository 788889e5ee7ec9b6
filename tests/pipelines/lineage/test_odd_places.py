"""The commands that read history, where a project may be in any state: one message or an answer, never a traceback."""

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.small_project import History, copy, edit, git

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie
COMMANDS = {
    "why": ["why", "walks_iql"],
    "diff": ["diff", "HEAD~1"],
    "history": ["history", "walks_iql"],
    "impact": ["impact", "walks:w3"],
    "release": ["release", "walks_iql"],
}


def outcomes() -> dict[str, int | str]:
    """What each command came to: its exit code, or its message."""
    found: dict[str, int | str] = {}
    for name, command in COMMANDS.items():
        result = CliRunner().invoke(app, command)
        assert result.exception is None or isinstance(result.exception, HindcastError | SystemExit), f"{name}: {result.exception!r}"
        found[name] = str(result.exception) if isinstance(result.exception, HindcastError) else result.exit_code
    return found


@pytest.fixture
def root(history: History, tmp_path, monkeypatch) -> Path:
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    return root


def test_moved_and_on_a_detached_revision(root: Path, history: History, tmp_path, monkeypatch):
    git("checkout", "-q", "--detach", history.tuned, root=root)
    root.rename(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = outcomes()
    assert (found["why"], found["diff"], found["history"], found["impact"]) == (0, 0, 0, 1)


def test_with_a_lock_that_a_merge_left_conflicted(root: Path):
    (root / "dvc.lock").write_text("<<<<<<< HEAD\n" + (root / "dvc.lock").read_text())
    found = outcomes()
    assert "dvc.lock, line 1: a merge left its marker" in str(found["why"])
    assert (found["history"], found["impact"]) == (0, 1)  # what is committed is not in doubt


def test_without_a_lock_and_with_one_that_is_no_lock(root: Path):
    (root / "dvc.lock").unlink()
    found = outcomes()
    assert (found["why"], found["history"]) == (0, 0)
    (root / "dvc.lock").write_text("stages: [1, 2]\n")
    assert "dvc.lock is not what DVC writes" in str(outcomes()["why"])
    edit(root / "params.yaml", "experiments:", "experiments")
    assert "params.yaml, line" in str(outcomes()["diff"])


def test_in_a_bare_clone_a_shallow_one_and_one_without_history(root: Path, tmp_path, monkeypatch):
    git("clone", "-q", "--bare", str(root), str(tmp_path / "bare.git"), root=tmp_path)
    monkeypatch.chdir(tmp_path / "bare.git")
    found = outcomes()
    assert (found["history"], found["impact"]) == (0, 2)
    assert "params.yaml is missing" in str(found["why"])
    git("clone", "-q", "--depth", "1", f"file://{root}", str(tmp_path / "shallow"), root=tmp_path)
    monkeypatch.chdir(tmp_path / "shallow")
    found = outcomes()
    assert "'HEAD~1' is no revision" in str(found["diff"])
    assert "This clone lacks older commits" in CliRunner().invoke(app, COMMANDS["history"]).output
    assert "'git fetch --unshallow' brings them" in CliRunner().invoke(app, COMMANDS["why"]).output
    (tmp_path / "fresh").mkdir()
    monkeypatch.chdir(tmp_path / "fresh")
    subprocess.run(["git", "init", "-q"], check=True)
    for name in ("params.yaml", "dvc.yaml", "dvc.lock"):
        (tmp_path / "fresh" / name).write_bytes((root / name).read_bytes())
    assert "cannot be read" in str(outcomes()["history"])


def test_in_no_repository_at_all(root: Path, tmp_path, monkeypatch):
    (root / ".git").rename(tmp_path / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name, outcome in outcomes().items():  # `why` and `impact` tell what is so now
        assert outcome == {"why": 0, "impact": 1}[name] if name in ("why", "impact") else "not a git repository" in str(outcome), name
