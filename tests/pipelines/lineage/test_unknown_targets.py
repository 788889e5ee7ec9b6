"""What is asked of a target that is unknown, empty or in a folder without git or without a project: no error reads as an answer."""

import json
import re
import shutil

import pytest
from dvc.repo import Repo
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.impact import impact
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.small_project import History, copy, git, write

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("nosuch", "Data sets: walks."),
        ("", "Data sets: walks."),
        ("/etc/passwd", "Data sets: walks."),
        ("../x", "Data sets: walks."),
        ("walk", "Nearest: walks, "),
        ("walks:w99", "The episodes of walks are walks:w1 to walks:w5."),
        ("walks:", "The episodes of walks are walks:w1 to walks:w5."),
        ("walks:w003", "Nearest: walks:w3."),
        ("w01", "Nearest: walks:w1."),
        ("mak.py", "Nearest: make.py"),
        ("walked:w3", "Nearest: walks."),
    ],
)
def test_a_target_that_no_state_has_is_an_error_with_what_is_near(history: History, monkeypatch, target, hint):
    monkeypatch.chdir(history.root)
    with pytest.raises(HindcastError, match=rf"^'{re.escape(target)}' is no data set, .* in any of the 4 states .*{re.escape(hint)}"):
        impact(target)


def test_what_git_or_the_folder_has_is_known_though_no_stage_read_it(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    write(root / "notes/new.txt", "")
    write(root / "notes/old[1].txt", "")
    git("add", "notes/old[1].txt", root=root)
    git("commit", "-qm", "Notes", root=root)
    git("rm", "-qf", "notes/old[1].txt", root=root)
    git("commit", "-qm", "No notes", root=root)
    for target in ("notes/new.txt", "notes/old[1].txt", "notes", "dvc.lock", "walks:w2"):
        result = CliRunner().invoke(app, ["impact", target])
        assert (result.exit_code, f"Now, nothing depends on {target}." in result.output) == (0, True), result.output
    with pytest.raises(HindcastError, match="is no data set"):
        impact("notes/old1.txt")


def test_episodes_that_cannot_be_looked_at_are_no_all_clear(history: History, tmp_path, monkeypatch):
    git("clone", "-q", "--bare", str(history.root), str(tmp_path / "bare.git"), root=tmp_path)
    monkeypatch.chdir(tmp_path / "bare.git")
    with pytest.raises(HindcastError, match=r"'w3' is no data set.* The episodes of 4 states of data sets are not here"):
        impact("w3")
    assert CliRunner().invoke(app, ["impact", "walks:w3"]).exit_code == 2


def test_an_episode_of_states_that_were_thrown_away_may_have_been(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    with Repo(".") as repo:
        repo.gc(workspace=True, force=True)
    result = CliRunner().invoke(app, ["impact", "walks:w2"])
    assert (result.exit_code, "Now, nothing depends on walks:w2.\nNo state that can be looked at has it" in result.output) == (0, True)
    assert "collect@walks: cannot tell" in result.output
    for target, hint in (("walks:w03", "Nearest: walks:w3."), ("walks:", "The episodes of walks are walks:w1 to walks:w5.")):
        with pytest.raises(HindcastError, match=f"{hint} The episodes of 2 states"):
            impact(target)


@pytest.mark.parametrize(
    "arguments",
    [["audit", ""], ["lineage", ""], ["why", " "], ["history", ""], ["impact", ""], ["check", ""], ["inspect", ""], ["diff", "HEAD", ""],
     ["audit", "--rev", ""], ["audit", "--rev="], ["new-dataset", "x", "--env", ""], ["check", "x", "--out="]],
)  # fmt: skip
def test_an_empty_text_is_refused_by_every_command(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HindcastError, match=f"^'hindcast {arguments[0]}' was given an empty text (for|after) '[^']+'") as caught:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "\n" not in str(caught.value)


def test_now_is_told_without_git(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    shutil.rmtree(root / ".git")
    monkeypatch.chdir(root)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    result = CliRunner().invoke(app, ["impact", "walks:w3"])
    assert (result.exit_code, "Now, 4 stages depend on walks:w3" in result.output) == (1, True)
    assert "The history cannot be looked at" in result.output
    assert "No other state" not in result.output
    assert json.loads(CliRunner().invoke(app, ["impact", "walks", "--json"]).output)["has_history"] is False
    assert CliRunner().invoke(app, ["impact", "dvc.yaml"]).exit_code == 0
    with pytest.raises(HindcastError, match=r"'walks:w2' is no data set.* The history cannot be looked at"):
        impact("walks:w2")  # which only an older state had
    write(root / "trainer/iql.py", "# changed\n")
    result = CliRunner().invoke(app, ["why", "train@walks_iql"])
    assert (result.exit_code, "would run again" in result.output) == (0, True), result.output
    assert "Why the last run was made: the history cannot be looked at" in result.output


@pytest.mark.parametrize("arguments", [["impact", "x"], ["history", "x"], ["diff"], ["why", "x"]])
def test_a_folder_that_is_no_project_is_said_to_be_none(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(HindcastError, match=r"params\.yaml is missing in this folder"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
