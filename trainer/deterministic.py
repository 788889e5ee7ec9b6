"""The frame of learners that build on TD3 (Fujimoto, van Hoof and Meger 2018): a deterministic policy for actions with bounds.

- Target policy smoothing: the next action is the target policy's, with clipped noise; the next value is the least of the critics'.
- Delayed updates: the policy and all targets move in one update of `policy_every`, the critics in each.
- `order: sequential`, the authors' of all learners here: the policy's loss sees the critics after their step; `joint` before it.

A learner says what its policy descends (`_objective`), and may change the next value (`_next_v`).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import optax
from jax import Array
from pydantic import Field

from rl_datasets.schema import Transition, Tree
from trainer.actions import require_learnable
from trainer.equations import td_loss, td_target
from trainer.frames import ActorCritic, Moved, State
from trainer.learner import Group, Metrics
from trainer.optimization import descend, learning_rate, make_optimizer, make_optimizers, mean_and_std, with_total
from trainer.policies import Deterministic, make_deterministic_policy


class DelayedParams(Group):
    """Of learners with a deterministic policy and delayed updates."""

    policy_noise: float = Field(0.2, ge=0)  # deviation of the noise on the target policy's actions, which lie in [-1, 1]
    noise_clip: float = Field(0.5, ge=0)
    policy_every: int = Field(2, gt=0)  # updates of the critics to one of the policy and of the targets
    order: Literal["sequential", "joint"] = "sequential"


def smoothed(action: Array, noise: Array, clip: float) -> Array:
    """The action with noise within +-clip, within its bounds again; all [B, A] (TD3, eq. 14)."""
    return jnp.clip(action + jnp.clip(noise, -clip, clip), -1, 1)


@dataclass(frozen=True)
class DeterministicLearner(ActorCritic):
    NAME: ClassVar[str]

    def __post_init__(self) -> None:
        require_learnable(self.spec, self.NAME, bounded=True, discrete=False)
        super().__post_init__()

    @abstractmethod
    def _objective(self, action: Array, q: Array, data: Array) -> tuple[Array, Metrics]:
        """What the policy descends, of its `action` [B, A], the critics' `q` [critics, B] of it and the data's action; and metrics."""

    def _next_v(self, target: dict[str, Tree], batch: Transition, action: Array) -> Array:
        """The value of s' in the critics' target, [B], of the smoothed action there."""
        return self._min_q(target["critic"], batch.next_observation, action)

    @cached_property
    def _policy(self) -> Deterministic:
        return make_deterministic_policy(self.params, self.spec)

    @cached_property
    def _optimizers(self) -> Mapping[str, optax.GradientTransformation]:
        """The policy's rate follows its own updates, of which there are fewer."""
        policy_updates = -(-self.updates // self.params.policy_every)
        policy = make_optimizer(self.params, learning_rate(self.params, "policy", policy_updates))
        return {**make_optimizers(self.params, self.updates), "policy": policy}

    def _move(self, state: State, batch: Transition, key: Array) -> Moved:
        grad, critic_metrics = jax.grad(self._critic_loss, has_aux=True)(state.params["critic"], state.target, batch, key)
        params, opt_state, norms = descend(self._optimizers, {"critic": grad}, state.params, state.opt_state)
        seen = params["critic"] if self.params.order == "sequential" else state.params["critic"]

        def move() -> tuple[Tree, Tree, Metrics]:
            policy_grad, metrics = jax.grad(self._policy_loss, has_aux=True)(params["policy"], seen, batch)
            moved, moved_state, norm = descend(
                self._optimizers, {"policy": policy_grad}, {"policy": params["policy"]}, {"policy": opt_state["policy"]}
            )
            return moved["policy"], moved_state["policy"], {**metrics, **norm}

        def stay() -> tuple[Tree, Tree, Metrics]:
            loss, metrics = self._policy_loss(params["policy"], seen, batch)
            return params["policy"], opt_state["policy"], {**metrics, "policy_grad_norm": jnp.zeros_like(loss)}

        policy, policy_state, policy_metrics = jax.lax.cond(self._due(state), move, stay)
        metrics = {**with_total({**critic_metrics, **policy_metrics}), **norms}
        return {**params, "policy": policy}, {**opt_state, "policy": policy_state}, metrics

    def _due(self, state: State) -> Array:
        """Whether this update moves the policy and the targets."""
        due: Array = state.step % self.params.policy_every == 0
        return due

    def _moved_target(self, state: State, params: dict[str, Tree]) -> Tree:
        follow = partial(super()._moved_target, state, params)
        target: Tree = jax.lax.cond(self._due(state), follow, lambda: state.target)
        return target

    def _followed(self, params: dict[str, Tree]) -> Tree:
        return params

    def _losses(self, state: State, batch: Transition) -> Metrics:
        critic_metrics = self._critic_loss(state.params["critic"], state.target, batch, state.key)[1]
        return with_total({**critic_metrics, **self._policy_loss(state.params["policy"], state.params["critic"], batch)[1]})

    def _critic_loss(self, critic: Tree, target: dict[str, Tree], batch: Transition, key: Array) -> tuple[Array, Metrics]:
        p = self.params
        next_action = self._policy.output(target["policy"], batch.next_observation)
        noise = p.policy_noise * jax.random.normal(key, next_action.shape, next_action.dtype)
        next_v = self._next_v(target, batch, smoothed(next_action, noise, p.noise_clip))
        y = td_target(batch.reward, batch.discount, next_v, p.gamma)
        q = self._q(critic, batch)
        loss = td_loss(q, y)
        return loss, {"critic_loss": loss, **mean_and_std("q", q), **mean_and_std("target", y)}

    def _policy_loss(self, policy: Tree, critic: Tree, batch: Transition) -> tuple[Array, Metrics]:
        """The loss of the policy with the critics held still, and metrics."""
        action = self._policy.output(policy, batch.observation)
        q = self._critic(critic, batch.observation, action)
        loss, metrics = self._objective(action, q, self._action(batch))
        return loss, {"policy_loss": loss, **metrics, **self._policy_metrics(action, q, critic, batch)}

    def _policy_metrics(self, action: Array, q: Array, critic: Tree, batch: Transition) -> Metrics:
        """The advantage is that of the data's action over the policy's."""
        v = jnp.min(q, axis=0)
        advantage = jnp.min(self._q(critic, batch), axis=0) - v
        error = jnp.mean(jnp.sum((action - self._action(batch)) ** 2, axis=-1))
        metrics = {"squared_error": error, **self._policy.spread(action)}
        return {**metrics, **mean_and_std("v", v), **mean_and_std("advantage", advantage)}
