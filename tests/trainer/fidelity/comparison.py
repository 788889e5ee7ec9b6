"""A learner beside its reference: the same weights, batches and draws through three updates, and all that they compute compared."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rl_datasets import schema
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from tests.trainer.fidelity.networks import ensemble_from_flax, from_flax
from tests.trainer.fidelity.recording import Draws, with_draws
from tests.trainer.fidelity.reference import Reference

B, UPDATES = 6, 3
LENGTH = 8  # updates of the whole run, which the schedules decay over
OBSERVATION = ArraySpec((3,), "float32")
SPECS = {
    "discrete": EnvSpec("Toy-v0", OBSERVATION, ArraySpec((), "int64", 1, 4, num_values=4)),
    "continuous": EnvSpec("Toy-v0", OBSERVATION, ArraySpec((2,), "float32", (-2.0, 0.0), (2.0, 10.0))),
    "unbounded": EnvSpec("Toy-v0", OBSERVATION, ArraySpec((2,), "float32")),
}
SMALL = {"hidden_sizes": (5, 4), "learning_rate": 1e-2, "gamma": 0.9}
TOLERANCE = {"float64": 1e-6, "float32": 1e-4}  # relative to the largest entry of an array


@dataclass(frozen=True)
class Case:
    """One setting of a learner, on one kind of action."""

    action: str
    params: dict[str, Any] = field(default_factory=dict)
    own_weights: bool = False  # else at random, so that no bias is zero and no target equals its network
    edge: bool = False  # some actions lie on their bounds
    single: bool = False  # compared in float32, too
    next_action: bool = False  # the batch has the data's next actions, but for a transition where the data end

    def __str__(self) -> str:
        return "-".join([self.action, *(f"{name}={value}" for name, value in self.params.items())])

    @property
    def spec(self) -> EnvSpec:
        return SPECS[self.action]


def batch_of(case: Case, seed: int, dtype: str) -> Transition:
    """Every float is one that float32 holds exactly; a third of the transitions are terminal."""
    rng = np.random.default_rng(100 + seed)

    def floats(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32).astype(dtype)

    action = floats(B, 2)
    if case.action == "discrete":
        action = rng.integers(1, 5, B)
    elif case.action == "continuous":
        action = rng.uniform((-2, 0), (2, 10), (B, 2)).astype(np.float32).astype(dtype)
        if case.edge:
            action[0], action[1, 0] = (2, 0), -2
    discount = np.asarray([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], dtype)
    batch = Transition(floats(B, 3), action, floats(B), discount, floats(B, 3))
    if not case.next_action:
        return batch
    following = schema.NextAction(np.roll(action, 1, axis=0), np.asarray([1.0, 0.0, 0.0, 1.0, 0.0, 1.0], dtype))
    return batch._replace(next_action=following)


def start(module: ModuleType, case: Case) -> tuple[Any, Any]:
    """The learner and its first state in JAX's default float, or one with weights at random."""
    learner = module.Learner(module.Params(**{**SMALL, **case.params}), case.spec, LENGTH)
    if case.own_weights:
        return learner, jax.jit(learner.init)(jax.random.key(0))
    zeros = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), jax.eval_shape(lambda: learner.init(jax.random.key(0))._replace(key=0)))
    state = zeros._replace(key=jax.random.key(0), params=at_random(zeros.params, 1), average=at_random(zeros.average, 3))
    return learner, state._replace(target=at_random(zeros.target, 2)) if hasattr(state, "target") else state


def at_random(tree: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: rng.normal(0, 0.5, x.shape).astype(np.float32).astype(x.dtype), tree)


def layout(params: dict[str, Any]) -> dict[str, Any]:
    return {name: ensemble_from_flax(tree) if name == "critic" else from_flax(tree) for name, tree in params.items()}


def followers(learner: Any, state: Any) -> tuple[Any, Any]:
    """The target critics and the average of the network that the learner acts by; None where there is none."""
    target = getattr(state, "target", None)
    if target is not None:
        target = ensemble_from_flax(target) if "params" in target else layout(target)
    if learner.params.ema_decay is None:
        return target, None
    acts_by_critics = "policy" not in state.params
    return target, ensemble_from_flax(learner.policy(state)) if acts_by_critics else from_flax(learner.policy(state))


def first_moments(state: Any) -> dict[str, Any]:
    """Adam's average of each network's gradients, laid out as in networks.py. After one update it is a tenth of the gradient."""
    return layout({name: optax.tree.get(state.opt_state[name], "mu") for name in state.params})


def compare(module: ModuleType, reference: type[Reference], case: Case, dtype: str = "float64", updates: int = UPDATES) -> None:
    """Raises AssertionError where losses, metrics, gradients, weights, targets or the number of draws differ."""
    tolerance = TOLERANCE[dtype]
    with jax.enable_x64(dtype == "float64"):
        learner, state = start(module, case)
        update, losses = jax.jit(with_draws(learner.update)), jax.jit(with_draws(learner.losses))
        plain = reference(learner.params, case.spec.action, LENGTH, layout(state.params), *followers(learner, state))
        for k in range(updates):
            batch = batch_of(case, k, dtype)
            on_device, exact = jax.tree.map(jnp.asarray, batch), jax.tree.map(exactly, batch)

            if case.own_weights:
                found, drawn = losses(state, on_device)
                expected = with_all_taken(plain.losses, exact, drawn)
                assert_metrics_agree(f"losses before update {k + 1}", found, expected, tolerance)
            (state, found), drawn = update(state, on_device)
            expected = with_all_taken(plain.update, exact, drawn)
            assert_metrics_agree(f"metrics of update {k + 1}", found, expected, tolerance)
            moments = {name: plain.moments[name].first for name in plain.weights}
            assert_trees_agree(f"gradients of update {k + 1}", first_moments(state), moments, tolerance)
            assert_trees_agree(f"weights after update {k + 1}", layout(state.params), plain.weights, tolerance)
            assert_trees_agree(
                f"target and average after update {k + 1}", followers(learner, state), (plain.target, plain.average), tolerance
            )
            assert int(state.step) == k + 1


def exactly(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x


def with_all_taken(function: Callable[..., Any], batch: Transition, drawn: list[Any]) -> Any:
    draws = Draws(drawn)
    result = function(batch, draws)
    draws.done()
    return result


def assert_metrics_agree(what: str, found: dict[str, Any], expected: dict[str, float], tolerance: float) -> None:
    """Of every metric that the reference knows. Below 0.1 the tolerance is that of 0.1."""
    for name, value in expected.items():
        error = abs(float(found[name]) - value)
        assert error <= tolerance * max(abs(value), 0.1), f"{what}: {name} is {float(found[name])}, but the equations give {value}"


def assert_trees_agree(what: str, found: Any, expected: Any, tolerance: float) -> None:
    """Leaf by leaf, relative to the largest entry; a leaf of zeros has to be zero."""
    found_leaves, expected_leaves = (jax.tree_util.tree_leaves_with_path(tree) for tree in (found, expected))
    for (path, a), (same_path, b) in zip(found_leaves, expected_leaves, strict=True):
        assert path == same_path
        error, size = np.max(np.abs(a - b)), np.max(np.abs(b))
        name = jax.tree_util.keystr(path)
        assert error <= tolerance * size, f"{what}: {name} differs by {error:.3g} where the equations give up to {size:.3g}"
