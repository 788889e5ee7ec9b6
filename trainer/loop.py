"""`fit`: trains all seeds of an experiment at once, writes down the curves, and goes on where a killed run was, bit for bit."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Transition, Tree
from trainer.feed import Ahead, Feed, Placed, Superbatch, TableFeed
from trainer.learner import Trainable
from trainer.points import ENVIRONMENT, TRAIN, VALIDATION, Row
from trainer.preprocessing import Preprocessor
from trainer.program import Precision, Program, Source, compile_program, from_named_arrays, named_arrays, shape_of
from trainer.selection import Choice, SelectParams, choose, require_metric

KEPT = "kept"  # names the chosen policies among a snapshot's arrays
CALL_SECONDS = 1.0  # a call lasts about so long at most, so that progress, checkpoints and an interruption wait no longer
FIRST_CALL = 8  # updates, before it is known how long one takes
SHOWN = 5  # transitions that a message lists


@dataclass(frozen=True)
class Plan:
    """What determines a run, beside its learner and its data."""

    seeds: tuple[int, ...]
    updates: int
    log_every: int  # updates between two points of the curves; the last point may come sooner
    evaluate_every: int | None = None  # updates between two evaluations in the environment
    select: SelectParams | None = None  # the final policies where absent
    precision: Precision = "float32"


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
    rate: float  # updates a second, the first call left out
    waiting: float  # share of that time spent waiting for data
    remaining: float  # seconds


class Hooks(NamedTuple):
    """What a caller does meanwhile. None of it changes the training; `evaluate` adds points to the curves."""

    report: Callable[[Progress], None] | None = None  # after each call
    watch: Callable[[Sequence[Row]], None] | None = None  # all points so far, after each new one
    evaluate: Callable[[Sequence[Tree]], dict[str, np.ndarray]] | None = None  # one policy a seed -> metrics [S], every evaluate_every


class Fitted(NamedTuple):
    policies: list[Tree]  # NumPy, one a seed
    rows: list[Row]
    step: int  # updates done; fewer than planned where every seed ran out of patience
    choice: Choice | None  # where policies were selected


def fit(
    learner: Trainable[Any],
    preprocessor: Preprocessor,
    feed: Feed | TableFeed,
    plan: Plan,
    *,
    given: Sequence[Tree] | None = None,
    validation: Transition | None = None,
    checkpoints: Checkpoints | None = None,
    hooks: Hooks = Hooks(),  # noqa: B008 (immutable)
    devices: Sequence[jax.Device] | None = None,
) -> Fitted:
    """Trains one policy a seed for `plan.updates` updates. A function of its arguments: equal ones give equal bits, resumed or not.

    `given` holds what the learner's `init` takes of each seed beside its key. `validation` holds batches [V, B, ...] on which every
    point of the curves repeats the losses without an update. `devices` are by default all accelerators, or one CPU with all its
    cores (see trainer/program.py). Of several processes (jax.distributed), each calls it alike and feeds its own rows of every
    batch. Raises HindcastError at the first non-finite metric; the checkpoints stay.
    """
    snapshot = checkpoints.restore() if checkpoints else None
    start = snapshot.step if snapshot else 0
    elements = iter(feed.indices(start)) if isinstance(feed, TableFeed) else iter(feed(start))
    first: Any = next(elements, None)
    if first is None:
        raise _feed_ended(start, plan)
    source = _source(learner, preprocessor, feed, first, plan, validation)._replace(given=given)
    program = compile_program(source, devices, plan.precision)
    if plan.select:
        require_metric(plan.select, program.loss_metrics, bool(plan.evaluate_every and hooks.evaluate))
    run = _Run(program, plan, checkpoints, hooks, snapshot)
    with Ahead(itertools.chain([first], elements), lambda element: _placed(program, element)) as batches:
        return run.over(batches)


class _Run:
    """The state of a run between two calls of its program."""

    def __init__(self, program: Program, plan: Plan, checkpoints: Checkpoints | None, hooks: Hooks, snapshot: Snapshot | None) -> None:
        self._program, self._plan, self._checkpoints, self._hooks = program, plan, checkpoints, hooks
        self._step, self._rows = (snapshot.step, list(snapshot.rows)) if snapshot else (0, [])
        self._carry = program.restore(snapshot.arrays) if snapshot else program.initial
        self._kept: list[Tree] | None = None  # the chosen policies so far
        if plan.select:
            self._kept = program.policies(program.initial)
            if snapshot:
                self._kept = from_named_arrays(snapshot.arrays, {KEPT: self._kept})[KEPT]
        self._clock = _Clock(plan.updates, steady=jax.process_count() > 1)

    def over(self, batches: Ahead) -> Fitted:
        plan = self._plan
        while True:
            base = self._step
            placed: Placed | None = batches.take()
            if placed is None:
                raise _feed_ended(base, plan)
            last = min(placed.index.shape[1], plan.updates - base)
            if base + last < plan.updates:
                batches.prepare()
            while self._step < base + last:
                begin = self._step - base
                end = min(last, begin + self._clock.call_length, self._next_stop() - base)
                before = time.perf_counter()
                self._carry = self._program.update(self._carry, placed.batches, begin, end)
                _require_finite(self._program.spoilt(self._carry), placed.index, base, plan, self._checkpoints)
                self._step = base + end
                self._clock.called(self._step, time.perf_counter() - before, end - begin, batches.waited)
                ended = self._after_call()
                if ended is not None:
                    return ended

    def _next_stop(self) -> int:
        """The next update after which something is to be done."""
        intervals = [self._plan.log_every, self._plan.evaluate_every or self._plan.updates]
        return min(self._step + interval - self._step % interval for interval in intervals)

    def _after_call(self) -> Fitted | None:
        """Points, checkpoint and progress. Returns the result where the run has ended."""
        plan, step = self._plan, self._step
        points = self._points()
        self._rows = self._rows + points
        ended = step == plan.updates
        choice = None
        if points and plan.select:
            choice = choose(self._rows, plan.select, len(plan.seeds))
            self._keep(choice)
            ended |= bool(choice.stopped.all())
        if points and self._hooks.watch:
            self._hooks.watch(self._rows)
        if self._checkpoints and not ended and self._checkpoints.due():
            self._checkpoints.save(Snapshot(step, self._arrays(), self._rows))
        if self._hooks.report:
            self._hooks.report(self._clock.progress(step))
        if not ended:
            return None
        return Fitted(self._chosen(choice), self._rows, step, choice)

    def _points(self) -> list[Row]:
        """The points of the curves that this update is due for."""
        plan, program, step, carry = self._plan, self._program, self._step, self._carry
        points = []
        if step % plan.log_every == 0 or step == plan.updates:
            count = np.float32(step % plan.log_every or plan.log_every)
            points.append(Row(step, TRAIN, {name: value / count for name, value in program.sums(carry).items()}))
            if program.loss_metrics:
                points.append(Row(step, VALIDATION, program.losses(carry)))
            self._carry = program.cleared(carry)
        if plan.evaluate_every and self._hooks.evaluate and (step % plan.evaluate_every == 0 or step == plan.updates):
            points.append(Row(step, ENVIRONMENT, self._hooks.evaluate(program.policies(carry))))
        return points

    def _keep(self, choice: Choice) -> None:
        """Takes over the policies of the seeds whose best point is this one."""
        better = np.flatnonzero(choice.step == self._step)
        if len(better) and self._kept is not None:
            policies = self._program.policies(self._carry)
            self._kept = [policies[seed] if seed in better else kept for seed, kept in enumerate(self._kept)]

    def _chosen(self, choice: Choice | None) -> list[Tree]:
        """The policies that the run hands on: the final one where no point was ever the best."""
        final = self._program.policies(self._carry)
        if choice is None or self._kept is None:
            return final
        return [kept if step >= 0 else last for step, kept, last in zip(choice.step, self._kept, final, strict=True)]

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**self._program.arrays(self._carry), **(named_arrays({KEPT: self._kept}) if self._kept else {})}


class _Clock:
    """Times a run: for its progress, and for the length of its calls. No result depends on it."""

    def __init__(self, updates: int, steady: bool) -> None:
        """`steady`: calls are cut by numbers alone, as several processes must cut them alike."""
        self.call_length = updates if steady else FIRST_CALL  # updates
        self._updates = updates
        self._steady = steady
        self._start: tuple[int, float, float] | None = None  # step, time and seconds waited after the first call
        self._waited = 0.0

    def called(self, step: int, seconds: float, updates: int, waited: float) -> None:
        """A call of so many updates took so long; `waited` is for data, since the start."""
        if not self._steady:
            self.call_length = max(1, int(CALL_SECONDS * updates / max(seconds, 1e-9)))
        self._waited = waited
        self._start = self._start or (step, time.perf_counter(), waited)

    def progress(self, step: int) -> Progress:
        assert self._start is not None
        elapsed = max(time.perf_counter() - self._start[1], 1e-9)
        rate = (step - self._start[0]) / elapsed
        remaining = (self._updates - step) / rate if rate else float("inf")
        return Progress(step, self._updates, rate, min(1.0, (self._waited - self._start[2]) / elapsed), remaining)


def _source(
    learner: Trainable[Any], preprocessor: Preprocessor, feed: Feed | TableFeed, first: Any, plan: Plan, validation: Transition | None
) -> Source:
    """What the program is compiled for, from the first element of the feed."""
    if isinstance(feed, TableFeed):
        index, batch, table = first, feed.batch(first), feed.table
    else:
        index, batch, table = first.index, jax.tree.map(lambda leaf: leaf[0, 0], first.transition), None
    batch = jax.tree.map(lambda leaf: shape_of((jax.process_count() * leaf.shape[0], *leaf.shape[1:]), leaf.dtype), batch)
    return Source(learner, preprocessor, plan.seeds, batch, index.shape[1], validation, table)


def _placed(program: Program, element: Superbatch | np.ndarray) -> Placed:
    if isinstance(element, np.ndarray):
        return Placed(program.gather(element), element)
    return Placed(program.put(element.transition), element.index)


def _require_finite(spoilt: dict[str, np.ndarray], index: np.ndarray, base: int, plan: Plan, checkpoints: Checkpoints | None) -> None:
    """`base` is the update that the superbatch begins with."""
    spoilt = {name: value for name, value in spoilt.items() if (value >= 0).any()}
    if not spoilt:
        return
    k, row = min((int(value[s]), s) for value in spoilt.values() for s in range(len(value)) if value[s] >= 0)
    names = ", ".join(sorted(name for name, value in spoilt.items() if value[row] == k))
    batch = index[row, k].tolist()
    kept = checkpoints.describe() if checkpoints else "No checkpoints were kept."
    raise HindcastError(
        "Training gave a number that is not finite. Try a lower learning_rate, max_grad_norm (10, say) or a smaller reward_scale; if "
        f"the data hold wrong values, mend the data set. It was seed {plan.seeds[row]}, update {base + k} (counted from 0, of "
        f"{plan.updates}), in {names}. The batch held {len(batch)} transitions of the train split, the first of them number "
        f"{', '.join(map(str, batch[:SHOWN]))}. {kept}"
    )


def _feed_ended(step: int, plan: Plan) -> HindcastError:
    return HindcastError(f"The stream of batches ended after update {step}, but {plan.updates} are to be done. Hand in one that repeats.")
