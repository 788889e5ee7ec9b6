"""The layout over a mesh of devices: one program of all seeds by `vmap`. Seeds are shared out first, which needs no exchange.

What is left of the devices shards the batch axis. Sharded batches agree with whole ones to rounding (sums are taken in another
order). Of several processes, each keeps all seeds and feeds its own rows of the same global batch.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Array, Transition, Tree
from trainer import program
from trainer.learner import Trainable
from trainer.preprocessing import Preprocessor
from trainer.program import Carry, Source


class MeshProgram:
    """A carry is a Carry with leaves [S, ...]; placed batches are a Transition [S, K, B, ...]."""

    def __init__(self, source: Source, devices: Sequence[jax.Device]) -> None:
        self._learner = source.learner
        mesh = make_mesh(len(source.seeds), source.batch.reward.shape[0], devices)
        self._seeded, self._batched, self._whole = (
            NamedSharding(mesh, PartitionSpec(*axes))  # type: ignore[no-untyped-call]
            for axes in (("seeds",), ("seeds", None, "batch"), ())
        )
        self._preprocessor = place(source.preprocessor, self._whole)
        self._table = None if source.table is None else place(source.table, self._whole)
        self._validation = None if source.validation is None else place(source.validation, self._whole)

        start = jax.jit(jax.vmap(functools.partial(program.first_state, source.learner)), out_shardings=self._seeded)
        given = () if source.given is None else (jax.tree.map(lambda *leaves: np.stack(leaves), *source.given),)
        state = start(jnp.stack([jax.random.key(seed) for seed in source.seeds]), *place(given, self._seeded))
        seeds = len(source.seeds)
        self.metrics: tuple[str, ...] = tuple(
            jax.eval_shape(
                functools.partial(_update_once, source.learner),
                jax.eval_shape(lambda: state),
                self._preprocessor,
                program.with_axes(source.shapes, seeds),
            )[1]
        )
        sums = {name: np.zeros(seeds, np.float32) for name in self.metrics}
        never = {name: np.full(seeds, -1, np.int32) for name in self.metrics}
        self.initial = Carry(state, place(sums, self._seeded), place(never, self._seeded))

        batches, bounds = program.with_axes(source.shapes, seeds, source.scan), program.shape_of((2,), np.int32)
        updates = jax.jit(
            functools.partial(_updates, source.learner),
            donate_argnums=0,
            in_shardings=(self._seeded, self._whole, self._batched, self._whole),
            out_shardings=self._seeded,
        )
        self._updates = updates.lower(self.initial, self._preprocessor, batches, bounds).compile()
        self._losses: Any = None
        self.loss_metrics: tuple[str, ...] = ()
        if self._validation is not None:
            losses = jax.jit(functools.partial(_losses, source.learner), out_shardings=self._whole)
            self._losses = losses.lower(state, self._preprocessor, self._validation).compile()
            self.loss_metrics = tuple(self._losses.out_info)
        self._gather: Any = None
        if self._table is not None:
            index = program.shape_of((seeds, source.scan, source.batch.reward.shape[0]), np.int32)
            gather = jax.jit(program.gathered, in_shardings=(self._whole, self._batched), out_shardings=self._batched)
            self._gather = gather.lower(self._table, index).compile()

    def put(self, transition: Transition) -> Transition:
        placed: Transition = place(transition, self._batched)
        return placed

    def gather(self, index: np.ndarray) -> Transition:
        gathered: Transition = self._gather(self._table, place(index.astype(np.int32), self._batched))
        return gathered

    def update(self, carry: Carry, placed: Transition, begin: int, end: int) -> Carry:
        bounds = place(np.array([begin, end], np.int32), self._whole)
        with program.no_transfer():
            done: Carry = self._updates(carry, self._preprocessor, placed, bounds)
        return done

    def sums(self, carry: Carry) -> dict[str, np.ndarray]:
        return jax.device_get(carry.sums)  # type: ignore[no-any-return]

    def spoilt(self, carry: Carry) -> dict[str, np.ndarray]:
        return jax.device_get(carry.spoilt)  # type: ignore[no-any-return]

    def cleared(self, carry: Carry) -> Carry:
        return carry._replace(sums=place({name: np.zeros(value.shape, np.float32) for name, value in carry.sums.items()}, self._seeded))

    def losses(self, carry: Carry) -> dict[str, np.ndarray]:
        return jax.device_get(self._losses(carry.state, self._preprocessor, self._validation))  # type: ignore[no-any-return]

    def policies(self, carry: Carry) -> list[Tree]:
        stacked = jax.device_get(jax.vmap(self._learner.policy)(carry.state))
        seeds = len(jax.tree.leaves(stacked)[0])
        return [jax.tree.map(lambda leaf, s=seed: leaf[s], stacked) for seed in range(seeds)]

    def arrays(self, carry: Carry) -> dict[str, np.ndarray]:
        return program.named_arrays(carry)

    def restore(self, arrays: dict[str, np.ndarray]) -> Carry:
        carry: Carry = place(program.from_named_arrays(arrays, self.initial), self._seeded)
        return carry


def make_mesh(seeds: int, batch_size: int, devices: Sequence[jax.Device]) -> Mesh:
    """Shares out the seeds over as many devices as divide both, and the batch over as many of the rest as divide it.

    Raises HindcastError where several processes cannot share a batch evenly, for each of them must take part.
    """
    processes = len({device.process_index for device in devices})
    along_seeds = math.gcd(seeds, len(devices)) if processes == 1 else 1
    rest = len(devices) // along_seeds
    along_batch = next(n for n in range(rest, 0, -1) if batch_size % n == 0)
    if processes > 1 and along_batch < rest:
        raise HindcastError(
            f"batch_size is {batch_size}, but {rest} devices of {processes} processes are to share each batch evenly. "
            f"Use a multiple of {rest}."
        )
    chosen = np.array(list(devices)[: along_seeds * along_batch]).reshape(along_seeds, along_batch)
    return Mesh(chosen, ("seeds", "batch"), axis_types=(AxisType.Auto, AxisType.Auto))


def place(tree: Any, sharding: NamedSharding) -> Any:
    """Puts arrays onto the devices: of several processes, each gives the part that its devices hold."""
    if jax.process_count() == 1:
        return jax.device_put(tree, sharding)
    return jax.tree.map(functools.partial(_place_part, sharding), tree)


def _place_part(sharding: NamedSharding, leaf: Any) -> Array:
    if program.is_key(leaf):
        data = _place_part(sharding, jax.random.key_data(leaf))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    local = np.asarray(leaf)
    local = local.astype(jax.dtypes.canonicalize_dtype(local.dtype))
    return jax.make_array_from_process_local_data(sharding, local)  # type: ignore[no-untyped-call]


def _update_once(learner: Trainable[Any], state: Tree, preprocessor: Preprocessor, batch: Transition) -> tuple[Tree, dict[str, Array]]:
    return jax.vmap(learner.update)(state, preprocessor.transition(batch))


def _updates(learner: Trainable[Any], carry: Carry, preprocessor: Preprocessor, batches: Transition, bounds: Array) -> Carry:
    return program.run_updates(lambda state, batch: _update_once(learner, state, preprocessor, batch), carry, batches, 1, bounds)


def _losses(learner: Trainable[Any], state: Tree, preprocessor: Preprocessor, validation: Transition) -> dict[str, Array]:
    """`validation` holds batches [V, B, ...], the same for all seeds."""

    def losses(state: Tree, batch: Transition) -> dict[str, Array]:
        return jax.vmap(learner.losses, in_axes=(0, None))(state, preprocessor.transition(batch))

    return program.mean_losses(losses, state, validation)
