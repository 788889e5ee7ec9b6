"""Training runs to be timed: the program that `trainer.loop.fit` runs, on batches that are on the device already; and `fit` itself."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Semaphore
from typing import Any

import jax
import numpy as np

from rl_datasets.schema import ArraySpec, EnvSpec, NextAction, Transition
from tests.benchmarks import matrix_work
from tests.benchmarks.matrix_work import Shapes
from trainer.learner import Learner, load_learner
from trainer.loop import Hooks, Plan, Progress, fit
from trainer.preprocessing import Preprocessor, make_preprocessor
from trainer.program import PRODUCTS, Source, compile_program

Subject = Callable[[], int]  # returns how many units it did

SHAPES = Shapes(batch=256, observation=17, action=6, hidden=(256, 256))
SPEC = EnvSpec("HalfCheetah-v5", ArraySpec((17,), "float32"), ArraySpec((6,), "float32", -1, 1))
STATISTICS = {"observation": {"observation": {"mean": [0.0] * 17, "std": [1.0] * 17}}}
UPDATES = defaultdict(lambda: 40, {"bc": 200, "iql": 60, "cql": 6, "edac": 20})  # a turn: long enough to time
ENDLESS = 10**9  # updates
SIDE = 2048  # of the matrices whose product is the limit


def learner(algorithm: str, **options: Any) -> tuple[Learner[Any], Preprocessor]:
    module: Any = load_learner(algorithm)
    params = module.Params(hidden_sizes=SHAPES.hidden, **options) if "hidden_sizes" not in options else module.Params(**options)
    return module.Learner(params, SPEC, 100_000), make_preprocessor(params, SPEC, STATISTICS)


def transitions(*lead: int, next_action: bool = False) -> Transition:
    random = np.random.default_rng(0)
    observation, following = random.normal(size=(2, *lead, SHAPES.observation)).astype(np.float32)
    action = random.uniform(-0.9, 0.9, (*lead, SHAPES.action)).astype(np.float32)
    reward, discount = random.normal(size=lead).astype(np.float32), np.ones(lead, np.float32)
    batches = Transition(observation, action, reward, discount, following)
    if not next_action:
        return batches
    return batches._replace(next_action=NextAction(action[::-1].copy(), np.ones(lead, np.float32)))


def compiled(algorithm: str, seeds: int = 1, scan: int = 40, **options: Any) -> Subject:
    """Does `scan` updates of each seed; compiled and run once already."""
    chosen, preprocessor = learner(algorithm, **options)
    batches = transitions(seeds, scan, SHAPES.batch, next_action=getattr(chosen.Params, "NEXT_ACTION", False))
    one = jax.tree.map(lambda leaf: leaf[0, 0], batches)
    program = compile_program(Source(chosen, preprocessor, range(seeds), one, scan, None, None), None, "float32")
    placed, carries = program.put(batches), [program.initial]

    def updates() -> int:
        carries[0] = jax.block_until_ready(program.update(carries[0], placed, 0, scan))  # type: ignore[no-untyped-call]
        return seeds * scan

    updates()
    return updates


@contextmanager
def fitting(algorithm: str, data: Path, **options: Any) -> Iterator[Subject]:
    """`fit` of one seed on the train split of an RLDS directory, fed by default; stands still between two turns of UPDATES updates.

    A turn holds all that a run does: batches, calls of the program, a point of the curves. The first one is done already.
    """
    from rl_datasets.stream import open_stream
    from trainer.data import training_feed

    turn, go, stood, closing = UPDATES[algorithm], Semaphore(0), Semaphore(0), []
    chosen, preprocessor = learner(algorithm, **options)
    stream = open_stream(data, "train", batch_size=SHAPES.batch, readers=2, memory_cap_mb=2048)
    feed, _ = training_feed(stream, SPEC, (0,), SHAPES.batch, "auto")

    def report(progress: Progress) -> None:
        if progress.step % turn == 0:
            stood.release()
            go.acquire()
            if closing:
                raise InterruptedError

    def run() -> None:
        try:
            fit(chosen, preprocessor, feed, Plan((0,), ENDLESS, log_every=turn), hooks=Hooks(report=report))
        finally:
            stood.release()

    def wait() -> int:
        stood.acquire()
        if training.done():
            training.result()
        return turn

    def updates() -> int:
        go.release()
        return wait()

    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(run)
        wait()
        yield updates
        closing.append(True)
        go.release()


def product() -> Subject:
    """The limit: one large product in the learners' precision. Its units are floating-point operations."""
    with jax.default_matmul_precision(PRODUCTS["float32"]):
        matrix = jax.numpy.ones((SIDE, SIDE))
        multiply = jax.jit(lambda a, b: a @ b).lower(matrix, matrix).compile()
    multiply(matrix, matrix).block_until_ready()

    def once() -> int:
        multiply(matrix, matrix).block_until_ready()
        return 2 * SIDE**3

    return once


def flops(algorithm: str, options: dict[str, Any]) -> int | None:
    """Of one update; None where nobody has counted them."""
    if algorithm == "iql":
        return matrix_work.iql(SHAPES, options["order"])
    return {"bc": matrix_work.bc(SHAPES), "cql": matrix_work.cql(SHAPES, n_actions=10)}.get(algorithm)
