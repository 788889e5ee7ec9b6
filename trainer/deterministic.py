"""The frame of learners that build on TD3 (Fujimoto, van Hoof and Meger 2018): a deterministic policy for actions with bounds.

- Target policy smoothing: the next action is the target policy's, with clipped noise; the next value is the least of the critics'.
- Delayed updates: the policy and all targets move in one update of `policy_every`, the critics in each.
- `order: sequential`, the authors' of all learners here: the policy's loss sees the critics after their step; `joint` before it.

A learner says what its policy descends (`_policy_loss`), and may change the next value (`_next_v`).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from pydantic import Field

from rl_datasets.schema import Transition, Tree
from trainer.actions import encode_action, require_learnable
from trainer.construction import Critics, PolicyLearner, example, make_critics
from trainer.equations import td_loss, td_target
from trainer.learner import Group, Metrics
from trainer.optimization import (
    check_batch,
    descend,
    learning_rate,
    make_optimizer,
    make_optimizers,
    mean_and_std,
    move_average,
    move_target,
    start_average,
    with_total,
)
from trainer.policies import Deterministic, make_deterministic_policy


class DelayedParams(Group):
    """Of learners with a deterministic policy and delayed updates."""

    policy_noise: float = Field(0.2, ge=0)  # deviation of the noise on the target policy's actions, which lie in [-1, 1]
    noise_clip: float = Field(0.5, ge=0)
    policy_every: int = Field(2, gt=0)  # updates of the critics to one of the policy and of the targets
    order: Literal["sequential", "joint"] = "sequential"


class State(NamedTuple):
    step: Array
    key: Array
    params: dict[str, Tree]  # critic, policy
    target: dict[str, Tree]  # of both
    opt_state: dict[str, Tree]
    average: Tree  # of the policy, with ema_decay


def smoothed(action: Array, noise: Array, clip: float) -> Array:
    """The action with noise within +-clip, within its bounds again; all [B, A] (TD3, eq. 14)."""
    return jnp.clip(action + jnp.clip(noise, -clip, clip), -1, 1)


@dataclass(frozen=True)
class DeterministicLearner(PolicyLearner):
    NAME: ClassVar[str]

    def __post_init__(self) -> None:
        require_learnable(self.spec, self.NAME, bounded=True, discrete=False)
        _ = self._critic, self._policy  # made now, so that a network that does not fit is refused here

    @abstractmethod
    def _policy_loss(self, policy: Tree, critic: Tree, batch: Transition) -> tuple[Array, Metrics]:
        """The loss of the policy with the critics held still, and metrics."""

    def _next_v(self, target: dict[str, Tree], batch: Transition, action: Array) -> Array:
        """The value of s' in the critics' target, [B], of the smoothed action there."""
        return jnp.min(self._critic(target["critic"], batch.next_observation, action), axis=0)

    @cached_property
    def _critic(self) -> Critics:
        return make_critics(self.params, self.spec)

    @cached_property
    def _policy(self) -> Deterministic:
        return make_deterministic_policy(self.params, self.spec)

    @cached_property
    def _optimizers(self) -> Mapping[str, optax.GradientTransformation]:
        """The policy's rate follows its own updates, of which there are fewer."""
        policy_updates = -(-self.updates // self.params.policy_every)
        policy = make_optimizer(self.params, learning_rate(self.params, "policy", policy_updates))
        return {**make_optimizers(self.params, self.updates), "policy": policy}

    def init(self, key: Array) -> State:
        key, critic_key, policy_key = jax.random.split(key, 3)
        params = {"critic": self._critic.init(critic_key), "policy": self._policy.init(policy_key, example(self.spec)[0])}
        opt_state = {name: self._optimizers[name].init(params[name]) for name in params}
        average = start_average(params["policy"], self.params.ema_decay)
        return State(jnp.int32(0), key, params, jax.tree.map(jnp.copy, params), opt_state, average)

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        check_batch(batch, self.spec)
        key, noise_key = jax.random.split(state.key)
        grad, critic_metrics = jax.grad(self._critic_loss, has_aux=True)(state.params["critic"], state.target, batch, noise_key)
        params, opt_state, norms = descend(self._optimizers, {"critic": grad}, state.params, state.opt_state)
        seen = params["critic"] if self.params.order == "sequential" else state.params["critic"]

        def move() -> tuple[Tree, Tree, Tree, Metrics]:
            policy_grad, metrics = jax.grad(self._policy_loss, has_aux=True)(params["policy"], seen, batch)
            moved, moved_state, norm = descend(
                self._optimizers, {"policy": policy_grad}, {"policy": params["policy"]}, {"policy": opt_state["policy"]}
            )
            target = move_target(state.target, {**params, **moved}, self.params.tau)
            return moved["policy"], moved_state["policy"], target, {**metrics, **norm}

        def stay() -> tuple[Tree, Tree, Tree, Metrics]:
            loss, metrics = self._policy_loss(params["policy"], seen, batch)
            return params["policy"], opt_state["policy"], state.target, {**metrics, "policy_grad_norm": jnp.zeros_like(loss)}

        due = state.step % self.params.policy_every == 0
        policy, policy_state, target, policy_metrics = jax.lax.cond(due, move, stay)
        average = move_average(state.average, policy, self.params.ema_decay)
        after = State(state.step + 1, key, {**params, "policy": policy}, target, {**opt_state, "policy": policy_state}, average)
        return after, {**with_total({**critic_metrics, **policy_metrics}), **norms}

    def losses(self, state: State, batch: Transition) -> Metrics:
        check_batch(batch, self.spec)
        critic_metrics = self._critic_loss(state.params["critic"], state.target, batch, state.key)[1]
        return with_total({**critic_metrics, **self._policy_loss(state.params["policy"], state.params["critic"], batch)[1]})

    def _critic_loss(self, critic: Tree, target: dict[str, Tree], batch: Transition, key: Array) -> tuple[Array, Metrics]:
        p = self.params
        next_action = self._policy.output(target["policy"], batch.next_observation)
        noise = p.policy_noise * jax.random.normal(key, next_action.shape, next_action.dtype)
        next_v = self._next_v(target, batch, smoothed(next_action, noise, p.noise_clip))
        y = td_target(batch.reward, batch.discount, next_v, p.gamma)
        q = self._critic(critic, batch.observation, self._action(batch))
        loss = td_loss(q, y)
        return loss, {"critic_loss": loss, **mean_and_std("q", q), **mean_and_std("target", y)}

    def _action(self, batch: Transition) -> Array:
        return encode_action(batch.action, self.spec.action, self.params.action_clip)

    def _policy_metrics(self, action: Array, q: Array, critic: Tree, batch: Transition) -> Metrics:
        """Of the policy's `action` [B, A], and the critics' `q` [critics, B] of it; the advantage is the data's action's over it."""
        data = self._action(batch)
        v = jnp.min(q, axis=0)
        advantage = jnp.min(self._critic(critic, batch.observation, data), axis=0) - v
        metrics = {"squared_error": jnp.mean(jnp.sum((action - data) ** 2, axis=-1)), **self._policy.spread(action)}
        return {**metrics, **mean_and_std("v", v), **mean_and_std("advantage", advantage)}
