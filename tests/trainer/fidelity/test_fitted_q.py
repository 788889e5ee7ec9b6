"""Fitted Q evaluation beside an independent version in float64: the loss, the gradients, Adam and the targets of three updates."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl_datasets.schema import NextAction, Transition
from tests.trainer.fidelity import optimizer, tape
from tests.trainer.fidelity.comparison import LENGTH, SPECS, B, Case, assert_trees_agree, batch_of
from tests.trainer.fidelity.networks import Network, Style, ensemble_from_flax, moved, q_of
from tests.trainer.fidelity.optimizer import Adam
from trainer.fitted_q.fitting import FitParams, FittedQ, Subject
from trainer.preprocessing import Preprocessor

GAMMA, TAU, RATE, UNIT = 0.9, 0.1, 1e-2, 4.0  # UNIT: of rewards, as critics see them
MEAN, STD = np.array([0.5, -1.0, 0.25]), np.array([2.0, 0.5, 1.0])
WEIGHTS = np.array([[0.5, -1.0], [1.0, 0.25], [-0.5, 0.75]])  # of the policy


@dataclass(frozen=True)
class Linear:
    """A policy: tanh of what is linear in the observation, scaled to the bounds; of a category, 1 to 4 by the signs of two sums."""

    is_discrete: bool

    def act(self, policy: jax.Array, observation: jax.Array) -> jax.Array:
        sums = observation @ policy
        if self.is_discrete:
            return 1 + (sums[:, 0] > 0).astype(jnp.int32) + 2 * (sums[:, 1] > 0).astype(jnp.int32)
        low, high = SPECS["continuous"].action.bounds()
        return jnp.asarray([low]) + (jnp.tanh(sums) + 1) / 2 * jnp.asarray([high - low])


def policy_action(observation: np.ndarray, discrete: bool) -> np.ndarray:
    """Encoded: from zero, or in [-1, 1]."""
    sums = observation @ WEIGHTS
    return (sums[:, 0] > 0) + 2 * (sums[:, 1] > 0) if discrete else np.tanh(sums)


def encoded(action: np.ndarray, discrete: bool) -> np.ndarray:
    low, high = SPECS["continuous"].action.bounds()
    return action - 1 if discrete else 2 * (action - low) / (high - low) - 1


def loss(critics: list[Network], target: list[Network], batch: Transition, behaviour: bool, discrete: bool) -> tape.Var:
    style = Style()
    now, then = ((observation - MEAN) / STD for observation in (batch.observation, batch.next_observation))
    assert isinstance(batch.next_action, NextAction)
    next_action = encoded(batch.next_action.action, discrete) if behaviour else policy_action(batch.next_observation, discrete)
    y = batch.reward / UNIT + GAMMA * batch.discount * q_of(target, style, then, next_action).value
    squares = (q_of(critics, style, now, encoded(batch.action, discrete)) - y) ** 2
    counted = np.ones(B) if not behaviour else np.where(batch.discount == 0, 1.0, batch.next_action.exists)
    return (squares * (counted / counted.sum())).sum(1).sum()


def start(case: Case) -> tuple[FittedQ, Any]:
    spec = case.spec
    scaling = Preprocessor((MEAN.astype(np.float32),), (STD.astype(np.float32),), (None,), np.float32(1 / UNIT), np.float32(0))
    params = FitParams(hidden_sizes=(5, 4), gamma=GAMMA, tau=TAU, learning_rate=RATE, decay=("critic",), num_critics=3)
    fitted_q = FittedQ(params, spec, LENGTH, Linear(case.action == "discrete"), scaling)  # type: ignore[arg-type]
    plain = Preprocessor((None,), (None,), (None,), np.float32(1), np.float32(0))
    state = jax.jit(fitted_q.init)(jax.random.key(0), Subject(plain, jnp.asarray(WEIGHTS), np.bool_(False)))
    rng = np.random.default_rng(5)
    target = jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.5, x.shape), x.dtype), state.target)
    return fitted_q, state._replace(target=target)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [False, True], ids=["policy", "behaviour"])
@pytest.mark.parametrize("action", ["discrete", "continuous"])
def test_updates_are_those_of_the_equations(action: str, behaviour: bool) -> None:
    case, discrete = Case(action, next_action=True), action == "discrete"
    with jax.enable_x64(True):
        fitted_q, state = start(case)
        state = state._replace(subject=state.subject._replace(is_behaviour=jnp.bool_(behaviour)))
        critics, target = ensemble_from_flax(state.params["critic"]), ensemble_from_flax(state.target)
        moments, adam = optimizer.no_moments(critics), Adam(RATE, decay="cosine", updates=LENGTH)
        update = jax.jit(fitted_q.update)
        for k in range(3):
            batch = batch_of(case, k, "float64")
            state, metrics = update(state, jax.tree.map(jnp.asarray, batch))
            value, gradient = tape.gradient(partial(loss, target=target, batch=batch, behaviour=behaviour, discrete=discrete), critics)
            critics, moments = optimizer.step(adam, critics, gradient, moments)
            target = moved(target, critics, TAU)
            assert float(metrics["loss"]) == pytest.approx(value, rel=1e-6)
            assert float(metrics["critic_grad_norm"]) == pytest.approx(optimizer.norm(gradient), rel=1e-6)
            assert_trees_agree(f"critics after update {k + 1}", ensemble_from_flax(state.params["critic"]), critics, 1e-6)
            assert_trees_agree(f"targets after update {k + 1}", ensemble_from_flax(state.target), target, 1e-6)
        np.testing.assert_array_equal(state.subject.policy, WEIGHTS)  # the policy stays as it is
        found = fitted_q.values(state.target, state.subject, jnp.asarray(batch.observation), jnp.asarray(batch.action))
        chosen = encoded(batch.action, discrete) if behaviour else policy_action(batch.observation, discrete)
        expected = q_of(target, Style(), (batch.observation - MEAN) / STD, chosen).value * UNIT
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_no_gradient_flows_through_the_target() -> None:
    """At equal weights of critic and target, as they start, the gradient is that of the critic's side alone."""
    case = Case("discrete", next_action=True)
    with jax.enable_x64(True):
        fitted_q, state = start(case)
        batch = batch_of(case, 0, "float64")

        def of_both(critic: Any) -> jax.Array:
            return fitted_q._loss(critic, critic, state.subject, jax.tree.map(jnp.asarray, batch))[0]

        found = ensemble_from_flax(jax.jit(jax.grad(of_both))(state.target))
        critics = ensemble_from_flax(state.target)
        _, expected = tape.gradient(partial(loss, target=critics, batch=batch, behaviour=False, discrete=True), critics)
        assert_trees_agree("gradients", found, expected, 1e-6)


def test_a_batch_without_next_actions_is_refused() -> None:
    case = Case("discrete", next_action=True)
    fitted_q, state = start(replace(case))
    batch = batch_of(case, 0, "float32")._replace(next_action=())
    with pytest.raises(Exception, match=r"needs the data's next actions\. Open the stream with next_action=True"):
        fitted_q.update(state, batch)
