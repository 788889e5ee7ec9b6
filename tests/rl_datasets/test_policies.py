"""Behaviour policies: what they draw, how often, within which bounds, and under which name."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from rl_datasets.behaviour import BLOCK, Start, action_bounds, cartpole_balance, pendulum_swing_up, random_actions
from rl_datasets.environments import env_spec, make_env
from rl_datasets.errors import HindcastError
from rl_datasets.policies import Policy, bundle_paths
from rl_datasets.rollout import run_episode
from rl_datasets.schema import ArraySpec, EnvSpec

CARTPOLE = env_spec(make_env("CartPole-v1"), "CartPole-v1")
PENDULUM = env_spec(make_env("Pendulum-v1"), "Pendulum-v1")
RANDOM = {"kind": "random"}
SWING_UP = {"kind": "scripted", "name": "pendulum_swing_up"}
BALANCE = {"kind": "scripted", "name": "cartpole_balance"}


class Constant:
    """A trained policy that always gives one action, and keeps what it was asked."""

    digest = "d" * 64

    def __init__(self, action: Any) -> None:
        self.action, self.asked = action, []

    def act(self, observation: Any) -> Any:
        self.asked.append(observation)
        return np.array([self.action])


def options(values: Any) -> Policy:
    return TypeAdapter(Policy).validate_python(values)


def bind(values: Any, spec: EnvSpec, bundles: Any = None) -> Start:
    return options(values).bind(spec, bundles or {})


def draw(values: Any, spec: EnvSpec, count: int, seed: int = 0, bundles: Any = None) -> np.ndarray:
    _, act = bind(values, spec, bundles)(np.random.default_rng(seed))
    observation = spec.observation.zeros()
    return np.array([act(observation) for _ in range(count)])


def returns(values: Any, env_id: str, spec: EnvSpec, episodes: int) -> list[float]:
    env, start = make_env(env_id), bind(values, spec)
    runs = (run_episode(env, start(np.random.default_rng(i))[1], spec, index=i, seed=i, policy="") for i in range(episodes))
    return [episode.episode_return for episode in runs]


def test_random_discrete_actions_are_uniform_and_start_where_the_space_starts() -> None:
    action = ArraySpec((), "int64", 5.0, 7.0, num_values=3)
    rng = np.random.default_rng(0)
    drawn = np.concatenate([random_actions(action)(rng) for _ in range(100)])
    counts = np.bincount(drawn, minlength=8)
    assert counts[:5].sum() == 0
    assert len(counts) == 8
    np.testing.assert_allclose(counts[5:] / len(drawn), 1 / 3, atol=0.03)


def test_random_box_actions_fill_their_bounds() -> None:
    action = ArraySpec((2,), "float32", (-2.0, 10.0), (2.0, 10.5))
    rng = np.random.default_rng(0)
    drawn = np.concatenate([random_actions(action)(rng) for _ in range(100)])
    assert drawn.dtype == np.float32
    np.testing.assert_allclose(drawn.min(axis=0), [-2, 10], atol=0.01)
    np.testing.assert_allclose(drawn.max(axis=0), [2, 10.5], atol=0.01)
    np.testing.assert_allclose(drawn.mean(axis=0), [0, 10.25], atol=0.05)


def test_random_actions_without_bounds_follow_gymnasium() -> None:
    """Normal without bounds; exponential, of mean one, away from a single bound."""
    action = ArraySpec((3,), "float32", (-np.inf, 3.0, -np.inf), (np.inf, np.inf, -1.0))
    rng = np.random.default_rng(0)
    drawn = np.concatenate([random_actions(action)(rng) for _ in range(200)])
    np.testing.assert_allclose(drawn.mean(axis=0), [0, 4, -2], atol=0.05)
    np.testing.assert_allclose(drawn.std(axis=0), [1, 1, 1], atol=0.05)
    assert drawn[:, 1].min() >= 3
    assert drawn[:, 2].max() <= -1


def test_random_integer_boxes_include_both_bounds() -> None:
    drawn = random_actions(ArraySpec((4,), "int32", -1.0, 1.0))(np.random.default_rng(0))
    assert drawn.dtype == np.int32
    assert set(np.unique(drawn)) == {-1, 0, 1}


def test_bounds_that_float32_would_pass_are_rounded_inwards() -> None:
    low, high = action_bounds(ArraySpec((1,), "float32", 0.1, 0.3))  # float32(0.3) is above 0.3, float32(0.1) above 0.1
    assert float(low[0]) >= 0.1
    assert float(high[0]) <= 0.3
    np.testing.assert_allclose([low[0], high[0]], [0.1, 0.3], rtol=1e-6)


def test_blocks_follow_one_another() -> None:
    drawn = draw(RANDOM, PENDULUM, 3 * BLOCK)
    assert len(np.unique(drawn)) == 3 * BLOCK
    np.testing.assert_array_equal(drawn, draw(RANDOM, PENDULUM, 3 * BLOCK))
    assert not np.array_equal(drawn, draw(RANDOM, PENDULUM, 3 * BLOCK, seed=1))


def test_epsilon_is_the_share_of_random_actions() -> None:
    """With probability 0.4 random, half of which are action 1: 0.2 of a policy that would always give 0."""
    values = {"kind": "epsilon", "epsilon": 0.4, "base": {"kind": "bundle", "path": "zero"}}
    drawn = draw(values, CARTPOLE, 5000, bundles={"zero": Constant(0)})
    assert abs(drawn.mean() - 0.2) < 0.02


def test_noise_has_its_deviation_and_stays_within_bounds() -> None:
    drawn = draw({"kind": "noise", "std": 0.5, "base": {"kind": "bundle", "path": "x"}}, PENDULUM, 5000, bundles={"x": Constant([0.25])})
    assert drawn.dtype == np.float32
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [0.25, 0.5], atol=0.03)
    loud = draw({"kind": "noise", "std": 50, "base": {"kind": "bundle", "path": "x"}}, PENDULUM, 500, bundles={"x": Constant([0.25])})
    assert loud.min() == -2
    assert loud.max() == 2


def test_a_mixture_draws_one_policy_an_episode_by_weight() -> None:
    parts = [{"weight": 3, "policy": RANDOM}, {"weight": 1, "policy": {"kind": "epsilon", "epsilon": 0.1, "base": BALANCE}}]
    start = bind({"kind": "mixture", "parts": parts}, CARTPOLE)
    names = Counter(start(np.random.default_rng(seed))[0] for seed in range(4000))
    assert set(names) == {"random", "epsilon(0.1, cartpole_balance)"}
    assert abs(names["random"] / 4000 - 0.75) < 0.03


def test_a_trained_policy_is_asked_one_observation_at_a_time() -> None:
    policy = Constant(1)
    name, act = bind({"kind": "bundle", "path": "artifacts/models/x"}, CARTPOLE, {"artifacts/models/x": policy})(np.random.default_rng(0))
    assert name == "artifacts/models/x"
    assert act(np.arange(4, dtype=np.float32)) == 1
    np.testing.assert_array_equal(policy.asked[-1], [[0, 1, 2, 3]])


def test_paths_of_bundles_are_found_at_any_depth() -> None:
    nested = {"kind": "epsilon", "epsilon": 0, "base": {"kind": "bundle", "path": "b"}}
    parts = [{"weight": 1, "policy": nested}, {"weight": 1, "policy": {"kind": "bundle", "path": "a"}}, {"weight": 1, "policy": nested}]
    assert bundle_paths(options({"kind": "mixture", "parts": parts})) == ["a", "b"]
    assert bundle_paths(options(RANDOM)) == []


@pytest.mark.parametrize("action", [[2.01], [-2.01], [np.nan], [0.0, 0.0], 0.5])
def test_a_box_action_off_its_space_is_refused(action: Any) -> None:
    with pytest.raises(
        HindcastError, match=r"The policy bundle x gave the action .*'Pendulum-v1' takes float32\[1\] within \[-2\.0, 2\.0\]"
    ):
        draw({"kind": "bundle", "path": "x"}, PENDULUM, 1, bundles={"x": Constant(action)})


@pytest.mark.parametrize("action", [2, -1, 0.5, [1]])
def test_a_category_off_its_space_is_refused(action: Any) -> None:
    with pytest.raises(HindcastError, match=r"'CartPole-v1' takes int64\[\] within \[0\.0, 1\.0\]"):
        draw({"kind": "bundle", "path": "x"}, CARTPOLE, 1, bundles={"x": Constant(action)})


@pytest.mark.parametrize(
    ("values", "spec", "message"),
    [
        (SWING_UP, CARTPOLE, "'pendulum_swing_up' does not fit environment 'CartPole-v1'"),
        (BALANCE, PENDULUM, "'cartpole_balance' does not fit environment 'Pendulum-v1'"),
        ({"kind": "epsilon", "epsilon": 0.1, "base": SWING_UP}, PENDULUM, "'epsilon' is for Discrete actions.*Use kind: noise"),
        ({"kind": "noise", "std": 0.1, "base": BALANCE}, CARTPOLE, "'noise' is for Box actions of floats.*Use kind: epsilon"),
    ],
)
def test_a_policy_for_another_environment_is_refused(values: Any, spec: EnvSpec, message: str) -> None:
    with pytest.raises(HindcastError, match=message):
        bind(values, spec)


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "psychic"},
        {"kind": "scripted", "name": "unknown"},
        {"kind": "epsilon", "epsilon": 1.5, "base": RANDOM},
        {"kind": "noise", "std": 0, "base": RANDOM},
        {"kind": "mixture", "parts": []},
        {"kind": "mixture", "parts": [{"weight": -1, "policy": RANDOM}]},
    ],
)
def test_options_out_of_range_are_refused(values: Any) -> None:
    with pytest.raises(ValidationError):
        options(values)


def test_the_controllers_do_what_they_are_for() -> None:
    """Random play earns about -1200 and 22; the best known mean on Pendulum is about -145, and 500 is all there is on CartPole."""
    assert np.mean(returns(SWING_UP, "Pendulum-v1", PENDULUM, 20)) > -220
    assert np.mean(returns(BALANCE, "CartPole-v1", CARTPOLE, 5)) == 500


def test_the_swing_up_pumps_along_the_velocity_and_balances_against_the_lean() -> None:
    assert pendulum_swing_up(np.array([-1.0, 0.0, 1.0])) == 2  # hanging, too little energy: with the motion
    assert pendulum_swing_up(np.array([-1.0, 0.0, -1.0])) == -2
    assert pendulum_swing_up(np.array([0.0, 1.0, 8.0])) == -2  # 64 / 6 J is more than 5 J: against it
    assert pendulum_swing_up(np.array([np.cos(0.1), np.sin(0.1), 0.0])) == pytest.approx(-1.2)
    assert cartpole_balance(np.array([0, 0, 0.1, 0])) == 1
    assert cartpole_balance(np.array([0, 0, 0.1, -0.5])) == 0
