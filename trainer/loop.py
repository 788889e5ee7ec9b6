"""`fit`: trains all seeds of an experiment at once, writes down the curves, and goes on where a killed run was, bit for bit."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Transition, Tree
from trainer.learner import Learner
from trainer.preprocessing import Preprocessor
from trainer.program import Carry, Program, compile_program, to_arrays

TRAIN, VALIDATION = "train", "validation"


class Superbatch(Protocol):
    """K batches for each of S seeds: batch b of a seed depends on the seed and b alone."""

    @property
    def transition(self) -> Transition: ...  # leaves [S, K, B, ...]

    @property
    def index(self) -> np.ndarray: ...  # [S, K, B] int64, which transitions of the split these are


Feed = Callable[[int], Iterator[Superbatch]]  # feed(start) begins with the batch of update `start`


@dataclass(frozen=True)
class Plan:
    seeds: tuple[int, ...]
    updates: int
    log_every: int  # updates between two points of the curves; the last point may come sooner


class Row(NamedTuple):
    """One point of the curves: means over the updates since the last point, or over the validation batches."""

    step: int  # updates done
    split: str
    metrics: dict[str, np.ndarray]  # [S] float32


class Snapshot(NamedTuple):
    """All that a run needs to go on."""

    step: int
    arrays: dict[str, np.ndarray]
    rows: list[Row]


class Checkpoints(Protocol):
    """Where snapshots are kept (trainer/checkpoint.py)."""

    def restore(self) -> Snapshot | None:
        """Returns the newest snapshot of this very run; None where there is none."""
        ...

    def due(self) -> bool: ...

    def save(self, snapshot: Snapshot) -> None: ...

    def describe(self) -> str:
        """Returns a sentence on the last checkpoint, for a message."""
        ...


class Progress(NamedTuple):
    step: int
    updates: int
    rate: float  # updates a second, the first call left out, for it holds the compilation
    waiting: float  # share of that time spent waiting for data
    remaining: float  # seconds


class Fitted(NamedTuple):
    policies: list[Tree]  # NumPy, one a seed
    rows: list[Row]


def fit(
    learner: Learner[Any],
    preprocessor: Preprocessor,
    feed: Feed,
    plan: Plan,
    *,
    validation: Transition | None = None,
    checkpoints: Checkpoints | None = None,
    report: Callable[[Progress], None] | None = None,
    devices: Sequence[jax.Device] | None = None,
) -> Fitted:
    """Trains one policy a seed for `plan.updates` updates. A function of its arguments: equal ones give equal bits, resumed or not.

    `validation` holds batches [V, B, ...] on which every point of the curves repeats the losses without an update. The batch axis
    is sharded over as many of `devices` (default: all) as divide it. Raises HindcastError at the first non-finite metric; the
    checkpoints stay.
    """
    snapshot = checkpoints.restore() if checkpoints else None
    step, rows = (snapshot.step, list(snapshot.rows)) if snapshot else (0, [])
    clock = _Clock(plan.updates)
    batches = clock.timed(feed(step))
    first = next(batches, None)
    if first is None:
        raise _feed_ended(step, plan)
    program = compile_program(learner, preprocessor, plan.seeds, first.transition, validation, devices)
    carry = program.restore(snapshot.arrays) if snapshot else program.initial
    for superbatch in itertools.chain([first], batches):
        base, transition = step, program.put_batches(superbatch.transition)
        for begin, end in _cuts(base, superbatch.index.shape[1], plan):
            carry = program.update(carry, transition, begin, end)
            _require_finite(carry, superbatch.index, base, plan, checkpoints)
            step = base + end
            if step % plan.log_every == 0 or step == plan.updates:
                rows = rows + _points(program, carry, step, plan)
                carry = program.cleared(carry)
            if checkpoints and step < plan.updates and checkpoints.due():
                checkpoints.save(Snapshot(step, to_arrays(carry), rows))
            if report:
                report(clock.progress(step))
        if step == plan.updates:
            return Fitted(program.policies(carry), rows)
    raise _feed_ended(step, plan)


def scan_length(seeds: int, batch_bytes: int, limit: int = 64 << 20, longest: int = 128) -> int:
    """Returns K, the updates a superbatch: as many as `limit` bytes of batches of all seeds hold, 1 to `longest`. Changes no result."""
    return max(1, min(longest, limit // max(1, seeds * batch_bytes)))


def _cuts(base: int, size: int, plan: Plan) -> Iterator[tuple[int, int]]:
    """The calls that `size` updates, the first of them number `base`, are cut into: at points of the curves and at the run's end."""
    begin, last = 0, min(size, plan.updates - base)
    while begin < last:
        end = min(last, begin + plan.log_every - (base + begin) % plan.log_every)
        yield begin, end
        begin = end


def _points(program: Program, carry: Carry, step: int, plan: Plan) -> list[Row]:
    count = np.float32(step % plan.log_every or plan.log_every)
    rows = [Row(step, TRAIN, {name: value / count for name, value in jax.device_get(carry.sums).items()})]
    return [*rows, Row(step, VALIDATION, program.losses(carry.state))] if program.losses else rows


def _require_finite(carry: Carry, index: np.ndarray, base: int, plan: Plan, checkpoints: Checkpoints | None) -> None:
    """`base` is the update that the superbatch begins with."""
    spoilt = {name: value for name, value in jax.device_get(carry.spoilt).items() if (value >= 0).any()}
    if not spoilt:
        return
    k, row = min((int(value[s]), s) for value in spoilt.values() for s in range(len(value)) if value[s] >= 0)
    names = ", ".join(sorted(name for name, value in spoilt.items() if value[row] == k))
    kept = checkpoints.describe() if checkpoints else "No checkpoints were kept."
    raise HindcastError(
        f"Training of seed {plan.seeds[row]} gave a non-finite value of {names} in update {base + k} (counted from 0, of {plan.updates}). "
        f"The batch held these transitions of the train split: {index[row, k].tolist()}. {kept} "
        "Try a lower learning_rate, max_grad_norm (10, say) or a smaller reward_scale; if those transitions hold wrong values, "
        "mend the data set."
    )


def _feed_ended(step: int, plan: Plan) -> HindcastError:
    return HindcastError(f"The stream of batches ended after update {step}, but {plan.updates} are to be done. Hand in one that repeats.")


class _Clock:
    """Times a run for its progress, which no result depends on."""

    def __init__(self, updates: int) -> None:
        self._updates = updates
        self._waited = 0.0
        self._start: tuple[int, float] | None = None

    def timed(self, batches: Iterator[Superbatch]) -> Iterator[Superbatch]:
        """The same batches, with the time that they are waited for added up."""
        while True:
            before = time.perf_counter()
            superbatch = next(batches, None)
            self._waited += time.perf_counter() - before
            if superbatch is None:
                return
            yield superbatch

    def progress(self, step: int) -> Progress:
        now = time.perf_counter()
        if self._start is None:
            self._start, self._waited = (step, now), 0.0
        elapsed = max(now - self._start[1], 1e-9)
        rate = (step - self._start[0]) / elapsed
        remaining = (self._updates - step) / rate if rate else float("inf")
        return Progress(step, self._updates, rate, min(1.0, self._waited / elapsed), remaining)
