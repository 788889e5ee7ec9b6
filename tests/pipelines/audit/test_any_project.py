"""Audit of any project that DVC runs: three stages without manifests or records. Every planted fault is found, and where it is."""

import json
import shutil
from pathlib import Path

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lineage.audit import Finding, Verdict, audit_stages, exit_code
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import Hasher
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import Input, Manifest, write_manifest
from tests.pipelines.three_stages import make_three_stages

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path_factory.mktemp("site")))
        root = tmp_path_factory.mktemp("three_stages")
        make_three_stages(root)
        yield root


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    root = tmp_path / "project"
    shutil.copytree(made, root)
    monkeypatch.chdir(root)
    return root


def verdicts() -> dict[Verdict, list[str]]:
    findings = audit_stages(project := read_project(WorkingTree()), Graph(project.stages), list(project.stages))
    told = [finding for finding in findings if not finding.link.startswith("record")]  # these stages leave none
    return {verdict: [f"{f.stage}: {f.link}" for f in told if f.verdict is verdict] for verdict in Verdict}


def test_every_fault_is_found_where_it_is(project):
    """One project for all faults, since making it takes seconds: each is planted, found and mended."""
    lock = YAML(typ="safe").load(Path("dvc.lock").read_text())["stages"]
    for stage in lock.values():
        for entry in [*stage["deps"], *stage["outs"]]:
            assert Hasher()(entry["path"]) == entry["md5"]

    clean = verdicts()
    assert clean[Verdict.BROKEN] == clean[Verdict.UNKNOWN] == []
    assert len(clean[Verdict.HOLDS]) == 17  # a collect: parameter, command, make.py, code, modules, compiled, output; train: 3

    def broken_by(path: str, change) -> list[str]:
        file = Path(path)
        before = file.read_bytes()
        file.unlink()  # DVC may have hard-linked it to its cache
        file.write_bytes(change(before))
        found = verdicts()[Verdict.BROKEN] + [f"affected {link}" for link in verdicts()[Verdict.AFFECTED]]
        file.unlink()
        file.write_bytes(before)
        assert not verdicts()[Verdict.BROKEN]
        return found

    def flip(data: bytes) -> bytes:
        return bytes([data[0] ^ 1]) + data[1:]

    assert broken_by("artifacts/raw/one/1.0.0/z/c", flip) == [
        "collect@one: output artifacts/raw/one",
        "affected train: input artifacts/raw/one",
    ]
    assert broken_by("artifacts/model/1.0.0/a", flip) == ["train: output artifacts/model"]
    assert broken_by("make.py", lambda data: data + b"\n") == ["collect@one: input make.py", "affected collect@two: input make.py"]
    assert broken_by("params.yaml", lambda data: data.replace(b"2", b"3")) == [
        "collect@two: parameter datasets.two",
        "affected collect@two: command",
    ]
    assert broken_by("code/a.py", flip) == ["collect@one: input code", "affected collect@two: input code"]
    assert broken_by("code/__pycache__/a.pyc", flip) == []
    assert broken_by("dvc.yaml", lambda data: data.replace(b"cp -r", b"cp -R")) == ["train: command"]

    result = CliRunner().invoke(app, ["audit"])
    assert (result.exit_code, "holds" in result.output) == (2, True)  # for want of records
    Path("artifacts/model").rename("elsewhere")
    assert verdicts()[Verdict.UNKNOWN] == ["train: output artifacts/model"]
    result = CliRunner().invoke(app, ["audit"])
    assert result.exit_code == 2
    assert "train" not in result.output
    assert "1 path is not in this clone: 'dvc pull' or 'dvc checkout' brings them, 'dvc repro' makes them anew" in result.output
    result = CliRunner().invoke(app, ["audit", "--verbose"])
    assert "cannot tell: output artifacts/model: it is not here" in result.output
    result = CliRunner().invoke(app, ["audit", "--json"])
    findings = json.loads(result.output)
    assert (result.exit_code, len([entry for entry in findings if entry["verdict"] != Verdict.NOTE])) == (2, 20)  # nothing is committed
    assert [entry["link"] for entry in findings if entry["is_missing"]] == ["output artifacts/model"]
    assert CliRunner().invoke(app, ["audit", "two"]).exit_code == 2

    Path("artifacts/raw/one/1.0.0/a").unlink()
    result = CliRunner().invoke(app, ["audit", "train"])
    assert result.exit_code == 1
    lines = [line for line in result.output.splitlines() if "record of the run" not in line]
    assert [line.split()[:2] for line in lines[:4]] == [
        ["broken", "collect@one"], ["broken:", "output"], ["affected", "train"], ["affected:", "input"],
    ]  # fmt: skip
    assert "mend this first: collect@one: output artifacts/raw/one" in result.output

    Path("dvc.lock").write_text("<<<<<<< ours\n")
    with pytest.raises(HindcastError, match=r"dvc\.lock, line 1: a merge left its marker"):
        read_project(WorkingTree())
    Path("dvc.lock").unlink()
    assert verdicts()[Verdict.UNKNOWN] == ["collect@one: dvc.lock", "collect@two: dvc.lock", "train: dvc.lock"]


def test_a_manifest_that_names_another_content_is_found(project):
    Path("artifacts/model").rename("elsewhere")
    inputs = (Input("one", "artifacts/raw/one", "digest-of-old"),)
    for folder, *made in (("artifacts/raw/one", "collect@one", ()), ("artifacts/model", "train", inputs)):
        Path(folder).mkdir(exist_ok=True)
        write_manifest(Path(folder), Manifest(made[0], "digest-of-new", {}, made[1]))
    link = "train: content of artifacts/raw/one as artifacts/model/manifest.json names it"
    with Repo(".") as repo:
        repo.commit(force=True)
    assert verdicts()[Verdict.BROKEN] == [link]


def test_exit_code_prefers_broken_over_unknown():
    holds, broken, unknown = (Finding("train", verdict, "link") for verdict in (Verdict.HOLDS, Verdict.BROKEN, Verdict.UNKNOWN))
    assert [exit_code(found) for found in ([holds], [holds, unknown], [unknown, broken, holds])] == [0, 2, 1]
