"""Budgets, losses, seeds, workers and vector environments of builders/gymnasium.py."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from pydantic import ValidationError

from rl_datasets.builder import Context
from rl_datasets.builders.gymnasium import Builder, Options
from rl_datasets.digest import DatasetDigest, episode_digest
from rl_datasets.errors import HindcastError
from rl_datasets.rollout import Lost, episode_seed
from rl_datasets.schema import Episode, ReferenceReturns

MODULE = '''
"""Environments for tests: lengths come from the seed, and some seeds raise."""
import gymnasium as gym
import numpy as np
from gymnasium import spaces

class Toy(gym.Env):
    """Observes [seed % 1000, step]; ends after 1 + seed % 7 steps, in a terminal state where the seed is even."""
    observation_space = spaces.Box(0, 1000, (2,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self, broken_every=0, endless=False, success="never", render_mode=None):
        self.broken_every, self.endless, self.success = broken_every, endless, success

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.step_number = seed, 0
        return np.array([seed % 1000, 0.0]), {}

    def step(self, action):
        self.step_number += 1
        if self.broken_every and self.seed % self.broken_every == 0:
            raise RuntimeError(f"joint limit of seed {self.seed}")
        ended = not self.endless and self.step_number > self.seed % 7
        info = {"success": True} if self.success == "always" or (self.success == "even" and self.seed % 2 == 0) else {}
        return np.array([self.seed % 1000, float(self.step_number)]), 1.0, ended and self.seed % 2 == 0, ended, info

class Images(gym.ObservationWrapper):
    def __init__(self, render_mode=None):
        super().__init__(Toy())
        self.observation_space = spaces.Dict({"camera": spaces.Box(0, 255, (8, 8, 3), np.uint8), "place": spaces.Discrete(1001)})

    def observation(self, observation):
        return {"camera": np.full((8, 8, 3), observation[1], np.uint8), "place": int(observation[0])}

gym.register("Toy-v0", entry_point=Toy)
gym.register("Images-v0", entry_point=Images)
'''
RANDOM = {"kind": "random"}


@pytest.fixture(scope="module", autouse=True)
def toy_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The module lies on the path, so that workers import it too, by the id "toy_environments:Toy-v0"."""
    folder, known = tmp_path_factory.mktemp("modules"), dict(gym.registry)
    (folder / "toy_environments.py").write_text(MODULE)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("toy_environments", None)
    gym.registry.clear()
    gym.registry.update(known)


def builder(workers: int = 0, load_policy: Any = None, **options: Any) -> Builder:
    values = {"env_id": "toy_environments:Toy-v0", "policy": RANDOM, **options}
    return Builder(Options.model_validate(values), Context("toy", workers, load_policy))


def digest(episodes: list[Episode]) -> str:
    total = DatasetDigest()
    for episode in episodes:
        total.add(episode)
    return total.hexdigest()


def test_episodes_carry_their_seed_and_follow_their_index() -> None:
    episodes = list(builder(episodes=40).episodes(5))
    assert [episode.episode_id for episode in episodes] == [f"{index:08d}" for index in range(40)]
    for index, episode in enumerate(episodes):
        seed = episode_seed(5, index)
        assert episode.metadata == {"seed": seed, "policy": "random", "environment": "toy_environments:Toy-v0"}
        assert episode.length == 1 + seed % 7
        assert episode.is_terminal == (seed % 2 == 0)
        np.testing.assert_array_equal(episode.observation[:, 0], seed % 1000)
        np.testing.assert_array_equal(episode.observation[:, 1], np.arange(episode.length + 1))
    drawn = np.concatenate([episode.action[:-1] for episode in episodes])
    assert set(drawn) == {0, 1, 2}


def test_another_seed_gives_other_episodes() -> None:
    first, second = ({episode.metadata["seed"] for episode in builder(episodes=20).episodes(seed)} for seed in (0, 1))
    assert not first & second


