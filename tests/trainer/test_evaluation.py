"""Evaluation in an environment whose every return is known from the seed of its episode and the actions that were taken."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rl_datasets.errors import HindcastError
from trainer import evaluation
from trainer.evaluation import environment_seeds, evaluate_policies, evaluate_policy

LONGEST = 13


def length_of(seed: int) -> int:
    return 1 + seed % LONGEST


class Countdown(gym.Env[Any, Any]):
    """Lasts length_of(seed) steps and shows (seed, step); the reward is the action. Even seeds terminate, odd ones are truncated."""

    observation_space = spaces.Dict(
        {
            "camera": spaces.Box(0, 255, (4, 4, 3), np.uint8),
            "state": spaces.Tuple([spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Discrete(LONGEST + 1)]),
        }
    )
    action_space: Any = spaces.Box(-10, 10, (1,), np.float32)
    closed = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        assert seed is not None, "an episode without a recorded seed"
        super().reset(seed=seed)
        self.seed_of_episode, self.clock = seed, 0
        return self.observe(), {}

    def observe(self) -> Any:
        position = np.array([self.seed_of_episode, self.clock], np.float64)
        return {"camera": np.full((4, 4, 3), self.clock, np.uint8), "state": (position, np.int64(self.clock))}

    def step(self, action: Any) -> Any:
        assert action.shape == (1,)
        assert action.dtype == np.float32
        self.clock += 1
        over = self.clock == length_of(self.seed_of_episode)
        assert self.clock <= length_of(self.seed_of_episode), "stepped past its end"
        even = self.seed_of_episode % 2 == 0
        return self.observe(), float(action[0]), over and even, over and not even, self.info()

    def info(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        Countdown.closed += 1


class Successful(Countdown):
    """Is successful at the end of an episode whose seed is a multiple of three, and never before the end."""

    def info(self) -> dict[str, Any]:
        return {"is_success": np.float32(self.seed_of_episode % 3 == 0 and self.clock == length_of(self.seed_of_episode))}


def act_by_row(observation: Any) -> np.ndarray:
    """Policy number s acts with s + 1 in every step."""
    rows, columns = observation["camera"].shape[:2]
    return np.repeat(np.arange(1.0, rows + 1)[:, None, None], columns, axis=1)


def test_each_policy_plays_exactly_the_assigned_episodes() -> None:
    rows = evaluate_policies(act_by_row, Countdown, policies=3, episodes=40, seed=5)
    seeds = environment_seeds(5, 40)
    assert [(row.policy, row.episode) for row in rows] == [(policy, episode) for policy in range(3) for episode in range(40)]
    assert [row.environment_seed for row in rows] == seeds * 3
    assert [row.length for row in rows] == [length_of(seed) for seed in seeds] * 3
    assert [row.episode_return for row in rows] == [(policy + 1.0) * length_of(seed) for policy in range(3) for seed in seeds]
    assert [row.is_terminal for row in rows] == [seed % 2 == 0 for seed in seeds] * 3
    assert {row.success for row in rows} == {None}


@pytest.mark.parametrize("environments", [1, 3, 7, 1000])
def test_short_episodes_count_no_more_for_any_number_of_environments(environments: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting the first episodes that end, of environments that never wait, would favour the short ones."""
    monkeypatch.setattr(evaluation, "ENVIRONMENTS", environments)
    rows = evaluate_policies(act_by_row, Countdown, policies=2, episodes=50, seed=0)
    expected = np.mean([length_of(seed) for seed in environment_seeds(0, 50)])
    assert np.mean([row.episode_return for row in rows if row.policy == 0]) == expected
    assert len(rows) == 100


