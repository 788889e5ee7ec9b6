"""Behaviour cloning: the policy that makes the data's actions likely. The baseline that an offline learner has to beat.

Discrete actions: cross-entropy. Continuous actions: the Gaussian's log-likelihood, or the squared error of its mean.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from pydantic import Field

from rl_datasets.schema import EnvSpec, Transition, Tree
from trainer.actions import Categorical, Policy, encode_action, make_policy, require_learnable
from trainer.learner import LearnerParams, Metrics
from trainer.optimization import OptimizerParams, check_batch, descend, make_optimizer


class BCParams(LearnerParams):
    loss: Literal["log_likelihood", "squared_error"] = "log_likelihood"  # the latter for continuous actions only
    cosine_decay: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)
    squash_mean: bool = True
    log_std_range: tuple[float, float] = (-5.0, 2.0)


Params = BCParams


class State(NamedTuple):
    step: Array
    key: Array
    params: dict[str, Tree]
    opt_state: dict[str, Tree]


def cloning_loss(log_prob: Array) -> Array:
    """- [ log pi(a|s) ], log_prob [B]."""
    return -jnp.mean(log_prob)


def squared_error(mean: Array, action: Array) -> Array:
    """[ |mean - a|^2 ], both [B, A]."""
    return jnp.mean(jnp.sum((mean - action) ** 2, axis=-1))


@dataclass(frozen=True)
class Learner:
    Params: ClassVar[type[LearnerParams]] = BCParams

    params: BCParams
    spec: EnvSpec
    updates: int

    def __post_init__(self) -> None:
        require_learnable(self.spec, "bc")

    @cached_property
    def _policy(self) -> Policy:
        p = self.params
        return make_policy(self.spec, p.hidden_sizes, p.log_std_range, p.squash_mean, p.dropout)

    @cached_property
    def _optimizers(self) -> dict[str, optax.GradientTransformation]:
        p = self.params
        return {"policy": make_optimizer(OptimizerParams(p.learning_rate, p.cosine_decay, self.updates, p.max_grad_norm))}

    def init(self, key: Array) -> State:
        key, policy_key = jax.random.split(key)
        observation = jax.tree.map(lambda leaf: leaf.zeros(1), self.spec.observation)
        params = {"policy": self._policy.init(policy_key, observation)}
        return State(jnp.int32(0), key, params, {"policy": self._optimizers["policy"].init(params["policy"])})

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        check_batch(batch, self.spec)
        key, dropout_key = jax.random.split(state.key)
        grad, metrics = jax.grad(self._loss, has_aux=True)(state.params["policy"], batch, dropout_key)
        params, opt_state, norms = descend(self._optimizers, {"policy": grad}, state.params, state.opt_state)
        return State(state.step + 1, key, params, opt_state), {**metrics, **norms}

    def losses(self, state: State, batch: Transition) -> Metrics:
        check_batch(batch, self.spec)
        return self._loss(state.params["policy"], batch, None)[1]

    def policy(self, state: State) -> Tree:
        return state.params["policy"]

    def act(self, policy: Tree, observation: Tree) -> Array:
        return self._policy.mode(self._policy.output(policy, observation))

    def sample(self, policy: Tree, key: Array, observation: Tree) -> Array:
        return self._policy.sample(self._policy.output(policy, observation), key)

    def _loss(self, policy: Tree, batch: Transition, dropout_key: Array | None) -> tuple[Array, Metrics]:
        output = self._policy.output(policy, batch.observation, dropout_key)
        action = encode_action(batch.action, self.spec.action)
        log_prob = self._policy.log_prob(output, action)
        if isinstance(self._policy, Categorical):
            accuracy = jnp.mean(jnp.argmax(output, axis=-1) == action)
            loss, fit = cloning_loss(log_prob), {"accuracy": accuracy}
        else:
            error = squared_error(output[0], action)
            loss, fit = error if self.params.loss == "squared_error" else cloning_loss(log_prob), {"squared_error": error}
        return loss, {"loss": loss, "policy_loss": loss, "log_prob": jnp.mean(log_prob), **fit, **self._policy.spread(output)}
