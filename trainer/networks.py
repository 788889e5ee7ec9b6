"""The networks of every learner, as flax modules: an encoder of any observation, and heads for values, critics and policies.

Observations are pytrees with leaves [B, ...], and enter by their spec: a category as one-hot, an image (uint8 [H, W, C]) through
the convolutions of Mnih et al. (2015) scaled by 1/255, everything else flattened to floats; then all is concatenated.
Parameters and arithmetic use JAX's default float: float32, or float64 under `jax_enable_x64`.
"""

import math
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from rl_datasets.schema import ArraySpec, Tree

SMALLEST_ATARI_SIDE = 36  # below it the unpadded convolutions leave no pixel
hidden_init = nn.initializers.he_uniform()  # for ReLU
output_init = nn.initializers.variance_scaling(1.0, "fan_in", "uniform")


def leaf_specs(observation: Tree) -> tuple[ArraySpec, ...]:
    """The leaves of an observation's spec in JAX's order, which is the order that `Encoder` meets their arrays in."""
    return tuple(jax.tree.leaves(observation))


def default_float() -> Any:
    return jnp.result_type(float)


def dense(features: int, init: Callable[..., Array] = hidden_init) -> nn.Dense:
    return nn.Dense(features, kernel_init=init, param_dtype=default_float())


class Pixels(nn.Module):
    """uint8 [B, H, W, C] -> [B, 256]: the encoder of Mnih et al. (2015), padded where the image is too small for it."""

    @nn.compact
    def __call__(self, image: Array) -> Array:
        padding = "VALID" if min(image.shape[1:3]) >= SMALLEST_ATARI_SIDE else "SAME"
        hidden = image.astype(default_float()) / 255
        for features, kernel, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            conv = nn.Conv(features, (kernel, kernel), (stride, stride), padding, kernel_init=hidden_init, param_dtype=default_float())
            hidden = nn.relu(conv(hidden))
        return nn.relu(dense(256)(hidden.reshape(len(hidden), -1)))


class Encoder(nn.Module):
    """An observation with leaves [B, ...] -> [B, features]; `leaves` as `leaf_specs` gives them."""

    leaves: tuple[ArraySpec, ...]

    @nn.compact
    def __call__(self, observation: Tree) -> Array:
        arrays = jax.tree.leaves(observation)
        return jnp.concatenate([self._encode(spec, array) for spec, array in zip(self.leaves, arrays, strict=True)], axis=-1)

    def _encode(self, spec: ArraySpec, array: Array) -> Array:
        if spec.num_values is not None:
            return jax.nn.one_hot(array - int(spec.bounds()[0]), spec.num_values, dtype=default_float())
        if spec.is_image:
            return Pixels()(array)
        flat = array.reshape(len(array), -1).astype(default_float())
        return flat / 255 if spec.dtype == "uint8" else flat


class Torso(nn.Module):
    """[..., features] -> [..., hidden_sizes[-1]]: Dense, optional LayerNorm, ReLU, optional dropout, for each size.

    Without sizes it is the features themselves, which makes what stands on it linear.

    With an `action` [..., B, A] beside features [B, features], the first layer's features part is computed once for each
    state and added to the action part, so that many actions of one state cost little; the weights are those of one layer.
    """

    hidden_sizes: tuple[int, ...]
    layer_norm: bool = False
    dropout: float = 0.0

    @nn.compact
    def __call__(self, features: Array, action: Array | None = None, train: bool = False) -> Array:
        if not self.hidden_sizes:
            return features
        hidden = self._first(features, action)
        for layer, size in enumerate(self.hidden_sizes):
            hidden = hidden if layer == 0 else dense(size)(hidden)
            if self.layer_norm:
                hidden = nn.LayerNorm(param_dtype=default_float())(hidden)
            hidden = nn.relu(hidden)
            if self.dropout:
                hidden = nn.Dropout(self.dropout, deterministic=not train)(hidden)
        return hidden

    def _first(self, features: Array, action: Array | None) -> Array:
        split, extra = features.shape[-1], 0 if action is None else action.shape[-1]
        kernel = self.param("kernel", hidden_init, (split + extra, self.hidden_sizes[0]), default_float())
        bias = self.param("bias", nn.initializers.zeros, (self.hidden_sizes[0],), default_float())
        hidden = features @ kernel[:split] + jnp.expand_dims(bias, 0)
        if action is None:
            return hidden
        return jnp.expand_dims(hidden, tuple(range(action.ndim - hidden.ndim))) + action @ kernel[split:]


