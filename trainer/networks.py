"""The built-in networks, as flax modules: values, critics and policies on an encoder (trainer/encoders.py) and hidden layers.

Parameters and arithmetic use JAX's default float: float32, or float64 under `jax_enable_x64`. How the weights start, by the preset's
`initialization` (biases start at zero where nothing else is said):

- hidden layers: `he_uniform`, He et al. (2015), the default; `lecun_normal`, flax's own; `orthogonal` with the gain sqrt(2) (IQL's
  authors, JAX-CORL); `torch`, weights and biases uniform within 1 / sqrt(inputs), PyTorch's default (CORL); `rlkit`, weights uniform
  within 1 / sqrt(outputs) and biases of 0.1 (CQL's authors);
- the output layer, its weights times `output_gain`: `lecun_uniform`, the default; `lecun_normal`; `orthogonal`; `xavier_uniform`;
  `torch`; `uniform`, weights and biases uniform within `output_gain` (rlkit). The gains in use: sqrt(2) by IQL's authors, 0.01 in
  CORL's CQL, 0.1 in JAX-CORL's CQL (its variance scaling of 0.01), 0.003 for the critics and 0.001 for the policy of CQL's authors.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from rl_datasets.schema import Tree
from trainer.encoders import Encoder, LeafEncoder, default_float
from trainer.learner import Initialization, LearnerParams
from trainer.products import in_layers, on_cpu, product, transposed

Initializer = Callable[..., Array]

ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": nn.relu,
    "gelu": nn.gelu,
    "silu": nn.silu,
    "tanh": jnp.tanh,
    "elu": nn.elu,
    "leaky_relu": nn.leaky_relu,
}
RLKIT_BIAS = 0.1
THIN = 64  # columns of a first layer that costs little to compute twice


@dataclass(frozen=True)
class Style:
    """How one network is built: its hidden layers, and how its weights start."""

    hidden_sizes: tuple[int, ...]
    activation: str = "relu"
    layer_norm: bool = False
    residual: bool = False
    dropout: float = 0.0
    initialization: Initialization = field(default_factory=Initialization)


def style_of(params: LearnerParams, network: str, layer_norm: bool = False, dropout: float = 0.0) -> Style:
    """The preset's choices for one network: its own where there are, else those for all, `layer_norm` being one of these."""
    shared = {name: getattr(params, name) for name in ("hidden_sizes", "activation", "residual", "initialization")}
    own = params.networks.get(network)
    chosen = {} if own is None else {name: getattr(own, name) for name in (*shared, "layer_norm") if getattr(own, name) is not None}
    return Style(**{"layer_norm": layer_norm, "dropout": dropout, **shared, **chosen})


def initializers(kind: str, inputs: int, gain: float) -> tuple[Initializer, Initializer]:
    """How the weights [inputs, outputs] and the biases [outputs] of a layer start. This file's docstring lists the kinds."""
    scaling, within = nn.initializers.variance_scaling, 1 / math.sqrt(inputs)
    zeros = nn.initializers.zeros
    pairs: Mapping[str, tuple[Initializer, Initializer]] = {
        "he_uniform": (scaling(2.0 * gain**2, "fan_in", "uniform"), zeros),
        "lecun_uniform": (scaling(gain**2, "fan_in", "uniform"), zeros),
        "lecun_normal": (scaling(gain**2, "fan_in", "truncated_normal"), zeros),
        "xavier_uniform": (scaling(gain**2, "fan_avg", "uniform"), zeros),
        "orthogonal": (nn.initializers.orthogonal(gain), zeros),
        "torch": (_within(within * gain), _within(within)),
        "rlkit": (lambda key, shape, dtype: _within(1 / math.sqrt(shape[-1]))(key, shape, dtype), nn.initializers.constant(RLKIT_BIAS)),
        "uniform": (_within(gain), _within(gain)),
    }
    return pairs[kind]


def _within(bound: float) -> Initializer:
    return lambda key, shape, dtype: jax.random.uniform(key, shape, dtype, -bound, bound)


