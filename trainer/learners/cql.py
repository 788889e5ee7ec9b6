"""Conservative Q-learning (Kumar et al. 2020): CQL(H) on soft actor-critic for continuous actions, on double DQN for discrete.

Published implementations differ (the authors' github.com/aviralkumar2907/CQL, CORL, JAX-CORL); here
- all gradients are taken at the old parameters, the old alpha in the policy's loss (the authors' takes the new one); the targets
  move last;
- the critic's loss is the sum over the critics of squared error (no factor 0.5) and min_q_weight times the difference;
- no entropy in the target unless `backup_entropy`; `max_target_backup` takes n_actions, min over critics, then max over actions;
- without `importance_sampling` the set holds the data's action too and no density is taken off, as in the authors' code;
- the sampled actions of the conservative part are drawn anew, apart from the target's and the policy loss's;
- the policy network runs once for each state, and the critic's first layer sees each state once (`networks.Torso`);
- `lagrange_gap` is compared with the difference before min_q_weight (CORL, JAX-CORL); the authors compare min_q_weight times it, so
  their threshold is min_q_weight times ours. alpha' starts at `initial_alpha_prime`, 1 (the authors'), e in CORL and JAX-CORL;
- `log_std_range` is [-20, 2] as in CORL and JAX-CORL, [-5, 2] in the authors' code; `log_std_affine` is CORL's and JAX-CORL's;
- `initialization` is rlkit's in the authors' code, orthogonal for CORL's critics, flax's own in JAX-CORL;
- `difference_clip` bounds each state's difference, null for no bound (CORL on AntMaze: [-200, null]);
- discrete: a' = argmax_a min_i q_i(s', a) and the target min_i q_target_i(s', a'); all actions form the set; `sample` draws from
  the softmax of min_i q_i / conservative_temperature, the distribution under which the conservative part is stationary;
- `advantage_hidden_sizes` makes the critic of discrete actions a dueling one, whose advantages have layers of their own or none.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.lax import stop_gradient
from pydantic import Field

from rl_datasets.schema import Transition, Tree
from trainer.actions import (
    EDGE,
    LOG_2,
    decode_action,
    require_continuous,
    require_discrete,
    require_learnable,
    sample_squashed,
    squashed_log_prob,
    take,
    unsquash,
)
from trainer.equations import soft_policy_loss, td_loss, td_target
from trainer.frames import Init, State
from trainer.learner import CriticParams, LearnerParams, Metrics, SquashedGaussianParams
from trainer.optimization import block_size, mean_and_std, mean_by_blocks
from trainer.soft import EntropyParams, SoftLearner

MAX_ALPHA_PRIME = 1e6

Output = tuple[Array, Array]  # mean and log standard deviation of the policy before tanh, each [B, A]


class CQLParams(LearnerParams, CriticParams, SquashedGaussianParams, EntropyParams):
    NETWORKS: ClassVar[tuple[str, ...]] = ("critic", "policy")

    min_q_weight: float | None = Field(None, ge=0)  # where absent, 5 for continuous and 1 for discrete actions
    conservative_temperature: float = Field(1.0, gt=0)
    difference_clip: tuple[float | None, float | None] | None = None
    lagrange_gap: float | None = None  # with a gap, min_q_weight is multiplied by a learnt alpha'
    initial_alpha_prime: float = Field(1.0, gt=0)
    # what follows is for continuous actions
    n_actions: int = Field(10, gt=0)
    importance_sampling: bool = True
    max_target_backup: bool = False
    policy_learning_rate: float | None = Field(1e-4, gt=0)
    bc_warmup: int = Field(0, ge=0)  # first updates in which the policy clones the data


Params = CQLParams


def soft_maximum(q_set: Array, temperature: float) -> Array:
    """temperature * logsumexp(q / temperature) over the set of actions: [critics, C, B] -> [critics, B]."""
    return temperature * jax.nn.logsumexp(q_set / temperature, axis=1)


@dataclass(frozen=True)
class Learner(SoftLearner):
    Params: ClassVar[type[LearnerParams]] = CQLParams

    params: CQLParams

    def __post_init__(self) -> None:
        require_learnable(self.spec, "cql", bounded=True)
        require_discrete(self.spec, self.params.advantage_hidden_sizes, "advantage_hidden_sizes")
        require_continuous(self.spec, self.params.networks.get("policy"), "networks.policy")
        super().__post_init__()

    @property
    def discrete(self) -> bool:
        return self.spec.action.is_discrete

    @property
    def min_q_weight(self) -> float:
        return (1.0 if self.discrete else 5.0) if self.params.min_q_weight is None else self.params.min_q_weight

    @property
    def actor(self) -> str:
        return "critic" if self.discrete else "policy"

    @cached_property
    def _inits(self) -> Mapping[str, Init]:
        return {"critic": self._critic.init} if self.discrete else super()._inits

    @cached_property
    def _optimizers(self) -> Mapping[str, optax.GradientTransformation]:
        """alpha' has the critic's learning rate, but it never decays."""
        return {**super()._optimizers, "log_alpha_prime": self._scalar_optimizer("log_alpha_prime")}

    def _numbers(self) -> dict[str, float]:
        prime = {} if self.params.lagrange_gap is None else {"log_alpha_prime": math.log(self.params.initial_alpha_prime)}
        return prime if self.discrete else {**super()._numbers(), **prime}

    def act(self, policy: Tree, observation: Tree) -> Array:
        if self.discrete:
            return decode_action(jnp.argmax(self._min_q(policy, observation), axis=-1), self.spec.action)
        return super().act(policy, observation)

    def sample(self, policy: Tree, key: Array, observation: Tree) -> Array:
        if self.discrete:
            logits = self._min_q(policy, observation) / self.params.conservative_temperature
            return decode_action(jax.random.categorical(key, logits), self.spec.action)
        return super().sample(policy, key, observation)

    def _loss(self, params: dict[str, Tree], state: State, batch: Transition, key: Array) -> tuple[Array, Metrics]:
        if self.discrete:
            q, q_set, next_v, v = self._discrete_values(params["critic"], state.target, batch)
            difference = jnp.sum(jnp.mean(self._difference(q, q_set), axis=-1))
            loss, metrics = self._critic_loss(params, q, difference, next_v, v, batch)
            return loss, {"loss": loss, **metrics}
        policy_key, target_key, set_key = jax.random.split(key, 3)
        output = self._policy.output(params["policy"], batch.observation)
        next_output = self._policy.output(params["policy"], batch.next_observation)
        actor_loss, v, actor_metrics = self._actor_loss(output, params, state.step, batch, policy_key)
        next_v = self._next_v(state.target, params["log_alpha"], next_output, batch.next_observation, target_key)
        rows = self._set_rows(output, next_output, batch, set_key)
        difference = mean_by_blocks(self._summed_difference, params["critic"], rows, self._block_size(rows))
        q = self._q(params["critic"], batch)
        loss, metrics = self._critic_loss(params, q, difference, next_v, v, batch)
        return loss + actor_loss, {"loss": loss + actor_loss, **metrics, **actor_metrics}

    def _critic_loss(
        self, params: dict[str, Tree], q: Array, difference: Array, next_v: Array, v: Array, batch: Transition
    ) -> tuple[Array, Metrics]:
        """q [critics, B] of the data, the difference (a sum over critics), next_v [B] for the target, v [B] to report.

        Adds the loss of alpha'.
        """
        p = self.params
        target = td_target(batch.reward, batch.discount, next_v, p.gamma)
        bellman = td_loss(q, target)
        metrics = {"td_loss": bellman, "difference": difference / p.num_critics}
        if p.lagrange_gap is None:
            loss = bellman + self.min_q_weight * difference
            prime_loss = jnp.zeros_like(loss)
        else:
            alpha_prime = jnp.clip(jnp.exp(params["log_alpha_prime"]), 0, MAX_ALPHA_PRIME)
            gap = self.min_q_weight * (difference - p.num_critics * p.lagrange_gap)
            loss = bellman + stop_gradient(alpha_prime) * gap
            prime_loss = -alpha_prime * stop_gradient(gap / p.num_critics)
            metrics |= {"alpha_prime": alpha_prime, "alpha_prime_loss": prime_loss}
        metrics |= {"critic_loss": loss, **mean_and_std("q", q), **mean_and_std("v", v), **mean_and_std("target", target)}
        return loss + prime_loss, {**metrics, **mean_and_std("advantage", jnp.min(q, axis=0) - v)}

    def _difference(self, q: Array, q_set: Array) -> Array:
        """By how much the soft maximum over the set exceeds the data's action: q [critics, B], q_set [critics, C, B] -> [critics, B]."""
        p = self.params
        difference = soft_maximum(q_set, p.conservative_temperature) - q
        return difference if p.difference_clip is None else jnp.clip(difference, *p.difference_clip)

    def _discrete_values(self, critic: Tree, target: Tree, batch: Transition) -> tuple[Array, Array, Array, Array]:
        """q, q_set, next_v and v of `_critic_loss`, with double DQN's choice of the next action by the trained critics."""
        values = self._critic(critic, batch.observation)
        chosen = jnp.argmax(self._min_q(critic, batch.next_observation), axis=-1)
        next_v = take(self._min_q(target, batch.next_observation), chosen)
        q = take(values, self._action(batch))
        return q, jnp.moveaxis(values, -1, 1), next_v, jnp.max(jnp.min(values, axis=0), axis=-1)

    def _actor_loss(
        self, output: Output, params: dict[str, Tree], step: Array, batch: Transition, key: Array
    ) -> tuple[Array, Array, Metrics]:
        """Returns the losses of policy and alpha, min_i q_i(s, a_pi) [B] and metrics. The critics are held still."""
        alpha = jnp.exp(params["log_alpha"])
        action, log_prob = sample_squashed(key, *output)
        q = self._min_q(stop_gradient(params["critic"]), batch.observation, action)
        loss = soft_policy_loss(log_prob, q, alpha)
        metrics = {"entropy": -jnp.mean(log_prob), "log_std": jnp.mean(output[1]), "alpha": alpha}
        if self.params.bc_warmup:
            data = self._action(batch)
            cloning = soft_policy_loss(log_prob, squashed_log_prob(*output, unsquash(data)), alpha)
            loss = jnp.where(step < self.params.bc_warmup, cloning, loss)
            metrics["clipped_action_share"] = jnp.mean(jnp.abs(data) > 1 - EDGE)
        alpha_loss = self._alpha_loss(params["log_alpha"], log_prob)
        metrics |= {"policy_loss": loss, "alpha_loss": alpha_loss}
        return loss + alpha_loss, stop_gradient(q), metrics

    def _next_v(self, target: Tree, log_alpha: Array, next_output: Output, next_observation: Tree, key: Array) -> Array:
        """The value of s' in the critic's target, [B]."""
        if self.params.max_target_backup:
            actions, _ = sample_squashed(key, *next_output, self.params.n_actions)
            return jnp.max(self._min_q(target, next_observation, actions), axis=0)
        action, log_prob = sample_squashed(key, *next_output)
        next_v = self._min_q(target, next_observation, action)
        return next_v - jnp.exp(log_alpha) * log_prob if self.params.backup_entropy else next_v

    def _set_rows(self, output: Output, next_output: Output, batch: Transition, key: Array) -> tuple[Tree, Array, Array]:
        """Observations, the data's action and after it the set C, [B, 1 + C, A], and the log-density each of C was drawn with, [B, C].

        C: n_actions uniform ones, as many of pi(.|s) and of pi(.|s'), every one evaluated at s.
        """
        count, data = self.params.n_actions, self._action(batch)
        uniform_key, current_key, next_key = jax.random.split(key, 3)
        uniform = jax.random.uniform(uniform_key, (count, *data.shape), data.dtype, -1, 1)
        current, current_log_prob = sample_squashed(current_key, *output, count)
        following, following_log_prob = sample_squashed(next_key, *next_output, count)
        actions = jnp.concatenate([jnp.expand_dims(data, 0), uniform, current, following])
        uniform_log_prob = jnp.full_like(current_log_prob, -LOG_2 * data.shape[-1])
        densities = jnp.concatenate([uniform_log_prob, current_log_prob, following_log_prob])
        return batch.observation, jnp.moveaxis(actions, 0, 1), densities.T

    def _summed_difference(self, critic: Tree, rows: tuple[Tree, Array, Array]) -> Array:
        """The difference of every state, summed over the critics: [B], of what `_set_rows` gives."""
        observation, actions, densities = rows
        values = self._critic(critic, observation, jnp.moveaxis(actions, 1, 0))
        q_set = values[:, 1:] - jnp.expand_dims(densities.T, 0) if self.params.importance_sampling else values
        return jnp.sum(self._difference(values[:, 0], q_set), axis=0)

    def _block_size(self, rows: tuple[Tree, Array, Array]) -> int:
        """States whose sets' hidden layers fit a core's cache together."""
        return block_size(states=len(rows[1]), bytes_each=4 * rows[1].shape[1] * max(self.params.hidden_sizes, default=1))
