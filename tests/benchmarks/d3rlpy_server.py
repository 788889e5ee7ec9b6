"""d3rlpy's learners, which answer line by line so that rounds can be taken in turn with ours. Runs in an environment of its own.

usage: python d3rlpy_server.py <batch> <observation> <action> <hidden sizes ...>

Prints "ready", then answers each line "<algorithm> <threads> <updates>" with the seconds that so many updates took. Only
`algo.update` is timed, on batches made beforehand.
"""

import contextlib
import itertools
import os
import sys
import time

import d3rlpy
import numpy as np
import torch
from d3rlpy.dataset import TransitionMiniBatch
from d3rlpy.models.encoders import VectorEncoderFactory

ALGORITHMS = {"iql": d3rlpy.algos.IQLConfig, "cql": d3rlpy.algos.CQLConfig, "bc": d3rlpy.algos.BCConfig}
BATCHES = 8


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


def main(size: int, observation: int, action: int, *hidden: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    with contextlib.redirect_stdout(sys.stderr):  # the library logs there
        batches = itertools.cycle([batch(size, observation, action) for _ in range(BATCHES)])
        algorithms = {name: algorithm(name, size, observation, action, list(hidden)) for name in ALGORITHMS}
        for algo in algorithms.values():
            algo.update(next(batches))
        print("ready", file=answers)
        for line in sys.stdin:
            name, threads, updates = line.split()
            torch.set_num_threads(int(threads))
            start = time.perf_counter()
            for _ in range(int(updates)):
                algorithms[name].update(next(batches))
            print(time.perf_counter() - start, file=answers)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
