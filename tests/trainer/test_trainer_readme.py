"""The page on how to add a learner: the learner that it prints passes the contract, and its entries are what params.yaml takes."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import trainer.learners
from pipelines.params import ExperimentParams
from trainer.learner import known_learners, load_learner

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "trainer" / "README.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def page_learner(tmp_path, monkeypatch):
    """The learner of the page, in a folder that counts as learners/."""
    (tmp_path / "dqn.py").write_text(CODE)
    monkeypatch.setattr(trainer.learners, "__path__", [*trainer.learners.__path__, str(tmp_path)])
    yield
    sys.modules.pop("trainer.learners.dqn", None)


def test_the_entries_are_valid(page_learner) -> None:
    assert "dqn" in known_learners()
    (block,) = (YAML(typ="safe").load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    assert load_learner("dqn").Params.model_validate(block["learners"]["dqn"]["small"]).gamma == 0.95
    experiment = ExperimentParams.model_validate(block["experiments"]["cartpole_dqn"])
    assert (experiment.algorithm, experiment.preset) == ("dqn", "small")


@pytest.mark.slow
def test_the_learner_passes_the_contract_from_the_moment_its_file_exists(tmp_path) -> None:
    for name in ("trainer", "datasets", "tests/trainer", "tests/conftest.py", "pyproject.toml"):
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
