"""A copy of the project in a folder of its own, with a small params.yaml, in which whole pipelines run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compiling import QUICK, flags

ROOT = Path(__file__).parents[2]
SMALL = Path(__file__).with_name("small_params.yaml")
IN_ONE_PROCESS = """
import contextlib, io, json, pathlib, runpy, sys
said, params = [], pathlib.Path("params.yaml")
for text, stage, key in json.load(sys.stdin):
    params.write_text(text)
    sys.argv, code, error = [stage, key], 0, io.StringIO()
    with contextlib.redirect_stderr(error):
        try:
            runpy.run_module(f"pipelines.{stage}", run_name="__main__")
        except SystemExit as stop:
            code = stop.code
    said.append((code, error.getvalue()))
print(json.dumps(said))
"""


@dataclass(frozen=True)
class Project:
    """A project folder and the commands that a user runs in it."""

    root: Path

    def run(self, *command: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command with this Python's tools and the copy's code; fails the test with its output where it fails."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        source = os.pathsep.join([str(self.root), str(self.root / "datasets")])
        environment = {**os.environ, "PATH": path, "PYTHONPATH": source, "COLUMNS": "200", "XLA_FLAGS": flags(QUICK)}
        result = subprocess.run(command, cwd=self.root, env=environment, input=stdin, capture_output=True, text=True, check=False)
        assert not check or result.returncode == 0, f"{command} exited {result.returncode}:\n{result.stdout}\n{result.stderr}"
        return result

    def stage(self, name: str, key: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("python", "-m", f"pipelines.{name}", key, check=check)

    def stages(self, runs: Sequence[tuple[str, str, str]]) -> list[tuple[int, str]]:
        """Exit code and standard error of each (text of params.yaml, stage, key), one after another in one process."""
        said = self.run("python", "-c", IN_ONE_PROCESS, stdin=json.dumps(runs)).stdout.splitlines()[-1]
        return [(code, error) for code, error in json.loads(said)]

    def commit(self) -> None:
        self.run("git", "add", "-A")
        self.run("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "--allow-empty", "-m", "test")

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.root / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))


def copy_project(destination: Path) -> Project:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and name != "dvc.lock" and not name.startswith("artifacts/"):
            target = destination / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
    shutil.copy2(SMALL, destination / "params.yaml")
    project = Project(destination)
    project.run("git", "init", "-q", "-b", "main")
    project.commit()
    return project


@pytest.fixture
def project(tmp_path) -> Project:
    """A fresh copy in which nothing has run."""
    return copy_project(tmp_path / "project")


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Project:
    """A copy in which the small pipeline has run once and is committed. Tests read it and leave it as it is."""
    project = copy_project(tmp_path_factory.mktemp("finished") / "project")
    project.run("dvc", "repro")
    project.commit()
    return project
