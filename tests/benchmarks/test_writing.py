"""Writing episodes, read back and verified, against TFDS's SequentialWriter: at least 50 times as many steps a second."""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_datasets.rlds import write_rlds
from rl_datasets.rlds.features import dataset_features
from rl_datasets.rlds.quiet_tensorflow import tfds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

SPEC = EnvSpec("HalfCheetah-v5", ArraySpec((17,), "float32"), ArraySpec((6,), "float32"))
METADATA = {"seed": int, "policy": str, "environment": str}
TFDS_EPISODES = 4  # it is slow


def episodes(count: int) -> list[Episode]:
    """Lengths from 200 to 1000 steps, float32 observations of 17 and actions of 6."""
    random = np.random.default_rng(0)

    def one(index: int) -> Episode:
        length = int(random.integers(200, 1001))
        observation, action = (random.normal(size=(length + 1, size)).astype(np.float32) for size in (17, 6))
        reward, discount = random.normal(size=length + 1).astype(np.float32), np.ones(length + 1, np.float32)
        action[-1], reward[-1], discount[-1] = 0, 0, 0
        metadata = {"seed": index, "policy": "random", "environment": SPEC.env_id}
        return Episode(f"{index:06d}", observation, action, reward, discount, False, metadata)

    return [one(index) for index in range(count)]


def as_tfds_example(episode: Episode) -> dict[str, Any]:
    flags = np.zeros((3, episode.length + 1), bool)
    flags[0, 0] = flags[1, -1] = True
    steps = {"observation": episode.observation, "action": episode.action, "reward": episode.reward, "discount": episode.discount}
    flag_columns = dict(zip(("is_first", "is_last", "is_terminal"), flags, strict=True))
    return {"steps": {**steps, **flag_columns}, "episode_id": episode.episode_id, **episode.metadata}


def write_with_tfds(folder: Path, data: list[Episode]) -> None:
    identity = tfds.core.DatasetIdentity(name="cheetah", version=tfds.core.Version("1.0.0"), data_dir=str(folder), module_name="")
    info = tfds.core.DatasetInfo(builder=identity, features=dataset_features(SPEC, METADATA))
    writer = tfds.core.SequentialWriter(info, max_examples_per_shard=1000)
    writer.initialize_splits(["train"])
    writer.add_examples({"train": [as_tfds_example(episode) for episode in data]})
    writer.close_all()


@pytest.mark.benchmark
def test_writing_is_50_times_as_fast_as_tfds(tmp_path: Path, compare: Callable[..., dict[str, float]]) -> None:
    data = episodes(300)
    folders = (tmp_path / f"{number}" / "cheetah" / "1.0.0" for number in itertools.count())

    def ours() -> int:
        written = write_rlds(next(folders), "cheetah", "1.0.0", SPEC, {"train": data})
        return sum(written.transitions.values()) + len(data)

    def theirs() -> int:
        folder = next(folders)
        folder.mkdir(parents=True)
        write_with_tfds(folder, data[:TFDS_EPISODES])
        return sum(episode.length + 1 for episode in data[:TFDS_EPISODES])

    ratios = compare("Writing RLDS", "steps", {"write_rlds, read back and verified": ours, "tfds.core.SequentialWriter": theirs})
    assert ratios["write_rlds, read back and verified"] >= 50


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q"]))
