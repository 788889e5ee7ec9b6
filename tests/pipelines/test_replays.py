"""Public logged data from their files to evaluated policies, by the entries that `hindcast inspect` prints."""

import json
import shutil
from pathlib import Path

import h5py
import pytest
from ruamel.yaml import YAML

from pipelines import check, collect, evaluate, split, train
from pipelines.params import Params
from rl_datasets.inspection.inspect import inspect
from rl_datasets.manifest import read_manifest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
PRESETS = YAML(typ="safe").load(ROOT / "params.yaml")["learners"]
UPDATES = {"cartpole": 800, "pendulum": 60}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the folder of public files (../shared/data) is not here"),
]


def params(task: str, entry: str) -> Params:
    """The file's data set, and IQL and CQL on it by the presets of the environment."""
    experiments = {
        f"{task}_{algorithm}": {
            "dataset": f"{task}_replay",
            "algorithm": algorithm,
            "preset": task,
            "train": {"seeds": [0], "updates": UPDATES[task], "batch_size": 128},
            "evaluate": {"episodes": 5, "seed": 0},
        }
        for algorithm in ("iql", "cql")
    }
    learners = {algorithm: {task: PRESETS[algorithm][task]} for algorithm in ("iql", "cql")}
    datasets = YAML(typ="safe").load(entry)
    return Params.model_validate(
        {"datasets": datasets, "checks": {"default": {}}, "split": {}, "learners": learners, "experiments": experiments}
    )


@pytest.mark.parametrize(("task", "low", "high"), [("cartpole", 8.0, 500.0), ("pendulum", -1700.0, 0.0)])
def test_from_a_replay_to_policies(task: str, low: float, high: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Returns are what the environment can give; in so few updates, CQL on CartPole alone has learnt to do better than the data."""
    monkeypatch.chdir(tmp_path)
    file = Path("data") / f"{task}_replay.h5"
    file.parent.mkdir()
    shutil.copy(DATA / file.name, file)
    every = params(task, inspect(file).entry)
    raw = collect.run(f"{task}_replay", every)
    check.run(f"{task}_replay", every)
    split.run(f"{task}_replay", every)
    with h5py.File(file) as raw_file:
        ends, terminals = raw_file["episode_terminals"][:].sum(), raw_file["terminals"][:].sum()
        behaviour = raw_file["rewards"][:].sum() / ends
    counts = read_manifest(raw).counts
    assert (counts["episodes"], counts["terminals"], counts["truncations"]) == (ends, terminals, ends - terminals)
    for algorithm in ("iql", "cql"):
        train.run(f"{task}_{algorithm}", every)
        found = json.loads((evaluate.run(f"{task}_{algorithm}", every) / "metrics.json").read_text())
        assert low <= found["return_mean"] <= high
        assert found["return_mean"] > behaviour or (task, algorithm) != ("cartpole", "cql")
        assert found["behaviour_return_mean"] == pytest.approx(behaviour, rel=0.2)  # of the train split