class Value(nn.Module):
    """v(s): [B]."""

    leaves: tuple[ArraySpec, ...]
    hidden_sizes: tuple[int, ...]
    layer_norm: bool = False

    @nn.compact
    def __call__(self, observation: Tree) -> Array:
        hidden = Torso(self.hidden_sizes, self.layer_norm)(Encoder(self.leaves)(observation))
        return dense(1, output_init)(hidden)[..., 0]


class Critic(nn.Module):
    """q(s, a) of a continuous action [..., B, A] in [-1, 1]: [..., B]. With `num_actions`, q(s, .): [B, num_actions].

    With `advantage_sizes` a critic of `num_actions` is a dueling one (Wang et al. 2016): v(s) by `hidden_sizes`, and advantages,
    less their mean over the actions, by a torso of those sizes; by none, linear in the encoded observation.
    """

    leaves: tuple[ArraySpec, ...]
    hidden_sizes: tuple[int, ...]
    layer_norm: bool = False
    num_actions: int | None = None
    advantage_sizes: tuple[int, ...] | None = None

    @nn.compact
    def __call__(self, observation: Tree, action: Array | None = None) -> Array:
        features = Encoder(self.leaves)(observation)
        hidden = Torso(self.hidden_sizes, self.layer_norm)(features, action)
        if self.num_actions is None:
            return dense(1, output_init)(hidden)[..., 0]
        if self.advantage_sizes is None:
            return dense(self.num_actions, output_init)(hidden)
        advantage = dense(self.num_actions, output_init)(Torso(self.advantage_sizes, self.layer_norm)(features))
        return dense(1, output_init)(hidden) + advantage - jnp.mean(advantage, axis=-1, keepdims=True)


def critic_ensemble(size: int, *fields: Any) -> nn.Module:
    """`size` critics as one module with stacked parameters: [size, ...], one row a critic."""
    stacked: Any = nn.vmap(Critic, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, out_axes=0, axis_size=size)
    return stacked(*fields)  # type: ignore[no-any-return]


class CategoricalNetwork(nn.Module):
    """Logits of a discrete policy: [B, num_actions]."""

    leaves: tuple[ArraySpec, ...]
    hidden_sizes: tuple[int, ...]
    num_actions: int
    dropout: float = 0.0

    @nn.compact
    def __call__(self, observation: Tree, train: bool = False) -> Array:
        hidden = Torso(self.hidden_sizes, dropout=self.dropout)(Encoder(self.leaves)(observation), train=train)
        return dense(self.num_actions, output_init)(hidden)


class GaussianNetwork(nn.Module):
    """Mean and log standard deviation of a Gaussian policy, each [B, A]; the deviation does not depend on the state.

    `squash_mean` puts the mean through tanh (IQL's authors); the density is that of the Gaussian, not of a squashed one.
    """

    leaves: tuple[ArraySpec, ...]
    hidden_sizes: tuple[int, ...]
    action_size: int
    log_std_range: tuple[float, float]
    squash_mean: bool
    dropout: float = 0.0

    @nn.compact
    def __call__(self, observation: Tree, train: bool = False) -> tuple[Array, Array]:
        hidden = Torso(self.hidden_sizes, dropout=self.dropout)(Encoder(self.leaves)(observation), train=train)
        mean = dense(self.action_size, output_init)(hidden)
        log_std = self.param("log_std", nn.initializers.zeros, (self.action_size,), default_float())
        clipped = jnp.clip(log_std, *self.log_std_range)
        return jnp.tanh(mean) if self.squash_mean else mean, jnp.broadcast_to(clipped, mean.shape)


class SquashedGaussianNetwork(nn.Module):
    """Mean and log standard deviation, each [B, A] and each a function of the state, of a Gaussian that tanh squashes."""

    leaves: tuple[ArraySpec, ...]
    hidden_sizes: tuple[int, ...]
    action_size: int
    log_std_range: tuple[float, float]

    @nn.compact
    def __call__(self, observation: Tree) -> tuple[Array, Array]:
        hidden = Torso(self.hidden_sizes)(Encoder(self.leaves)(observation))
        mean, log_std = jnp.split(dense(2 * self.action_size, output_init)(hidden), 2, axis=-1)
        return mean, jnp.clip(log_std, *self.log_std_range)


def action_size(spec: ArraySpec) -> int:
    """A, the number of elements of a continuous action."""
    return math.prod(spec.shape)
