"""How good the policies are: returns of IQL and CQL against d3rlpy's, on the same transitions, with as many updates and seeds.

`python tests/benchmarks/test_returns.py` prints a row a data set and learner: the mean over three seeds with 50 episodes each, each
seed's mean, and the difference with its interval. Ours learn by the presets of params.yaml, with as many updates as the experiments
there or `--updates`; d3rlpy's by the same hyper-parameters where it has them (it has no schedules), on observations, rewards and
actions prepared as ours see them, and play the same environment seeds. Its IQL is for continuous actions only, so on CartPole ours
stands against its discrete CQL. d3rlpy has an environment of its own, as in test_learning.py.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from ruamel.yaml import YAML

from pipelines.params import Params
from rl_datasets.builder import Context, load_builder
from rl_datasets.rlds import read_episodes, write_rlds
from rl_datasets.schema import EnvSpec
from trainer.actions import encode_action
from trainer.api import evaluate, train
from trainer.bundle import Bundle
from trainer.evaluation import environment_seeds
from trainer.metrics import CONFIDENCE, RESAMPLES
from trainer.preprocessing import Preprocessor

pytestmark = pytest.mark.benchmark
ROOT = Path(__file__).parents[2]
D3RLPY = Path(os.environ.get("D3RLPY_PYTHON", ROOT / ".venv-d3rlpy/bin/python"))
LOGGED = ROOT.parent / "shared" / "data"
EPISODES, BATCH = 50, 256
RANDOM = {"env_id": "CartPole-v1", "episodes": 2000, "policy": {"kind": "random"}}
SWING_UP = {"kind": "noise", "std": 0.5, "base": {"kind": "scripted", "name": "pendulum_swing_up"}}
PARTS = [{"weight": 1, "policy": policy} for policy in ({"kind": "random"}, SWING_UP)]
MIXED = {"env_id": "Pendulum-v1", "episodes": 500, "policy": {"kind": "mixture", "parts": PARTS}}
REPLAY = {"layout": "d3rlpy", "bounds": "environment"}


class Data(NamedTuple):
    """A data set: its builder with options, the logged file that it reads, and the presets that learn it."""

    builder: str
    options: dict[str, Any]
    preset: str
    file: str | None = None


DATA = {
    "CartPole, random": Data("gymnasium", RANDOM, "cartpole"),
    "Pendulum, mixed": Data("gymnasium", MIXED, "pendulum"),
    "cartpole_replay": Data("hdf5", {"env_id": "CartPole-v1", "max_episode_steps": 200, **REPLAY}, "cartpole", "cartpole_replay.h5"),
    "pendulum_replay": Data("hdf5", {"env_id": "Pendulum-v1", **REPLAY}, "pendulum", "pendulum_replay.h5"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("returns")
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))  # the seeds share what they compile
    yield folder
    jax.config.update("jax_compilation_cache_dir", None)


def written(folder: Path, name: str) -> Path:
    """The data set on disk, made once."""
    data, path = DATA[name], folder / name.replace(", ", "_").lower() / "1.0.0"
    if data.file and not (LOGGED / data.file).exists():
        pytest.skip(f"the public logged file {data.file} is not in {LOGGED}")
    if not path.exists():
        entry = {"builder": data.builder, "version": "1.0.0", "seed": 0, "source": f"data/{data.file}", "options": data.options}
        sections = {"checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}
        options = Params.model_validate({"datasets": {path.parent.name: entry}, **sections}).builder_options(path.parent.name)
        context = Context(path.parent.name, source=LOGGED / data.file if data.file else None)
        builder = load_builder(data.builder).Builder(options, context)
        write_rlds(path, path.parent.name, "1.0.0", builder.spec(), {"train": builder.episodes(0)})
    return path


@cache
def params() -> dict[str, Any]:
    return YAML(typ="safe").load((ROOT / "params.yaml").read_text())  # type: ignore[no-any-return]


def ours(path: Path, algorithm: str, preset: dict[str, Any], updates: int, seeds: int) -> tuple[np.ndarray, Bundle]:
    """Returns [seeds, episodes], and the last policy."""
    policies = [train(path, algorithm, updates=updates, batch_size=BATCH, seed=seed, **preset) for seed in range(seeds)]
    return np.array([evaluate(policy, episodes=EPISODES) for policy in policies]), policies[-1]


def theirs(path: Path, algorithm: str, policy: Bundle, updates: int, seeds: int, folder: Path) -> np.ndarray:
    """Returns [seeds, episodes] of d3rlpy, by the hyper-parameters and the normalisation of one of our policies."""
    spec, preprocessor = policy.spec, policy.preprocessor
    observation, action, reward, discount, following = transitions(path, spec)
    matrix, offset = affine(preprocessor, observation.shape[1])
    arrays = {
        "observation": observation @ matrix + offset,
        "next_observation": following @ matrix + offset,
        "action": action,
        "reward": reward * np.asarray(preprocessor.reward_scale) + np.asarray(preprocessor.reward_shift),
        "discount": discount,
    }
    np.savez(folder / "arrays.npz", **{name: array.astype(np.float32) for name, array in arrays.items()})
    job = {
        **counterpart(algorithm, policy.learner.params, spec),
        "env_id": spec.env_id,
        "max_episode_steps": spec.max_episode_steps,
        "environment_seeds": environment_seeds(0, EPISODES),
        "num_actions": spec.action.num_values,
        "half": None if spec.action.is_discrete else float(np.max(spec.action.bounds()[1])),
        "matrix": matrix.tolist(),
        "offset": offset.tolist(),
        "updates": updates,
        "seeds": list(range(seeds)),
    }
    (folder / "job.json").write_text(json.dumps(job))
    command = [str(D3RLPY), str(Path(__file__).with_name("d3rlpy_returns.py")), str(folder / "arrays.npz"), str(folder / "job.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout))


def transitions(path: Path, spec: EnvSpec) -> list[np.ndarray]:
    """observation, encoded action, reward, discount and next observation of all transitions, float32."""
    rows: list[list[np.ndarray]] = []
    for episode in read_episodes(path, "train"):
        observation, discount = np.asarray(episode.observation, np.float32), np.asarray(episode.discount[:-1], np.float32)
        if episode.is_terminal:
            discount[-1] = 0
        action = np.asarray(encode_action(np.asarray(episode.action[:-1]), spec.action)).reshape(len(discount), -1)
        rows.append([observation[:-1], action, np.asarray(episode.reward[:-1], np.float32), discount, observation[1:]])
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def affine(preprocessor: Preprocessor, size: int) -> tuple[np.ndarray, np.ndarray]:
    """How an observation is normalised, as observation @ matrix + offset."""
    offset = np.asarray(preprocessor.observation(np.zeros((1, size), np.float32)))
    return np.asarray(preprocessor.observation(np.eye(size, dtype=np.float32))) - offset, offset


def counterpart(algorithm: str, params: Any, spec: EnvSpec) -> dict[str, Any]:
    """d3rlpy's learner with our hyper-parameters. Its discrete CQL moves the target at once, every 1 / tau updates."""
    shared = {"batch_size": BATCH, "gamma": params.gamma, "n_critics": params.num_critics}
    if spec.action.is_discrete:
        q_learning = {"learning_rate": params.learning_rate, "target_update_interval": round(1 / params.tau), "alpha": 1.0}
        return {"config": "DiscreteCQLConfig", "options": {**shared, **q_learning}, "hidden_sizes": [64, 64]}
    rates = {"actor_learning_rate": params.policy_learning_rate or params.learning_rate, "critic_learning_rate": params.learning_rate}
    options: dict[str, Any] = {"weight_temp": params.temperature, "expectile": params.expectile} if algorithm == "iql" else {}
    if algorithm == "cql":  # without a threshold the weight stays as it is
        options = {"conservative_weight": params.min_q_weight, "alpha_learning_rate": 0.0, "n_action_samples": params.n_actions}
    config = f"{algorithm.upper()}Config"
    return {"config": config, "options": {**shared, **rates, "tau": params.tau, **options}, "hidden_sizes": list(params.hidden_sizes)}


