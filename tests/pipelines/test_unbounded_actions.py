"""Logged actions without bounds: a learner that chooses actions within bounds refuses them in one line, others take them."""

from pathlib import Path

import numpy as np
import pytest

from pipelines import check, collect, split, train
from pipelines.params import Params
from rl_datasets.errors import HindcastError
from trainer.learner import known_learners

WITHOUT_BOUNDS = {"awac", "bc", "iql"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty logged episodes of four rows, through the gate and divided. Nothing in file or entry says how far an action may go."""
    folder, draw = tmp_path_factory.mktemp("project"), np.random.default_rng(0)
    file = {"observation": draw.normal(size=(120, 2)), "action": draw.normal(size=(120, 1)), "reward": draw.normal(size=120)}
    np.savez(folder / "log.npz", **{name: values.astype(np.float32) for name, values in file.items()}, length=[4] * 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for stage in (collect, check, split):
            stage.run("log", params("bc"))
    return folder


def params(algorithm: str) -> Params:
    columns = {"observation": "observation", "action": "action", "reward": "reward"}
    options = {"env_id": "Log", **columns, "ends": {"kind": "lengths", "column": "length"}, "rows": "steps"}
    entry = {"builder": "npz", "version": "1.0.0", "seed": 0, "source": "log.npz", "options": options}
    experiment = {"dataset": "log", "algorithm": algorithm, "preset": "tiny", "train": {"seeds": [0], "updates": 1, "batch_size": 4}}
    return Params.model_validate(
        {
            "datasets": {"log": entry},
            "checks": {"default": {}},
            "split": {},
            "learners": {algorithm: {"tiny": {"hidden_sizes": [4]}}},
            "experiments": {"one": experiment | {"evaluate": {"episodes": 1, "seed": 0}}},
        }
    )


@pytest.mark.parametrize("algorithm", [name for name in known_learners() if name not in WITHOUT_BOUNDS])
def test_a_learner_that_chooses_within_bounds_refuses(project: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(HindcastError) as refusal:
        train.run("one", params(algorithm))
    said = f"Environment 'Log': the action is float32[1] with an infinite bound, but {algorithm} chooses actions between bounds. "
    assert str(refusal.value).startswith(said)
    assert "\n" not in str(refusal.value)
    assert not (project / "artifacts/models").exists()


@pytest.mark.parametrize("algorithm", sorted(WITHOUT_BOUNDS))
def test_another_learner_takes_them(project: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert not train.prepare("one", params(algorithm)).learner.spec.action.is_bounded
