"""From an observation to features: each leaf by an encoder of its own, all concatenated.

Observations are pytrees with leaves [B, ...]. A leaf enters by its spec: a category as one-hot, an image (uint8 [H, W, C]) through
`atari`, everything else flattened. A preset chooses otherwise by the leaf's name, such as `observation` or `observation/camera`:

    encoders: {observation/camera: impala, observation/cell: {module: embedding, options: {features: 16}}}

- `flat`: the elements as floats; uint8 scaled by 1/255.
- `one_hot`, `embedding` (options: features, 32): of a category.
- `atari` (features, 256): the convolutions of Mnih et al. (2015), padded where the image is too small for them.
- `impala` (channels, [16, 32, 32]; features, 256): the residual network of Espeholt et al. (2018).
- `<import path>:<class>`: a flax module, see trainer/custom.py; it takes the leaf [B, ...] as stored and returns [B, features].

`atari` and `impala` take any leaf of 2 to 4 axes, float or uint8 (scaled by 1/255): [H, W], [H, W, C], with the option
`channels_first` [C, H, W], and a stack of frames [K, H, W, C], whose frames become channels.
Convolutions start from He's uniform initialisation whatever `initialization` says of the other layers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Tree, named_leaves
from trainer.custom import batch_of, check_output, construct, load_class
from trainer.learner import LearnerParams, ModuleParams

SMALLEST_ATARI_SIDE = 36  # below it the unpadded convolutions leave no pixel
conv_init = nn.initializers.he_uniform()  # for ReLU


def default_float() -> Any:
    """JAX's default float: float32, or float64 under `jax_enable_x64`. Parameters and arithmetic use it."""
    return jnp.result_type(float)


def to_image(array: Array, channels_first: bool) -> Array:
    """[B, H, W], [B, H, W, C] (or [B, C, H, W]) or [B, K, H, W, C] -> [B, H, W, channels] float, uint8 scaled to [0, 1]."""
    floats = array.astype(default_float())
    image = floats / 255 if array.dtype == jnp.uint8 else floats
    if image.ndim == 3:
        return jnp.expand_dims(image, -1)
    if image.ndim == 5:
        moved = jnp.moveaxis(image, 1, -2)
        return moved.reshape(*moved.shape[:3], -1)
    return jnp.moveaxis(image, 1, -1) if channels_first else image


class Pixels(nn.Module):
    """An image -> [B, features], by the encoder of Mnih et al. (2015)."""

    features: int = 256
    channels_first: bool = False

    @nn.compact
    def __call__(self, array: Array) -> Array:
        hidden = to_image(array, self.channels_first)
        padding = "VALID" if min(hidden.shape[1:3]) >= SMALLEST_ATARI_SIDE else "SAME"
        for features, kernel, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            hidden = nn.relu(_conv(features, kernel, stride, padding)(hidden))
        return _compressed(hidden, self.features)


class Impala(nn.Module):
    """An image -> [B, features], by the residual network of Espeholt et al. (2018): a convolution, a pool and two blocks a width."""

    features: int = 256
    channels: Sequence[int] = (16, 32, 32)
    channels_first: bool = False

    @nn.compact
    def __call__(self, array: Array) -> Array:
        hidden = to_image(array, self.channels_first)
        for channels in self.channels:
            hidden = nn.max_pool(_conv(channels, 3, 1, "SAME")(hidden), (3, 3), (2, 2), "SAME")  # type: ignore[no-untyped-call]
            for _ in range(2):
                inner = _conv(channels, 3, 1, "SAME")(nn.relu(hidden))
                hidden = hidden + _conv(channels, 3, 1, "SAME")(nn.relu(inner))
        return _compressed(nn.relu(hidden), self.features)


class Flat(nn.Module):
    """Any leaf -> [B, elements]."""

    def __call__(self, array: Array) -> Array:
        flat = array.reshape(len(array), -1).astype(default_float())
        return flat / 255 if array.dtype == jnp.uint8 else flat


class OneHot(nn.Module):
    """A category -> [B, values]."""

    values: int
    first: int

    def __call__(self, array: Array) -> Array:
        return jax.nn.one_hot(array - self.first, self.values, dtype=default_float())


class Embedding(nn.Module):
    """A category -> [B, features], a learnt vector a value."""

    values: int
    first: int
    features: int = 32

    @nn.compact
    def __call__(self, array: Array) -> Array:
        vectors: Array = nn.Embed(self.values, self.features, param_dtype=default_float())(array - self.first)
        return vectors