def test_act_sees_batches_of_one_shape_nested_as_the_space_and_current() -> None:
    shapes = set()
    clocks: list[np.ndarray] = []

    def act(observation: Any) -> np.ndarray:
        position, clock = observation["state"]
        shapes.add((observation["camera"].shape, position.shape, clock.shape, observation["camera"].dtype.name))
        assert np.array_equal(position[..., 1], clock)
        assert np.array_equal(observation["camera"][..., 0, 0, 0], clock)
        clocks.append(clock.copy())
        return act_by_row(observation)

    evaluate_policies(act, Countdown, policies=2, episodes=5, seed=3)
    assert shapes == {((2, 5, 4, 4, 3), (2, 5, 2), (2, 5), "uint8")}
    lengths = np.array([length_of(seed) for seed in environment_seeds(3, 5)])
    for step, clock in enumerate(clocks):
        assert np.array_equal(clock, np.minimum(step, np.stack([lengths, lengths])))


def test_success_is_that_of_the_last_step() -> None:
    rows = evaluate_policies(act_by_row, Successful, policies=1, episodes=30, seed=1)
    assert [row.success for row in rows] == [seed % 3 == 0 for seed in environment_seeds(1, 30)]
    assert {row.success for row in rows} == {True, False}


def test_one_policy() -> None:
    def policy(observation: Any) -> np.ndarray:
        assert observation["camera"].ndim == 4
        return np.full((len(observation["camera"]), 1), 2.0)

    rows = evaluate_policy(policy, Countdown, episodes=6, seed=0)
    assert [row.episode_return for row in rows] == [2.0 * length_of(seed) for seed in environment_seeds(0, 6)]


def test_equal_arguments_give_equal_rows_and_progress_adds_up() -> None:
    steps: list[int] = []
    first = evaluate_policies(act_by_row, Countdown, policies=2, episodes=9, seed=4, advance=steps.append)
    assert first == evaluate_policies(act_by_row, Countdown, policies=2, episodes=9, seed=4)
    assert sum(steps) == 18


def test_discrete_actions_arrive_as_integers_and_returns_match_a_plain_loop() -> None:
    def make_env() -> Any:
        return gym.make("CartPole-v1", disable_env_checker=True)

    def act(observation: np.ndarray) -> np.ndarray:
        return (observation[..., 2] + 0.3 * observation[..., 3] > 0.02).astype(np.int64)

    rows = evaluate_policies(act, make_env, policies=1, episodes=4, seed=0)
    for row in rows:
        env = make_env()
        observation, _ = env.reset(seed=row.environment_seed)
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(int(act(observation)))
            total, over = total + reward, terminated or truncated
        assert (row.episode_return, row.is_terminal) == (total, terminated)


def test_environment_seeds_are_distinct_stable_and_not_those_of_another_seed() -> None:
    seeds = environment_seeds(0, 1000)
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert environment_seeds(0, 10) == seeds[:10]
    assert not set(seeds) & set(environment_seeds(1, 1000))


class Broken(Countdown):
    def step(self, action: Any) -> Any:
        if self.clock == 2:
            raise ValueError("the simulator is unstable")
        return super().step(action)


def test_an_environment_that_raises_stops_the_evaluation_and_is_closed() -> None:
    Countdown.closed = 0
    with pytest.raises(HindcastError, match=r"'Broken', episode \d+ \(environment seed \d+\), raised ValueError at step 2: the simulator"):
        evaluate_policies(act_by_row, Broken, policies=2, episodes=10, seed=0)
    assert Countdown.closed == 20


def test_an_episode_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "STEP_LIMIT", 3)
    with pytest.raises(HindcastError, match="has not ended after 3 steps"):
        evaluate_policies(act_by_row, Countdown, policies=1, episodes=10, seed=0)


def test_discounted_returns_where_a_gamma_is_given() -> None:
    """The reward is the action, 2, at each step."""

    def act(observation: Any) -> Any:
        return np.full((*observation["camera"].shape[:2], 1), 2, np.float32)

    rows = evaluate_policies(act, Countdown, policies=2, episodes=5, seed=0, gamma=0.5)
    assert [row.discounted_return for row in rows] == [2 * (2 - 2 * 0.5**row.length) for row in rows]
    assert evaluate_policies(act, Countdown, policies=2, episodes=5, seed=0) == [row._replace(discounted_return=None) for row in rows]
