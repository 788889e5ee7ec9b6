"""ReBRAC (Tarasov et al. 2023): TD3 whose policy and whose critics' targets both pay for leaving the data, each at a rate of its own.

TD3 itself is in trainer/deterministic.py. The default is the authors' code (github.com/tinkoff-ai/ReBRAC, also in CORL), save that

- where an episode was cut short, the data have no next action and the target pays nothing; the authors leave these transitions out;
- `layer_norm` normalises before the activation of a layer, the authors' after it;
- hidden layers start as PyTorch's own do, weights as the authors' and biases uniform; theirs are 0.1. `output_gain` is that of their
  critics, and that of their policy, 0.001, stands in the presets (networks.policy.initialization);
- the target policy follows the policy after its step, the authors' the one before.

As there, the distances from the data are sums over an action's elements, and both losses take the least of the critics.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from pydantic import Field

from rl_datasets.errors import HindcastError
from rl_datasets.schema import NextAction, Transition, Tree
from trainer.actions import encode_action
from trainer.deterministic import DelayedParams, DeterministicLearner
from trainer.learner import CriticParams, Initialization, LearnerParams, Metrics, Sizes


class ReBRACParams(LearnerParams, CriticParams, DelayedParams):
    NETWORKS: ClassVar[tuple[str, ...]] = ("critic", "policy")
    NEXT_ACTION: ClassVar[bool] = True

    actor_bc: float = Field(1.0, ge=0)  # beta_1, what the policy pays for its distance from the data
    critic_bc: float = Field(1.0, ge=0)  # beta_2, what the next value pays for it
    normalize_q: bool = True  # whether the policy's values are divided by their size
    layer_norm: bool = True  # of the critics
    hidden_sizes: Sizes = Field((256, 256, 256), min_length=1)
    learning_rate: float = Field(1e-3, gt=0)
    initialization: Initialization = Initialization(hidden="torch", output="uniform", output_gain=0.003)


Params = ReBRACParams


def distance(action: Array, data: Array) -> Array:
    """|a - a_data|^2, [B], of actions [B, A]."""
    return jnp.sum((action - data) ** 2, axis=-1)


def policy_loss(distance: Array, q: Array, scale: Array | float, actor_bc: float) -> Array:
    """[ beta_1 |pi(s) - a|^2 - lambda min_i q_i(s, pi(s)) ], both [B] (eq. 4)."""
    return jnp.mean(actor_bc * distance - scale * q)


def penalized_value(next_v: Array, distance: Array, exists: Array, critic_bc: float) -> Array:
    """min_i q_target_i(s', a') - beta_2 |a' - a'_data|^2, all [B] (eq. 5); no penalty where the data have no next action."""
    return next_v - critic_bc * exists * distance


@dataclass(frozen=True)
class Learner(DeterministicLearner):
    Params: ClassVar[type[LearnerParams]] = ReBRACParams
    NAME: ClassVar[str] = "rebrac"

    params: ReBRACParams

    def _objective(self, action: Array, q: Array, data: Array) -> tuple[Array, Metrics]:
        v = jnp.min(q, axis=0)
        scale = stop_gradient(1 / jnp.mean(jnp.abs(v))) if self.params.normalize_q else 1.0
        return policy_loss(distance(action, data), v, scale, self.params.actor_bc), {}

    def _next_v(self, target: dict[str, Tree], batch: Transition, action: Array) -> Array:
        if not isinstance(batch.next_action, NextAction):
            raise HindcastError("rebrac learns from next actions, but the batch has none. Open the stream with next_action=True.")
        data = encode_action(batch.next_action.action, self.spec.action, self.params.action_clip)
        next_v = super()._next_v(target, batch, action)
        return penalized_value(next_v, distance(action, data), batch.next_action.exists, self.params.critic_bc)
