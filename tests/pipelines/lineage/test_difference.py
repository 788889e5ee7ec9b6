"""Two revisions: what changed in parameters, data, code and metrics, and which of it explains which, by hand-made numbers."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.changes import Kind
from pipelines.lineage.difference import Difference, difference, package_changes
from pipelines.lineage.lockfile import parse_lock
from pipelines.lineage.outcomes import DataDifference, MetricDifference, data_differences, metric_differences
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import GitTree
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.small_project import History, copy, edit, git

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie


def between(before: str, after: str, target: str = "") -> tuple[Difference, list[DataDifference], list[MetricDifference]]:
    with GitTree(before) as old, GitTree(after) as new:
        found = difference(read_project(old), read_project(new), target)
        return found, list(data_differences(found)), list(metric_differences(found))


def test_a_parameter_explains_a_metric(history: History, monkeypatch):
    monkeypatch.chdir(history.root)
    found, data, (metric,) = between(history.first, history.tuned)
    assert list(found.stages) == ["train@walks_iql", "evaluate@walks_iql"]
    assert data == []
    assert (metric.before["iqm"], metric.after["iqm"], metric.are_apart) == (5.5, 22.0, True)  # (1 + 2 + 8) * 0.5 and * 2
    causes = {cause.change.name: cause for cause in found.causes("evaluate@walks_iql")}
    assert set(causes) == {"learners.iql.small.expectile"}
    assert causes["learners.iql.small.expectile"].stages == ("train@walks_iql",)
    assert between(history.first, history.tuned, "walks")[0].stages == {}


def test_episodes_that_came_went_and_changed_are_named(history: History, monkeypatch):
    monkeypatch.chdir(history.root)
    found, (data,), (metric,) = between(history.tuned, history.edited)
    assert (data.name, data.version, data.is_version_kept) == ("walks", ("1.0.0", "1.0.0"), True)
    assert (data.episodes.added, data.episodes.removed, list(data.episodes.changed)) == (("w5",), ("w2",), ["w3"])
    assert [(change.name, change.before, change.after) for change in data.episodes.changed["w3"]] == [("episode_return", "8", "9")]
    assert metric.after["iqm"] == 88.0  # (3 + 9 + 32) * 2
    (cause,) = found.causes("evaluate@walks_iql")
    assert (cause.change.kind, cause.change.name, cause.stages) == (Kind.SOURCE, "data/walks.csv", ("collect@walks",))


def test_a_change_without_an_outcome_explains_nothing_below_it(history: History, monkeypatch):
    monkeypatch.chdir(history.root)
    found, data, metrics = between(history.edited, history.commented)
    assert list(found.stages) == ["train@walks_iql"]
    assert (data, metrics) == ([], [])


def test_the_command_tells_it_in_sections(history: History, monkeypatch):
    monkeypatch.chdir(history.root)
    result = CliRunner().invoke(app, ["diff", history.first, "workspace"])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[0] == (
        f"{history.first} -> workspace: 4 stages, 1 parameter, 1 data set, 1 code file, 1 evaluation changed."
    )
    for expected in (
        "parameter learners.iql.small.expectile: 0.5 -> 2  (train@walks_iql)",
        "raise datasets.walks.version",
        "1 episode removed: w2",
        "w3: episode_return 8 -> 9",
        "source data/walks.csv",
        "trainer/iql.py (+1 -1 lines)  (train@walks_iql)",
        "walks_iql: IQM 5.5 [4.5, 6.5], mean 5.5 -> IQM 88.0 [87.0, 89.0], mean 88.0: +82.5, the intervals are apart",
        "because of source data/walks.csv",
        "'hindcast history evaluate@walks_iql' shows the runs between",
    ):
        assert expected in result.output
    values = json.loads(CliRunner().invoke(app, ["diff", history.first, "HEAD", "--json"]).output)
    assert values["data"][0]["episodes"]["removed"] == ["w2"]
    assert {cause["change"]["kind"] for cause in values["metrics"][0]["causes"]} == {"parameter", "source", "code"}
    with pytest.raises(HindcastError, match="'nosuch' is no revision"):
        CliRunner().invoke(app, ["diff", "nosuch"], catch_exceptions=False)


def test_other_bytes_from_the_same_inputs_are_called_unexplained(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    (output,) = parse_lock((root / "dvc.lock").read_bytes())["evaluate@walks_iql"]["outs"]
    edit(root / "dvc.lock", output["md5"], "f" * 32)
    git("commit", "-qam", "Edit the lock", root=root)
    found, _, (metric,) = between("HEAD~1", "HEAD")
    assert found.unexplained("evaluate@walks_iql") == ["evaluate@walks_iql"]
    assert metric.after is None  # no such bytes are anywhere
    assert "evaluate@walks_iql was given the same and made other bytes" in CliRunner().invoke(app, ["diff", "HEAD~1", "HEAD"]).output


def test_a_clone_without_data_still_tells_what_git_has(history: History, tmp_path, monkeypatch):
    git("clone", "-q", "--bare", str(history.root), str(tmp_path / "bare.git"), root=tmp_path)
    monkeypatch.chdir(tmp_path / "bare.git")
    result = CliRunner().invoke(app, ["diff", history.first, history.edited])
    assert result.exit_code == 0, result.output
    assert "parameter learners.iql.small.expectile: 0.5 -> 2" in result.output
    assert "Its episodes are not here on both sides" in result.output
    assert "walks_iql: not here, or not run -> not here, or not run" in result.output


def test_packages_are_compared_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git("init", "-q", root=tmp_path)
    for text in (
        "jax==0.10.1\nnumpy==2.4\ngone==1\n",
        "# c\njax==0.10.2\nnumpy==2.4\nnew==1 ; python_version < '3.12'\nnew==2 ; python_version >= '3.12'\n",
    ):
        (tmp_path / "requirements.lock").write_text(text)
        git("add", "-A", root=tmp_path)
        git("commit", "-qm", "lock", root=tmp_path)
    with GitTree("HEAD~1") as old, GitTree("HEAD") as new:
        found = {change.name: (change.before, change.after) for change in package_changes(old, new)}
    assert found == {
        "gone": ("1", "absent"),
        "jax": ("0.10.1", "0.10.2"),
        "new": ("absent", "1 ; python_version < '3.12', 2 ; python_version >= '3.12'"),
    }
    shutil.rmtree(tmp_path / ".git")
