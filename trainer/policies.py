"""Policies: a network, and what its output says of actions. Built-in or custom, they are made here from the preset and the spec.

A custom policy, `networks: {policy: {module: ...}}`, is called with an observation (leaves [B, ...]), and with `train=True` and a
random key named "dropout" while it trains where its call has an argument `train`. It returns logits [B, num_actions] for a discrete
action, and for a continuous one of A elements what the learner asks for: mean and log standard deviation, each [B, A], neither
squashed nor clipped, or the action before tanh, [B, A], where the policy is deterministic.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from rl_datasets.schema import ArraySpec, EnvSpec, Tree
from trainer.actions import action_size, decode_action, gaussian_log_prob, sample_squashed, squashed_log_prob, take, unsquash
from trainer.custom import batch_of, check_output, custom_module, takes
from trainer.encoders import leaf_encoders
from trainer.learner import LearnerParams
from trainer.networks import CategoricalNetwork, DeterministicNetwork, GaussianNetwork, SquashedGaussianNetwork, style_of


@dataclass(frozen=True)
class Policy(ABC):
    """The policy of a learner; immutable. `Output` stands for what its network gives, as each kind of policy says."""

    network: nn.Module
    spec: ArraySpec

    def init(self, key: Array, observation: Tree) -> Tree:
        return self.network.init(key, observation)

    def output(self, params: Tree, observation: Tree, dropout_key: Array | None = None) -> Any:
        """What the other methods take; with a key, units are dropped as in training."""
        rngs = None if dropout_key is None else {"dropout": dropout_key}
        if not self._trains:
            return self.network.apply(params, observation)
        return self.network.apply(params, observation, train=dropout_key is not None, rngs=rngs)

    @cached_property
    def _trains(self) -> bool:
        return takes(self.network, "train")

    @abstractmethod
    def mode(self, output: Any) -> Array:
        """The deterministic action, as the environment takes it."""

    @abstractmethod
    def sample(self, output: Any, key: Array) -> Array:
        """A drawn action, as the environment takes it."""

    @abstractmethod
    def spread(self, output: Any) -> dict[str, Array]:
        """Metrics of how undecided the policy is, means over the batch."""


class Stochastic(Policy):
    """A policy with a density."""

    @abstractmethod
    def draw(self, output: Any, key: Array) -> Array:
        """An encoded action, drawn."""

    def sample(self, output: Any, key: Array) -> Array:
        return decode_action(self.draw(output, key), self.spec)

    @abstractmethod
    def log_prob(self, output: Any, action: Array) -> Array:
        """[B], of an encoded action."""


class Categorical(Stochastic):
    """A softmax over the actions; the output is the logits [B, num_actions]."""

    def log_prob(self, output: Array, action: Array) -> Array:
        return take(jax.nn.log_softmax(output), action)

    def mode(self, output: Array) -> Array:
        return decode_action(jnp.argmax(output, axis=-1), self.spec)

    def draw(self, output: Array, key: Array) -> Array:
        return jax.random.categorical(key, output)

    def spread(self, output: Array) -> dict[str, Array]:
        log_prob = jax.nn.log_softmax(output)
        return {"entropy": -jnp.mean(jnp.sum(jnp.exp(log_prob) * log_prob, axis=-1))}


@dataclass(frozen=True)
class Gaussian(Stochastic):
    """A Gaussian, of which only a decoded action is clipped to the bounds; the output is mean and log deviation, each [B, A].

    `squash_mean` puts the mean through tanh (IQL's authors); the density is that of the Gaussian, not of a squashed one.
    """

    log_std_range: tuple[float, float]
    squash_mean: bool

    def output(self, params: Tree, observation: Tree, dropout_key: Array | None = None) -> tuple[Array, Array]:
        mean, log_std = super().output(params, observation, dropout_key)
        clipped = jnp.broadcast_to(jnp.clip(log_std, *self.log_std_range), mean.shape)
        return jnp.tanh(mean) if self.squash_mean else mean, clipped

    def log_prob(self, output: tuple[Array, Array], action: Array) -> Array:
        return gaussian_log_prob(*output, action)

    def mode(self, output: tuple[Array, Array]) -> Array:
        return decode_action(output[0], self.spec)

    def draw(self, output: tuple[Array, Array], key: Array) -> Array:
        mean, log_std = output
        action = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape, mean.dtype)
        return jnp.clip(action, -1, 1) if self.spec.is_bounded else action

    def spread(self, output: tuple[Array, Array]) -> dict[str, Array]:
        log_std = output[1]
        entropy = jnp.sum(log_std + 0.5 * math.log(2 * math.pi * math.e), axis=-1)
        return {"entropy": jnp.mean(entropy), "log_std": jnp.mean(log_std)}


@dataclass(frozen=True)
class SquashedGaussian(Stochastic):
    """tanh of a Gaussian, for actions with bounds; the output is mean and log deviation before tanh, each [B, A]."""

    log_std_range: tuple[float, float]

    def output(self, params: Tree, observation: Tree, dropout_key: Array | None = None) -> tuple[Array, Array]:
        mean, log_std = super().output(params, observation, dropout_key)
        return mean, jnp.clip(log_std, *self.log_std_range)

    def log_prob(self, output: tuple[Array, Array], action: Array) -> Array:
        return squashed_log_prob(*output, unsquash(action))

    def mode(self, output: tuple[Array, Array]) -> Array:
        return decode_action(jnp.tanh(output[0]), self.spec)

    def draw(self, output: tuple[Array, Array], key: Array) -> Array:
        return sample_squashed(key, *output)[0]

    def spread(self, output: tuple[Array, Array]) -> dict[str, Array]:
        """The deviation alone: the entropy of the squashed density has no closed form."""
        return {"log_std": jnp.mean(output[1])}


class Deterministic(Policy):
    """One action a state, for actions with bounds; the output is the action in [-1, 1], [B, A]. It has no density to sample from."""

    def output(self, params: Tree, observation: Tree, dropout_key: Array | None = None) -> Array:
        return jnp.tanh(super().output(params, observation, dropout_key))

    def mode(self, output: Array) -> Array:
        return decode_action(output, self.spec)

    def sample(self, output: Array, key: Array) -> Array:  # noqa: ARG002
        """The deterministic action: there is nothing to draw."""
        return self.mode(output)

    def spread(self, output: Array) -> dict[str, Array]:
        """The share of elements within a hundredth of a bound, where tanh passes hardly any gradient."""
        return {"saturated_share": jnp.mean(jnp.abs(output) > 0.99)}


def make_policy(params: Any, spec: EnvSpec) -> Stochastic:
    """Categorical for a discrete action, else `Gaussian`; `params` with `GaussianParams`. A mean is squashed only within bounds."""
    action, style = spec.action, style_of(params, "policy", dropout=params.dropout)
    if action.num_values is not None:
        logits = CategoricalNetwork(leaf_encoders(params, spec), style, action.num_values)
        return Categorical(_network(params, spec, logits, outputs=1, width=action.num_values), action)
    built_in = GaussianNetwork(leaf_encoders(params, spec), style, action_size(action), params.state_dependent_std)
    network = _network(params, spec, built_in, outputs=2, width=action_size(action))
    return Gaussian(network, action, params.log_std_range, params.squash_mean and action.is_bounded)


def make_squashed_policy(params: Any, spec: EnvSpec) -> SquashedGaussian:
    """`params` with `SquashedGaussianParams`; for a continuous action with bounds."""
    action, style = spec.action, style_of(params, "policy")
    built_in = SquashedGaussianNetwork(leaf_encoders(params, spec), style, action_size(action), params.log_std_affine)
    return SquashedGaussian(_network(params, spec, built_in, outputs=2, width=action_size(action)), action, params.log_std_range)


def make_deterministic_policy(params: LearnerParams, spec: EnvSpec) -> Deterministic:
    """For a continuous action with bounds."""
    action = spec.action
    built_in = DeterministicNetwork(leaf_encoders(params, spec), style_of(params, "policy"), action_size(action))
    return Deterministic(_network(params, spec, built_in, outputs=1, width=action_size(action)), action)


def _network(params: LearnerParams, spec: EnvSpec, built_in: nn.Module, outputs: int, width: int) -> nn.Module:
    """The preset's own module, checked to return so many arrays [B, width], or the built-in one."""
    own = params.networks.get("policy")
    if own is None or own.module is None:
        return built_in
    where = "networks.policy"
    module = custom_module(own.module, own.options, spec, where)
    check_output(module, (batch_of(spec.observation, 2),), ((2, width),) * outputs, where)
    return module
