"""Behaviour cloning: the policy that makes the data's actions likely. The baseline that an offline learner has to beat.

Discrete actions: cross-entropy. Continuous actions: the Gaussian's log-likelihood, or the squared error of its mean (CORL).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from rl_datasets.schema import Transition, Tree
from trainer.actions import require_learnable
from trainer.frames import PolicyLearner
from trainer.learner import GaussianParams, LearnerParams, Metrics
from trainer.optimization import check_batch, descend, move_average, start_average
from trainer.policies import Categorical, Stochastic, make_policy


class BCParams(LearnerParams, GaussianParams):
    loss: Literal["log_likelihood", "squared_error"] = "log_likelihood"  # the latter for continuous actions only


Params = BCParams


class State(NamedTuple):
    step: Array
    key: Array
    params: dict[str, Tree]  # policy
    opt_state: dict[str, Tree]
    average: Tree  # of the policy, with ema_decay


def cloning_loss(log_prob: Array) -> Array:
    """- [ log pi(a|s) ], log_prob [B]."""
    return -jnp.mean(log_prob)


def squared_error(mean: Array, action: Array) -> Array:
    """[ |mean - a|^2 ], both [B, A]."""
    return jnp.mean(jnp.sum((mean - action) ** 2, axis=-1))


@dataclass(frozen=True)
class Learner(PolicyLearner):
    Params: ClassVar[type[LearnerParams]] = BCParams

    params: BCParams

    def __post_init__(self) -> None:
        require_learnable(self.spec, "bc")
        super().__post_init__()

    @cached_property
    def _policy(self) -> Stochastic:
        return make_policy(self.params, self.spec)

    def init(self, key: Array) -> State:
        key, policy_key = jax.random.split(key)
        policy = self._inits["policy"](policy_key)
        opt_state = {"policy": self._optimizers["policy"].init(policy)}
        return State(jnp.int32(0), key, {"policy": policy}, opt_state, start_average(policy, self.params.ema_decay))

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        check_batch(batch, self.spec)
        key, dropout_key = jax.random.split(state.key)
        grad, metrics = jax.grad(self._loss, has_aux=True)(state.params["policy"], batch, dropout_key)
        params, opt_state, norms = descend(self._optimizers, {"policy": grad}, state.params, state.opt_state)
        average = move_average(state.average, params["policy"], self.params.ema_decay)
        return State(state.step + 1, key, params, opt_state, average), {**metrics, **norms}

    def losses(self, state: State, batch: Transition) -> Metrics:
        check_batch(batch, self.spec)
        return self._loss(state.params["policy"], batch, None)[1]

    def _loss(self, policy: Tree, batch: Transition, dropout_key: Array | None) -> tuple[Array, Metrics]:
        output = self._policy.output(policy, batch.observation, dropout_key)
        action = self._action(batch)
        log_prob = self._policy.log_prob(output, action)
        if isinstance(self._policy, Categorical):
            accuracy = jnp.mean(jnp.argmax(output, axis=-1) == action)
            loss, fit = cloning_loss(log_prob), {"accuracy": accuracy}
        else:
            error = squared_error(output[0], action)
            loss, fit = error if self.params.loss == "squared_error" else cloning_loss(log_prob), {"squared_error": error}
        return loss, {"loss": loss, "policy_loss": loss, "log_prob": jnp.mean(log_prob), **fit, **self._policy.spread(output)}
