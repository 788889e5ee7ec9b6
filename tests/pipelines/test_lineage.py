"""Lineage and audit on a small DVC project of three stages: every planted fault is found, and where it is."""

import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.graph import Graph
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from rl_datasets.errors import HindcastError
from tests.pipelines.three_stages import make_three_stages

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    root = tmp_path / "project"
    root.mkdir()
    make_three_stages(root)
    monkeypatch.chdir(root)
    return root


def test_targets_and_trees(project):
    graph = Graph(read_project(WorkingTree()).stages)
    assert graph.parents("train") == ["collect@one"]
    assert graph.children("collect@two") == []
    assert graph.find("artifacts/raw/two/1.0.0/a") == ["collect@two"]
    assert graph.find(str(project / "artifacts/raw/two/")) == ["collect@two"]
    assert graph.find_one("one", down=False) == "collect@one"
    for target, message in (
        ("nosuch", r"'nosuch' is no stage, data set, experiment or output path\. Known: one, train, two\."),
        ("artifacts/raw/tow", r"'artifacts/raw/tow' is no stage.* Nearest: artifacts/raw/two, artifacts/raw/one"),
        ("artifacts/raw/two/1.0.0/nothing", r"is no stage, data set, experiment or output path\. Nearest: artifacts/raw/two"),
        ("make.py", r"'make\.py' is no stage"),
        ("/", r"'/' is no path inside the project"),
        (".", r"'\.' is no path inside the project"),
        ("../elsewhere", r"'\.\./elsewhere' is no path inside the project"),
        ("artifacts/raw", r"'artifacts/raw' holds outputs of 2 stages\..*: collect@one, collect@two\."),
    ):
        with pytest.raises(HindcastError, match=message):
            graph.find_one(target, down=False)

    result = CliRunner().invoke(app, ["lineage", "train"])
    assert "data set one" in result.output
    assert "data set two" not in result.output
    assert "datasets.one = 1" in result.output
    assert "training train" in CliRunner().invoke(app, ["lineage", "one", "--down"]).output

    several = CliRunner().invoke(app, ["lineage", "artifacts/raw"]).output
    assert ("data set one" in several, "data set two" in several) == (True, True)