@pytest.mark.parametrize("vector", [None, {"num_envs": 4, "autoreset": "disabled"}])
def test_a_budget_of_steps_is_met_exactly_and_the_last_episode_is_cut(vector: Any) -> None:
    whole = list(builder(episodes=30).episodes(0))
    for steps in (1, 17, 50):
        source = builder(steps=steps, vector=vector)
        episodes = list(source.episodes(0))
        assert sum(episode.length for episode in episodes) == steps
        assert [episode_digest(e) for e in episodes[:-1]] == [episode_digest(e) for e in whole[: len(episodes) - 1]]
        last, uncut = episodes[-1], whole[len(episodes) - 1]
        np.testing.assert_array_equal(last.observation, uncut.observation[: last.length + 1])
        was_cut = last.length < uncut.length
        assert last.is_terminal == (uncut.is_terminal and not was_cut)
        assert any("was cut after" in note for note in source.notes) == was_cut


def test_a_budget_of_steps_ends_an_episode_that_never_would() -> None:
    (episode,) = builder(steps=25, env_kwargs={"endless": True}).episodes(0)
    assert episode.length == 25
    assert not episode.is_terminal


def test_one_budget_is_given() -> None:
    for wrong in ({}, {"episodes": 3, "steps": 3}):
        with pytest.raises(ValidationError, match="give either 'episodes' or 'steps'"):
            builder(**wrong)


@pytest.mark.parametrize("vector", [None, *({"num_envs": 3, "autoreset": mode} for mode in ("next_step", "same_step", "disabled"))])
def test_vector_environments_change_no_byte(vector: Any) -> None:
    """Neither of a good data set nor of one with losses; the policy draws and acts as in the plain loop."""
    policy = {
        "kind": "mixture",
        "parts": [{"weight": 1, "policy": RANDOM}, {"weight": 1, "policy": {"kind": "epsilon", "epsilon": 0.3, "base": RANDOM}}],
    }
    for kwargs in ({}, {"broken_every": 5}):
        plain, other = (builder(episodes=70, policy=policy, env_kwargs=kwargs, vector=v) for v in (None, vector))
        assert digest(list(other.episodes(1))) == digest(list(plain.episodes(1)))
        assert other.notes == plain.notes


def test_nested_observations_come_through_a_vector_environment() -> None:
    env_id = "toy_environments:Images-v0"
    plain, vector = (builder(env_id=env_id, episodes=9, vector=v) for v in (None, {"num_envs": 2}))
    episodes = list(vector.episodes(0))
    assert digest(episodes) == digest(list(plain.episodes(0)))
    assert episodes[0].observation["camera"].shape == (episodes[0].length + 1, 8, 8, 3)


def test_workers_change_no_byte_order_or_note() -> None:
    options: Any = {"episodes": 150, "env_kwargs": {"broken_every": 5}}
    alone, shared = builder(**options), builder(workers=2, **options)
    expected, found = list(alone.episodes(2)), list(shared.episodes(2))
    assert [episode_digest(e) for e in found] == [episode_digest(e) for e in expected]
    assert shared.notes == alone.notes
    steps = [list(builder(workers=workers, steps=300).episodes(2)) for workers in (0, 1)]
    assert digest(steps[0]) == digest(steps[1])


def test_an_episode_that_raises_is_lost_alone_and_told() -> None:
    source = builder(episodes=40, env_kwargs={"broken_every": 5})
    episodes = list(source.episodes(0))
    broken = [index for index in range(40) if episode_seed(0, index) % 5 == 0]
    assert [int(episode.episode_id) for episode in episodes] == [index for index in range(40) if index not in broken]
    assert source.counts == {"lost_episodes": len(broken)}
    seed = episode_seed(0, broken[0])
    assert f"Episode {broken[0]} (seed {seed}) was lost: the environment raised RuntimeError: joint limit of seed {seed}" in source.notes
    assert len([note for note in source.notes if "was lost" in note]) == len(broken)
    list(source.episodes(0))
    assert source.counts == {"lost_episodes": len(broken)}


@pytest.mark.parametrize("budget", [{"episodes": 3}, {"episodes": 500}, {"steps": 100}])
def test_an_environment_that_always_raises_is_an_error(budget: Any) -> None:
    with pytest.raises(HindcastError, match=r"raised in (3|50) episodes in a row, after 0 good ones.*RuntimeError: joint limit"):
        list(builder(env_kwargs={"broken_every": 1}, **budget).episodes(0))


