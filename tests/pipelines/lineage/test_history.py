"""History and impact: which commit brought which run, and what an episode or a file has touched, by hand on four commits."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.changes import Kind
from pipelines.lineage.history import history as runs_of
from pipelines.lineage.impact import State, impact, touched_by_episode
from pipelines.lineage.lockfile import parse_lock
from pipelines.lineage.revisions import _stages
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.small_project import History, copy, edit, git, reproduce, write

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie


def test_each_commit_that_brought_a_run_is_told_with_its_outcome(history: History, monkeypatch):
    monkeypatch.chdir(history.root)
    runs = list(runs_of("evaluate@walks_iql"))
    assert [(run.commit.name, run.metrics["iqm"]) for run in runs] == [(history.edited, 88.0), (history.tuned, 22.0), (history.first, 5.5)]
    assert [run.is_first for run in runs] == [False, False, True]
    trained = [run for run in runs_of("walks_iql") if run.stage == "train@walks_iql"]
    assert [[(change.kind, change.name) for change in run.changes] for run in trained] == [
        [(Kind.CODE, "trainer")],
        [(Kind.UPSTREAM, "artifacts/splits/walks")],
        [(Kind.PARAMETER, "learners.iql.small.expectile")],
        [],
    ]
    assert {run.stage for run in runs_of("artifacts/raw/walks")} == {"collect@walks"}
    with pytest.raises(HindcastError, match=r"No commit has a run of 'walk_iql'.* Nearest: walks_iql"):
        list(runs_of("walk_iql"))
    output = CliRunner().invoke(app, ["history", "walks_iql"]).output
    assert "train@walks_iql was run again, and made the same bytes" in output
    assert "parameter learners.iql.small.expectile: 0.5 -> 2" in output
    assert f"{history.first[:10]} " in output
    assert "Ada <ada@localhost>" in output
    assert len(json.loads(CliRunner().invoke(app, ["history", "walks", "--json"]).output)) == 4


def test_what_is_not_committed_and_what_was_taken_away(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    edit(root / "params.yaml", "walks_iql: {", "walks_two: {")
    lock = (root / "dvc.lock").read_text()
    (root / "dvc.lock").write_text(lock.replace("walks_iql", "walks_two"))
    assert [(run.commit.subject, run.is_last) for run in runs_of("walks_iql")][:2] == [("not committed yet", True)] * 2
    git("commit", "-qam", "Rename", root=root)
    newest = next(iter(runs_of("evaluate@walks_two")))
    assert (newest.commit.subject, newest.is_first) == ("Rename", True)
    (root / "dvc.lock").write_text("<<<<<<< HEAD\n")  # a merge is under way: git still tells
    assert next(iter(runs_of("evaluate@walks_two"))).commit.subject == "Rename"


def test_runs_of_merged_branches_are_told_once(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    git("checkout", "-qb", "side", history.tuned, root=root)
    write(root / "dvc.lock", (root / "dvc.lock").read_text() + "\n")  # the same runs
    write(root / "README", "a side branch")
    git("add", "-A", root=root)
    git("commit", "-qm", "Side", root=root)
    git("checkout", "-q", "main", root=root)
    git("merge", "-q", "-X", "ours", "-m", "Merge", "side", root=root)
    assert [run.commit.name for run in runs_of("evaluate@walks_iql")] == [history.edited, history.tuned, history.first]


def test_the_impact_of_an_episode_ends_with_its_removal(history: History, tmp_path, monkeypatch):
    monkeypatch.chdir(history.root)
    found = impact("walks:w3")
    assert dict(found.now.stages) == {
        "collect@walks": "holds it",
        "split@walks": "has it in train",
        "train@walks_iql": "was made from split@walks",
        "evaluate@walks_iql": "was made from train@walks_iql",
    }
    assert found.now_rebuild == ("evaluate@walks_iql",)
    assert found.now.metrics["walks_iql"]["iqm"] == 88.0
    assert [[commit.name for commit in commits] for commits, _ in found.past] == [[history.edited], [history.tuned], [history.first]]
    removed = impact("walks:w2")  # which was in the test split, so that nothing learnt from it
    assert (removed.now.stages, removed.now.unknown) == ({}, ())
    assert [(commits[0].name, len(commits), dict(touched.stages)) for commits, touched in removed.past] == [
        (history.tuned, 2, {"collect@walks": "holds it", "split@walks": "has it in test"})
    ]
    result = CliRunner().invoke(app, ["impact", "walks:w2"])
    assert (result.exit_code, "Now, nothing depends on walks:w2." in result.output) == (0, True)
    assert "In 2 earlier states (main)" in result.output
    result = CliRunner().invoke(app, ["impact", "w3"])
    assert (result.exit_code, "Mend it, raise datasets.walks.version, then: dvc repro evaluate@walks_iql" in result.output) == (1, True)
    with pytest.raises(HindcastError, match=r"'walks:w99' is no data set, stage, path.* The episodes of walks are walks:w1 to walks:w5\."):
        impact("walks:w99")


def test_the_impact_of_a_file_names_the_version_that_was_read(history: History, monkeypatch):
    monkeypatch.chdir(history.root)
    found = impact("data/walks.csv")
    assert list(found.now.stages) == ["collect@walks", "split@walks", "train@walks_iql", "evaluate@walks_iql"]
    assert found.now.stages["collect@walks"].startswith("read data/walks.csv of md5 ")
    versions = {touched.stages["collect@walks"] for _, touched in found.past}
    assert len(versions) == 2
    assert [touched.metrics["walks_iql"]["iqm"] for _, touched in found.past] == [88.0, 22.0, 5.5]
    assert list(impact("trainer/iql.py").now.stages) == ["train@walks_iql", "evaluate@walks_iql"]
    assert impact("artifacts/splits/walks").now.stages["split@walks"] == "made artifacts/splits/walks"
    assert next(iter(impact("walks").now.stages)) == "collect@walks"


def test_an_experiments_commit_counts_though_no_branch_has_it(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    edit(root / "params.yaml", "expectile: 2", "expectile: 3")
    commit = reproduce(root, "Try it")
    git("update-ref", "refs/exps/aa/bb/try", commit, root=root)
    git("reset", "-q", "--hard", "HEAD~1", root=root)
    newest = impact("walks").past[0]
    assert (newest[0][0].name, newest[1].metrics["walks_iql"]["iqm"]) == (commit, 132.0)  # (3 + 9 + 32) * 3


def test_without_data_it_cannot_be_told_which_episodes_there_were(history: History, tmp_path, monkeypatch):
    git("clone", "-q", "--bare", str(history.root), str(tmp_path / "bare.git"), root=tmp_path)
    monkeypatch.chdir(tmp_path / "bare.git")
    result = CliRunner().invoke(app, ["impact", "walks:w3"])
    assert result.exit_code == 2, result.output
    assert "collect@walks: cannot tell, for artifacts/splits/walks/*/episodes.csv of that state is not here" in result.output
    assert CliRunner().invoke(app, ["impact", "walks"]).exit_code == 1


def stages(*entries: tuple[str, list[str], list[str]]) -> dict:
    def listed(paths: list[str]) -> list[dict]:
        return [{"path": path, "md5": "a" * 32} for path in paths]

    return {name: {"cmd": "x", "deps": listed(reads), "outs": listed(writes)} for name, reads, writes in entries}


def test_data_sets_made_of_others_are_followed_by_the_ids_that_they_give(monkeypatch):
    """`good` keeps the episode, `few` does not, `all` puts names before ids, and `again` was collected by a policy that learnt from it."""
    state = State(
        stages(
            ("collect@walks", ["data"], ["raw/walks"]),
            ("split@walks", ["raw/walks"], ["splits/walks"]),
            ("collect@few", ["raw/walks"], ["raw/few"]),
            ("split@few", ["raw/few"], ["splits/few"]),
            ("combine@link", ["raw/walks"], ["links/walks"]),
            ("collect@all", ["links/walks"], ["raw/all"]),
            ("split@all", ["raw/all"], ["splits/all"]),
            ("train@x", ["splits/all"], ["models/x"]),
            ("collect@again", ["models/x"], ["raw/again"]),
            ("split@again", ["raw/again"], ["splits/again"]),
            ("collect@other", ["else"], ["raw/other"]),
            ("split@other", ["raw/other"], ["splits/other"]),
            ("train@y", ["splits/few", "splits/other"], ["models/y"]),
        )
    )
    roles = {("walks", "e"): "quarantine", ("all", "walks-e"): "train", ("other", "e"): "train"}
    monkeypatch.setattr(State, "role", lambda self, dataset, episode: roles.get((dataset, episode), ""))
    assert touched_by_episode(state, "e", only="walks").stages == {
        "collect@walks": "holds it",
        "split@walks": "has it in quarantine",
        "combine@link": "was made from collect@walks",
        "collect@all": "holds it",
        "split@all": "has it in train",
        "train@x": "was made from split@all",
        "collect@again": "was collected by a policy that learnt from it",
        "split@again": "was made from collect@again",
    }
    assert "train@y" in touched_by_episode(state, "e").stages  # `other` has one of this id too
    monkeypatch.setattr(State, "role", lambda self, dataset, episode: None if dataset == "few" else roles.get((dataset, episode), ""))
    assert touched_by_episode(state, "e", only="walks").unknown == ("collect@few",)


def test_locks_are_read_by_their_blocks_as_they_are_read_whole():
    read = "    deps:\n    - path: code\n      md5: {md5}\n    params:\n      params.yaml:\n        a: 1e-3\n"
    stage = f"  {{name}}:\n    cmd: run {{name}}\n{read}"
    lock = ("schema: '2.0'\nstages:\n" + "".join(stage.format(name=name, md5=name * 32) for name in "abc")).encode()
    blocks: dict = {}
    assert _stages(lock, blocks) == parse_lock(lock)
    assert len(blocks) == 3
    changed = lock.replace(b"b" * 32, b"d" * 32)
    assert _stages(changed, blocks) == parse_lock(changed) != parse_lock(lock)
    assert len(blocks) == 4  # what only `b` says anew
    real = (ROOT / "dvc.lock").read_bytes()
    assert _stages(real, blocks) == parse_lock(real)
    for odd in (b"stages: {a: {cmd: x}}", b"schema: '2.0'\nstages:\n  a: &x\n    cmd: y\n  b: *x\n", b"", b"schema: '2.0'\n"):
        assert _stages(odd, {}) == parse_lock(odd)
    assert _stages(b"schema: '2.0'\nstages:\n<<<<<<< HEAD\n  a:\n    cmd: y\n", {}) == {}
