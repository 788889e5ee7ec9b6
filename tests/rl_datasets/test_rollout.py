"""Rows of a vector environment against those of a plain loop, on an environment whose arrays name their seed and step."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from rl_datasets.environments import env_spec
from rl_datasets.errors import HindcastError
from rl_datasets.recording import aligned, truncate, unpack
from rl_datasets.rollout import Lost, episode_seed, record_episodes, run_episode
from rl_datasets.schema import EnvSpec, Episode, validate_episode

ACTIONS = spaces.Discrete(1000)


class Counting(gym.Env[Any, Any]):
    """Seed 14 observes [14, 0], [14, 1], ...: its length is the seed's last digit, its end terminal where the seed is even.

    It hands out one array and changes it in place, and raises in the reset of seed 66 and in the second step of seed 77.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = ACTIONS

    def __init__(self) -> None:
        self.state = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        assert seed is not None
        if seed == 66:
            raise ValueError("reset failed")
        self.state[:] = seed, 0
        return self.state, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.state[1] += 1
        seed, step = self.state.astype(int)
        if seed == 77 and step == 2:
            raise RuntimeError("simulator\ncrashed")
        ended = step >= seed % 10
        return self.state, float(action) + seed / 1000, bool(ended and seed % 2 == 0), bool(ended), {"is_success": seed == 14}


class Nested(gym.ObservationWrapper[Any, Any, Any]):
    """The same numbers as a nest: {"pair": (float, category), "image"}."""

    def __init__(self) -> None:
        super().__init__(Counting())
        pair = spaces.Tuple((spaces.Box(0, 1000, (1,), np.float32), spaces.Discrete(100)))
        self.observation_space = spaces.Dict({"pair": pair, "image": spaces.Box(0, 255, (2, 2, 1), np.uint8)})

    def observation(self, observation: np.ndarray) -> Any:
        seed, step = observation
        return {"pair": (np.array([seed], np.float32), int(step)), "image": np.full((2, 2, 1), step, np.uint8)}


def spec_of(make: Callable[[], gym.Env[Any, Any]]) -> EnvSpec:
    return env_spec(make(), "Counting-v0")


def action_of(seed: float, step: float) -> int:
    return int(7 * seed + step) % 1000


def act(observation: np.ndarray) -> int:
    return action_of(*observation)


