"""What `fit` compiles for one run: many updates of all seeds in one device call.

A call runs updates `begin` to `end` of a superbatch inside a compiled loop whose bounds are arguments. So one compilation serves
every call of a run, however the logging interval, a checkpoint or the run's end cut the superbatch; and because the loop's body
and its carry are the same wherever it is cut, the result does not depend on the cuts, bit for bit.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from rl_datasets.schema import Array, Transition, Tree
from trainer.learner import Learner
from trainer.preprocessing import Preprocessor

# With jaxlib 0.10 on CPUs with few cores, compiled loops over large inputs were seen to hang for ever, all threads idle, when they
# were dispatched asynchronously. Inline dispatch costs nothing here, for every call is awaited anyway, and changes no bit of the
# result. It must be set before the CPU client exists, thus on import.
jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]


class Carry(NamedTuple):
    """What one update hands to the next."""

    state: Tree  # the learner's, leaves [S, ...]
    sums: dict[str, Array]  # [S] float32 each, over the updates since the last point of the curves
    spoilt: dict[str, Array]  # [S] int32 each: the first update of this superbatch with a non-finite value of the metric; -1 for none


@dataclass(frozen=True)
class Program:
    """The compiled functions of one run, and its first carry."""

    learner: Learner[Any]
    initial: Carry
    update: Callable[[Carry, Transition, int, int], Carry]  # takes the place of the carry that it is given
    losses: Callable[[Tree], dict[str, np.ndarray]] | None  # of the state, on the validation batches, [S] each
    put_batches: Callable[[Transition], Transition]  # onto the devices
    put_carry: Callable[[Carry], Carry]

    def restore(self, arrays: dict[str, np.ndarray]) -> Carry:
        """The inverse of `to_arrays`."""
        return self.put_carry(_from_arrays(arrays, self.initial))

    def cleared(self, carry: Carry) -> Carry:
        """The carry as it enters the next interval of the curves."""
        return self.put_carry(carry._replace(sums={name: np.zeros_like(value) for name, value in jax.device_get(carry.sums).items()}))

    def policies(self, carry: Carry) -> list[Tree]:
        """One a seed, NumPy."""
        stacked = jax.device_get(jax.vmap(self.learner.policy)(carry.state))
        seeds = len(jax.tree.leaves(stacked)[0])
        return [jax.tree.map(lambda leaf, s=seed: leaf[s], stacked) for seed in range(seeds)]


def compile_program(
    learner: Learner[Any],
    preprocessor: Preprocessor,
    seeds: Sequence[int],
    transition: Transition,
    validation: Transition | None,
    devices: Sequence[jax.Device] | None,
) -> Program:
    """`transition` [S, K, B, ...] gives the shapes. The batch axis is sharded over as many devices as divide it, all else replicated."""
    mesh = _mesh(transition.reward.shape[2], devices)
    batched = NamedSharding(mesh, PartitionSpec(None, None, "batch"))  # type: ignore[no-untyped-call]
    whole = NamedSharding(mesh, PartitionSpec())  # type: ignore[no-untyped-call]
    preprocessor = jax.device_put(preprocessor, whole)
    initial = jax.device_put(_initial(learner, preprocessor, seeds, transition), whole)
    jitted = jax.jit(
        functools.partial(_update, learner),
        donate_argnums=0,
        in_shardings=(whole, whole, batched, whole, whole),
        out_shardings=whole,
    )
    shapes = jax.tree.map(lambda leaf: _shape(leaf.shape, leaf.dtype), transition)
    compiled = jitted.lower(initial, preprocessor, shapes, np.int32(0), np.int32(0)).compile()
    return Program(
        learner,
        initial,
        update=lambda carry, batches, begin, end: compiled(carry, preprocessor, batches, np.int32(begin), np.int32(end)),
        losses=None if validation is None else _losses_on(jax.device_put(validation, whole), learner, preprocessor),
        put_batches=lambda batches: jax.device_put(batches, batched),
        put_carry=lambda carry: jax.device_put(carry, whole),
    )


def to_arrays(carry: Carry) -> dict[str, np.ndarray]:
    """The carry's leaves by name, copied to the host; random keys as the numbers they are made of."""
    leaves = jax.tree_util.tree_leaves_with_path(carry)
    return {jax.tree_util.keystr(path): np.array(jax.random.key_data(leaf) if _is_key(leaf) else leaf) for path, leaf in leaves}


