"""`Preprocessor`: what lies between stored transitions and a learner, built from the statistics of the train split.

Data on disk stay raw; normalisation of observations and the transform of rewards happen inside the jitted update, and the same
normalisation inside a policy's `act`. The values are float32 and part of the policy bundle.

`standardize` takes each column to mean 0 and deviation 1. `whiten` then also removes the correlation between columns (ZCA-cor,
Kessy, Lewin and Strimmer 2018). Where columns move together, as a cart's speed and its pole's do, little data lies along the
direction in which they differ, and a network learns last, or never, what matters along it; whitened, all directions weigh alike.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Array, ArraySpec, EnvSpec, Transition, Tree, named_leaves
from trainer.learner import LearnerParams

SMALLEST_EIGENVALUE = 1e-3  # of a correlation matrix; whitening magnifies no direction by more than the root of its inverse
RETURN_RANGE = 1000.0  # D4RL's target for max - min episode return (Fu et al. 2020; used by IQL on locomotion)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Preprocessor:
    """A pytree of float32 arrays, so that it may be an argument of `jit` and stacked under `vmap`.

    `mean`, `std` and `whitening` hold one entry a leaf of the observation, in the order of `named_leaves`; None where a leaf
    passes untouched, or is not whitened.
    """

    mean: tuple[Array | None, ...]  # each of its leaf's shape
    std: tuple[Array | None, ...]
    whitening: tuple[Array | None, ...]  # [D, D], symmetric, for a leaf of D elements
    reward_scale: Array  # []
    reward_shift: Array  # []

    def observation(self, observation: Tree) -> Tree:
        """Returns (observation - mean) / std, whitened if so, for leaves [..., *shape]; integers and images as they are."""
        leaves, structure = jax.tree.flatten(observation)
        entries = zip(leaves, self.mean, self.std, self.whitening, strict=True)
        return jax.tree.unflatten(structure, [_normalize(*entry) for entry in entries])

    def transition(self, batch: Transition) -> Transition:
        """Returns the batch as a learner sees it: reward is reward_scale * reward + reward_shift."""
        return batch._replace(
            observation=self.observation(batch.observation),
            next_observation=self.observation(batch.next_observation),
            reward=batch.reward * self.reward_scale + self.reward_shift,
        )

    def to_json(self, spec: EnvSpec) -> dict[str, Any]:
        """Returns JSON values from which `from_json` restores every bit."""
        names = [name for name, _ in named_leaves(spec.observation, "observation")]
        entries = zip(names, self.mean, self.std, self.whitening, strict=True)
        scaled = {name: _scaling_json(mean, std, whitening) for name, mean, std, whitening in entries if mean is not None}
        return {"observation": scaled, "reward": {"scale": float(self.reward_scale), "shift": float(self.reward_shift)}}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], spec: EnvSpec) -> "Preprocessor":
        """Raises HindcastError where the values do not fit the spec."""
        entries = [_scaling(values["observation"].get(name), name, leaf) for name, leaf in named_leaves(spec.observation, "observation")]
        reward = values["reward"]
        return cls(
            mean=tuple(mean for mean, _, _ in entries),
            std=tuple(std for _, std, _ in entries),
            whitening=tuple(whitening for _, _, whitening in entries),
            reward_scale=np.float32(reward["scale"]),
            reward_shift=np.float32(reward["shift"]),
        )


def make_preprocessor(params: LearnerParams, spec: EnvSpec, statistics: Mapping[str, Any]) -> Preprocessor:
    """Returns what `params` ask for, from the content of the split's stats.json. Only float leaves are normalised.

    Raises HindcastError where a float leaf has no usable statistics, or rewards cannot be scaled by the range of returns.
    """
    observation = {}
    if params.normalize_observations != "none":
        leaves = [(name, leaf) for name, leaf in named_leaves(spec.observation, "observation") if np.issubdtype(leaf.dtype, np.floating)]
        observation = {name: _leaf_scaling(name, statistics, params.normalize_observations == "whiten") for name, _ in leaves}
    scale = params.reward_scale * (_return_range_scale(statistics) if params.reward_scaling == "return_range" else 1.0)
    return Preprocessor.from_json({"observation": observation, "reward": {"scale": scale, "shift": params.reward_shift}}, spec)


def _leaf_scaling(name: str, statistics: Mapping[str, Any], whiten: bool) -> dict[str, Any]:
    """The JSON values of a leaf, from what stats.json says of it."""
    if name not in statistics["observation"]:
        known = ", ".join(sorted(statistics["observation"])) or "none"
        raise HindcastError(f"stats.json has no statistics of '{name}' (it has: {known}). Run the split stage again.")
    entry = statistics["observation"][name]
    values = {"mean": entry["mean"], "std": entry["std"]}
    if whiten and "covariance" not in entry:
        raise HindcastError(
            f"normalize_observations: whiten needs the covariance of '{name}', but stats.json has none: with {len(entry['mean'])} "
            "columns it is too wide, or the split is old. Use standardize, or run the split stage again."
        )
    return {**values, "whitening": whitening_matrix(entry["covariance"]).tolist()} if whiten else values


def whitening_matrix(covariance: Sequence[Sequence[float]]) -> np.ndarray:
    """Returns the inverse root of the correlation matrix, [D, D] float64, of a covariance with no zero on its diagonal."""
    matrix = np.asarray(covariance, np.float64)
    deviation = np.sqrt(np.diag(matrix))
    values, vectors = np.linalg.eigh(matrix / np.outer(deviation, deviation))
    whitening: np.ndarray = (vectors / np.sqrt(np.maximum(values, SMALLEST_EIGENVALUE))) @ vectors.T
    return whitening


def _return_range_scale(statistics: Mapping[str, Any]) -> float:
    returns = statistics["episode_return"]
    span = float(returns["maximum"]) - float(returns["minimum"])
    if not (np.isfinite(span) and span > 0):
        raise HindcastError(
            f"reward_scaling 'return_range' divides by the range of episode returns, but those of the train split lie between "
            f"{returns['minimum']} and {returns['maximum']}. Use reward_scaling: none, with a reward_scale of your choice."
        )
    return RETURN_RANGE / span


def _normalize(leaf: Array, mean: Array | None, std: Array | None, whitening: Array | None) -> Array:
    if mean is None or std is None:
        return leaf
    scaled = (leaf - jnp.broadcast_to(mean, leaf.shape)) / jnp.broadcast_to(std, leaf.shape)
    if whitening is None:
        return scaled
    return (scaled.reshape(*leaf.shape[: leaf.ndim - mean.ndim], -1) @ whitening).reshape(leaf.shape)


def _scaling(entry: Mapping[str, Any] | None, name: str, leaf: ArraySpec) -> tuple[Array | None, Array | None, Array | None]:
    if entry is None:
        return None, None, None
    mean, std = (np.asarray(entry[key], np.float32) for key in ("mean", "std"))
    whitening = np.asarray(entry["whitening"], np.float32) if "whitening" in entry else None
    size = math.prod(leaf.shape)
    if mean.shape != (size,) or std.shape != (size,) or (whitening is not None and whitening.shape != (size, size)):
        raise HindcastError(f"Statistics of '{name}' hold {mean.size} means and {std.size} deviations, but the spec has {size} elements.")
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std > 0).all() and (whitening is None or np.isfinite(whitening).all())):
        raise HindcastError(
            f"Statistics of '{name}' are not usable: means must be finite and deviations above 0 in float32, but found "
            f"mean {mean.tolist()}, std {std.tolist()}. Run the split stage again, or set normalize_observations: none."
        )
    return mean.reshape(leaf.shape), std.reshape(leaf.shape), whitening


def _scaling_json(mean: Array, std: Array, whitening: Array | None) -> dict[str, list[Any]]:
    values = {"mean": np.asarray(mean, np.float64).ravel().tolist(), "std": np.asarray(std, np.float64).ravel().tolist()}
    return values if whitening is None else {**values, "whitening": np.asarray(whitening, np.float64).tolist()}
