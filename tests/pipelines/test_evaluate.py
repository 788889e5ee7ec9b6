"""The evaluation stage on hand-made artifacts: untrained policies of two seeds, whose returns a plain loop gives as well."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pandas as pd
import pytest
from gymnasium import spaces

from pipelines import evaluate
from pipelines.inputs import parameters_of
from pipelines.params import Params
from rl_datasets.environments import env_spec
from rl_datasets.errors import HindcastError
from rl_datasets.files import write_json
from rl_datasets.manifest import Manifest, read_manifest, write_manifest
from rl_datasets.schema import EnvSpec, ReferenceReturns
from trainer.bundle import Dataset, load_bundle, make_bundle
from trainer.evaluation import environment_seeds
from trainer.learners import bc
from trainer.preprocessing import make_preprocessor

DIGEST = "5a" * 32
MODELS = Path("artifacts/models/exp/policies")
OUT = Path("artifacts/evals/exp")
STATISTICS = {
    "observation": {"observation": {"mean": [0.0, 0.1, 0.0, -0.1], "std": [0.1, 0.5, 0.1, 0.7]}},
    "episode_return": {"mean": 21.5, "std": 3.0, "minimum": 9.0, "maximum": 60.0},
}


class Room(gym.Env[Any, Any]):
    """Nested observations with an image; three steps, each rewarded by 0.5; always a success where the seed is even."""

    observation_space = spaces.Dict({"image": spaces.Box(0, 255, (8, 8, 3), np.uint8), "place": spaces.Discrete(4)})
    action_space = spaces.Box(-2, 2, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.is_even, self.clock = seed is not None and seed % 2 == 0, 0
        return self.observe(), {}

    def observe(self) -> Any:
        return {"image": np.full((8, 8, 3), self.clock, np.uint8), "place": self.clock}

    def step(self, action: Any) -> Any:
        self.clock += 1
        return self.observe(), 0.5, self.clock == 3, False, {"success": self.is_even}


def params(**experiment: Any) -> Params:
    entry = {
        "dataset": "data",
        "algorithm": "bc",
        "preset": "tiny",
        "train": {"seeds": [3, 1], "updates": 10, "batch_size": 4},
        "evaluate": {"episodes": 4, "seed": 7},
    }
    dataset = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "requirements.lock", "options": {}}
    return Params.model_validate(
        {
            "datasets": {"data": dataset},
            "checks": {"default": {}},
            "split": {},
            "learners": {"bc": {"tiny": {"hidden_sizes": [8]}}},
            "experiments": {"exp": {**entry, **experiment}},
        }
    )


def write_policy(spec: EnvSpec, folder: int, **changes: Any) -> None:
    """The policy of the seed `folder`, or one that says otherwise of itself by `changes`."""
    learner_params = bc.Params(hidden_sizes=(8,))
    learner = bc.Learner(learner_params, spec, 10)
    shapes = jax.eval_shape(lambda: learner.policy(learner.init(jax.random.key(0))))
    rng = np.random.default_rng(folder)
    values: dict[str, Any] = {
        "spec": spec,
        "algorithm": "bc",
        "params": learner_params,
        "updates": 10,
        "seed": folder,
        "preprocessor": make_preprocessor(learner_params, spec, STATISTICS),
        "policy": jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes),
        "dataset": Dataset("data", "1.0.0", DIGEST),
    }
    make_bundle(**{**values, **changes}).save(MODELS / f"seed_{folder}")


def write_project(spec: EnvSpec) -> None:
    split = Path("artifacts/splits/data/1.0.0")
    write_json(split / "stats.json", STATISTICS)
    write_manifest(split, Manifest("split@data", DIGEST, parameters_of("split@data", params())))
    for seed in (3, 1):
        write_policy(spec, seed)
    write_model_manifest(params())


def write_model_manifest(asked: Params) -> None:
    write_manifest(MODELS.parent, Manifest("train@exp", "d", parameters_of("train@exp", asked)))


def cartpole_spec() -> EnvSpec:
    return env_spec(gym.make("CartPole-v1"), "CartPole-v1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvSpec:
    monkeypatch.chdir(tmp_path)
    spec = cartpole_spec()
    write_project(spec)
    return spec


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(OUT.iterdir())}


def test_returns_are_those_of_a_plain_loop(project: EnvSpec) -> None:
    assert evaluate.run("exp", params()) == OUT
    table = pd.read_csv(OUT / "episodes.csv")
    assert list(table.columns) == ["training_seed", "episode", "environment_seed", "episode_return", "length", "is_terminal"]
    assert list(zip(table["training_seed"], table["episode"], strict=True)) == [(s, e) for s in (3, 1) for e in range(4)]
    assert list(table["environment_seed"]) == environment_seeds(7, 4) * 2
    for row in table.itertuples():
        policy, env = load_bundle(MODELS / f"seed_{row.training_seed}"), gym.make("CartPole-v1")
        observation, _ = env.reset(seed=int(row.environment_seed))
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(int(policy.act(observation[None])[0]))
            total, over = total + float(reward), terminated or truncated
        assert (row.episode_return, row.length, row.is_terminal) == (total, total, terminated)


def test_metrics_summarise_the_table(project: EnvSpec) -> None:
    evaluate.run("exp", params())
    metrics = json.loads((OUT / "metrics.json").read_text())
    returns = pd.read_csv(OUT / "episodes.csv")["episode_return"].to_numpy().reshape(2, 4)
    assert metrics["return_mean"] == returns.mean()
    assert metrics["return_std"] == pytest.approx(returns.std())
    assert metrics["return_median"] == np.median(returns)
    assert metrics["iqm"] == pytest.approx(np.sort(returns.ravel())[2:6].mean())
    assert metrics["seed_means"] == returns.mean(axis=1).tolist()
    assert metrics["worst_seed_mean"] == returns.mean(axis=1).min()
    assert metrics["length_mean"] == returns.mean()
    assert metrics["behaviour_return_mean"] == 21.5
    assert metrics["success_rate"] is None
    assert metrics["normalized_score"] is None
    assert not any(isinstance(value, dict | str) for value in metrics.values()), "dvc metrics show is to have plain columns"


def test_manifest_names_policies_and_data(project: EnvSpec) -> None:
    evaluate.run("exp", params())
    manifest = read_manifest(OUT)
    digests = [load_bundle(MODELS / f"seed_{seed}").description["digest"] for seed in (3, 1)]
    assert [entry.digest for entry in manifest.inputs] == [*digests, DIGEST]
    assert [entry.path for entry in manifest.inputs] == [f"{MODELS}/seed_3", f"{MODELS}/seed_1", "artifacts/splits/data/1.0.0"]
    assert manifest.counts["episodes"] == 8
    assert manifest.notes == ["No normalised score: no reference returns are known for CartPole-v1."]


def test_equal_inputs_give_equal_bytes(project: EnvSpec) -> None:
    evaluate.run("exp", params())
    before = files()
    evaluate.run("exp", params())
    assert files() == before
    assert set(before) == {"episodes.csv", "fitted_q.csv", "manifest.json", "metrics.json"}


def test_score_where_references_are_known(project: EnvSpec) -> None:
    spec = dataclasses.replace(project, reference_returns=ReferenceReturns(0.0, 500.0, "by hand"))
    write_project(spec)
    evaluate.run("exp", params())
    metrics = json.loads((OUT / "metrics.json").read_text())
    assert metrics["normalized_score"] == pytest.approx(metrics["return_mean"] / 5)
    assert "by hand" in read_manifest(OUT).notes[0]


def test_nested_observations_with_images_and_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gym.register("HindcastRoom-v0", entry_point=Room)
    try:
        write_project(env_spec(gym.make("HindcastRoom-v0"), "HindcastRoom-v0"))
        evaluate.run("exp", params())
    finally:
        gym.registry.pop("HindcastRoom-v0")
    even = [seed % 2 == 0 for seed in environment_seeds(7, 4)]
    metrics = json.loads((OUT / "metrics.json").read_text())
    assert list(pd.read_csv(OUT / "episodes.csv")["success"]) == even * 2
    assert metrics["success_rate"] == np.mean(even)
    assert metrics["return_mean"] == 1.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": Dataset("data", "1.0.0", "00" * 32)}, "dataset.digest is '0000"),
        ({"dataset": Dataset("data", "0.9.0", DIGEST)}, "dataset.version is '0.9.0' instead of '1.0.0'"),
        ({"updates": 9}, "updates is 9 instead of 10"),
        ({"seed": 2}, "seed is 2 instead of 1"),
        ({"params": bc.Params(hidden_sizes=(8,), gamma=0.5)}, "params.gamma is 0.5 instead of 0.99"),
    ],
)
def test_a_policy_of_another_run_is_refused(project: EnvSpec, changes: dict[str, Any], message: str) -> None:
    write_policy(project, 1, **changes)
    with pytest.raises(HindcastError, match=message) as error:
        evaluate.run("exp", params())
    assert "dvc repro train@exp" in str(error.value)
    assert not OUT.exists()


def test_a_missing_policy_and_an_unknown_experiment_are_named(project: EnvSpec) -> None:
    asked = params(train={"seeds": [3, 8], "updates": 10, "batch_size": 4})
    with pytest.raises(HindcastError, match=r"experiments\.exp\.train\.seeds was \[3, 1\] and is now \[3, 8\]"):
        evaluate.run("exp", asked)
    write_model_manifest(asked)
    with pytest.raises(HindcastError, match="seed_8"):
        evaluate.run("exp", asked)
    with pytest.raises(HindcastError, match="exp"):
        evaluate.run("expp", params())


def test_an_environment_that_is_not_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(dataclasses.replace(cartpole_spec(), env_id="CartPol-v1"))
    with pytest.raises(HindcastError, match="no environment 'CartPol-v1'"):
        evaluate.run("exp", params())
    assert not OUT.exists()
