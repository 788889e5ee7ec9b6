"""`hindcast drift` on data sets, directories and revisions: what differs is told, and the exit code says whether anything does."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.commands import drift
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import Manifest, write_manifest
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

SPEC = EnvSpec("Walk-v0", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0, 2, num_values=3))


def walk(index: int, shift: float) -> Episode:
    rng = np.random.default_rng(index)
    observation, reward = rng.normal(shift, 1, (9, 2)).astype(np.float32), rng.normal(size=9).astype(np.float32)
    metadata = {"seed": index, "policy": "random", "environment": "Walk-v0"}
    return Episode(f"{index:03d}", observation, rng.integers(0, 3, 9), reward, np.ones(9, np.float32), False, metadata)


def make(name: str, first: int = 0, shift: float = 0.0) -> Path:
    folder = Path("artifacts/raw") / name / "1.0.0"
    shutil.rmtree(folder, ignore_errors=True)
    written = write_rlds(folder, name, "1.0.0", SPEC, {"raw": [walk(index, shift) for index in range(first, first + 100)]}, shards=2)
    write_manifest(folder, Manifest(f"collect@{name}", written.digest, {}))
    return folder


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_data_sets_of_one_source_do_not_differ():
    make("north"), make("south", first=500)
    result = CliRunner().invoke(app, ["drift", "north", "south"])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "'north' 1.0.0 and 'south' 1.0.0:",
        "100 episodes (800 transitions) and 100 (800): no difference in 8 columns.",
    ]


def test_what_differs_is_told_also_of_a_directory():
    make("north")
    folder = make("south", first=500, shift=2)
    result = CliRunner().invoke(app, ["drift", "north", folder.as_posix()])
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == f"'north' 1.0.0 and {folder}:"
    assert lines[1].endswith("2 of 8 columns differ, the most changed first.")
    assert {line.split(":")[0].strip() for line in lines[2:]} == {"observation[0]", "observation[1]"}
    values = json.loads(CliRunner().invoke(app, ["drift", "north", "south", "--json"]).output)
    assert [column["column"] for column in values["columns"] if column["drifted"]] == [line.split(":")[0].strip() for line in lines[2:]]


def test_what_cannot_be_read_says_what_was_expected():
    with pytest.raises(HindcastError, match="artifacts/raw/north was expected to hold one data set"):
        drift.run("north", "south", "", False, None)
    with pytest.raises(HindcastError, match=r"dvc\.lock has no run of the data set 'north'.*hindcast drift north OTHER"):
        drift.run("north", "", "", False, None)


def record(subject: str) -> str:
    """Writes the data into DVC's cache, and dvc.lock, as a run does, and commits."""
    from dvc.repo import Repo

    with Repo(".") as repo:
        repo.commit(force=True)
    for arguments in (["add", "-A"], ["-c", "user.name=Ada", "-c", "user.email=ada@localhost", "commit", "-qm", subject]):
        subprocess.run(["git", *arguments], check=True)
    return subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_an_earlier_version_is_found_in_git_and_the_cache():
    from dvc.repo import Repo

    subprocess.run(["git", "init", "-q", "-b", "main"], check=True)
    with Repo.init("."):
        pass
    Path(".gitignore").write_text("/artifacts\n")
    Path("dvc.yaml").write_text("stages:\n  north:\n    cmd: 'true'\n    outs: [artifacts/raw/north]\n")
    make("north")
    first = record("first")
    Path("README").write_text("no data changed\n")
    same = record("same")
    make("north", shift=2)
    record("shifted")
    for options in ([], ["--rev", first], ["--rev", same[:12]]):
        result = CliRunner().invoke(app, ["drift", "north", *options])
        assert result.exit_code == 1, result.output
        assert "2 of 8 columns differ" in result.output
    assert result.output.startswith(f"'north' of {same[:12]} and 'north' 1.0.0:")
    assert CliRunner().invoke(app, ["drift", "north", "--rev", "HEAD"]).exit_code == 0
    with pytest.raises(HindcastError, match="'elsewhere' is no revision"):
        drift.run("north", "", "elsewhere", False, None)
    shutil.rmtree(".dvc/cache")
    with pytest.raises(HindcastError, match=r"'north' of revision .* is not in DVC's cache.*dvc fetch --all-commits"):
        drift.run("north", "", first, False, None)