def hidden_initializers(style: Style, inputs: int) -> tuple[Initializer, Initializer]:
    kind = style.initialization.hidden
    return initializers(kind, inputs, math.sqrt(2) if kind == "orthogonal" else 1.0)


def output_layer(hidden: Array, features: int, style: Style) -> Array:
    kernel_init, bias_init = initializers(style.initialization.output, hidden.shape[-1], style.initialization.output_gain)
    layer = nn.Dense(features, kernel_init=kernel_init, bias_init=bias_init, param_dtype=default_float(), dot_general=in_layers())
    outputs: Array = layer(hidden)
    return outputs


class Torso(nn.Module):
    """[..., features] -> [..., hidden_sizes[-1]]: Dense, optional LayerNorm, activation, optional dropout, for each size.

    Without sizes it is the features themselves, which makes what stands on it linear. `residual` adds the input of a layer after the
    first to its output where the two are equally wide.

    With an `action` [..., B, A] beside features [B, features], the first layer's features part is computed once for each
    state and added to the action part, so that many actions of one state cost little; the weights are those of one layer.
    """

    style: Style

    @nn.compact
    def __call__(self, features: Array, action: Array | None = None, train: bool = False) -> Array:
        hidden, across = features, None
        for layer, size in enumerate(self.style.hidden_sizes):
            inputs = hidden
            if layer == 0:
                hidden, across = self._first(features, action)
            else:
                hidden, across = self._dense(hidden, size, across), None
            if self.style.layer_norm:
                hidden = nn.LayerNorm(param_dtype=default_float())(hidden)
            hidden = ACTIVATIONS[self.style.activation](hidden)
            if self.style.dropout:
                hidden = nn.Dropout(self.style.dropout, deterministic=not train)(hidden)
            if self.style.residual and layer > 0 and inputs.shape == hidden.shape:
                hidden = hidden + inputs
        return hidden

    def _dense(self, hidden: Array, size: int, across: Array | None) -> Array:
        """With `across`, which is `hidden` transposed, [features, rows], its gradient costs less."""
        kernel_init, bias_init = hidden_initializers(self.style, hidden.shape[-1])
        layer = nn.Dense(size, kernel_init=kernel_init, bias_init=bias_init, param_dtype=default_float(), dot_general=in_layers(across))
        outputs: Array = layer(hidden)
        return outputs

    def _first(self, features: Array, action: Array | None) -> tuple[Array, Array | None]:
        """The first layer before its activation, and what comes out after it, transposed: [features, rows]; None where that is no use."""
        split, extra, size = features.shape[-1], 0 if action is None else action.shape[-1], self.style.hidden_sizes[0]
        kernel_init, bias_init = hidden_initializers(self.style, split + extra)
        kernel = self.param("kernel", kernel_init, (split + extra, size), default_float())
        bias = self.param("bias", bias_init, (size,), default_float())
        if action is not None and action.ndim == features.ndim:
            features, action = jnp.concatenate([features, action], axis=-1), None  # one action a state: one product
        plain = len(self.style.hidden_sizes) > 1 and features.ndim == 2 and not self.style.layer_norm and not self.style.dropout
        worth = plain and split + extra <= THIN and on_cpu()
        across = self._across(kernel, bias, features, action) if worth else None
        hidden = product(features, kernel[: features.shape[-1]]) + jnp.expand_dims(bias, 0)
        if action is None:
            return hidden, across
        return jnp.expand_dims(hidden, tuple(range(action.ndim - hidden.ndim))) + product(action, kernel[split:]), across

    def _across(self, kernel: Array, bias: Array, features: Array, action: Array | None) -> Array:
        """See trainer/products.py."""
        split = features.shape[-1]
        hidden = product(transposed(kernel[:split]), features.T) + jnp.expand_dims(bias, 1)
        if action is not None:
            rows = product(transposed(kernel[split:]), action.reshape(-1, action.shape[-1]).T)
            hidden = (jnp.expand_dims(hidden, 1) + rows.reshape(len(rows), -1, len(features))).reshape(len(rows), -1)
        return ACTIVATIONS[self.style.activation](hidden)


