"""The page on how to add a learner or a network: what it prints works as printed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ruamel.yaml import YAML

import trainer.learners
import trainer.modules
from pipelines.params import ExperimentParams
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from trainer.learner import known_learners, load_learner

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "trainer" / "README.md").read_text(encoding="utf-8")
CODE, MODULES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ENTRIES, PRESETS = (YAML(typ="safe").load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
SPEC = EnvSpec("Toy-v0", ArraySpec((3,), "float32"), ArraySpec((2,), "float32", -1, 1))


@pytest.fixture
def page_learner(tmp_path, monkeypatch):
    """The learner of the page, in a folder that counts as learners/."""
    (tmp_path / "dqn.py").write_text(CODE)
    monkeypatch.setattr(trainer.learners, "__path__", [*trainer.learners.__path__, str(tmp_path)])
    yield
    sys.modules.pop("trainer.learners.dqn", None)


def test_the_entries_are_valid(page_learner) -> None:
    assert "dqn" in known_learners()
    assert load_learner("dqn").Params.model_validate(ENTRIES["learners"]["dqn"]["small"]).gamma == 0.95
    experiment = ExperimentParams.model_validate(ENTRIES["experiments"]["cartpole_dqn"])
    assert (experiment.algorithm, experiment.preset) == ("dqn", "small")


@pytest.fixture
def page_modules(tmp_path, monkeypatch):
    """The page's file of modules, in a folder that counts as modules/."""
    (tmp_path / "film.py").write_text(MODULES)
    monkeypatch.setattr(trainer.modules, "__path__", [*trainer.modules.__path__, str(tmp_path)])
    yield
    sys.modules.pop("trainer.modules.film", None)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "preset"), [("cql", "film"), ("iql", "symlog")])
def test_a_preset_of_the_page_trains_with_its_modules(page_modules, algorithm: str, preset: str) -> None:
    module = load_learner(algorithm)
    learner = module.Learner(module.Params.model_validate(PRESETS["learners"][algorithm][preset]), SPEC, 10)
    rng = np.random.default_rng(0)
    observation, next_observation = (jnp.asarray(rng.normal(size=(4, 3)), jnp.float32) for _ in range(2))
    batch = Transition(observation, jnp.asarray(rng.uniform(-1, 1, (4, 2)), jnp.float32), jnp.ones(4), jnp.ones(4), next_observation)
    state = jax.jit(learner.init)(jax.random.key(0))
    assert any({128, 32} & set(leaf.shape) for leaf in jax.tree.leaves(state.params["critic"])), "the option reached the module"
    _, metrics = jax.jit(learner.update)(state, batch)
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.slow
def test_the_learner_passes_the_contract_from_the_moment_its_file_exists(tmp_path) -> None:
    for name in ("trainer", "datasets", "tests/trainer", "tests/conftest.py", "tests/browser.py", "tests/compiling.py", "pyproject.toml"):
        source, target = ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    (tmp_path / "trainer/learners/dqn.py").write_text(CODE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "dqn", "tests/trainer/test_learner_contract.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"[1-9]\d* passed", result.stdout), result.stdout
