"""Collection, files written, read back and verified, against a bare Gymnasium loop that keeps nothing."""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rl_datasets.builder import Context
from rl_datasets.builders.gymnasium import Builder, Options
from rl_datasets.rlds import write_rlds

LEAST = {1: 0.8, 2: 1.5}  # times the bare loop's steps a second, by the number of workers


@pytest.mark.benchmark
@pytest.mark.parametrize(("env_id", "steps"), [("CartPole-v1", 1_500_000), ("Pendulum-v1", 300_000)])
def test_collection_keeps_up_with_a_bare_loop(env_id: str, steps: int, tmp_path: Path, compare: Callable[..., dict[str, float]]) -> None:
    """Enough steps that starting processes is a small part. CartPole's random episodes have 22 steps, Pendulum's 200."""
    folders = (tmp_path / f"{number}" / "benchmark" / "1.0.0" for number in itertools.count())

    def bare() -> int:
        env: gym.Env[Any, Any] = gym.make(env_id)
        env.reset()
        for _ in range(steps // 4):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        return steps // 4

    def ours(workers: int) -> int:
        builder = Builder(Options.model_validate({"env_id": env_id, "steps": steps, "policy": {"kind": "random"}}), Context("b", workers))
        return sum(write_rlds(next(folders), "benchmark", "1.0.0", builder.spec(), {"raw": builder.episodes(0)}).transitions.values())

    names = {workers: f"collect and write, {workers} worker{'s' * (workers > 1)}" for workers in LEAST}
    subjects = {name: lambda workers=workers: ours(workers) for workers, name in names.items()}
    ratios = compare(f"Collecting {env_id}", "steps", {**subjects, "gymnasium.make, reset, sample, step": bare}, rounds=3)
    for workers, least in LEAST.items():
        assert ratios[names[workers]] >= least


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q"]))