def act_batch(observation: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """An action that would betray itself where it is ignored: 999 is never one of `act`'s for these seeds and lengths."""
    return np.array([action_of(*row) if index >= 0 else 999 for row, index in zip(observation, episode, strict=True)])


def vectorised(make: Callable[[], gym.Env[Any, Any]], act: Any, **options: Any) -> dict[int, Episode]:
    """Episodes by index, in the order in which they ended."""
    spec = spec_of(make)
    recordings = list(record_episodes(make, act, spec, policy=lambda _: "evaluated", **options))
    return dict(zip((recording.index for recording in recordings), unpack(aligned(spec, recordings)), strict=True))


def plain(seeds: list[int]) -> dict[int, Episode]:
    spec = spec_of(Counting)
    return {i: run_episode(Counting(), act, spec, index=i, seed=seed, policy="evaluated") for i, seed in enumerate(seeds)}


def assert_equal(found: Episode, expected: Episode) -> None:
    np.testing.assert_equal(vars(found), vars(expected))


def test_an_episode_of_three_by_hand() -> None:
    """Seed 14 would be four transitions; 13 is three and ends by truncation, 12 two and ends in a terminal state."""
    truncated, terminal = plain([13, 12]).values()
    np.testing.assert_array_equal(truncated.observation, np.array([[13, 0], [13, 1], [13, 2], [13, 3]], np.float32))
    np.testing.assert_array_equal(truncated.action, [91, 92, 93, 0])
    np.testing.assert_array_equal(truncated.reward, np.array([91.013, 92.013, 93.013, 0], np.float32))
    np.testing.assert_array_equal(truncated.discount, np.array([1, 1, 1, 0], np.float32))
    assert not truncated.is_terminal
    np.testing.assert_array_equal(terminal.discount, np.array([1, 0, 0], np.float32))
    assert terminal.is_terminal
    assert terminal.metadata == {"seed": 12, "policy": "evaluated", "environment": "Counting-v0", "success": 0}
    assert [terminal.episode_id, truncated.episode_id] == ["00000001", "00000000"]


SEEDS = [14, 11, 11, 13, 12, 25, 31, 14, 22, 19, 11]  # lengths 1 to 9, terminal and truncated, several of length 1 in a row


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("num_envs", [1, 2, 3, 20])
def test_a_vector_environment_gives_the_rows_of_a_plain_loop(mode: AutoresetMode, num_envs: int) -> None:
    found = vectorised(Counting, act_batch, seeds=SEEDS, num_envs=num_envs, autoreset=mode)
    expected = plain(SEEDS)
    assert sorted(found) == sorted(expected)
    for index, episode in expected.items():
        assert_equal(found[index], episode)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_nested_observations_keep_their_nest_and_end(mode: AutoresetMode) -> None:
    spec = spec_of(Nested)

    def act_nested(observation: Any, episode: np.ndarray) -> np.ndarray:
        seed, step = observation["pair"]
        return act_batch(np.column_stack([seed[:, 0], step]), episode)

    found = vectorised(Nested, act_nested, seeds=SEEDS, num_envs=3, autoreset=mode)
    for index, expected in plain(SEEDS).items():
        episode = found[index]
        validate_episode(episode, spec)
        np.testing.assert_array_equal(episode.observation["pair"][0][:, 0], expected.observation[:, 0])
        np.testing.assert_array_equal(episode.observation["pair"][1], expected.observation[:, 1])
        np.testing.assert_array_equal(episode.observation["image"][:, 1, 1, 0], expected.observation[:, 1])
        np.testing.assert_array_equal(episode.action, expected.action)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_an_exception_loses_its_episode_only(mode: AutoresetMode) -> None:
    seeds = [66, 14, 77, 11, 12, 66, 77, 13]
    lost: list[Lost] = []
    found = vectorised(Counting, act_batch, seeds=seeds, num_envs=2, autoreset=mode, on_lost=lost.append, first_index=10)
    survivors = [1, 3, 4, 7]
    assert sorted(found) == [10 + i for i in survivors]
    for i, expected in plain([seeds[i] for i in survivors]).items():
        np.testing.assert_equal(found[10 + survivors[i]].observation, expected.observation)
    assert sorted((entry.index, entry.seed, entry.error) for entry in lost) == [
        (10, 66, "ValueError: reset failed"),
        (12, 77, "RuntimeError: simulator crashed"),
        (15, 66, "ValueError: reset failed"),
        (16, 77, "RuntimeError: simulator crashed"),
    ]


def test_without_a_listener_an_exception_passes() -> None:
    with pytest.raises(RuntimeError, match="crashed"):
        vectorised(Counting, act_batch, seeds=[14, 77], num_envs=2)


def test_short_episodes_do_not_count_more_often() -> None:
    """With two environments and lengths 9, 1, 1, 1, 1, the second takes all the short ones while the first is still busy."""
    order = list(vectorised(Counting, act_batch, seeds=[19, 11, 21, 31, 41], num_envs=2))
    assert order == [1, 2, 3, 4, 0]


def test_truncating_keeps_the_first_transitions_and_no_terminal() -> None:
    (episode,) = plain([14]).values()
    cut = truncate(episode, 2)
    np.testing.assert_array_equal(cut.observation[:, 1], [0, 1, 2])
    np.testing.assert_array_equal(cut.action, [*episode.action[:2], 0])
    np.testing.assert_array_equal(cut.reward, [*episode.reward[:2], 0])
    np.testing.assert_array_equal(cut.discount, [1, 1, 0])
    assert episode.is_terminal
    assert not cut.is_terminal
    assert truncate(episode, 4) is episode


def test_seeds_of_a_data_set_are_distinct_and_in_range() -> None:
    seeds = [episode_seed(0, index) for index in range(5000)]
    assert len(set(seeds)) == 5000
    assert 0 <= min(seeds) <= max(seeds) < 2**31
    assert not set(seeds) & {episode_seed(1, index) for index in range(5000)}


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros(3), r"observation has shape \[3\], but its space says \[2\]"),
        (np.zeros(1), r"observation has shape \[1\], but its space says \[2\]"),
    ],
)
def test_an_observation_off_its_space_is_named(observation: np.ndarray, message: str) -> None:
    class Wrong(gym.ObservationWrapper[Any, Any, Any]):
        def observation(self, _: Any) -> Any:
            return observation

    with pytest.raises(HindcastError, match=message):
        run_episode(Wrong(Counting()), lambda _: 0, spec_of(Counting), index=0, seed=12, policy="")


def test_integers_that_do_not_fit_are_refused_and_floats_are_rounded() -> None:
    class Wrong(Nested):
        def observation(self, observation: np.ndarray) -> Any:
            return {**super().observation(observation), "image": np.full((2, 2, 1), 256.5)}

    with pytest.raises(HindcastError, match=r"observation/image has values of float64 that do not fit its space's uint8"):
        run_episode(Wrong(), lambda _: 0, spec_of(Nested), index=0, seed=12, policy="")
