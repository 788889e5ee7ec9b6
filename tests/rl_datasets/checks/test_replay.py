"""What was collected is replayed bit for bit, whatever the spaces and the way of collecting; what was changed is found where it was."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rl_datasets.builder import Context
from rl_datasets.builders.gymnasium import Builder, Options
from rl_datasets.checks import Expected, run_checks
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.replay import NO_SEED, Divergence, chosen, replay, versions
from rl_datasets.environments import make_env
from rl_datasets.manifest import Manifest, package_versions
from rl_datasets.schema import EnvSpec, Episode

MODULE = '''
"""A drifting point that observes itself in many ways, and draws noise at every step."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces

class Drift(gym.Env):
    """`gain` is what a new version may change. It changes its action in place, as some environments do, and hands out one array."""
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, gain=1.0, breaks_at=None, render_mode=None):
        self.gain, self.breaks_at, self.place = gain, breaks_at, np.zeros(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place[:] = self.np_random.normal(size=2)
        self.count, self.length = 0, int(self.np_random.integers(5, 15))
        return self.place, {}

    def step(self, action):
        self.count += 1
        if self.count == self.breaks_at:
            raise RuntimeError("joint limit")
        action *= self.gain
        self.place += action + self.np_random.normal(0, 0.1, size=2)
        return self.place, float(-np.abs(self.place).sum()), bool(self.count >= self.length), False, {}

class Nested(gym.ObservationWrapper):
    def __init__(self, render_mode=None):
        super().__init__(Drift())
        image, rooms = spaces.Box(0, 255, (6, 5, 3), np.uint8), spaces.MultiDiscrete([4, 4])
        self.observation_space = spaces.Dict({"eye": image, "pose": spaces.Tuple((spaces.Box(-99, 99, (2,), np.float32), rooms))})

    def observation(self, place):
        eye = np.zeros((6, 5, 3), np.uint8)
        eye[:] = np.abs(place * 40).astype(np.uint8).sum()
        return {"eye": eye, "pose": (place.astype(np.float32), np.abs(place).astype(np.int64) % 4)}

gym.register("Drift-v0", entry_point=Drift)
gym.register("Nested-v0", entry_point=Nested)
'''


@pytest.fixture(scope="module", autouse=True)
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder, known = tmp_path_factory.mktemp("modules"), dict(gym.registry)
    (folder / "drifting.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("drifting", None)
    gym.registry.clear()
    gym.registry.update(known)


def collected(env_id: str, **options: Any) -> tuple[EnvSpec, list[Episode]]:
    values = {"env_id": env_id, "policy": {"kind": "random"}, **({} if "steps" in options else {"episodes": 12}), **options}
    builder = Builder(Options.model_validate(values), Context("toy", 0, None))
    return builder.spec(), list(builder.episodes(3))


def replayed(spec: EnvSpec, episodes: list[Episode], env: Any = None, tolerance: float = 0.0) -> list[Divergence | None]:
    env = env or make_env(spec.env_id, spec.env_kwargs, spec.max_episode_steps)
    return [replay(episode, spec, env, tolerance) for episode in episodes]


WAYS: dict[str, dict[str, Any]] = {
    "discrete": {"env_id": "CartPole-v1"},
    "box": {"env_id": "Pendulum-v1", "episodes": 2},
    "noise": {
        "env_id": "Pendulum-v1",
        "episodes": 2,
        "policy": {"kind": "noise", "std": 0.3, "base": {"kind": "scripted", "name": "pendulum_swing_up"}},
    },
    "category observed": {"env_id": "Taxi-v4", "episodes": 3},
    "table": {"env_id": "FrozenLake-v1", "env_kwargs": {"is_slippery": True}},
    "float64, in place": {"env_id": "drifting:Drift-v0"},
    "dict, tuple, image": {"env_id": "drifting:Nested-v0"},
    "another limit": {"env_id": "CartPole-v1", "max_episode_steps": 9},
    "a budget of steps": {"env_id": "CartPole-v1", "steps": 100},
    "mujoco": {"env_id": "InvertedPendulum-v5"},
    **{
        mode: {"env_id": "drifting:Nested-v0", "vector": {"num_envs": 3, "autoreset": mode}}
        for mode in ("next_step", "same_step", "disabled")
    },
    "vector cartpole": {"env_id": "CartPole-v1", "vector": {"num_envs": 4}},
}


@pytest.mark.parametrize("way", WAYS)
def test_what_was_collected_is_replayed_bit_for_bit(way: str) -> None:
    spec, episodes = collected(**WAYS[way])
    assert replayed(spec, episodes) == [None] * len(episodes)
    assert replayed(spec, episodes[::-1]) == [None] * len(episodes)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "drifting:Drift-v0"])
def test_actions_shifted_by_a_row_are_found_at_the_first_wrong_one(env_id: str) -> None:
    spec, episodes = collected(env_id, episodes=4)
    for episode in episodes:
        action = episode.action.copy()
        action[1:-1] = episode.action[:-2]  # each action one row late
        first = next(t for t in range(episode.length) if not np.array_equal(action[t], episode.action[t]))
        (found,) = replayed(spec, [replace(episode, action=action)])
        assert found is not None
        assert found.step == first
        assert found.array.startswith("observation[") or found.array == "reward"


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "drifting:Nested-v0"])
def test_an_edited_reward_is_found_at_its_step(env_id: str, step: int) -> None:
    spec, (episode, *_) = collected(env_id, episodes=1)
    reward = episode.reward.copy()
    reward[step] = np.nextafter(reward[step], np.float32(9))  # by its last bit
    (found,) = replayed(spec, [replace(episode, reward=reward)])
    assert found == Divergence(step, "reward", str(reward[step]), str(episode.reward[step]), step)
    assert replayed(spec, [replace(episode, reward=reward)], tolerance=1e-5) == [None]


def test_another_version_of_the_environment_is_found_at_the_first_step_that_it_changes() -> None:
    spec, episodes = collected("drifting:Drift-v0")
    for found in replayed(spec, episodes, make_env(spec.env_id, {"gain": 1.001})):
        assert found is not None
        assert (found.step, found.row) == (0, 1)
        assert str(found).startswith(f"{found.array} of step 1 is {found.recorded}, but the environment gives ")
    heavier = make_env("CartPole-v1")
    heavier.unwrapped.gravity = 9.81  # type: ignore[attr-defined]
    spec, episodes = collected("CartPole-v1")
    assert {found and (found.step, found.array) for found in replayed(spec, episodes, heavier)} == {(0, "observation[1]")}


def test_an_edited_observation_is_itself_at_fault() -> None:
    spec, (episode, *_) = collected("drifting:Nested-v0", episodes=1)
    for step in (0, 2):
        eye = episode.observation["eye"].copy()
        eye[step, 3, 2, 1] ^= 1
        (found,) = replayed(spec, [replace(episode, observation={**episode.observation, "eye": eye})])
        was = str(episode.observation["eye"][step, 3, 2, 1])
        assert found == Divergence(step, "observation/eye[3, 2, 1]", str(eye[step, 3, 2, 1]), was, step)


def test_other_ends_are_found() -> None:
    spec, (episode, *_) = collected("drifting:Drift-v0", episodes=1)
    assert episode.is_terminal
    (found,) = replayed(spec, [replace(episode, is_terminal=False)])
    assert found == Divergence(episode.length - 1, "end", "none or truncation", "a terminal state", episode.length - 1)
    longer = {
        name: np.concatenate([getattr(episode, name), getattr(episode, name)[-1:]])
        for name in ("observation", "action", "reward", "discount")
    }
    (found,) = replayed(spec, [replace(episode, **longer)])
    assert found is not None
    assert found[:3] == (episode.length - 1, "end", "not there, for 1 more transitions follow")
    spec, (episode, *_) = collected("CartPole-v1", episodes=1, max_episode_steps=5)
    assert replayed(spec, [replace(episode, is_terminal=True)])[0] == Divergence(4, "end", "a terminal state", "none or truncation", 4)


def test_an_environment_that_raises_or_has_other_arrays_is_told() -> None:
    spec, episodes = collected("drifting:Drift-v0", episodes=1)
    (found,) = replayed(spec, episodes, make_env(spec.env_id, {"breaks_at": 3}))
    assert found == Divergence(2, "environment", "a step", "an exception: RuntimeError: joint limit", 2)
    (found,) = replayed(spec, episodes, gym.wrappers.FlattenObservation(gym.wrappers.FrameStackObservation(make_env(spec.env_id), 2)))
    assert found is not None
    assert found.array == "environment"
    assert "has shape [4], but its space says [2]" in found.replayed


def report_on(spec: EnvSpec, data: list[Episode], packages: dict[str, str] | None = None, **options: Any) -> Any:
    manifest = Manifest("collect@toy", "0", {}, counts={"episodes": len(data)}, packages=packages or package_versions("gymnasium"))
    make = partial(make_env, spec.env_id, spec.env_kwargs, spec.max_episode_steps)
    params = CheckParams.model_validate({"replay": {"severity": "fail", **options}})
    return run_checks(data, Expected.of(spec, manifest, make), params)


def test_the_check_certifies_data_in_whole_or_in_part() -> None:
    spec, episodes = collected("CartPole-v1", episodes=50)
    whole = report_on(spec, episodes, episodes="all").to_json()["checks"]["replay"]
    assert whole == {"severity": "fail", "verdict": "pass", "faults": 0, "covered": {"episodes": 50, "of": 50}}
    assert report_on(spec, episodes, episodes=7).to_json()["checks"]["replay"]["covered"] == {"episodes": 7, "of": 50}


def test_a_fault_names_episode_step_seed_and_both_versions() -> None:
    spec, episodes = collected("CartPole-v1", episodes=10)
    reward = episodes[4].reward.copy()
    reward[6] = 2
    episodes[4] = replace(episodes[4], reward=reward)
    report = report_on(spec, episodes, {"gymnasium": "0.0.1", "gone": "3"}, episodes="all")
    (finding,) = report.findings()
    installed = package_versions("gymnasium")["gymnasium"]
    assert (finding.check, finding.episode_id, finding.step) == ("replay", "00000004", 6)
    assert finding.found == "reward is 2.0, but the environment gives 1.0"
    assert finding.expected == (
        f"what CartPole-v1 gives from seed {episodes[4].metadata['seed']} by the recorded actions "
        f"(made with gone 3, here none, gymnasium 0.0.1, here {installed})"
    )
    assert report.verdict == "fail"


def test_what_cannot_be_replayed_says_why() -> None:
    spec, episodes = collected("CartPole-v1", episodes=3)
    unknown = [replace(episode, metadata={**episode.metadata, "seed": -1}) for episode in episodes]

    def reason(spec: EnvSpec, episodes: list[Episode], make: Any) -> str:
        result = run_checks(episodes, Expected.of(spec, None, make), CheckParams()).to_json()["checks"]["replay"]
        assert result["verdict"] == "not applicable"
        return str(result["not_applicable"])

    assert reason(spec, unknown, partial(make_env, "CartPole-v1")) == NO_SEED
    assert reason(spec, episodes, None) == "the environment of these data is not known"
    assert reason(spec, episodes, partial(make_env, "Plant-v0")).startswith(
        "the environment cannot be made: There is no environment 'Plant-v0'"
    )


def test_episodes_are_chosen_evenly() -> None:
    assert [number for number in range(100) if chosen(4, 100)(number)] == [0, 25, 50, 75]
    assert all(chosen("all", None)(number) for number in range(9))
    assert all(chosen(20, 9)(number) for number in range(9))
    assert [number for number in range(9) if chosen(3, None)(number)] == [0, 1, 2]


def test_versions_that_agree_are_named_too() -> None:
    installed = package_versions("gymnasium", "numpy")
    assert versions(installed) == f"of gymnasium {installed['gymnasium']}, numpy {installed['numpy']}, which made the data too"
    assert versions({}) == "the versions that made the data are not recorded"
