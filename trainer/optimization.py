"""What the learners share around their losses: optimisers with schedules, target networks, and the check of a batch's shapes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Transition, Tree, named_leaves


class OptimizerParams(NamedTuple):
    """AdamW (Adam where the weight decay is zero), decaying by a cosine to zero over `updates` where `decay` says so.

    Gradients are clipped to the global norm `max_grad_norm`, where there is one.
    """

    learning_rate: float
    decay: bool
    updates: int
    max_grad_norm: float | None
    weight_decay: float = 0.0


def make_optimizer(params: OptimizerParams) -> optax.GradientTransformation:
    cosine = optax.cosine_decay_schedule(params.learning_rate, params.updates)
    adam = optax.adamw(cosine if params.decay else params.learning_rate, weight_decay=params.weight_decay)
    return adam if params.max_grad_norm is None else optax.chain(optax.clip_by_global_norm(params.max_grad_norm), adam)


def descend(
    optimizers: Mapping[str, optax.GradientTransformation], grads: Mapping[str, Tree], params: dict[str, Tree], opt_state: dict[str, Tree]
) -> tuple[dict[str, Tree], dict[str, Tree], dict[str, Array]]:
    """One optimiser step of the networks named in `grads`. Returns all params, all optimiser states and the gradients' norms."""
    params, opt_state, norms = dict(params), dict(opt_state), {}
    for name, grad in grads.items():
        updates, opt_state[name] = optimizers[name].update(grad, opt_state[name], params[name])
        params[name] = optax.apply_updates(params[name], updates)
        norms[f"{name}_grad_norm"] = optax.tree.norm(grad)
    return params, opt_state, norms


def move_target(target: Tree, params: Tree, tau: float) -> Tree:
    """Polyak averaging, (1 - tau) target + tau params, leaf by leaf."""
    return jax.tree.map(lambda t, p: (1 - tau) * t + tau * p, target, params)


def mean_and_std(name: str, values: Array) -> dict[str, Array]:
    return {f"{name}_mean": jnp.mean(values), f"{name}_std": jnp.std(values)}


def check_batch(batch: Transition, spec: EnvSpec) -> None:
    """Raises HindcastError where a shape is not the spec's with the leading axis B: a reward of [B, 1] would train on nonsense.

    Only shapes are read, so inside `jit` it runs while tracing and costs nothing after.
    """
    size = batch.reward.shape[0] if batch.reward.ndim else -1
    scalar = ArraySpec((), "float32")
    expected = [("reward", scalar), ("discount", scalar), ("action", spec.action)]
    found: list[Any] = [batch.reward, batch.discount, batch.action]
    for name, nest in (("observation", batch.observation), ("next_observation", batch.next_observation)):
        found_structure, structure = str(jax.tree.structure(nest)), str(jax.tree.structure(spec.observation))
        if found_structure != structure:
            raise HindcastError(
                f"The batch's {name} is nested as {found_structure}, but environment '{spec.env_id}' needs {structure}. "
                f"Nest observations as the spec does."
            )
        expected += named_leaves(spec.observation, name)
        found += [leaf for _, leaf in named_leaves(nest, name)]
    for (name, leaf), array in zip(expected, found, strict=True):
        if array.shape != (size, *leaf.shape):
            raise HindcastError(
                f"The batch's {name} has shape {list(array.shape)}, but a batch of {size} of environment '{spec.env_id}' needs "
                f"{[size, *leaf.shape]}. Every array of a Transition starts with the batch axis B and then has the spec's shape."
            )
