"""What the learners share around their losses: optimisers with schedules, targets and averages, and the check of a batch's shapes."""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, NextAction, Transition, Tree, named_leaves
from trainer.learner import LearnerParams


def make_optimizers(params: LearnerParams, updates: int) -> dict[str, optax.GradientTransformation]:
    """An optimiser for each of the preset's networks, and for what follows one: AdamW (Adam where the weight decay is zero).

    A gradient is clipped to the global norm `max_grad_norm`, network by network (all critics of an ensemble are one), before Adam
    sees it. Weights fall by `weight_decay` times the learning rate.
    """
    return {name: make_optimizer(params, learning_rate(params, name, updates)) for name in params.NETWORKS}


def make_optimizer(params: LearnerParams, rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    adam = optax.adamw(rate, weight_decay=params.weight_decay)
    return adam if params.max_grad_norm is None else optax.chain(optax.clip_by_global_norm(params.max_grad_norm), adam)


def make_scalar_optimizer(params: LearnerParams, rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
    """Of a number that is learnt, such as a temperature: it is no weight, so it does not decay."""
    return make_optimizer(params.model_copy(update={"weight_decay": 0.0}), rate)


def learning_rate(params: LearnerParams, network: str, updates: int) -> optax.ScalarOrSchedule:
    """A network's learning rate: a number, or a function of the updates done before this one.

    `decay` names the networks whose rate falls to zero at the run's end, by a cosine (Loshchilov and Hutter 2017) or a line; the
    others' is constant. In the first `warmup` updates it is multiplied by 1/warmup, 2/warmup, ... 1.
    """
    peak = params.policy_learning_rate if network == "policy" and params.policy_learning_rate is not None else params.learning_rate
    decays = {"cosine": optax.cosine_decay_schedule(peak, updates), "linear": optax.linear_schedule(peak, 0.0, updates)}
    schedule = decays[params.decay_shape] if network in params.decay else optax.constant_schedule(peak)
    if params.warmup:
        return lambda step: schedule(step) * jnp.minimum(1.0, (step + 1) / params.warmup)
    return schedule if network in params.decay else peak


def descend(
    optimizers: Mapping[str, optax.GradientTransformation], grads: Mapping[str, Tree], params: dict[str, Tree], opt_state: dict[str, Tree]
) -> tuple[dict[str, Tree], dict[str, Tree], dict[str, Array]]:
    """One optimiser step of the networks named in `grads`. Returns all params, all optimiser states and the gradients' norms."""
    params, opt_state, norms = dict(params), dict(opt_state), {}
    for name, grad in grads.items():
        updates, opt_state[name] = optimizers[name].update(grad, opt_state[name], params[name])
        params[name] = optax.apply_updates(params[name], updates)
        norms[f"{name}_grad_norm"] = global_norm(grad)
    return params, opt_state, norms


def global_norm(grad: Tree) -> Array:
    """The Euclidean norm of all leaves together."""
    leaves = [leaf.ravel() for leaf in jax.tree.leaves(grad)]
    return jnp.sqrt(functools.reduce(operator.add, [jnp.vdot(leaf, leaf, precision="highest") for leaf in leaves]))


def move_target(target: Tree, params: Tree, tau: float) -> Tree:
    """Polyak averaging, (1 - tau) target + tau params, leaf by leaf."""
    return jax.tree.map(lambda t, p: (1 - tau) * t + tau * p, target, params)


def start_average(policy: Tree, ema_decay: float | None) -> Tree:
    """The moving average of a policy's weights, which starts at the weights; () where there is none to keep."""
    return () if ema_decay is None else jax.tree.map(jnp.copy, policy)


def move_average(average: Tree, policy: Tree, ema_decay: float | None) -> Tree:
    """After each update: average <- ema_decay * average + (1 - ema_decay) * policy, of the weights after that update."""
    return average if ema_decay is None else move_target(average, policy, 1 - ema_decay)


def with_total(metrics: dict[str, Array]) -> dict[str, Array]:
    """The metrics and `loss`, the sum of the losses of the networks among them."""
    losses = [metrics[name] for name in ("value_loss", "policy_loss", "critic_loss") if name in metrics]
    return {"loss": functools.reduce(operator.add, losses), **metrics}


CACHE_BYTES = 2**20  # of a core: what the arrays of one layer may take for products to run at full speed


def block_size(states: int, bytes_each: int) -> int:
    """How many of a batch's states to take at once: on a CPU the largest divisor of `states` whose arrays fit the cache, else all."""
    if jax.default_backend() != "cpu":
        return states
    fitting = max(1, CACHE_BYTES // bytes_each)
    return next(size for size in range(min(states, fitting), 0, -1) if states % size == 0)


def mean_by_blocks(function: Callable[[Tree, Any], Array], params: Tree, rows: Any, size: int) -> Array:
    """The mean over the batch of function(params, rows) [B], and its gradient with respect to `params` alone.

    `rows` has leaves [B, ...] and is taken `size` at a time. Each block goes forth and back before the next one begins, so that what
    it holds in between stays in the cache: for large sets of rows on a CPU that takes half the time.
    """
    rows = jax.lax.stop_gradient(rows)
    if size == len(jax.tree.leaves(rows)[0]):
        return jnp.mean(function(params, rows))
    blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, size, *leaf.shape[1:]), rows)
    count = len(jax.tree.leaves(blocks)[0])

    def of_block(params: Tree, block: Any) -> Array:
        return jnp.mean(function(params, block)) / count

    @jax.custom_vjp
    def mean(params: Tree) -> Array:
        return jnp.sum(jax.lax.map(lambda block: of_block(params, block), blocks))

    def forward(params: Tree) -> tuple[Array, Tree]:
        def add(total: tuple[Array, Tree], block: Any) -> tuple[tuple[Array, Tree], None]:
            return jax.tree.map(jnp.add, total, jax.value_and_grad(of_block)(params, block)), None

        nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(jax.value_and_grad(of_block), params, jax.tree.map(lambda x: x[0], blocks)))
        total: tuple[Array, Tree] = jax.lax.scan(add, nothing, blocks)[0]
        return total

    def backward(grad: Tree, cotangent: Array) -> tuple[Tree]:
        return (jax.tree.map(lambda leaf: cotangent * leaf, grad),)

    mean.defvjp(forward, backward)
    return mean(params)


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
    if isinstance(batch.next_action, NextAction):
        expected += [("next_action", spec.action), ("next_action.exists", scalar)]
        found += [*batch.next_action]
    for (name, leaf), array in zip(expected, found, strict=True):
        if array.shape != (size, *leaf.shape):
            raise HindcastError(
                f"The batch's {name} has shape {list(array.shape)}, but a batch of {size} of environment '{spec.env_id}' needs "
                f"{[size, *leaf.shape]}. Every array of a Transition starts with the batch axis B and then has the spec's shape."
            )
