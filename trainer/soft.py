"""The frame of learners that build on soft actor-critic (Haarnoja et al. 2018): a squashed Gaussian policy whose entropy has a price.

All gradients are taken at the old parameters, in one pass over the sum of the losses. The price, alpha, is learnt so that the
entropy comes to a target; the policy's loss takes the old one.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import optax
from jax import Array
from pydantic import Field

from rl_datasets.schema import Transition, Tree
from trainer.actions import action_size
from trainer.equations import temperature_loss
from trainer.frames import ActorCritic, Moved, State
from trainer.learner import Group, Metrics
from trainer.optimization import descend, learning_rate, make_optimizers, make_scalar_optimizer
from trainer.policies import SquashedGaussian, make_squashed_policy


class EntropyParams(Group):
    """Of learners whose policy has a price for its entropy."""

    learn_alpha: bool = True
    initial_alpha: float = Field(1.0, gt=0)
    target_entropy: float | None = None  # minus the number of the action's elements where absent
    backup_entropy: bool = False  # whether the critics' target has the entropy in it


@dataclass(frozen=True)
class SoftLearner(ActorCritic):
    @abstractmethod
    def _loss(self, params: dict[str, Tree], state: State, batch: Transition, key: Array) -> tuple[Array, Metrics]:
        """The sum of all losses at `params`, with the gradients stopped so that each loss reaches its own network alone."""

    @property
    def target_entropy(self) -> float:
        return -float(action_size(self.spec.action)) if self.params.target_entropy is None else self.params.target_entropy

    @cached_property
    def _policy(self) -> SquashedGaussian:
        return make_squashed_policy(self.params, self.spec)

    @cached_property
    def _optimizers(self) -> Mapping[str, optax.GradientTransformation]:
        """alpha follows the policy's learning rate."""
        return {**make_optimizers(self.params, self.updates), "log_alpha": self._scalar_optimizer("policy")}

    def _scalar_optimizer(self, network: str) -> optax.GradientTransformation:
        """Of a number that follows a network's learning rate."""
        return make_scalar_optimizer(self.params, learning_rate(self.params, network, self.updates))

    def _numbers(self) -> dict[str, float]:
        return {"log_alpha": math.log(self.params.initial_alpha)}

    def _move(self, state: State, batch: Transition, key: Array) -> Moved:
        grads, metrics = jax.grad(self._loss, has_aux=True)(state.params, state, batch, key)
        params, opt_state, norms = descend(self._optimizers, grads, state.params, state.opt_state)
        return params, opt_state, {**metrics, **norms}

    def _losses(self, state: State, batch: Transition) -> Metrics:
        return self._loss(state.params, state, batch, state.key)[1]

    def _alpha_loss(self, log_alpha: Array, log_prob: Array) -> Array:
        """Zero where alpha is not learnt."""
        return temperature_loss(log_alpha, log_prob, self.target_entropy) if self.params.learn_alpha else jnp.zeros_like(log_alpha)
