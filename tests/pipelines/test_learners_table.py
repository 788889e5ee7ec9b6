"""The table of learners in README.md stays true: a row for each file, and in it what the learner takes, its presets and its test."""

import re
from pathlib import Path

import pytest

from pipelines.params import load_params
from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec
from trainer.learner import known_learners, load_learner

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Learners\n")[1].split("\n## ")[0]
ROWS = {cells[0]: cells for line in SECTION.splitlines() if (cells := [cell.strip(" `") for cell in line.strip("|").split("|")])[1:]}
ACTIONS = {
    "discrete": ArraySpec((), "int64", 0, 2, num_values=3),
    "continuous with bounds": ArraySpec((2,), "float32", -1, 1),
    "continuous": ArraySpec((2,), "float32"),
}


def takes(algorithm: str, action: ArraySpec) -> bool:
    module = load_learner(algorithm)
    try:
        module.Learner(module.Params(), EnvSpec("Toy-v0", ArraySpec((3,), "float32"), action), 10)
    except HindcastError:
        return False
    return True


def test_there_is_a_row_for_each_learner_in_order() -> None:
    assert [name for name in ROWS if name not in ("learner", "---")] == known_learners()


@pytest.mark.parametrize("algorithm", known_learners())
def test_a_row_is_true(algorithm: str) -> None:
    _, actions, paper, presets, tests = ROWS[algorithm]
    taken = [kind for kind, action in ACTIONS.items() if takes(algorithm, action)]
    if "continuous" in taken:
        taken.remove("continuous with bounds")
    assert actions == ", ".join(taken)
    assert re.findall(r"`?(\w+)`?", presets) == list(load_params(ROOT / "params.yaml").learners[algorithm])
    years = re.findall(r"\d{4}\b(?=\])", paper)
    assert all(year in (load_learner(algorithm).__doc__ or "") for year in years), "the paper that the learner's file names"
    (path,) = re.findall(r"\]\((tests/\S+\.py)\)", tests)
    assert Path(path).stem == algorithm
    assert "in NumPy" in (ROOT / path).read_text(encoding="utf-8"), "an independent version"
