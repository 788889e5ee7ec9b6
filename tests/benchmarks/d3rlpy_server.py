"""d3rlpy's learners, which answer line by line so that rounds can be taken in turn with ours. Runs in an environment of its own.

usage: python d3rlpy_server.py <batch> <observation> <action> <hidden sizes ...>

Prints "ready", then answers each line "<what> <algorithm> <threads> <updates>" with the seconds that so many updates took. `fit` is
what its users run: `algo.fit`, an epoch of it, on a replay buffer of arrays, without progress bar, files or evaluation. `update` is
`algo.update` alone, on batches made beforehand.
"""

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator

import d3rlpy
import numpy as np
import torch
from d3rlpy.dataset import MDPDataset, TransitionMiniBatch
from d3rlpy.models.encoders import VectorEncoderFactory

ALGORITHMS = {"iql": d3rlpy.algos.IQLConfig, "cql": d3rlpy.algos.CQLConfig, "bc": d3rlpy.algos.BCConfig}
BATCHES = 8
EPISODES, LENGTH = 100, 1000  # of the replay buffer
ENDLESS = 10**9


def batch(size: int, observation: int, action: int) -> TransitionMiniBatch:
    random = np.random.default_rng(0)
    observations, next_observations = random.normal(size=(2, size, observation)).astype(np.float32)
    actions, next_actions = random.uniform(-0.9, 0.9, (2, size, action)).astype(np.float32)
    rewards, terminals, intervals = random.normal(size=(size, 1)), np.zeros((size, 1)), np.ones((size, 1))
    scalars = [array.astype(np.float32) for array in (rewards, terminals, intervals)]
    return TransitionMiniBatch(observations, actions, scalars[0], next_observations, next_actions, *scalars[1:], transitions=[])


def algorithm(name: str, size: int, observation: int, action: int, hidden: list[int]):
    config = ALGORITHMS[name]
    networks = [field for field in config.__dataclass_fields__ if field.endswith("encoder_factory")]
    algo = config(batch_size=size, **{field: VectorEncoderFactory(hidden) for field in networks}).create(device="cpu:0")
    algo.create_impl((observation,), action)
    return algo


def replay_buffer(observation: int, action: int) -> MDPDataset:
    random, rows = np.random.default_rng(0), EPISODES * LENGTH
    observations, rewards = random.normal(size=(rows, observation)).astype(np.float32), random.normal(size=rows).astype(np.float32)
    actions = random.uniform(-0.9, 0.9, (rows, action)).astype(np.float32)
    ends = (np.arange(rows) % LENGTH == LENGTH - 1).astype(np.float32)
    return MDPDataset(observations, actions, rewards, np.zeros(rows, np.float32), ends)


def updating(algo, batches: Iterator[TransitionMiniBatch]) -> Callable[[int], None]:
    def run(updates: int) -> None:
        for _ in range(updates):
            algo.update(next(batches))

    return run


def fitting(algo, buffer: MDPDataset) -> Callable[[int], None]:
    """`fit` is a list of `fitter`, which yields after each epoch. The first call says how many updates an epoch has."""
    epochs: list[Iterator] = []

    def run(updates: int) -> None:
        if not epochs:
            silent = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory(), "show_progress": False}
            epochs.append(algo.fitter(buffer, ENDLESS * updates, updates, **silent))
        next(epochs[0])

    return run


def main(size: int, observation: int, action: int, *hidden: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    with contextlib.redirect_stdout(sys.stderr):  # the library logs there
        batches = itertools.cycle([batch(size, observation, action) for _ in range(BATCHES)])
        buffer = replay_buffer(observation, action)
        subjects = {}
        for name in ALGORITHMS:
            own, other = (algorithm(name, size, observation, action, list(hidden)) for _ in range(2))
            subjects |= {("update", name): updating(own, batches), ("fit", name): fitting(other, buffer)}
        print("ready", file=answers)
        for line in sys.stdin:
            what, name, threads, updates = line.split()
            torch.set_num_threads(int(threads))
            start = time.perf_counter()
            subjects[what, name](int(updates))
            print(time.perf_counter() - start, file=answers)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
