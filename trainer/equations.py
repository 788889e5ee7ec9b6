"""Equations that several learners share, each by the name that their papers know it by."""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient


def td_target(reward: Array, discount: Array, next_v: Array, gamma: float) -> Array:
    """r + gamma d v(s'), all [B]."""
    return stop_gradient(reward + gamma * discount * next_v)


def td_loss(q: Array, target: Array) -> Array:
    """The sum over the critics of [ (q_i(s, a) - target)^2 ], q [critics, B], target [B]."""
    return jnp.sum(jnp.mean((q - jnp.expand_dims(target, 0)) ** 2, axis=-1))


def soft_policy_loss(log_prob: Array, q: Array, alpha: Array) -> Array:
    """[ alpha log pi(a_pi|s) - min_i q_i(s, a_pi) ], all [B] (SAC, Haarnoja et al. 2018, eq. 7)."""
    return jnp.mean(stop_gradient(alpha) * log_prob - q)


def temperature_loss(log_alpha: Array, log_prob: Array, target_entropy: float) -> Array:
    """SAC's rule: alpha grows while the policy's entropy is below its target."""
    return -log_alpha * stop_gradient(jnp.mean(log_prob) + target_entropy)


def advantage_weight(advantage: Array, temperature: float, max_weight: float) -> Array:
    """min(exp(beta * advantage), max_weight), [B], beta being the inverse temperature (AWR, Peng et al. 2019; IQL, eq. 7)."""
    return jnp.minimum(jnp.exp(temperature * advantage), max_weight)


def weighted_cloning_loss(log_prob: Array, weight: Array) -> Array:
    """- [ weight * log pi(a|s) ], both [B]."""
    return -jnp.mean(stop_gradient(weight) * log_prob)