class Value(nn.Module):
    """v(s): [B]."""

    leaves: tuple[LeafEncoder, ...]
    style: Style

    @nn.compact
    def __call__(self, observation: Tree) -> Array:
        return output_layer(Torso(self.style)(Encoder(self.leaves)(observation)), 1, self.style)[..., 0]


class Critic(nn.Module):
    """q(s, a) of a continuous action [..., B, A] in [-1, 1]: [..., B]. With `num_actions`, q(s, .): [B, num_actions].

    With `advantage_sizes` a critic of `num_actions` is a dueling one (Wang et al. 2016): v(s) by the style's sizes, and advantages,
    less their mean over the actions, by a torso of those sizes; by none, linear in the encoded observation.
    """

    leaves: tuple[LeafEncoder, ...]
    style: Style
    num_actions: int | None = None
    advantage_sizes: tuple[int, ...] | None = None

    @nn.compact
    def __call__(self, observation: Tree, action: Array | None = None) -> Array:
        features = Encoder(self.leaves)(observation)
        hidden = Torso(self.style)(features, action)
        if self.num_actions is None:
            return output_layer(hidden, 1, self.style)[..., 0]
        if self.advantage_sizes is None:
            return output_layer(hidden, self.num_actions, self.style)
        beside = Torso(replace(self.style, hidden_sizes=self.advantage_sizes))(features)
        advantage = output_layer(beside, self.num_actions, self.style)
        return output_layer(hidden, 1, self.style) + advantage - jnp.mean(advantage, axis=-1, keepdims=True)


class CategoricalNetwork(nn.Module):
    """Logits of a discrete policy: [B, num_actions]."""

    leaves: tuple[LeafEncoder, ...]
    style: Style
    num_actions: int

    @nn.compact
    def __call__(self, observation: Tree, train: bool = False) -> Array:
        hidden = Torso(self.style)(Encoder(self.leaves)(observation), train=train)
        return output_layer(hidden, self.num_actions, self.style)


class GaussianNetwork(nn.Module):
    """Mean [B, A] and log standard deviation of a Gaussian policy, neither squashed nor clipped.

    The deviation is a parameter [A] that does not depend on the state; with `state_dependent_std` it does, [B, A].
    """

    leaves: tuple[LeafEncoder, ...]
    style: Style
    action_size: int
    state_dependent_std: bool = False

    @nn.compact
    def __call__(self, observation: Tree, train: bool = False) -> tuple[Array, Array]:
        hidden = Torso(self.style)(Encoder(self.leaves)(observation), train=train)
        mean = output_layer(hidden, self.action_size, self.style)
        if self.state_dependent_std:
            return mean, output_layer(hidden, self.action_size, self.style)
        log_std: Array = self.param("log_std", nn.initializers.zeros, (self.action_size,), default_float())
        return mean, log_std


class SquashedGaussianNetwork(nn.Module):
    """Mean and log standard deviation, each [B, A] and each a function of the state, of a Gaussian that tanh squashes.

    With `log_std_affine` (a, b), log_std becomes a * log_std + b, a and b being parameters that start from these values.
    """

    leaves: tuple[LeafEncoder, ...]
    style: Style
    action_size: int
    log_std_affine: tuple[float, float] | None = None

    @nn.compact
    def __call__(self, observation: Tree, train: bool = False) -> tuple[Array, Array]:
        hidden = Torso(self.style)(Encoder(self.leaves)(observation), train=train)
        mean, log_std = jnp.split(output_layer(hidden, 2 * self.action_size, self.style), 2, axis=-1)
        if self.log_std_affine is None:
            return mean, log_std
        names = ("log_std_multiplier", "log_std_offset")
        a, b = (self.param(n, nn.initializers.constant(v), (), default_float()) for n, v in zip(names, self.log_std_affine, strict=True))
        return mean, a * log_std + b


class DeterministicNetwork(nn.Module):
    """The action of a deterministic policy before tanh: [B, A]."""

    leaves: tuple[LeafEncoder, ...]
    style: Style
    action_size: int

    @nn.compact
    def __call__(self, observation: Tree, train: bool = False) -> Array:
        return output_layer(Torso(self.style)(Encoder(self.leaves)(observation), train=train), self.action_size, self.style)
