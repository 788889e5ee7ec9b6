"""What DVC did is told apart from what was done by hand: runs, experiments, commits without a run, imported sources. DVC itself runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipelines.lineage.graph import Graph
from pipelines.lineage.provenance.model import Kind, Link, Provenance
from pipelines.lineage.provenance.target import provenance_of
from pipelines.lineage.records import Launcher, Record, records_of
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from tests.pipelines.lineage.small_project import git, write

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning", "ignore::ResourceWarning")  # of DVC
ROOT = Path(__file__).parents[3]
DVC_YAML = """
stages:
  collect:
    foreach: ${datasets}
    do:
      cmd: python make.py ${key}
      deps: [make.py, data/walks.csv]
      params:
        - datasets.${key}
      outs: ["artifacts/raw/${key}"]
"""
MAKE = """
import sys
from pathlib import Path
from pipelines.lineage.record import recording
from pipelines.lineage.stages import read_stage
from pipelines.lineage.tree import WorkingTree

key = sys.argv[1]
with recording(f"collect@{key}") as outcome:
    folder = Path("artifacts/raw", key)
    folder.mkdir(parents=True, exist_ok=True)
    seed = read_stage(WorkingTree(), f"collect@{key}")[1][f"datasets.{key}"]["seed"]
    (folder / "steps.csv").write_text(Path("data/walks.csv").read_text() * seed)
    outcome.written.append(folder)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose source was imported from another one's DVC, with one stage that keeps records."""
    for name in ("DVC_STAGE", "DVC_ROOT", "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "datasets"))))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    for name, value in (("AUTHOR", "Ada"), ("COMMITTER", "Ada")):
        monkeypatch.setenv(f"GIT_{name}_NAME", value)
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@localhost")
    robots, root = tmp_path / "robots", tmp_path / "project"
    for folder in (robots, root):
        folder.mkdir()
        git("init", "-q", "-b", "main", root=folder)
        Repo.init(str(folder)).close()
    write(robots / "logs/walks.csv", "1,2\n")
    with Repo(str(robots)) as repo:
        repo.add(str(robots / "logs/walks.csv"))
    commit_all(robots)
    write(root / "dvc.yaml", DVC_YAML)
    write(root / "params.yaml", "datasets: {walks: {version: 1.0.0, seed: 1, source: data/walks.csv}}\n")
    write(root / "make.py", MAKE)
    write(root / ".gitignore", "/artifacts/*\n!/artifacts/records/\n")
    (root / "data").mkdir()
    monkeypatch.chdir(root)
    with Repo(".") as repo:
        repo.imp(str(robots), "logs/walks.csv", out="data/walks.csv")
    commit_all(root)
    return root


def commit_outputs() -> None:
    """As `dvc commit --force` does."""
    with Repo(".") as repo:
        repo.commit(force=True)


def run_experiment(name: str, change: str, *options: str) -> None:
    """In a process of its own, for DVC forks."""
    command = [sys.executable, "-m", "dvc", "exp", "run", "--quiet", "--name", name, "--set-param", change, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def commit_all(root: Path) -> None:
    git("add", "-A", root=root)
    git("commit", "-qm", "Work", root=root)


def newest() -> Record:
    return max(records_of(WorkingTree(), "collect@walks"), key=lambda record: record.ended)


def lineage() -> Provenance:
    project = read_project(WorkingTree())
    return provenance_of(project, Graph(project.stages), "walks", down=False)


def made() -> str:
    return lineage().nodes["data set:walks"].details["made"]


@pytest.mark.slow
def test_runs_experiments_commits_and_imports_are_told_apart(project):
    assert made() == "not run yet"
    with Repo(".") as repo:
        repo.reproduce()
    commit_all(project)
    assert (made(), newest().is_dirty) == ("dvc repro", False)
    graph = lineage()
    source = graph.nodes["source file:data/walks.csv"]
    robots = git("rev-parse", "HEAD", root=project.parent / "robots")
    assert source.details == {
        "kept by": "dvc import (data/walks.csv.dvc)",
        "address": str(project.parent / "robots"),
        "its commit": robots,
        "its path": "logs/walks.csv",
    }
    (run,) = (node for node in graph.nodes.values() if node.kind is Kind.RUN)
    assert Link(run.id, f"commit:{newest().commit}", "at") in graph.links
    assert [entry.keeper for entry in newest().inputs] == ["dvc"]

    run_experiment("twice", "datasets.walks.seed=2")
    record = newest()
    assert (record.launcher, record.experiment, record.changed) == (Launcher.EXPERIMENT, "twice", ("params.yaml",))
    assert record.baseline == git("rev-parse", "HEAD", root=project)
    assert record.seeds == {"datasets.walks.seed": 2}
    assert made() == "dvc exp run, experiment twice"

    run_experiment("thrice", "datasets.walks.seed=3", "--temp")
    record = newest()  # it ran in a copy, and its record is here
    assert (record.launcher, record.experiment, record.seeds) == (Launcher.EXPERIMENT, "thrice", {"datasets.walks.seed": 3})
    assert made() == "dvc exp run, experiment twice"

    params = project / "params.yaml"
    params.write_text(params.read_text().replace("seed: 2", "seed: 4"))
    subprocess.run([sys.executable, "make.py", "walks"], check=True)
    assert newest().launcher == Launcher.HAND
    assert made() == "dvc exp run, experiment twice"  # dvc.lock does not have it yet
    commit_outputs()
    assert made() == "run by hand, then taken into dvc.lock with dvc commit"

    write(project / "artifacts/raw/walks/steps.csv", "made up\n")
    commit_outputs()
    assert made().startswith("no recorded run made these bytes: they were taken into dvc.lock with dvc commit")
