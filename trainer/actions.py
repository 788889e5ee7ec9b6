"""Actions between an environment and a learner: bounds to [-1, 1] and back, a category to an index and back; and the densities.

Inside a learner a continuous action is [..., B, A] in [-1, 1] (unscaled where a bound is infinite), a discrete one an int [B].
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec
from trainer.encoders import default_float

LOG_2 = math.log(2.0)
EDGE = 1e-5  # a squashed action this near its bound has no finite log-density in float32


def require_learnable(spec: EnvSpec, learner: str, bounded: bool = False, discrete: bool = True) -> None:
    """Raises HindcastError unless the action is one category (if `discrete`) or a float array (with finite bounds, if `bounded`)."""
    action = spec.action
    found = f"Environment '{spec.env_id}': the action is {action.dtype}{list(action.shape)}"
    if action.is_discrete and not discrete:
        raise HindcastError(f"{found} of {action.num_values} values, but {learner} learns continuous actions. Use iql, cql, awac or bc.")
    if not action.is_discrete and not np.issubdtype(np.dtype(action.dtype), np.floating):
        kinds = "a Discrete or a float Box action" if discrete else "a float Box action"
        raise HindcastError(f"{found}, but {learner} learns {kinds}. Wrap the environment so that it takes one.")
    if bounded and not action.is_discrete and not action.is_bounded:
        raise HindcastError(
            f"{found} with an infinite bound, but {learner} chooses actions between bounds. "
            f"Give finite bounds in the builder's spec(), or use iql, awac or bc."
        )


def require_discrete(spec: EnvSpec, value: object, name: str) -> None:
    """Raises HindcastError where a parameter for discrete actions is set, and the action is not one."""
    if value is not None and not spec.action.is_discrete:
        raise HindcastError(f"{name} is {value}, but it is for discrete actions, and environment '{spec.env_id}' has none. Leave it out.")


def require_continuous(spec: EnvSpec, value: object, name: str) -> None:
    """Raises HindcastError where a parameter for continuous actions is set, and the action is discrete."""
    if value is not None and spec.action.is_discrete:
        raise HindcastError(f"{name} is {value}, but it is for continuous actions, and environment '{spec.env_id}' has none. Leave it out.")


def encode_action(action: Array, spec: ArraySpec, clip: float | None = None) -> Array:
    """[B, ...] as stored -> an index [B] from zero, or [B, A] in [-1, 1], clipped to +-`clip` where the action has bounds."""
    if spec.is_discrete:
        return (action - int(spec.bounds()[0])).astype(jnp.int32)
    flat = action.reshape(len(action), -1).astype(default_float())
    if not spec.is_bounded:
        return flat
    middle, half = _middle_and_half(spec)
    scaled = (flat - middle) / half
    return scaled if clip is None else jnp.clip(scaled, -clip, clip)


def decode_action(action: Array, spec: ArraySpec) -> Array:
    """The inverse of `encode_action`, clipped to the bounds, in the spec's dtype and shape."""
    dtype = jax.dtypes.canonicalize_dtype(spec.dtype)
    if spec.is_discrete:
        return action.astype(dtype) + int(spec.bounds()[0])
    if spec.is_bounded:
        middle, half = _middle_and_half(spec)
        action = middle + jnp.clip(action, -1, 1) * half
    low, high = (jnp.asarray(np.expand_dims(bound, 0), dtype) for bound in spec.bounds())
    return jnp.clip(action.reshape(len(action), *spec.shape).astype(dtype), low, high)


def _middle_and_half(spec: ArraySpec) -> tuple[Array, Array]:
    """The centre and half the width of the bounds, each [1, A]; a width of zero counts as one."""
    low, high = (bound.reshape(1, -1) for bound in spec.bounds())
    half = np.where(high > low, (high - low) / 2, 1.0)
    return jnp.asarray((low + high) / 2, default_float()), jnp.asarray(half, default_float())


def gaussian_log_prob(mean: Array, log_std: Array, action: Array) -> Array:
    """Log-density of a diagonal Gaussian, summed over the last axis."""
    z = (action - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi), axis=-1)


def squashed_log_prob(mean: Array, log_std: Array, u: Array) -> Array:
    """Log-density of tanh(u), u before squashing, in the stable form of the logarithm of the derivative of tanh."""
    return gaussian_log_prob(mean, log_std, u) - jnp.sum(2 * (LOG_2 - u - jax.nn.softplus(-2 * u)), axis=-1)


def unsquash(action: Array) -> Array:
    """u with tanh(u) = action, the action clipped to +-(1 - EDGE)."""
    return jnp.arctanh(jnp.clip(action, -1 + EDGE, 1 - EDGE))


def sample_squashed(key: Array, mean: Array, log_std: Array, *leading: int) -> tuple[Array, Array]:
    """Draws actions tanh(u), [*leading, B, A], by reparametrisation. Returns them and their log-densities [*leading, B]."""
    noise = jax.random.normal(key, (*leading, *mean.shape), mean.dtype)
    mean, log_std = (jnp.broadcast_to(x, noise.shape) for x in (mean, log_std))
    u = mean + jnp.exp(log_std) * noise
    return jnp.tanh(u), squashed_log_prob(mean, log_std, u)


def action_size(spec: ArraySpec) -> int:
    """A, the number of elements of a continuous action."""
    return math.prod(spec.shape)


def take(values: Array, index: Array) -> Array:
    """values[..., b, index[b]]: the entry of each state's chosen action, [..., B]."""
    chosen = jnp.expand_dims(jnp.broadcast_to(index, values.shape[:-1]), -1)
    return jnp.take_along_axis(values, chosen, axis=-1)[..., 0]
