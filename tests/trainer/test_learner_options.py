"""What the options do in which published implementations of one learner differ."""

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from trainer.learner import load_learner

pytestmark = pytest.mark.slow
CONTINUOUS = EnvSpec("Toy-v0", ArraySpec((3,), "float32"), ArraySpec((2,), "float32", -2, 2))
DISCRETE = EnvSpec("Toy-v0", ArraySpec((3,), "float32"), ArraySpec((), "int64", 0, 3, num_values=4))
B = 16


def batch(seed: int = 0, reach: float = 2.0) -> Transition:
    """Actions within +-reach of bounds of +-2."""
    rng = np.random.default_rng(seed)
    observation, next_observation = (jnp.asarray(rng.normal(size=(B, 3)), jnp.float32) for _ in range(2))
    action = jnp.asarray(np.clip(rng.uniform(-2, 2, (B, 2)), -reach, reach), jnp.float32)
    return Transition(observation, action, jnp.asarray(rng.normal(size=B), jnp.float32), jnp.ones(B), next_observation)


def learner_of(algorithm: str, **options: Any) -> Any:
    module = load_learner(algorithm)
    return module.Learner(module.Params.model_validate({"hidden_sizes": (6,), **options}), CONTINUOUS, 10)


def shifted(learner: Any) -> Any:
    """A state whose target critics are not the critics."""
    state = jax.jit(learner.init)(jax.random.key(0))
    return state._replace(target=jax.tree.map(lambda leaf: leaf + 0.3, state.target)) if hasattr(state, "target") else state


def losses(algorithm: str, **options: Any) -> dict[str, Any]:
    """Of the same weights and noise, whatever the options, where these ask for no other weights."""
    learner = learner_of(algorithm, **options)
    return dict(jax.jit(learner.losses)(shifted(learner), batch()))


@cache
def base(algorithm: str) -> dict[str, Any]:
    return losses(algorithm)


def assert_only_differ(one: dict[str, Any], other: dict[str, Any], names: set[str]) -> None:
    assert {name for name in one if not math.isclose(one[name], other[name], rel_tol=1e-5, abs_tol=1e-6)} == names


def test_iql_may_average_its_critics_losses() -> None:
    found = losses("iql", critic_loss="mean")
    assert_only_differ(found, base("iql"), {"loss", "critic_loss"})
    assert math.isclose(found["critic_loss"], base("iql")["critic_loss"] / 2, rel_tol=1e-6)


def test_iql_may_weigh_by_the_trained_critics() -> None:
    learner = learner_of("iql", advantage="online")
    state, data = shifted(learner), batch()
    found = jax.jit(learner.losses)(state, data)
    q = learner._critic(state.params["critic"], data.observation, data.action / 2)
    advantage = jnp.min(q, axis=0) - learner._value(state.params["value"], data.observation)
    assert math.isclose(found["advantage_mean"], jnp.mean(advantage), rel_tol=1e-4, abs_tol=1e-6)
    assert_only_differ(found, base("iql"), {"loss", "policy_loss", "advantage_mean", "advantage_std", "clipped_weight_share"})


def test_iql_without_weights_clones_by_the_squared_error_as_bc_does() -> None:
    iql, bc = learner_of("iql", policy_loss="squared_error", temperature=0.0), learner_of("bc", loss="squared_error")
    state, plain = shifted(iql), shifted(bc)
    plain = plain._replace(params={"policy": state.params["policy"]})
    weighed, cloned = jax.jit(iql.losses)(state, batch()), jax.jit(bc.losses)(plain, batch())
    assert math.isclose(weighed["policy_loss"], cloned["policy_loss"], rel_tol=1e-6)


@pytest.mark.parametrize("option", [{"policy_loss": "squared_error"}])
def test_a_squared_error_is_for_continuous_actions(option: dict[str, str]) -> None:
    module = load_learner("iql")
    with pytest.raises(HindcastError, match=r"policy_loss is squared_error, but it is for continuous actions, and environment 'Toy-v0'"):
        module.Learner(module.Params(**option), DISCRETE, 10)


@pytest.mark.parametrize("algorithm", ["iql", "cql", "bc"])
def test_clipping_the_datas_actions_is_as_if_they_were_stored_so(algorithm: str) -> None:
    learner = learner_of(algorithm, action_clip=0.5)
    state = shifted(learner)
    found, expected = (jax.jit(learner.losses)(state, batch(reach=reach)) for reach in (2.0, 1.0))
    assert_only_differ(found, expected, set())
    if algorithm != "cql":
        assert found["log_prob"] != base(algorithm)["log_prob"]


def test_a_deviation_that_depends_on_the_state_is_another_network() -> None:
    plain, dependent = base("bc"), losses("bc", state_dependent_std=True)
    assert plain["log_std"] == 0.0
    assert dependent["log_std"] != 0.0


def test_cqls_difference_may_be_bounded_on_one_side() -> None:
    free = base("cql")["difference"]
    assert losses("cql", difference_clip=(None, float(free) - 1))["difference"] <= free - 1 + 1e-5
    assert losses("cql", difference_clip=(float(free) + 1, None))["difference"] >= free + 1 - 1e-5


def test_cqls_alpha_prime_starts_where_it_is_told() -> None:
    assert math.isclose(losses("cql", lagrange_gap=1.0, initial_alpha_prime=2.5)["alpha_prime"], 2.5, rel_tol=1e-6)


def test_cqls_deviation_is_scaled_and_shifted_before_it_is_clipped() -> None:
    plain, found = (losses("cql", log_std_affine=affine, log_std_range=(-20.0, 20.0)) for affine in (None, (2.0, -1.0)))
    assert math.isclose(found["log_std"], 2 * plain["log_std"] - 1, rel_tol=1e-5)
    assert losses("cql", log_std_affine=(0.0, -9.0), log_std_range=(-5.0, 2.0))["log_std"] == -5.0
