"""Trees, the lock and the stages: a revision of git reads as the files on disk do, and all as DVC reads them."""

import subprocess
from pathlib import Path

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from pipelines.lineage.graph import Graph
from pipelines.lineage.lockfile import parse_lock
from pipelines.lineage.stages import Stage, read_project
from pipelines.lineage.tree import GitTree, WorkingTree
from rl_datasets.errors import HindcastError

ROOT = Path(__file__).parents[2]


def git(*arguments: str, cwd: Path) -> None:
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments], cwd=cwd, check=True, capture_output=True)


def test_the_lock_reads_as_dvc_reads_it():
    content = (ROOT / "dvc.lock").read_bytes()
    assert parse_lock(content) == YAML(typ="safe", pure=True).load(content.decode())["stages"]
    odd = (
        "stages: {a: {cmd: 'x', params: {params.yaml: {r: 3e-4, s: 1e-05, on: on, n: null, i: 007, f: .5, t: true, l: [-1, +2.5, .inf]}}}}"
    )
    assert parse_lock(odd.encode()) == YAML(typ="safe", pure=True).load(odd)["stages"]


def test_stages_are_those_of_dvc(monkeypatch):
    monkeypatch.chdir(ROOT)
    expected = {stage.addressing: stage for stage in Repo(".").index.stages if stage.path_in_repo == "dvc.yaml"}
    found = read_project(WorkingTree()).stages
    assert list(found) == list(expected)
    for name, stage in expected.items():
        assert found[name].command == stage.cmd
        assert {*found[name].dependencies, "params.yaml"} == {dep.def_path for dep in stage.deps}
        assert set(found[name].outputs) == {out.def_path for out in stage.outs}


def test_a_revision_is_read_without_a_working_tree(tmp_path, monkeypatch):
    project = tmp_path / "repo/inner"  # a project may lie in a folder of its repository
    project.mkdir(parents=True)
    (project / "params.yaml").write_text("one: {a: 1}\n")
    (project / "dvc.yaml").write_text("stages: {make: {foreach: '${one}', do: {cmd: 'make ${item}', outs: ['out/${key}']}}}\n")
    (project / "records").mkdir()
    (project / "records/ä b.json").write_bytes(b"{}")
    git("init", "-q", cwd=tmp_path / "repo")
    git("add", ".", cwd=tmp_path / "repo")
    git("commit", "-qm", "first", cwd=tmp_path / "repo")
    (project / "params.yaml").write_text("one: {a: 2, b: 3}\n")
    monkeypatch.chdir(project)
    assert list(read_project(WorkingTree()).stages) == ["make@a", "make@b"]
    with GitTree("HEAD") as tree:
        assert {name: stage.command for name, stage in read_project(tree).stages.items()} == {"make@a": "make 1"}
        assert tree.files("records") == ["records/ä b.json"]
        assert (tree.read("records/ä b.json"), tree.read("params.yaml"), tree.read("nothing")) == (b"{}", b"one: {a: 1}\n", None)
    with pytest.raises(HindcastError, match=r"'nosuch' is no revision in inner/\. 'git log"):
        GitTree("nosuch")
    git("clone", "-q", "--bare", "repo", "bare.git", cwd=tmp_path)
    monkeypatch.chdir(tmp_path / "bare.git")
    with GitTree("HEAD") as tree:
        assert tree.read("inner/params.yaml") == b"one: {a: 1}\n"


def test_a_graph_follows_paths_inside_and_around_outputs():
    def stage(name: str, reads: tuple[str, ...], writes: tuple[str, ...]) -> Stage:
        return Stage(name, "", reads, writes, (), None)

    stages = [stage("one", ("code",), ("out/one",)), stage("two", ("out/one/file",), ("out/two/deep",)), stage("all", ("out",), ("page",))]
    graph = Graph({s.name: s for s in stages})
    assert [graph.parents(name) for name in ("one", "two", "all")] == [[], ["one"], ["one", "two"]]
    assert [graph.children(name) for name in ("one", "two", "all")] == [["two", "all"], ["all"], []]
    assert (graph.makers("out/two"), graph.makers("out/one-more"), graph.makers("code")) == (["two"], [], [])
    assert graph.upstream(["all"]) == ["one", "two", "all"]
    assert graph.downstream(["two"]) == ["two", "all"]
