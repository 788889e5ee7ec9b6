"""Toy data sets whose every value tells where it belongs: 203.0 is step 3 of episode 2."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, ReferenceReturns

hypothesis.settings.register_profile("hindcast", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("hindcast")

LENGTHS = (5, 1, 8, 3, 12, 2, 7, 4, 9, 6, 10, 2)  # transitions of each episode


@dataclass(frozen=True)
class Toy:
    spec: EnvSpec
    episodes: list[Episode]

    def write(self, folder: Path, split: str = "train", shards: int | None = None) -> Path:
        write_rlds(folder / "toy" / "1.0.0", "toy", "1.0.0", self.spec, {split: self.episodes}, shards)
        return folder / "toy" / "1.0.0"


def vector_toy() -> Toy:
    """Shaped as CartPole."""
    references = ReferenceReturns(random=22.0, expert=500.0, source="a table")
    spec = EnvSpec("CartPole-v1", ArraySpec((4,), "float32", -4.8, 4.8), ArraySpec((), "int64", 0, 1, 2), reference_returns=references)
    offsets = np.arange(4, dtype=np.float32) / 8
    return Toy(spec, [_episode(i, lambda at: at[:, None] + offsets, lambda at: (at % 2).astype(np.int64)) for i in range(len(LENGTHS))])


def nested_toy() -> Toy:
    """An image, and a tuple of a vector and a token; beside each step a time, a text and a pair of bytes."""
    token = ArraySpec((), "int64", 0, 2**40, 2**40 + 1)
    pose = (ArraySpec((2,), "float32", (-1.0, -np.inf), (1.0, np.inf)), token)
    observation = {"camera": ArraySpec((4, 5, 3), "uint8", 0, 255), "pose": pose}
    kept = {"time": ArraySpec((), "float64"), "infos/note": ArraySpec((), "text"), "infos/pair": ArraySpec((2,), "uint8", 0, 255)}
    spec = EnvSpec("Nested-v0", observation, ArraySpec((2,), "float32", -1, 1), {"size": 3}, (0.0, 1.0), 12, step_metadata=kept)

    def observe(at: np.ndarray) -> dict[str, object]:
        camera = (at.astype(np.int64)[:, None, None, None] + np.arange(60).reshape(4, 5, 3)) % 256
        return {"camera": camera.astype(np.uint8), "pose": (np.stack([at, -at], axis=1), at.astype(np.int64) << 30)}

    def annotate(at: np.ndarray) -> dict[str, np.ndarray]:
        notes = np.array([f"Schritt {step:g}: naß" if step % 2 else "" for step in at], object)
        return {"time": 1.7e9 + at / 3, "infos/note": notes, "infos/pair": np.stack([at, at + 1], axis=1).astype(np.uint8)}

    episodes = [_episode(i, observe, lambda at: np.stack([at, at + 1], axis=1) / 2048) for i in range(len(LENGTHS))]
    return Toy(spec, [replace(e, step_metadata=annotate(np.arange(e.length + 1) + 100.0 * i)) for i, e in enumerate(episodes)])


def _episode(index: int, observe: Callable[[np.ndarray], object], act: Callable[[np.ndarray], np.ndarray]) -> Episode:
    at = np.arange(LENGTHS[index] + 1, dtype=np.float32) + 100 * index
    is_terminal = index % 3 > 0
    action, reward, discount = act(at), at / 2, np.ones_like(at)
    action[-1], reward[-1], discount[-1] = 0, 0, 0
    if is_terminal:
        discount[-2] = 0
    metadata = {"seed": index, "policy": "random", "environment": "e", "score": index / 3}
    return Episode(f"episode-{index:02d}", observe(at), action, reward, discount, is_terminal, metadata)


TOYS = {"vector": vector_toy, "nested": nested_toy}


@pytest.fixture(params=sorted(TOYS))
def toy(request: pytest.FixtureRequest) -> Toy:
    """Each of the toy data sets in turn."""
    return TOYS[request.param]()


@pytest.fixture
def vector() -> Toy:
    return vector_toy()


@pytest.fixture
def nested() -> Toy:
    return nested_toy()
