"""What goes wrong is one clear message and a non-zero exit, and leaves nothing half-written."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
SMALL = Path(__file__).with_name("small_params.yaml")

FAULTY_BUILDER = '''
"""Three short episodes, the second and third with a fault, for the tests of the gate."""
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
            if index == 1 and "action" in self.options.fault:
                action[1] = 2.5
            if index == 2 and "nan" in self.options.fault:
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


def message(code: int, error: str) -> str:
    """The one message of a failed stage; a traceback is no message."""
    assert code == 1, error
    assert "Traceback" not in error, error
    assert error.count("failed.") == 1, error
    return error


def leftovers(root: Path) -> list[Path]:
    return [path for path in (root / "artifacts").rglob("*") if ".partial" in path.name]


REFUSED = {
    "environment": ("env_id: CartPole-v1", "env_id: CartPoel-v1", "cartpole", ["CartPoel-v1", "CartPole"]),
    "builder": ("builder: gymnasium", "builder: gymnasum", "cartpole", ["datasets.cartpole.builder", "gymnasum", "Known: "]),
    "number": ("episodes: 150", "episodes: 0", "cartpole", ["datasets.cartpole.options.episodes", "found 0"]),
    "dependency": ("env_id: CartPole-v1", "env_id: LunarLander-v3", "cartpole", ["LunarLander-v3", "install"]),
    "key": ("env_id: CartPole-v1", "env_id: CartPole-v1", "cartpol", ["cartpol", "cartpole"]),
}


def test_collect_refuses(project):
    params = SMALL.read_text()
    runs = [(params.replace(old, new, 1), "collect", key) for old, new, key, _ in REFUSED.values()]
    for (name, (*_, words)), outcome in zip(REFUSED.items(), project.stages(runs), strict=True):
        text = message(*outcome)
        assert all(word in text for word in words), (name, text)
    assert not (project.root / "artifacts/raw").exists() or not list((project.root / "artifacts/raw").rglob("*.*"))


def test_the_gate_stops_bad_data(project):
    (project.root / "datasets/rl_datasets/builders/faulty.py").write_text(FAULTY_BUILDER)
    project.edit("params.yaml", "datasets:\n", toy_entry("action and nan"))
    result = project.run("dvc", "repro", "split@toy", check=False)
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert "Running stage 'check@toy'" in text
    assert "Running stage 'split@toy'" not in text
    for words in (["toy-1", "2.5", "1"], ["toy-2", "nan"]):
        assert all(word in text.lower() for word in words), text
    assert (project.root / "artifacts/checks/toy/report.json").is_file()
    assert not (project.root / "artifacts/splits/toy").exists()


def test_too_few_episodes_to_split(project):
    (project.root / "datasets/rl_datasets/builders/faulty.py").write_text(FAULTY_BUILDER)
    params = SMALL.read_text().replace("datasets:\n", toy_entry("none"))
    collected, checked, refused = project.stages([(params, stage, "toy") for stage in ("collect", "check", "split")])
    assert (collected[0], checked[0]) == (0, 0), (collected, checked)
    text = message(*refused)
    assert "would be empty" in text
    assert "needed" in text
    assert not (project.root / "artifacts/splits/toy/1.0.0").exists()
    assert not leftovers(project.root)


def test_a_full_disk(project):
    """A limit on the size of files stands in for the disk: both end a write with an OSError in the middle."""
    code = (
        "import resource, runpy, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
        "sys.argv = ['pipelines.collect', 'cartpole']; runpy.run_module('pipelines.collect', run_name='__main__')"
    )
    project.edit("params.yaml", "episodes: 150", "episodes: 2000")
    result = project.run("python", "-c", code, check=False)
    text = message(result.returncode, result.stderr)
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