def test_any_episode_is_made_again_alone() -> None:
    vector = builder(episodes=20, vector={"num_envs": 3, "autoreset": "same_step"})
    for episode in vector.episodes(4):
        alone = vector.episode(4, int(episode.episode_id))
        assert isinstance(alone, Episode)
        assert episode_digest(alone) == episode_digest(episode)
    broken = next(index for index in range(50) if episode_seed(0, index) % 5 == 0)
    assert isinstance(builder(episodes=1, env_kwargs={"broken_every": 5}).episode(0, broken), Lost)


def test_success_is_a_column_of_all_episodes_or_of_none() -> None:
    always = list(builder(episodes=10, env_kwargs={"success": "always"}).episodes(0))
    assert all(episode.metadata["success"] == 1 for episode in always)
    first_is_even = next(seed for seed in range(50) if episode_seed(seed, 0) % 2 == 0)
    some = list(builder(episodes=10, env_kwargs={"success": "even"}).episodes(first_is_even))
    assert [e.metadata["success"] for e in some] == [int(episode_seed(first_is_even, i) % 2 == 0) for i in range(10)]
    first_is_odd = next(seed for seed in range(50) if episode_seed(seed, 0) % 2 == 1)
    assert all("success" not in e.metadata for e in builder(episodes=10, env_kwargs={"success": "even"}).episodes(first_is_odd))


class Always:
    """A trained policy that pickles."""

    digest = "d" * 64

    def __init__(self, action: int) -> None:
        self.action = action

    def act(self, observation: Any) -> Any:
        return np.full(len(observation), self.action)


def test_a_policy_bundle_collects_and_is_named_as_input(tmp_path: Path) -> None:
    path = tmp_path / "policies" / "seed_0"
    path.mkdir(parents=True)
    (path / "bundle.json").write_text("{}")
    asked: list[Path] = []

    def load(path: Path) -> Always:
        asked.append(path)
        return Always(2)

    source = builder(episodes=3, policy={"kind": "bundle", "path": str(path)}, load_policy=load)
    for episode in source.episodes(0):
        np.testing.assert_array_equal(episode.action[:-1], 2)
        assert episode.metadata["policy"] == str(path)
    assert asked == [path]
    (entry,) = source.inputs
    assert (entry.path, entry.digest) == (str(path), Always.digest)
    with pytest.raises(HindcastError, match="can be loaded by the collect stage only"):
        builder(episodes=3, policy={"kind": "bundle", "path": str(path)})


def test_an_action_out_of_bounds_is_an_error_and_no_lost_episode(tmp_path: Path) -> None:
    class Late(Always):
        def act(self, observation: Any) -> Any:
            return super().act(observation) * (observation[:, 1] > 0)

    for vector in (None, {"num_envs": 2}):
        source = builder(episodes=3, policy={"kind": "bundle", "path": str(tmp_path)}, load_policy=lambda _: Late(3), vector=vector)
        with pytest.raises(HindcastError, match=r"gave the action 3 .*takes int64\[\] within \[0.0, 2.0\]"):
            list(source.episodes(0))


def test_hopper_runs_on_mujoco() -> None:
    references = {"random": 20.3, "expert": 3234.3, "source": "a test"}
    policy = {"kind": "noise", "std": 0.1, "base": RANDOM}
    source = builder(env_id="Hopper-v5", steps=120, policy=policy, max_episode_steps=50, reference_returns=references)
    episodes = list(source.episodes(0))
    spec = source.spec()
    assert (spec.observation.shape, spec.action.shape, spec.max_episode_steps) == ((11,), (3,), 50)
    assert spec.reference_returns == ReferenceReturns(20.3, 3234.3, "a test")
    assert sum(episode.length for episode in episodes) == 120
    assert {"gymnasium", "mujoco", "numpy"} <= set(source.packages)
    assert "observation: the environment's float64 is stored as float32." in source.notes

    env = gym.make("Hopper-v5")
    observation, _ = env.reset(seed=int(episodes[0].metadata["seed"]))
    for t, action in enumerate(episodes[0].action[:-1]):
        np.testing.assert_array_equal(episodes[0].observation[t], observation.astype(np.float32))
        observation, reward, terminated, _, _ = env.step(action)
        assert episodes[0].reward[t] == np.float32(reward)
        assert episodes[0].discount[t] == 1 - terminated
    np.testing.assert_array_equal(episodes[0].observation[-1], observation.astype(np.float32))
