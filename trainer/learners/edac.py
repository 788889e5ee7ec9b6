"""EDAC and SAC-N (An, Moon, Kim and Song 2021): soft actor-critic whose values are the least of many critics'.

SAC-N is `eta: 0`: the more critics, the more an action outside the data has to be agreed on. EDAC needs fewer of them, for it keeps
the critics' gradients with respect to the action from pointing the same way. The default is the authors' code
(github.com/snu-mllab/EDAC) save for the weights' start:

- all gradients are taken at the old parameters, the old alpha in the policy's loss and in the target, as in the authors' code. CORL
  moves alpha, then the policy, then the critics, each by what moved before;
- the entropy is part of the target; not with `backup_entropy: false`, after which the authors stop learning alpha, too;
- diversity is measured on all pairs of critics, as in the paper and in CORL. The authors' code takes min(critics, elements of an
  action) critics, drawn anew each time. With an action of one element it has no gradient;
- `log_std_range` is the authors', [-5, 2]; `initialization` is rlkit's, and CORL's PyTorch's own with biases of 0.1;
- the authors' `max_q_backup` and warm-up by cloning, both off in their runs, are not offered.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.lax import stop_gradient
from pydantic import Field, model_validator

from rl_datasets.schema import Transition, Tree
from trainer.actions import action_size, encode_action, require_learnable, sample_squashed
from trainer.construction import Critics, PolicyLearner, example, make_critics
from trainer.encoders import default_float
from trainer.equations import soft_policy_loss, td_loss, td_target, temperature_loss
from trainer.learner import CriticParams, LearnerParams, Metrics, SquashedGaussianParams
from trainer.optimization import (
    check_batch,
    descend,
    learning_rate,
    make_optimizers,
    make_scalar_optimizer,
    mean_and_std,
    move_average,
    move_target,
    start_average,
)
from trainer.policies import SquashedGaussian, make_squashed_policy

SMALLEST_NORM = 1e-10  # of a gradient with respect to an action


class EDACParams(LearnerParams, CriticParams, SquashedGaussianParams):
    NETWORKS: ClassVar[tuple[str, ...]] = ("critic", "policy")

    num_critics: int = Field(10, ge=1)
    eta: float = Field(1.0, ge=0)  # weight of the critics' likeness; SAC-N where zero
    backup_entropy: bool = True
    learn_alpha: bool = True
    initial_alpha: float = Field(1.0, gt=0)
    target_entropy: float | None = None  # minus the number of the action's elements where absent
    log_std_range: tuple[float, float] = (-5.0, 2.0)

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if self.eta > 0 and self.num_critics < 2:
            raise ValueError(f"eta is {self.eta}, but a single critic has no other to differ from; set eta to 0 or num_critics above 1")
        return self


Params = EDACParams


class State(NamedTuple):
    step: Array
    key: Array
    params: dict[str, Tree]  # critic, policy, log_alpha
    target: Tree  # of the critic
    opt_state: dict[str, Tree]
    average: Tree  # of the policy, with ema_decay


def likeness(gradient: Array) -> Array:
    """[ sum over i != j of <g_i, g_j> / (N - 1) ], g_i the direction of critic i's gradient [N, B, A] by the action (eq. 4)."""
    size = jnp.sqrt(jnp.sum(gradient**2, axis=-1, keepdims=True) + SMALLEST_NORM**2)
    direction = gradient / size
    alone = jnp.sum(direction**2, axis=(0, 2))  # the pairs of a critic with itself
    together = jnp.sum(jnp.sum(direction, axis=0) ** 2, axis=-1)  # all pairs: |sum_i g_i|^2
    return jnp.mean(together - alone) / (len(gradient) - 1)


