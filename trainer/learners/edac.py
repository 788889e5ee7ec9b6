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

from dataclasses import dataclass
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from pydantic import Field, model_validator

from rl_datasets.schema import Transition, Tree
from trainer.actions import require_learnable, sample_squashed
from trainer.equations import soft_policy_loss, td_loss, td_target
from trainer.frames import State
from trainer.learner import CriticParams, LearnerParams, Metrics, SquashedGaussianParams
from trainer.optimization import mean_and_std
from trainer.soft import EntropyParams, SoftLearner

SMALLEST_NORM = 1e-10  # of a gradient with respect to an action


class EDACParams(LearnerParams, CriticParams, SquashedGaussianParams, EntropyParams):
    NETWORKS: ClassVar[tuple[str, ...]] = ("critic", "policy")

    num_critics: int = Field(10, ge=1)
    eta: float = Field(1.0, ge=0)  # weight of the critics' likeness; SAC-N where zero
    backup_entropy: bool = True
    log_std_range: tuple[float, float] = (-5.0, 2.0)

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if self.eta > 0 and self.num_critics < 2:
            raise ValueError(f"eta is {self.eta}, but a single critic has no other to differ from; set eta to 0 or num_critics above 1")
        return self


Params = EDACParams


def likeness(gradient: Array) -> Array:
    """[ sum over i != j of <g_i, g_j> / (N - 1) ], g_i the direction of critic i's gradient [N, B, A] by the action (eq. 4)."""
    size = jnp.sqrt(jnp.sum(gradient**2, axis=-1, keepdims=True) + SMALLEST_NORM**2)
    direction = gradient / size
    alone = jnp.sum(direction**2, axis=(0, 2))  # the pairs of a critic with itself
    together = jnp.sum(jnp.sum(direction, axis=0) ** 2, axis=-1)  # all pairs: |sum_i g_i|^2
    return jnp.mean(together - alone) / (len(gradient) - 1)


@dataclass(frozen=True)
class Learner(SoftLearner):
    Params: ClassVar[type[LearnerParams]] = EDACParams

    params: EDACParams

    def __post_init__(self) -> None:
        require_learnable(self.spec, "edac", bounded=True, discrete=False)
        super().__post_init__()

    def _loss(self, params: dict[str, Tree], state: State, batch: Transition, key: Array) -> tuple[Array, Metrics]:
        policy_key, target_key = jax.random.split(key)
        action, log_prob, metrics = self._draw(params["policy"], batch.observation, policy_key)
        alpha = stop_gradient(jnp.exp(params["log_alpha"]))
        v = self._min_q(stop_gradient(params["critic"]), batch.observation, action)
        policy_loss, alpha_loss = soft_policy_loss(log_prob, v, alpha), self._alpha_loss(params["log_alpha"], log_prob)
        critic_loss, q, critic_metrics = self._critic_loss(params, state.target, alpha, batch, target_key)
        loss = critic_loss + policy_loss + alpha_loss
        metrics |= {"loss": loss, "policy_loss": policy_loss, "alpha_loss": alpha_loss, "alpha": alpha, **critic_metrics}
        return loss, {**metrics, **mean_and_std("v", v), **mean_and_std("advantage", jnp.min(q, axis=0) - v)}

    def _critic_loss(
        self, params: dict[str, Tree], target: Tree, alpha: Array, batch: Transition, key: Array
    ) -> tuple[Array, Array, Metrics]:
        """Returns the loss, q_i(s, a) [critics, B] of the data's actions and metrics."""
        p = self.params
        action, log_prob, _ = self._draw(params["policy"], batch.next_observation, key)
        next_v = self._min_q(target, batch.next_observation, action)
        y = td_target(batch.reward, batch.discount, next_v - alpha * log_prob if p.backup_entropy else next_v, p.gamma)
        metrics: Metrics = {}
        if p.eta:
            q, gradient = self._values_and_gradients(params["critic"], batch.observation, self._action(batch))
            bellman, alike = td_loss(q, y), likeness(gradient)
            loss = bellman + p.eta * alike
            metrics["likeness"] = alike
        else:
            q = self._q(params["critic"], batch)
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
