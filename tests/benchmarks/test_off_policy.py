"""How near fitted Q evaluation comes to the truth: estimates from data against discounted returns in the environment.

`python tests/benchmarks/test_off_policy.py` prints a row a policy and, for each data set, the rank correlation and the error. The
policies are of different quality: cloned, learnt, and learners stopped early. Each is valued with the default options on the data that
it learnt from, a tenth of them held out, and plays a hundred episodes without a time limit, so that both numbers mean the same.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from ruamel.yaml import YAML
from scipy import stats

from pipelines.params import Params
from rl_datasets.builder import Context, load_builder
from rl_datasets.environments import make_env
from rl_datasets.rlds import write_rlds
from trainer.api import estimate, train
from trainer.bundle import Bundle
from trainer.evaluation import evaluate_policies

pytestmark = pytest.mark.benchmark
ROOT = Path(__file__).parents[2]
EPISODES, STEPS, GAMMA = 100, 700, 0.99  # of a policy that plays; after so many steps 0.0009 of the weight is left
RANDOM = {"kind": "random"}
SWING_UP = {"kind": "noise", "std": 0.5, "base": {"kind": "scripted", "name": "pendulum_swing_up"}}
BALANCE = {"kind": "epsilon", "epsilon": 0.4, "base": {"kind": "scripted", "name": "cartpole_balance"}}


class Data(NamedTuple):
    """A data set as the builder gymnasium makes it, and the preset that learns it."""

    env_id: str
    episodes: int
    policies: tuple[Any, ...]  # each collects as many episodes
    preset: str


DATA = {
    "CartPole, random": Data("CartPole-v1", 2000, (RANDOM,), "cartpole"),
    "CartPole, half random, half balanced with 40 % random actions": Data("CartPole-v1", 600, (RANDOM, BALANCE), "cartpole"),
    "Pendulum, half random, half swung up with noise": Data("Pendulum-v1", 500, (RANDOM, SWING_UP), "pendulum"),
}
POLICIES = (("bc", 3000), ("iql", 300), ("iql", 1500), ("iql", 8600), ("cql", 200), ("cql", 1000), ("cql", 6000))


def written(folder: Path, data: Data) -> Path:
    parts = [{"weight": 1, "policy": policy} for policy in data.policies]
    policy = {"kind": "mixture", "parts": parts} if len(parts) > 1 else data.policies[0]
    options = {"env_id": data.env_id, "episodes": data.episodes, "policy": policy}
    entry = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "requirements.lock", "options": options}
    sections: dict[str, Any] = {"checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}
    params = Params.model_validate({"datasets": {"data": entry}, **sections})
    builder = load_builder("gymnasium").Builder(params.builder_options("data"), Context("data"))
    episodes, path = list(builder.episodes(0)), folder / "data" / "1.0.0"
    held_out = len(episodes) // 10
    write_rlds(path, "data", "1.0.0", builder.spec(), {"train": episodes[held_out:], "test": episodes[:held_out]})
    return path


def played(policy: Bundle) -> np.ndarray:
    """Discounted returns [EPISODES] without the environment's own time limit."""

    def act(observation: Any) -> np.ndarray:
        return policy.act(observation[0])[None]

    make = partial(make_env, policy.spec.env_id, {}, STEPS)
    rows = evaluate_policies(act, make, policies=1, episodes=EPISODES, seed=0, gamma=GAMMA)
    return np.array([row.discounted_return for row in rows])


@pytest.mark.parametrize("name", DATA)
def test_estimates_rank_policies_as_the_environment_does(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, presets = DATA[name], YAML(typ="safe").load((ROOT / "params.yaml").read_text())["learners"]
    path, told, true = written(tmp_path, data), [], []
    for algorithm, updates in POLICIES:
        policy = train(path, algorithm, updates=updates, **presets[algorithm][data.preset])
        found, returns = estimate(policy, path, gamma=GAMMA), played(policy)
        told.append(found.value.mean)
        true.append(float(returns.mean()))
        kinds = ", ".join(flag.kind for flag in found.flags()) or "none"
        with capsys.disabled():
            print(
                f"| {algorithm}, {updates:,} updates | {true[-1]:.1f} | {found.value} | {found.calibration.mean:.1f} | {kinds} |",
                flush=True,
            )
    rank, error = float(stats.spearmanr(told, true).statistic), float(np.mean(np.abs(np.subtract(told, true))))
    chosen, best = true[int(np.argmax(told))], max(true)
    with capsys.disabled():
        print(
            f"{name}: behaviour {found.behaviour}, rank correlation {rank:.2f}, mean error {error:.1f}, chosen {chosen:.1f} of {best:.1f}"
        )
    assert rank > 0.5


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q", *sys.argv[1:]]))
