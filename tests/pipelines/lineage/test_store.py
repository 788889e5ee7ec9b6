"""Contents of outputs are found by what dvc.lock says: in the workspace where that has them, else in DVC's cache."""

import shutil
import subprocess
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipelines.lineage.stages import Project, Stage
from pipelines.lineage.store import Store
from pipelines.lineage.tracked import Origin, Tracked, tracked
from pipelines.lineage.tree import WorkingTree
from rl_datasets.errors import HindcastError

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie
IMPORTED = """md5: 1
frozen: true
deps:
- path: logs/robot.csv
  repo:
    url: https://example.com/robots.git
    rev_lock: 0123abc
outs:
- md5: feed
  hash: md5
  path: robot.csv
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A folder and a file that DVC itself put into its cache, and a lock that names them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    subprocess.run(["git", "init", "-q"], check=True)
    with Repo.init() as repo:
        for path in ("out/model/a/seed.json", "out/model/b.json", "out/metrics.json"):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(path)
        added = {out.def_path: out.hash_info.value for path in ("out/model", "out/metrics.json") for out in repo.add(path)[0].outs}
    for path in Path("out").glob("*.dvc"):
        path.unlink()
    locked = {"outs": [{"path": f"out/{name}", "md5": md5} for name, md5 in added.items()]}
    return Store(Project(WorkingTree(), {}, {"make": Stage("make", "", (), ("out/model", "out/metrics.json"), (), locked)}))


def test_bytes_come_from_the_workspace_or_the_cache_and_must_have_their_hash(store):
    inner, cached = "out/model/a/seed.json", store.cached(store.md5("out/model/a/seed.json"))
    assert store.files("out") == ["out/metrics.json", "out/model/a/seed.json", "out/model/b.json"]
    assert store.files("out/model/a") == [inner]
    assert store.files("out/model/b.json") == ["out/model/b.json"]
    assert store.output_of(inner) == ("out/model", store.md5("out/model"))
    assert store.find(inner) == Path(inner)
    shutil.rmtree("out/model")
    assert store.find(inner) == cached
    assert store.read(inner) == inner.encode()
    Path("out/metrics.json").write_text("edited")
    assert store.read("out/metrics.json") == b"out/metrics.json"
    cached.chmod(0o644)
    cached.write_text("damaged")
    assert store.read(inner) is None
    for nothing in ("out/model", "out/model/none", "elsewhere"):
        assert store.read(nothing) is None


def test_a_damaged_or_missing_listing_is_none(store):
    place = store.cached(store.md5("out/model"))
    place.chmod(0o644)
    place.write_text("[]")
    assert store.listing("out/model") is None
    assert store.files("out") == ["out/metrics.json"]
    assert store.md5("out/model/b.json") is None


def test_the_cache_lies_where_dvc_is_told(store, tmp_path):
    (tmp_path / ".dvc/config.local").write_text("[cache]\n    dir = ../elsewhere\n")
    assert store.cached("abcd") == tmp_path / "elsewhere/files/md5/ab/cd"


def test_sources_that_dvc_keeps_say_where_they_came_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = WorkingTree()
    Path("data").mkdir()
    Path("data/robot.csv.dvc").write_text(IMPORTED)
    Path("data.dvc").write_text("outs:\n- md5: feed.dir\n  path: data\n")
    Path("far.csv.dvc").write_text("deps:\n- path: https://example.com/far.csv\n  etag: x\nouts:\n- path: far.csv\n")
    expected = Tracked(
        "data/robot.csv.dvc", "data/robot.csv", "feed", Origin.IMPORTED, "https://example.com/robots.git", "0123abc", "logs/robot.csv"
    )
    assert tracked(tree, "data/robot.csv") == expected
    assert tracked(tree, "data/other.csv") == Tracked("data.dvc", "data", "feed.dir", Origin.ADDED)
    assert tracked(tree, "far.csv") == Tracked("far.csv.dvc", "far.csv", "", Origin.FETCHED, "https://example.com/far.csv")
    assert tracked(tree, "README.md") is None
    Path("data.dvc").write_text("outs: none\n")
    with pytest.raises(HindcastError, match=r"data\.dvc does not say what DVC keeps at data"):
        tracked(tree, "data/other.csv")