@dataclass(frozen=True)
class Learner(PolicyLearner):
    Params: ClassVar[type[LearnerParams]] = EDACParams

    params: EDACParams

    def __post_init__(self) -> None:
        require_learnable(self.spec, "edac", bounded=True, discrete=False)
        _ = self._critic, self._policy  # made now, so that a network that does not fit is refused here

    @property
    def target_entropy(self) -> float:
        return -float(action_size(self.spec.action)) if self.params.target_entropy is None else self.params.target_entropy

    @cached_property
    def _critic(self) -> Critics:
        return make_critics(self.params, self.spec)

    @cached_property
    def _policy(self) -> SquashedGaussian:
        return make_squashed_policy(self.params, self.spec)

    @cached_property
    def _optimizers(self) -> Mapping[str, optax.GradientTransformation]:
        """alpha follows the policy's learning rate."""
        alpha = make_scalar_optimizer(self.params, learning_rate(self.params, "policy", self.updates))
        return {**make_optimizers(self.params, self.updates), "log_alpha": alpha}

    def init(self, key: Array) -> State:
        key, critic_key, policy_key = jax.random.split(key, 3)
        params: dict[str, Tree] = {
            "critic": self._critic.init(critic_key),
            "policy": self._policy.init(policy_key, example(self.spec)[0]),
            "log_alpha": jnp.asarray(math.log(self.params.initial_alpha), default_float()),
        }
        opt_state = {name: optimizer.init(params[name]) for name, optimizer in self._optimizers.items()}
        target = jax.tree.map(jnp.copy, params["critic"])
        return State(jnp.int32(0), key, params, target, opt_state, start_average(params["policy"], self.params.ema_decay))

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        check_batch(batch, self.spec)
        key, loss_key = jax.random.split(state.key)
        grads, metrics = jax.grad(self._loss, has_aux=True)(state.params, state.target, batch, loss_key)
        params, opt_state, norms = descend(self._optimizers, grads, state.params, state.opt_state)
        target = move_target(state.target, params["critic"], self.params.tau)
        average = move_average(state.average, params["policy"], self.params.ema_decay)
        return State(state.step + 1, key, params, target, opt_state, average), {**metrics, **norms}

    def losses(self, state: State, batch: Transition) -> Metrics:
        check_batch(batch, self.spec)
        return self._loss(state.params, state.target, batch, state.key)[1]

    def _loss(self, params: dict[str, Tree], target: Tree, batch: Transition, key: Array) -> tuple[Array, Metrics]:
        """The sum of every network's loss, with the gradients stopped so that each loss reaches its own network alone."""
        policy_key, target_key = jax.random.split(key)
        action, log_prob, metrics = self._draw(params["policy"], batch.observation, policy_key)
        alpha = stop_gradient(jnp.exp(params["log_alpha"]))
        v = jnp.min(self._critic(stop_gradient(params["critic"]), batch.observation, action), axis=0)
        policy_loss = soft_policy_loss(log_prob, v, alpha)
        entropy_loss = jnp.zeros_like(policy_loss)
        if self.params.learn_alpha:
            entropy_loss = temperature_loss(params["log_alpha"], log_prob, self.target_entropy)
        critic_loss, q, critic_metrics = self._critic_loss(params, target, alpha, batch, target_key)
        loss = critic_loss + policy_loss + entropy_loss
        metrics |= {"loss": loss, "policy_loss": policy_loss, "alpha_loss": entropy_loss, "alpha": alpha, **critic_metrics}
        return loss, {**metrics, **mean_and_std("v", v), **mean_and_std("advantage", jnp.min(q, axis=0) - v)}

    def _critic_loss(
        self, params: dict[str, Tree], target: Tree, alpha: Array, batch: Transition, key: Array
    ) -> tuple[Array, Array, Metrics]:
        """Returns the loss, q_i(s, a) [critics, B] of the data's actions and metrics."""
        p = self.params
        action, log_prob, _ = self._draw(params["policy"], batch.next_observation, key)
        next_v = jnp.min(self._critic(target, batch.next_observation, action), axis=0)
        y = td_target(batch.reward, batch.discount, next_v - alpha * log_prob if p.backup_entropy else next_v, p.gamma)
        data = encode_action(batch.action, self.spec.action, p.action_clip)
        metrics: Metrics = {}
        if p.eta:
            q, gradient = self._values_and_gradients(params["critic"], batch.observation, data)
            bellman, alike = td_loss(q, y), likeness(gradient)
            loss = bellman + p.eta * alike
            metrics["likeness"] = alike
        else:
            q = self._critic(params["critic"], batch.observation, data)
            loss = bellman = td_loss(q, y)
        metrics |= {"critic_loss": loss, "td_loss": bellman, "q_spread": jnp.mean(jnp.std(q, axis=0))}
        return loss, q, {**metrics, **mean_and_std("q", q), **mean_and_std("target", y)}

    def _values_and_gradients(self, critic: Tree, observation: Tree, action: Array) -> tuple[Array, Array]:
        """q_i(s, a) [critics, B] of an action [B, A], and each critic's gradient by the action, [critics, B, A]."""
        each = jnp.broadcast_to(action, (self.params.num_critics, *action.shape))
        q, back = jax.vjp(lambda actions: self._critic.of_own_actions(critic, observation, actions), each)
        return q, back(jnp.ones_like(q))[0]

    def _draw(self, policy: Tree, observation: Tree, key: Array) -> tuple[Array, Array, Metrics]:
        """An action of the policy [B, A], its log-density [B] and metrics of the policy."""
        output = self._policy.output(policy, observation)
        action, log_prob = sample_squashed(key, *output)
        return action, log_prob, {"entropy": -jnp.mean(log_prob), **self._policy.spread(output)}