def difference(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float, float]:
    """The difference of the means of returns [seeds, episodes], and its interval: seeds are drawn apart, episodes together."""
    rng, (seeds, episodes) = np.random.default_rng(0), ours.shape
    drawn = []
    for _ in range(RESAMPLES):
        columns = rng.integers(episodes, size=episodes)
        drawn.append(np.subtract(*(returns[rng.integers(seeds, size=seeds)][:, columns].mean() for returns in (ours, theirs))))
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(ours.mean() - theirs.mean()), float(low), float(high)


def shown(returns: np.ndarray) -> str:
    """The mean over all seeds, and each seed's."""
    return f"{returns.mean():.1f} ({', '.join(f'{mean:.0f}' for mean in returns.mean(axis=1))})"


@pytest.mark.skipif(not D3RLPY.exists(), reason="d3rlpy is not there; 'make benchmark-d3rlpy' makes its environment")
@pytest.mark.parametrize("algorithm", ["iql", "cql"])
@pytest.mark.parametrize("name", DATA)
def test_returns_are_at_least_those_of_d3rlpy(
    name: str, algorithm: str, folder: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path, preset = written(folder, name), params()["learners"][algorithm][DATA[name].preset]
    updates = params()["experiments"][f"{DATA[name].preset}_{algorithm}"]["train"]["updates"]
    size = request.config.getoption("--updates", default=None) or updates, request.config.getoption("--seeds", default=3)
    mine, policy = ours(path, algorithm, preset, *size)
    other = theirs(path, algorithm, policy, *size, folder)
    mean, low, high = difference(mine, other)
    with capsys.disabled():
        print(f"\n| {name} | {algorithm} | {shown(mine)} | {shown(other)} | {mean:.1f} [{low:.1f}, {high:.1f}] |")
    assert high >= 0


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q", *sys.argv[1:]]))
