"""A whole run in a process of its own, for test_checkpoint.py to kill: python interrupted_run.py <folder>.

Writes <folder>/model when it is done. Says "start <step>" once it trains, and "saving" before and "saved" after each checkpoint.
"""

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from rl_datasets.files import replacing
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from trainer.bundle import Dataset, make_bundle
from trainer.checkpoint import CheckpointFolder
from trainer.curves import write_csv, write_tensorboard
from trainer.learner import load_learner
from trainer.loop import Plan, Snapshot, fit
from trainer.preprocessing import make_preprocessor

SPEC = EnvSpec("Line-v0", ArraySpec((2,), "float32"), ArraySpec((1,), "float32", -1, 1))
PLAN, SCAN, B = Plan((0, 4), 250, 40), 10, 16


class Superbatch(NamedTuple):
    transition: Transition
    index: np.ndarray


class Told(CheckpointFolder):
    """A folder of checkpoints that is always due, and says what it does."""

    def due(self) -> bool:
        return True

    def restore(self) -> Snapshot | None:
        snapshot = super().restore()
        print(f"start {snapshot.step if snapshot else 0}", flush=True)
        return snapshot

    def save(self, snapshot: Snapshot) -> None:
        print("saving", flush=True)
        super().save(snapshot)
        print("saved", flush=True)


def drawn(base: int, *leading: int) -> Transition:
    rng = np.random.default_rng(base)
    values = rng.normal(size=(*leading, 6)).astype(np.float32)
    return Transition(values[..., :2], np.tanh(values[..., 2:3]), values[..., 3], np.ones(leading, np.float32), values[..., 4:])


def feed(start: int) -> Iterator[Superbatch]:
    for base in itertools.count(start, SCAN):
        single = [drawn(base + k, len(PLAN.seeds), B) for k in range(SCAN)]
        transition = jax.tree.map(lambda *leaves: np.stack(leaves, axis=1), *single)
        time.sleep(0.005)
        yield Superbatch(transition, np.zeros((len(PLAN.seeds), SCAN, B), np.int64))


def main(folder: Path) -> None:
    module: Any = load_learner("bc")
    params = module.Params(hidden_sizes=(16,), normalize_observations="none")
    preprocessor = make_preprocessor(params, SPEC, {})
    learner = module.Learner(params, SPEC, PLAN.updates)
    checkpoints = Told(folder / "checkpoints", "fingerprint of this run")
    fitted = fit(learner, preprocessor, feed, PLAN, validation=drawn(10**6, 2, B), checkpoints=checkpoints)
    with replacing(folder / "model") as part:
        for seed, policy in zip(PLAN.seeds, fitted.policies, strict=True):
            rest = {"spec": SPEC, "algorithm": "bc", "params": params, "updates": PLAN.updates, "preprocessor": preprocessor}
            make_bundle(seed=seed, policy=policy, dataset=Dataset("line", "1.0.0", "d"), **rest).save(part / f"seed_{seed}")
        write_csv(part / "curves.csv", fitted.rows, PLAN.seeds)
        write_tensorboard(part / "tensorboard", fitted.rows, PLAN.seeds)
    checkpoints.remove()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
