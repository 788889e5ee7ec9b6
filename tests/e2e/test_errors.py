"""What goes wrong is one clear message and a non-zero exit, and leaves nothing half-written."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

FAULTY_BUILDER = '''
"""Three short episodes with a fault in the second, for the tests of the gate."""
from collections.abc import Iterator

import numpy as np

from rl_datasets.builder import BuilderBase, BuilderOptions
from rl_datasets.schema import ArraySpec, EnvSpec, Episode


class Options(BuilderOptions):
    fault: str


class Builder(BuilderBase):
    options: Options

    def spec(self) -> EnvSpec:
        return EnvSpec("Toy-v0", ArraySpec((1,), "float32"), ArraySpec((1,), "float32", -1.0, 1.0))

    def episodes(self, seed: int) -> Iterator[Episode]:
        for index in range(3):
            action = np.full((3, 1), 0.5, np.float32)
            action[-1] = 0
            observation = np.arange(3, dtype=np.float32)[:, None] + 100 * index
            if index == 1 and self.options.fault == "action":
                action[1] = 2.5
            if index == 1 and self.options.fault == "nan":
                observation[1] = np.nan
            reward = np.array([1, 1, 0], np.float32)
            discount = np.array([1, 1, 0], np.float32)
            metadata = {"seed": -1, "policy": "toy", "environment": "Toy-v0"}
            yield Episode(f"toy-{index}", observation, action, reward, discount, False, metadata)
'''


def toy_entry(fault: str) -> str:
    return f"""datasets:
  toy:
    builder: faulty
    version: 1.0.0
    seed: 0
    source: requirements.lock
    options: {{fault: {fault}}}
"""


def message(result: subprocess.CompletedProcess[str]) -> str:
    """The one message of a failed stage; a traceback is no message."""
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    assert result.stderr.count("failed.") == 1, result.stderr
    return result.stderr


def leftovers(root: Path) -> list[Path]:
    return [path for path in (root / "artifacts").rglob("*") if ".partial" in path.name]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("env_id: CartPole-v1", "env_id: CartPoel-v1", ["CartPoel-v1", "CartPole"]),
        ("builder: gymnasium", "builder: gymnasum", ["datasets.cartpole.builder", "gymnasum", "Known: "]),
        ("episodes: 150", "episodes: 0", ["datasets.cartpole.options.episodes", "found 0"]),
        ("env_id: CartPole-v1", "env_id: LunarLander-v3", ["LunarLander-v3", "install"]),
    ],
)
def test_collect_refuses(project, old, new, expected):
    project.edit("params.yaml", old, new)
    text = message(project.stage("collect", "cartpole", check=False))
    assert all(word in text for word in expected), text
    assert not (project.root / "artifacts/raw").exists() or not list((project.root / "artifacts/raw").rglob("*.*"))


def test_an_unknown_key_lists_the_known_ones(project):
    text = message(project.stage("collect", "cartpol", check=False))
    assert "cartpol" in text
    assert "cartpole" in text


@pytest.mark.parametrize(("fault", "words"), [("action", ["toy-1", "2.5", "1"]), ("nan", ["toy-1", "nan"])])
def test_the_gate_stops_bad_data(project, fault, words):
    (project.root / "datasets/rl_datasets/builders/faulty.py").write_text(FAULTY_BUILDER)
    project.edit("params.yaml", "datasets:\n", toy_entry(fault))
    project.run("dvc", "repro", "collect@toy")
    result = project.run("dvc", "repro", "split@toy", check=False)
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert all(word in text.lower() for word in words), text
    assert (project.root / "artifacts/checks/toy/report.json").is_file()
    assert not (project.root / "artifacts/splits/toy").exists()


def test_too_few_episodes_to_split(project):
    (project.root / "datasets/rl_datasets/builders/faulty.py").write_text(FAULTY_BUILDER)
    project.edit("params.yaml", "datasets:\n", toy_entry("none"))
    for stage in ("collect", "check"):
        project.stage(stage, "toy")
    text = message(project.stage("split", "toy", check=False))
    assert "would be empty" in text
    assert "needed" in text
    assert not (project.root / "artifacts/splits/toy/1.0.0").exists()
    assert not leftovers(project.root)


def test_a_shard_cut_in_half(project):
    project.stage("collect", "cartpole")
    shard = sorted((project.root / "artifacts/raw/cartpole/1.0.0").glob("*.tfrecord*"))[3]
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2])
    assert shard.name in message(project.stage("check", "cartpole", check=False))


def test_a_full_disk(project):
    """A limit on the size of files stands in for the disk: both end a write with an OSError in the middle."""
    code = (
        "import resource, runpy, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "import tensorflow; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
        "sys.argv = ['pipelines.collect', 'cartpole']; runpy.run_module('pipelines.collect', run_name='__main__')"
    )
    project.edit("params.yaml", "episodes: 150", "episodes: 2000")
    text = message(project.run("python", "-c", code, check=False))
    assert "artifacts/raw/cartpole" in text
    assert not leftovers(project.root)
    assert not (project.root / "artifacts/raw/cartpole/1.0.0").exists()


def test_two_repros_at_once(project):
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    first = subprocess.Popen(["dvc", "repro", "collect@cartpole"], cwd=project.root, env=environment, stdout=subprocess.PIPE, text=True)
    lock = project.root / ".dvc/tmp/rwlock"
    deadline = time.monotonic() + 30
    while not lock.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    second = project.run("dvc", "repro", "collect@cartpole", check=False)
    first.communicate(timeout=120)
    assert first.returncode == 0
    assert second.returncode != 0
    assert "lock" in (second.stdout + second.stderr).lower()
    project.run("dvc", "repro", "collect@cartpole")
