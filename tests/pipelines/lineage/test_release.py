"""A release is a tag that gto and DVC read, on a commit whose dvc.yaml names the artifact; never of what is not clean."""

import subprocess
from pathlib import Path

import pytest
from dvc.repo import Repo
from dvc.repo.artifacts import Artifacts
from gto.api import find_latest_version
from typer.testing import CliRunner

import pipelines.commands.release as command
from pipelines.cli import app
from pipelines.lineage.audit.findings import Finding, Verdict
from pipelines.lineage.release import next_version, with_artifact
from pipelines.lineage.released import artifact_of, released_versions
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.small_project import History, copy, edit, git, write

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning", "ignore::ResourceWarning")  # DVC's use of pygtrie
CLEAN = [Finding("train@walks_iql", Verdict.HOLDS, "output artifacts/models/walks_iql/policies")]


@pytest.fixture
def project(history: History, tmp_path, monkeypatch) -> Path:
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    for key, value in (("user.name", "Ada"), ("user.email", "ada@localhost")):
        git("config", key, value, root=root)
    return root


def test_a_tag_names_the_bytes_and_the_verdict_and_other_tools_read_it(project, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(command, "audit_project", lambda target, advance, deep: asked.append((target, deep)) or CLEAN)
    result = CliRunner().invoke(app, ["release", "walks_iql"], catch_exceptions=False)
    assert "walks_iql@v1.0.0: 1 links hold" in result.output
    assert asked == [("evaluate@walks_iql", True)]
    message = git("tag", "--list", "--format=%(contents)", "walks_iql@v1.0.0", root=project)
    assert "IQM 88.0 [87.0, 89.0]" in message
    assert git("tag", "--list", "--format=%(contents:trailers:key=Hindcast-Audit,valueonly)", "walks_iql@v1.0.0", root=project) == "holds"
    assert git("cat-file", "-t", "walks_iql@v1.0.0", root=project) == "tag"  # annotated
    assert git("status", "--porcelain", root=project) == ""
    assert read_project(WorkingTree()).stages  # dvc.yaml is whole
    with Repo(".") as repo:
        assert repo.status() == {}
        assert repo.artifacts.read()["dvc.yaml"]["walks_iql"].path == "artifacts/models/walks_iql/policies"
    assert find_latest_version(".", "walks_iql").version == "v1.0.0"
    Artifacts.get(str(project), "walks_iql", version="v1.0.0", out=str(tmp_path / "got"))
    assert (tmp_path / "got/seed_0/bundle.json").read_text() == '{"value": 88.0}'

    CliRunner().invoke(app, ["release", "walks_iql"], catch_exceptions=False)
    CliRunner().invoke(app, ["release", "walks_iql", "--version", "patch"], catch_exceptions=False)
    assert released_versions("walks_iql") == ["1.0.0", "1.1.0", "1.1.1"]
    assert git("rev-list", "-n1", "walks_iql@v1.1.1", root=project) == git("rev-parse", "HEAD", root=project)  # declared once
    CliRunner().invoke(app, ["release", "walks"], catch_exceptions=False)
    assert released_versions("walks") == ["1.0.0"]
    with pytest.raises(HindcastError, match=r"walks@v1\.0\.0 exists already, and what it names must not change: raise datasets\.walks"):
        CliRunner().invoke(app, ["release", "walks"], catch_exceptions=False)


def test_nothing_is_tagged_that_is_not_clean_or_not_committed(project, monkeypatch):
    findings = [*CLEAN, Finding("collect@walks", Verdict.BROKEN, "input data/walks.csv", found="x", subjects=("data/walks.csv",))]
    monkeypatch.setattr(command, "audit_project", lambda *_, **__: findings)
    with pytest.raises(HindcastError, match=r"1 of 2 links are broken or cannot be told: collect@walks: input data/walks\.csv"):
        CliRunner().invoke(app, ["release", "walks_iql"], catch_exceptions=False)
    findings[1] = Finding("collect@walks", Verdict.UNKNOWN, "input data/walks.csv", is_missing=True)
    with pytest.raises(HindcastError, match="the audit is not clean"):
        CliRunner().invoke(app, ["release", "walks_iql"], catch_exceptions=False)
    del findings[1]
    write(project / "notes.txt", "")
    edit(project / "params.yaml", "expectile: 2", "expectile: 3")
    with pytest.raises(HindcastError, match=r"is not committed: params\.yaml, notes\.txt"):
        CliRunner().invoke(app, ["release", "walks_iql"], catch_exceptions=False)
    with pytest.raises(HindcastError, match=r"'walk' is no experiment and no data set.* Known: walks, walks_iql"):
        CliRunner().invoke(app, ["release", "walk"], catch_exceptions=False)
    assert subprocess.run(["git", "tag"], capture_output=True, text=True, check=True).stdout == ""


def test_versions(project):
    state = read_project(WorkingTree())
    model, data = artifact_of(state, "walks_iql"), artifact_of(state, "walks")
    assert [next_version(model, state, asked, ["0.9.0", "1.4.2"]) for asked in ("", "major", "minor", "patch", "3.0.0")] == [
        "1.5.0",
        "2.0.0",
        "1.5.0",
        "1.4.3",
        "3.0.0",
    ]
    assert next_version(data, state, "", []) == "1.0.0"
    for artifact, asked, message in (
        (model, "1.4.2", "exists already"),
        (model, "v2", "is no version"),
        (data, "2.0.0", "is that of its entry"),
    ):
        with pytest.raises(HindcastError, match=message):
            next_version(artifact, state, asked, ["1.4.2"])


def test_an_entry_is_put_into_dvc_yaml_and_nothing_else_changes(project):
    artifact = artifact_of(read_project(WorkingTree()), "walks_iql")
    described = 'type: "model"\n    desc: "Policies of the experiment walks_iql"'
    entry = f'  walks_iql:\n    path: "artifacts/models/walks_iql/policies"\n    {described}\n'
    assert with_artifact("stages: {}  # none\n", artifact) == f"stages: {{}}  # none\n\nartifacts:\n{entry}"
    assert with_artifact("artifacts:  # ours\n  a: {path: b}\nstages: {}\n", artifact) == (
        f"artifacts:  # ours\n{entry}  a: {{path: b}}\nstages: {{}}\n"
    )
    with pytest.raises(HindcastError, match="not written as a block of lines"):
        with_artifact("artifacts: {a: {path: b}}\n", artifact)
