"""The layout on a CPU: one compiled program of one seed, called for every seed from as many threads as there are cores.

Two threads take eight seeds of small networks 1.9 times as fast as one after another, and no slower where one seed fills all
cores by itself; `vmap` over the seeds is slower than one after another. Because every seed runs the same program alone, its
bits are those of a run of this seed only, whatever the number of threads.
"""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import numpy as np

from rl_datasets.schema import Array, Transition, Tree
from trainer import program
from trainer.learner import Trainable
from trainer.preprocessing import Preprocessor
from trainer.program import Carry, Source

Result = TypeVar("Result")


class SideBySideProgram:
    """A carry is a list of one Carry a seed; placed batches are a list of one Transition [K, B, ...] a seed."""

    def __init__(self, source: Source, device: jax.Device, threads: int | None = None) -> None:
        """`threads` changes no result."""
        self._learner = source.learner
        self._device = device
        self._pool = ThreadPoolExecutor(threads or min(len(source.seeds), cores()))
        put = functools.partial(jax.device_put, device=device)
        self._preprocessor = put(source.preprocessor)
        self._table = None if source.table is None else put(source.table)
        self._validation = None if source.validation is None else put(source.validation)

        start = jax.jit(functools.partial(program.first_state, source.learner))
        given = [(own,) for own in source.given] if source.given is not None else [()] * len(source.seeds)
        states = [start(put(jax.random.key(seed)), *put(own)) for seed, own in zip(source.seeds, given, strict=True)]
        self.metrics: tuple[str, ...] = tuple(jax.eval_shape(self._update_once, states[0], source.shapes)[1])
        zeros = {name: np.float32(0) for name in self.metrics}
        never = {name: np.int32(-1) for name in self.metrics}
        self.initial = [put(Carry(state, zeros, never)) for state in states]

        batches, bounds = program.with_axes(source.shapes, source.scan), program.shape_of((2,), np.int32)
        updates = jax.jit(functools.partial(_updates, source.learner), donate_argnums=0)
        self._updates = updates.lower(self.initial[0], self._preprocessor, batches, bounds).compile()
        self._losses: Any = None
        self.loss_metrics: tuple[str, ...] = ()
        if self._validation is not None:
            self._losses = (
                jax.jit(functools.partial(_losses, source.learner)).lower(states[0], self._preprocessor, self._validation).compile()
            )
            self.loss_metrics = tuple(self._losses.out_info)
        self._gather: Any = None
        if self._table is not None:
            index = program.shape_of((source.scan, source.batch.reward.shape[0]), np.int32)
            self._gather = jax.jit(program.gathered).lower(self._table, index).compile()

    def put(self, transition: Transition) -> list[Transition]:
        seeds = len(transition.reward)
        return [jax.device_put(jax.tree.map(lambda leaf, s=seed: leaf[s], transition), self._device) for seed in range(seeds)]

    def gather(self, index: np.ndarray) -> list[Transition]:
        return [self._gather(self._table, jax.device_put(one.astype(np.int32), self._device)) for one in index]

    def update(self, carry: list[Carry], placed: list[Transition], begin: int, end: int) -> list[Carry]:
        bounds = jax.device_put(np.array([begin, end], np.int32), self._device)

        def one(seed: int) -> Carry:
            with program.no_transfer():
                return jax.block_until_ready(self._updates(carry[seed], self._preprocessor, placed[seed], bounds))  # type: ignore[no-any-return, no-untyped-call]

        return self._each(one, range(len(carry)))

    def sums(self, carry: list[Carry]) -> dict[str, np.ndarray]:
        return _stacked([one.sums for one in carry])

    def spoilt(self, carry: list[Carry]) -> dict[str, np.ndarray]:
        return _stacked([one.spoilt for one in carry])

    def cleared(self, carry: list[Carry]) -> list[Carry]:
        return [one._replace(sums=jax.device_put({name: np.float32(0) for name in one.sums}, self._device)) for one in carry]

    def losses(self, carry: list[Carry]) -> dict[str, np.ndarray]:
        return _stacked(self._each(lambda seed: self._losses(carry[seed].state, self._preprocessor, self._validation), range(len(carry))))

    def policies(self, carry: list[Carry]) -> list[Tree]:
        return [jax.device_get(self._learner.policy(one.state)) for one in carry]

    def arrays(self, carry: list[Carry]) -> dict[str, np.ndarray]:
        return _stacked([program.named_arrays(one) for one in carry])

    def restore(self, arrays: dict[str, np.ndarray]) -> list[Carry]:
        own = [{name: array[seed] for name, array in arrays.items()} for seed in range(len(self.initial))]
        return [jax.device_put(program.from_named_arrays(one, self.initial[0]), self._device) for one in own]

    def _update_once(self, state: Tree, batch: Transition) -> tuple[Tree, dict[str, Array]]:
        return self._learner.update(state, self._preprocessor.transition(batch))

    def _each(self, function: Callable[[int], Result], items: range) -> list[Result]:
        return list(self._pool.map(function, items))


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _updates(learner: Trainable[Any], carry: Carry, preprocessor: Preprocessor, batches: Transition, bounds: Array) -> Carry:
    return program.run_updates(lambda state, batch: learner.update(state, preprocessor.transition(batch)), carry, batches, 0, bounds)


def _losses(learner: Trainable[Any], state: Tree, preprocessor: Preprocessor, validation: Transition) -> dict[str, Array]:
    return program.mean_losses(lambda state, batch: learner.losses(state, preprocessor.transition(batch)), state, validation)


def _stacked(values: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """[S, ...] each, on the host."""
    return {name: np.stack([np.asarray(value[name]) for value in values]) for name in values[0]}
