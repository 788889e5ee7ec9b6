"""AWAC (Nair, Gupta, Dalal and Levine 2020): an actor-critic whose policy clones the data by the advantage that its critics see.

Published implementations differ. The default is the authors' code (github.com/rail-berkeley/rlkit, examples/awac/mujoco) save for the
weights' start; differences are options:

- `weights: softmax` over the batch, times its size: the authors', and jaxrl's but for its scale; `exponential`, the paper's and
  CORL's, at most `max_weight`. The sum over actions that would normalise them at each state is left out, as in the paper;
- v(s) is the mean of min_i q_i over `n_actions` actions of the policy, the authors' one. The next value is that of one action;
- `order: sequential`, jaxrl's and CORL's: the critics first, then the policy by the new ones, the targets last. `joint`, the authors',
  takes all gradients at the old parameters;
- `squash_mean`: the mean passes through tanh, as in jaxrl; not in CORL. The deviation does not depend on the state; its logarithm
  is clipped to [-20, 2] in CORL, to [-10, 2] in jaxrl, and taken onto [-6, 0] by a sigmoid in the authors' code. Drawn actions are
  clipped to the bounds, as in CORL;
- the authors train the policy with a weight decay of 1e-4; `weight_decay` here is for all networks;
- a discrete action has a categorical policy and critics with one output an action, and v(s) is exact: the mean over all actions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from pydantic import Field

from rl_datasets.schema import Transition, Tree
from trainer.actions import require_discrete, require_learnable
from trainer.equations import advantage_weight, td_loss, td_target, weighted_cloning_loss
from trainer.frames import ActorCritic, Moved, State
from trainer.learner import CriticParams, GaussianParams, LearnerParams, Metrics
from trainer.optimization import descend, mean_and_std, with_total
from trainer.policies import Categorical, Stochastic, make_policy


class AWACParams(LearnerParams, CriticParams, GaussianParams):
    NETWORKS: ClassVar[tuple[str, ...]] = ("critic", "policy")

    temperature: float = Field(2.0, gt=0)  # lambda: the smaller, the greedier
    weights: Literal["softmax", "exponential"] = "softmax"
    max_weight: float = Field(100.0, gt=0)  # of exponential ones
    n_actions: int = Field(1, gt=0)  # of the policy, for v(s) of a continuous action
    order: Literal["sequential", "joint"] = "sequential"


Params = AWACParams


def softmax_weight(advantage: Array, temperature: float) -> Array:
    """exp(A / lambda) over its mean, [B]: a softmax over the batch times its size."""
    return len(advantage) * jax.nn.softmax(advantage / temperature)


@dataclass(frozen=True)
class Learner(ActorCritic):
    Params: ClassVar[type[LearnerParams]] = AWACParams

    params: AWACParams

    def __post_init__(self) -> None:
        require_learnable(self.spec, "awac")
        require_discrete(self.spec, self.params.advantage_hidden_sizes, "advantage_hidden_sizes")
        super().__post_init__()

    @cached_property
    def _policy(self) -> Stochastic:
        return make_policy(self.params, self.spec)

    def _move(self, state: State, batch: Transition, key: Array) -> Moved:
        old, (target_key, value_key, dropout_key) = state.params, jax.random.split(key, 3)
        critic_grad, critic_metrics = jax.grad(self._critic_loss, has_aux=True)(
            old["critic"], old["policy"], state.target, batch, target_key
        )
        params, opt_state, norms = descend(self._optimizers, {"critic": critic_grad}, old, state.opt_state)
        seen = params["critic"] if self.params.order == "sequential" else old["critic"]
        policy_grad, policy_metrics = jax.grad(self._policy_loss, has_aux=True)(params["policy"], seen, batch, value_key, dropout_key)
        params, opt_state, more_norms = descend(self._optimizers, {"policy": policy_grad}, params, opt_state)
        return params, opt_state, {**with_total({**critic_metrics, **policy_metrics}), **norms, **more_norms}

    def _losses(self, state: State, batch: Transition) -> Metrics:
        target_key, value_key = jax.random.split(state.key)
        params = state.params
        critic_metrics = self._critic_loss(params["critic"], params["policy"], state.target, batch, target_key)[1]
        return with_total({**critic_metrics, **self._policy_loss(params["policy"], params["critic"], batch, value_key, None)[1]})

    def _critic_loss(self, critic: Tree, policy: Tree, target: Tree, batch: Transition, key: Array) -> tuple[Array, Metrics]:
        output = self._policy.output(policy, batch.next_observation)
        y = td_target(batch.reward, batch.discount, self._v(target, output, batch.next_observation, key, 1), self.params.gamma)
        q = self._q(critic, batch)
        loss = td_loss(q, y)
        return loss, {"critic_loss": loss, **mean_and_std("q", q), **mean_and_std("target", y)}

    def _policy_loss(
        self, policy: Tree, critic: Tree, batch: Transition, value_key: Array, dropout_key: Array | None
    ) -> tuple[Array, Metrics]:
        p = self.params
        v = self._v(critic, stop_gradient(self._policy.output(policy, batch.observation)), batch.observation, value_key, p.n_actions)
        advantage = stop_gradient(jnp.min(self._q(critic, batch), axis=0) - v)
        exponential = advantage_weight(advantage, 1 / p.temperature, p.max_weight)
        weight = softmax_weight(advantage, p.temperature) if p.weights == "softmax" else exponential
        output = self._policy.output(policy, batch.observation, dropout_key)
        log_prob = self._policy.log_prob(output, self._action(batch))
        loss = weighted_cloning_loss(log_prob, weight)
        metrics = {"policy_loss": loss, "clipped_weight_share": jnp.mean(exponential >= p.max_weight), "log_prob": jnp.mean(log_prob)}
        return loss, {**metrics, **mean_and_std("v", v), **mean_and_std("advantage", advantage), **self._policy.spread(output)}

    def _v(self, critic: Tree, output: Any, observation: Tree, key: Array, n_actions: int) -> Array:
        """The mean of min_i q_i(s, a) under the policy, [B]: over all discrete actions, else over some that are drawn."""
        if isinstance(self._policy, Categorical):
            return jnp.sum(jax.nn.softmax(output) * self._min_q(critic, observation), axis=-1)
        actions = jax.vmap(lambda k: self._policy.draw(output, k))(jax.random.split(key, n_actions))
        return jnp.mean(self._min_q(critic, observation, actions), axis=0)
