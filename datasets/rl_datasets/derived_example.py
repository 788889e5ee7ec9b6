"""A small data set on disk, as a collect stage leaves one: the parent in the examples of builders that are made of others."""

from pathlib import Path

import numpy as np

from rl_datasets.builder import RAW_SPLIT
from rl_datasets.manifest import Manifest, write_manifest
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

LENGTHS = (4, 1, 6, 3, 2, 5)


def write_parent(folder: Path, name: str) -> Path:
    """Writes six episodes whose rewards are their number, under two policies, and returns artifacts/raw/<name>'s like."""
    from rl_datasets.rlds import write_rlds

    spec = EnvSpec("Parent-v0", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0.0, 1.0, 2), max_episode_steps=6)
    path = folder / name / "1.0.0"
    episodes = [_episode(name, number, length) for number, length in enumerate(LENGTHS)]
    written = write_rlds(path, name, "1.0.0", spec, {RAW_SPLIT: episodes})
    counts = {"episodes": len(episodes), "transitions": sum(LENGTHS)}
    write_manifest(path, Manifest(job=f"collect@{name}", digest=written.digest, parameters={}, counts=counts))
    return folder / name


def _episode(name: str, number: int, length: int) -> Episode:
    steps = np.arange(length + 1, dtype=np.float32)
    action, reward, discount = (steps % 2).astype(np.int64), np.full(length + 1, number, np.float32), np.ones(length + 1, np.float32)
    is_terminal = number % 3 == 0
    action[-1], reward[-1], discount[-1], discount[-2] = 0, 0, 0, 0 if is_terminal else 1
    place = sum(name.encode())  # so that episodes of two parents differ
    observation = np.stack([steps + 100 * number, np.full(length + 1, place, np.float32)], axis=1)
    metadata = {"seed": number, "policy": "careful" if number % 2 else "bold", "environment": "Parent-v0", "site": number // 2}
    return Episode(f"{name}-{number}", observation, action, reward, discount, is_terminal, metadata)