def _from_arrays(arrays: dict[str, np.ndarray], like: Carry) -> Carry:
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    values = [(arrays[jax.tree_util.keystr(path)], leaf) for path, leaf in paths]
    keys = [jax.random.wrap_key_data(jnp.asarray(v), impl=jax.random.key_impl(leaf)) if _is_key(leaf) else v for v, leaf in values]
    return Carry(*jax.tree.unflatten(structure, keys))


def _update(learner: Learner[Any], carry: Carry, preprocessor: Preprocessor, transition: Transition, begin: Array, end: Array) -> Carry:
    """Runs updates begin..end of a superbatch [S, K, B, ...]."""

    def one(k: Array, carry: Carry) -> Carry:
        batch = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, k, axis=1, keepdims=False), transition)
        state, metrics = jax.vmap(learner.update)(carry.state, preprocessor.transition(batch))
        sums = {name: carry.sums[name] + metrics[name] for name in metrics}
        spoilt = {name: jnp.where((carry.spoilt[name] < 0) & ~jnp.isfinite(metrics[name]), k, carry.spoilt[name]) for name in metrics}
        return Carry(state, sums, spoilt)

    final: Carry = jax.lax.fori_loop(begin, end, one, carry)
    return final


def _losses_on(validation: Transition, learner: Learner[Any], preprocessor: Preprocessor) -> Callable[[Tree], dict[str, np.ndarray]]:
    """`validation` holds batches [V, B, ...], the same for all seeds."""

    @jax.jit
    def losses(state: Tree, preprocessor: Preprocessor, validation: Transition) -> dict[str, Array]:
        def one(_: None, batch: Transition) -> tuple[None, dict[str, Array]]:
            return None, jax.vmap(learner.losses, in_axes=(0, None))(state, preprocessor.transition(batch))

        return {name: jnp.mean(values, axis=0) for name, values in jax.lax.scan(one, None, validation)[1].items()}

    return lambda state: jax.device_get(losses(state, preprocessor, validation))


def _initial(learner: Learner[Any], preprocessor: Preprocessor, seeds: Sequence[int], transition: Transition) -> Carry:
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    state = jax.jit(lambda keys: jax.tree.map(_strong, jax.vmap(learner.init)(keys)))(keys)
    batch = jax.tree.map(lambda leaf: _shape((leaf.shape[0], *leaf.shape[2:]), leaf.dtype), transition)
    _, metrics = jax.eval_shape(lambda s, b: jax.vmap(learner.update)(s, preprocessor.transition(b)), state, batch)
    sums = {name: np.zeros(len(seeds), np.float32) for name in metrics}
    return Carry(state, sums, {name: np.full(len(seeds), -1, np.int32) for name in metrics})


def _shape(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))  # type: ignore[no-untyped-call]


def _strong(leaf: Array) -> Array:
    """Without JAX's weak type, which the first update would drop, and with it the carry's type."""
    return leaf if _is_key(leaf) else jax.lax.convert_element_type(leaf, leaf.dtype)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _mesh(batch_size: int, devices: Sequence[jax.Device] | None) -> Mesh:
    available = list(devices) if devices is not None else jax.devices()
    count = next(n for n in range(len(available), 0, -1) if batch_size % n == 0)
    return Mesh(np.array(available[:count]), ("batch",), axis_types=(AxisType.Auto,))