CATEGORIES, IMAGES = ("one_hot", "embedding"), ("atari", "impala")
BUILT_IN: Mapping[str, tuple[type[nn.Module], tuple[str, ...]]] = {  # the class, and the options that a preset may give
    "flat": (Flat, ()),
    "one_hot": (OneHot, ()),
    "embedding": (Embedding, ("features",)),
    "atari": (Pixels, ("features", "channels_first")),
    "impala": (Impala, ("features", "channels", "channels_first")),
}


@dataclass(frozen=True)
class LeafEncoder:
    """How one leaf enters: the class of its encoder, and the arguments of the class by name."""

    module: Callable[..., nn.Module]
    arguments: tuple[tuple[str, Any], ...] = ()

    def make(self) -> nn.Module:
        return self.module(**dict(self.arguments))


class Encoder(nn.Module):
    """An observation with leaves [B, ...] -> [B, features]; `leaves` in JAX's order, as `leaf_encoders` gives them."""

    leaves: tuple[LeafEncoder, ...]

    @nn.compact
    def __call__(self, observation: Tree) -> Array:
        arrays = jax.tree.leaves(observation)
        return jnp.concatenate([leaf.make()(array) for leaf, array in zip(self.leaves, arrays, strict=True)], axis=-1)


def leaf_encoders(params: LearnerParams, spec: EnvSpec) -> tuple[LeafEncoder, ...]:
    """Raises HindcastError where the preset names a leaf or an encoder that there is not, or one that does not fit its leaf."""
    leaves = named_leaves(spec.observation, "observation")
    unknown = sorted(set(params.encoders) - {name for name, _ in leaves})
    if unknown:
        raise HindcastError(
            f"encoders names {', '.join(unknown)}, but the observation of environment '{spec.env_id}' has: "
            f"{', '.join(name for name, _ in leaves)}."
        )
    return tuple(_leaf_encoder(params.encoders.get(name), name, leaf, spec) for name, leaf in leaves)


def default_encoder(leaf: ArraySpec) -> str:
    return "one_hot" if leaf.is_discrete else "atari" if leaf.is_image else "flat"


def _leaf_encoder(chosen: ModuleParams | None, name: str, leaf: ArraySpec, spec: EnvSpec) -> LeafEncoder:
    if chosen is None:
        return _built_in(ModuleParams(module=default_encoder(leaf)), leaf, f"encoders.{name}")
    where = f"encoders.{name}"
    encoder = _custom(chosen, spec, where) if ":" in chosen.module else _built_in(chosen, leaf, where)
    check_output(encoder.make(), (batch_of(leaf, 2),), ((2, None),), where)
    return encoder


def _custom(chosen: ModuleParams, spec: EnvSpec, where: str) -> LeafEncoder:
    found = load_class(chosen.module, where)
    return LeafEncoder(lambda: construct(found, chosen.options, spec, where))


def _built_in(chosen: ModuleParams, leaf: ArraySpec, where: str) -> LeafEncoder:
    kind = chosen.module
    what = f"the leaf is {leaf.dtype}{list(leaf.shape)}" + (f" with {leaf.num_values} values" if leaf.is_discrete else "")
    if kind not in BUILT_IN:
        raise HindcastError(f"{where}: there is no encoder '{kind}'. Known: {', '.join(BUILT_IN)}, or '<import path>:<class>'.")
    if (kind in CATEGORIES and not leaf.is_discrete) or (kind in IMAGES and not 2 <= len(leaf.shape) <= 4):
        wants = "a category" if kind in CATEGORIES else "an image of 2 to 4 axes"
        raise HindcastError(f"{where}: '{kind}' takes {wants}, but {what}. Use another encoder, or leave it out.")
    found, allowed = BUILT_IN[kind]
    if set(chosen.options) - set(allowed):
        raise HindcastError(f"{where}: found the options {chosen.options}, but '{kind}' takes: {', '.join(allowed) or 'none'}.")
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in chosen.options.items()}
    if leaf.num_values is not None and kind in CATEGORIES:
        arguments |= {"values": leaf.num_values, "first": int(leaf.bounds()[0])}
    return LeafEncoder(found, tuple(sorted(arguments.items())))


def _conv(features: int, kernel: int, stride: int, padding: str) -> nn.Conv:
    return nn.Conv(features, (kernel, kernel), (stride, stride), padding, kernel_init=conv_init, param_dtype=default_float())


def _compressed(hidden: Array, features: int) -> Array:
    flat = hidden.reshape(len(hidden), math.prod(hidden.shape[1:]))
    return nn.relu(nn.Dense(features, kernel_init=conv_init, param_dtype=default_float())(flat))
