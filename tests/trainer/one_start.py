"""A short training run in a process of its own, for tests of whether it ends.

usage: python one_start.py <algorithm> <hidden> <seeds> <scan> <batch>

Compiled loops over large inputs were once seen to hang for ever (trainer/program.py), so this is as in training: inline dispatch,
superbatches of up to tens of megabytes, and a thread that places the next one.
"""

import itertools
import sys
from typing import Any, NamedTuple

import jax
import numpy as np

from rl_datasets.schema import ArraySpec, EnvSpec, NextAction, Transition
from trainer.learner import load_learner
from trainer.loop import Plan, fit
from trainer.preprocessing import make_preprocessor

SPEC = EnvSpec("Large-v0", ArraySpec((17,), "float32"), ArraySpec((6,), "float32", -1, 1))


class Superbatch(NamedTuple):
    transition: Transition
    index: np.ndarray


def superbatch(*lead: int, with_next_action: bool) -> Superbatch:
    observation = np.random.default_rng(0).normal(size=(*lead, 17)).astype(np.float32)
    action, discount, following = np.tanh(observation[..., :6]), np.ones(lead, np.float32), observation[..., ::-1].copy()
    next_action = NextAction(np.tanh(following[..., :6]), discount.copy()) if with_next_action else ()
    batches = Transition(observation, action, observation[..., 0].copy(), discount, following, next_action)
    return Superbatch(batches, np.zeros(lead, np.int64))


def main(algorithm: str, hidden: int, seeds: int, scan: int, batch: int) -> None:
    assert not jax.config.values["jax_cpu_enable_async_dispatch"]
    module: Any = load_learner(algorithm)
    params, updates = module.Params(hidden_sizes=(hidden, hidden), normalize_observations="none"), 2 * scan
    learner, preprocessor = module.Learner(params, SPEC, updates), make_preprocessor(params, SPEC, {})
    batches = superbatch(seeds, scan, batch, with_next_action=module.Params.NEXT_ACTION)
    fitted = fit(learner, preprocessor, lambda start: itertools.repeat(batches), Plan(tuple(range(seeds)), updates, scan))
    assert len(fitted.policies) == seeds
    print("ended")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
