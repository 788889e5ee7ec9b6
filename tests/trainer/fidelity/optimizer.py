"""Adam (Kingma and Ba 2015) with decoupled weight decay (Loshchilov and Hutter 2019), schedules and clipping, in NumPy."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8


class Adam(NamedTuple):
    rate: float
    weight_decay: float = 0.0
    max_norm: float | None = None  # of the gradient of all weights of a network together
    warmup: int = 0  # updates in which the rate rises
    decay: str | None = None  # "cosine" or "linear": the shape by which the rate falls to zero
    updates: int = 1  # over so many


class Moments(NamedTuple):
    steps: int
    first: Any
    second: Any


def no_moments(weights: Any) -> Moments:
    return Moments(0, jax.tree.map(np.zeros_like, weights), jax.tree.map(np.zeros_like, weights))


def norm(grad: Any) -> float:
    return math.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(grad)))


def clipped(grad: Any, max_norm: float | None) -> Any:
    if max_norm is None or norm(grad) <= max_norm:
        return grad
    factor = max_norm / norm(grad)
    return jax.tree.map(lambda leaf: leaf * factor, grad)


def rate_at(adam: Adam, count: int) -> float:
    """The rate of the update that `count` others came before."""
    done = min(count / adam.updates, 1.0)
    factor = {None: 1.0, "cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done}[adam.decay]
    rising = min((count + 1) / adam.warmup, 1.0) if adam.warmup else 1.0
    return adam.rate * factor * rising


def step(adam: Adam, weights: Any, grad: Any, moments: Moments) -> tuple[Any, Moments]:
    """The weights and moments after one step along the gradient, which is clipped already."""
    count, rate = moments.steps + 1, rate_at(adam, moments.steps)
    first = jax.tree.map(lambda m, g: BETA_1 * m + (1 - BETA_1) * g, moments.first, grad)
    second = jax.tree.map(lambda m, g: BETA_2 * m + (1 - BETA_2) * g**2, moments.second, grad)

    def moved(w: np.ndarray, m: np.ndarray, v: np.ndarray) -> np.ndarray:
        direction = (m / (1 - BETA_1**count)) / (np.sqrt(v / (1 - BETA_2**count)) + EPSILON)
        return w - rate * (direction + adam.weight_decay * w)

    return jax.tree.map(moved, weights, first, second), Moments(count, first, second)
