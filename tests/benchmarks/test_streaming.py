"""Shuffled batches of 256 transitions against the canonical rlds recipe: at least 80 times as many a second."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_datasets.rlds import write_rlds
from rl_datasets.rlds.quiet_tensorflow import tf, tfds
from rl_datasets.rlds_without_reverb import import_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.stream import open_stream

BATCH = 256
SPEC = EnvSpec("HalfCheetah-v5", ArraySpec((17,), "float32"), ArraySpec((6,), "float32"))


def episode(index: int) -> Episode:
    random = np.random.default_rng(index)
    observation, action = (random.normal(size=(1001, size)).astype(np.float32) for size in (17, 6))
    reward, discount = np.ones((2, 1001), np.float32)
    return Episode(f"{index:06d}", observation, action, reward, discount, False, {"seed": index, "policy": "p", "environment": "e"})


def canonical_batches(folder: Path) -> Any:
    """The recipe of the rlds documentation: pairs of steps within an episode, mapped to transitions, shuffled, batched."""
    rlds = import_rlds()

    def transitions(steps: Any) -> Any:
        pairs = rlds.transformations.batch(steps, size=2, shift=1, drop_remainder=True)
        return pairs.map(
            lambda pair: {
                "observation": pair["observation"][0],
                "action": pair["action"][0],
                "reward": pair["reward"][0],
                "discount": pair["discount"][0],
                "next_observation": pair["observation"][1],
            }
        )

    data = tfds.builder_from_directory(str(folder)).as_dataset(split="train").repeat()
    flat = data.flat_map(lambda one: transitions(one["steps"]))
    return flat.shuffle(20_000, seed=0).batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


@pytest.mark.benchmark
def test_streaming_is_80_times_as_fast_as_the_recipe(tmp_path: Path, compare: Callable[..., dict[str, float]]) -> None:
    folder = tmp_path / "cheetah" / "1.0.0"
    write_rlds(folder, "cheetah", "1.0.0", SPEC, {"train": map(episode, range(200))})
    scan = 32
    stream = open_stream(folder, "train", batch_size=BATCH, readers=2, memory_cap_mb=2048).batches([0], scan)
    recipe = canonical_batches(folder)

    def ours() -> int:
        return BATCH * scan * sum(next(stream).index.shape == (1, scan, BATCH) for _ in range(60))

    def theirs() -> int:
        return BATCH * sum(next(recipe)["reward"].shape == (BATCH,) for _ in range(60))

    next(stream), next(recipe)  # the recipe fills its shuffle buffer, the stream its memory
    ratios = compare("Streaming shuffled batches of 256", "transitions", {"open_stream": ours, "canonical rlds recipe": theirs})
    assert ratios["open_stream"] >= 80


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q"]))
