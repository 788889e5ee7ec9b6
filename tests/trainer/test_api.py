"""From Python: the README's lines as printed, in two processes; data of others; and every fault in one message."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rl_datasets.environments import env_spec, make_env
from rl_datasets.errors import HindcastError
from rl_datasets.rlds import write_rlds
from rl_datasets.rollout import run_episode
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from tests.compiling import QUICK, flags
from trainer.api import estimate, evaluate, load_policy, train

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8").split("\n## From Python\n")[1], re.DOTALL)
SMALL = {"updates": 20, "batch_size": 16, "hidden_sizes": [8]}


class Walk(gym.Env[Any, Any]):
    """The state moves by the action; the reward is that of standing at zero."""

    observation_space = gym.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.state, self.steps = self.np_random.uniform(-2, 2, 1).astype(np.float32), 0
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.state, self.steps = np.clip(self.state + action, -10, 10).astype(np.float32), self.steps + 1
        return self.state, -float(abs(self.state[0])), False, self.steps == 5, {}


WALK = EnvSpec("Walk-v0", ArraySpec((1,), "float32", -10, 10), ArraySpec((1,), "float32", -1, 1), max_episode_steps=5)


def walks(count: int) -> list[Episode]:
    rng, episodes = np.random.default_rng(0), []
    for number in range(count):
        action = np.append(rng.uniform(-1, 1, (5, 1)), [[0]], axis=0).astype(np.float32)
        observation = (rng.uniform(-2, 2) + np.append([[0]], np.cumsum(action[:-1], axis=0), axis=0)).astype(np.float32)
        reward = np.append(-np.abs(observation[1:, 0]), 0).astype(np.float32)
        discount = np.append(np.ones(5), 0).astype(np.float32)
        episodes.append(
            Episode(
                f"walk-{number}",
                observation,
                action,
                reward,
                discount,
                False,
                {"seed": number, "policy": "random", "environment": "Walk-v0"},
            )
        )
    return episodes


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An RLDS directory of one split, without statistics or manifest."""
    path = tmp_path_factory.mktemp("data") / "walk" / "1.0.0"
    write_rlds(path, "walk", "1.0.0", WALK, {"raw": walks(20)})
    return path


