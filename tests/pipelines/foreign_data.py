"""RLDS directories as TFDS's own writers leave them, in the forms that public data have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.rlds.quiet_tensorflow import tfds


def write(folder: Path, features: Any, splits: Mapping[str, list[Any]], shard_length: int = 3) -> Path:
    folder.mkdir(parents=True)
    version = tfds.core.Version(folder.name)
    identity = tfds.core.DatasetIdentity(name=folder.parent.name, version=version, data_dir=str(folder), module_name="")
    writer = tfds.core.SequentialWriter(tfds.core.DatasetInfo(builder=identity, features=features), max_examples_per_shard=shard_length)
    writer.initialize_splits(list(splits))
    for split, examples in splits.items():
        writer.add_examples({split: examples})
    writer.close_all()
    return folder


def flat(folder: Path, episodes: int = 7, **changed: Any) -> Path:
    """Vectors, all of the seven arrays of a step, and a discount of 1 into terminal states, as D4RL's data have it."""
    steps: dict[str, Any] = {
        "observation": tfds.features.Tensor(shape=(3,), dtype=np.float32),
        "action": tfds.features.Tensor(shape=(2,), dtype=np.float32),
        "reward": np.float32,
        "discount": np.float32,
        "is_first": np.bool_,
        "is_last": np.bool_,
        "is_terminal": np.bool_,
    }
    features = tfds.features.FeaturesDict(
        {"steps": tfds.features.Dataset({k: v for k, v in {**steps, **changed}.items() if v is not None})}
    )
    return write(
        folder / "flat" / "1.0.0", features, {"train": [{"steps": list(flat_steps(number, changed))} for number in range(episodes)]}
    )


def flat_steps(number: int, changed: Mapping[str, Any]) -> Any:
    rng, last = np.random.default_rng(number), 9 + number
    for t in range(last + 1):
        step = {
            "observation": rng.normal(size=3).astype(np.float32),
            "action": rng.uniform(-1, 1, 2).astype(np.float32),
            "reward": float(rng.normal()),
            "discount": 1.0,
            "is_first": t == 0,
            "is_last": t == last,
            "is_terminal": t == last and number % 2 == 0,
        }
        yield {key: value for key, value in step.items() if changed.get(key, key) is not None}


def robot(folder: Path, crossing: int = 0) -> Path:
    """As robots' data have it: texts among observations, an action of parts, PNG images, metadata, two splits, no discount.

    `crossing` episodes of the test split are those of the training split.
    """
    steps = {
        "observation": {
            "image": tfds.features.Image(shape=(8, 10, 3), encoding_format="png"),
            "state": tfds.features.Tensor(shape=(4,), dtype=np.float64),
            "instruction": tfds.features.Text(),
        },
        "action": {"gripper": np.float32, "world": tfds.features.Tensor(shape=(3,), dtype=np.float32), "said": tfds.features.Text()},
        "reward": np.float32,
        "is_first": np.bool_,
        "is_last": np.bool_,
        "is_terminal": np.bool_,
        "embedding": tfds.features.Tensor(shape=(5,), dtype=np.float32),
    }
    metadata = {"file_path": tfds.features.Text(), "episode_id": np.int32}
    features = tfds.features.FeaturesDict({"steps": tfds.features.Dataset(steps), "episode_metadata": metadata})
    train = [robot_episode(number) for number in range(5)]
    test = train[:crossing] + [robot_episode(number) for number in range(50, 53 - crossing)]
    return write(folder / "robot" / "0.1.0", features, {"train": train, "test": test})


def robot_episode(number: int) -> Any:
    rng, last = np.random.default_rng(number), 12
    steps = [
        {
            "observation": {
                "image": rng.integers(0, 255, (8, 10, 3)).astype(np.uint8),
                "state": rng.normal(size=4),
                "instruction": "pick it up",
            },
            "action": {"gripper": float(t % 2), "world": rng.normal(size=3).astype(np.float32), "said": "yes"},
            "reward": float(t == last - 1),
            "is_first": t == 0,
            "is_last": t == last,
            "is_terminal": t == last,
            "embedding": np.zeros(5, np.float32),
        }
        for t in range(last + 1)
    ]
    return {"steps": steps, "episode_metadata": {"file_path": f"/logs/{number}.h5", "episode_id": number}}


def grid(folder: Path) -> Path:
    """One integer as observation, one as action, and no flag at all."""
    steps = {"observation": np.int32, "action": np.int64, "reward": np.float64}
    features = tfds.features.FeaturesDict({"steps": tfds.features.Dataset(steps)})

    def episode(number: int) -> Any:
        rng = np.random.default_rng(number)
        return {"steps": [{"observation": int(rng.integers(16)), "action": int(rng.integers(4)), "reward": 0.5} for _ in range(9)]}

    return write(folder / "grid" / "2.0.0", features, {"train": [episode(number) for number in range(6)]})


def pictures(folder: Path) -> Path:
    """No RLDS: pictures with labels."""
    features = tfds.features.FeaturesDict({"image": tfds.features.Image(shape=(4, 4, 1)), "label": tfds.features.ClassLabel(num_classes=3)})
    return write(folder / "pictures" / "1.0.0", features, {"train": [{"image": np.zeros((4, 4, 1), np.uint8), "label": 1}]})