@pytest.mark.slow
def test_the_readme_as_printed(tmp_path: Path) -> None:
    """On fewer episodes than there, with fewer updates."""
    pendulum, swing = make_env("Pendulum-v1"), env_spec(make_env("Pendulum-v1"), "Pendulum-v1")
    draw = np.random.default_rng(0)

    def act(_: np.ndarray) -> np.ndarray:
        return draw.uniform(-2, 2, 1).astype(np.float32)

    episodes = [run_episode(pendulum, act, swing, index=i, seed=0, policy="random") for i in range(5)]
    write_rlds(tmp_path / "artifacts/splits/pendulum_mixed/1.0.0", "pendulum_mixed", "1.0.0", swing, {"train": episodes})
    places = os.pathsep.join([str(ROOT), str(ROOT / "datasets")])
    printed = []
    for block in BLOCKS:
        block = block.replace("updates=4_000", "updates=400")
        run = subprocess.run(
            [sys.executable, "-c", block],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": places, "XLA_FLAGS": flags(QUICK)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        printed.append(run.stdout)
    assert -2000 < float(printed[0]) < 0
    act, sample = (np.fromstring(part, sep=" ") for part in re.findall(r"\[(.*?)\]", printed[1]))
    assert act.shape == sample.shape == (1,)
    assert -2 <= act[0] <= 2
    assert act[0] != sample[0]
    assert {path.name for path in (tmp_path / "swing_up").iterdir()} == {"bundle.json", "policy.safetensors"}


def test_trains_on_the_only_split_and_computes_statistics_of_it(data: Path, tmp_path: Path) -> None:
    points: list[int] = []
    policy = train(data, "bc", **SMALL, log_every=10, watch=lambda rows: points.append(rows[-1].step))
    assert points == [10, 20]
    observation = np.concatenate([episode.observation for episode in walks(20)])
    scaling = policy.description["preprocessor"]["observation"]["observation"]
    np.testing.assert_allclose([scaling["mean"][0], scaling["std"][0]], [observation.mean(), observation.std()], rtol=1e-5)
    assert (policy.dataset.name, policy.dataset.version, policy.seed) == ("walk", "1.0.0", 0)
    assert train(data, "bc", **SMALL).digest == policy.digest
    assert train(data, "bc", **SMALL, seed=1).digest != policy.digest
    assert policy.save(tmp_path / "policy") == policy.digest == load_policy(tmp_path / "policy").digest


@pytest.mark.slow
def test_evaluates_in_an_environment_that_is_handed_in(data: Path) -> None:
    policy = train(data, "rebrac", **SMALL)
    returns = evaluate(policy, episodes=3, make_env=Walk)
    assert returns.shape == (3,)
    assert (returns <= 0).all()
    np.testing.assert_array_equal(returns, evaluate(policy, episodes=3, make_env=Walk))


@pytest.mark.slow
def test_values_a_policy_on_the_data_alone(data: Path) -> None:
    """Of a single split, whose episodes are then learnt from and valued at."""
    policy, options = train(data, "bc", **SMALL), {"gamma": 0.5, "updates": 400, "hidden_sizes": [16], "batch_size": 50}
    found = estimate(policy, data, **options)
    assert found.episodes == tuple(f"walk-{number}" for number in range(20))
    weights = 0.5 ** np.arange(5)
    returns = {episode.episode_id: float(weights @ episode.reward[:-1]) for episode in walks(20)}
    np.testing.assert_allclose(found.behaviour_return, [returns[name] for name in found.episodes], rtol=1e-6)
    assert abs(found.calibration.mean) < 0.3  # of a behaviour that earns -2 or so
    assert found.value.mean < 0
    np.testing.assert_array_equal(estimate(policy, data, **options).values, found.values)
    with pytest.raises(HindcastError, match=r"Options of fitted Q evaluation:\n  gama: unknown key"):
        estimate(policy, data, gama=0.5)
    with pytest.raises(HindcastError, match="initial states of the split 'held'"):
        estimate(policy, data, held_out="held", **options)


@pytest.mark.slow
def test_a_spec_stands_in_for_what_foreign_data_do_not_tell(data: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "walk" / "1.0.0"
    shutil.copytree(data, foreign)
    (foreign / "metadata.json").unlink()
    with pytest.raises(HindcastError, match="infinite bound"):
        train(foreign, "cql", **SMALL)
    policy = train(foreign, "cql", **SMALL, spec=WALK)
    assert policy.spec == WALK
    assert -1 <= policy.act(np.zeros(1))[0] <= 1
    other = EnvSpec("Walk-v0", ArraySpec((2,), "float32"), WALK.action)
    with pytest.raises(HindcastError, match=r"holds observation float32\[1\], .* says observation float32\[2\]"):
        train(foreign, "cql", **SMALL, spec=other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "iqll"}, "There is no learner 'iqll'. Known: "),
        ({"expectile": 2}, r"Hyper-parameters of iql:\n  expectile: found 2; .*less than 1"),
        ({"expectil": 0.9}, "expectil: unknown key .* did you mean 'expectile'"),
        ({"split": "train"}, "has no split 'train'. It has: raw"),
        ({"batch_size": 1000}, "has 100 transitions, fewer than a batch of 1000"),
    ],
)
def test_a_fault_is_one_message(data: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HindcastError, match=message):
        train(data, **{"algorithm": "iql", **SMALL, **changes})


def test_several_splits_and_none_called_train(tmp_path: Path) -> None:
    path = tmp_path / "walk" / "1.0.0"
    write_rlds(path, "walk", "1.0.0", WALK, {"one": walks(2), "two": walks(3)[2:]})
    with pytest.raises(HindcastError, match=r"has the splits one, two, but 'train' or a single one is expected\. Name one"):
        train(path, "bc", **SMALL)
