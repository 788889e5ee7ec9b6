"""The canonical rlds recipe on what we wrote gives the transitions that our stream gives; so do foreign data in ours."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.rlds import read_episodes, read_spec, read_splits
from rl_datasets.rlds.quiet_tensorflow import tf, tfds
from rl_datasets.rlds_without_reverb import import_rlds
from rl_datasets.schema import ArraySpec
from rl_datasets.stream import open_stream


def streamed(folder: Path) -> Counter[bytes]:
    """One epoch of our stream, each transition as bytes."""
    count = read_splits(folder)["train"].transitions
    batch = next(open_stream(folder, "train", batch_size=count, readers=2, memory_cap_mb=64).batches([0], 1)).transition
    return Counter(b"".join(leaf[0, 0, row].tobytes() for leaf in tree.flatten(batch)) for row in range(count))


def by_recipe(folder: Path) -> Counter[bytes]:
    """Pairs of steps by rlds.transformations.batch. The discount is true for either convention of foreign data."""
    rlds = import_rlds()

    def transitions(episode):
        pairs = rlds.transformations.batch(episode["steps"], size=2, shift=1, drop_remainder=True)
        return pairs.map(
            lambda pair: (
                tf.nest.map_structure(lambda leaf: leaf[0], pair["observation"]),
                pair["action"][0],
                pair["reward"][0],
                pair["discount"][0] * (1 - tf.cast(pair["is_terminal"][1], tf.float32)),
                tf.nest.map_structure(lambda leaf: leaf[1], pair["observation"]),
            )
        )

    data = tfds.builder_from_directory(str(folder)).as_dataset(split="train").flat_map(transitions)
    return Counter(b"".join(np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(one)) for one in data.as_numpy_iterator())


def test_the_recipe_yields_our_transitions(toy, tmp_path):
    folder = toy.write(tmp_path)
    found = by_recipe(folder)
    assert found == streamed(folder)
    assert sum(found.values()) == len(found) == 69


def write_foreign(folder: Path, toy, into_terminal: float) -> Path:
    """The toy data as others write them: TFDS's own writer, no spec, an action on the last step, PNG images, extra features."""
    features = tfds.features.FeaturesDict(
        {
            "steps": tfds.features.Dataset(
                {
                    "observation": {"camera": tfds.features.Image(shape=(4, 5, 3)), "x": np.float64},
                    "action": tfds.features.Tensor(shape=(2,), dtype=np.float32),
                    "reward": np.float64,
                    "discount": np.float32,
                    "is_terminal": np.bool_,
                    "instruction": tfds.features.Text(),
                }
            ),
            "episode_metadata": {"file_path": tfds.features.Text(), "agent": np.int32},
        }
    )
    identity = tfds.core.DatasetIdentity(name="foreign", version=tfds.core.Version("0.1.0"), data_dir=str(folder), module_name="")
    writer = tfds.core.SequentialWriter(tfds.core.DatasetInfo(builder=identity, features=features), max_examples_per_shard=5)
    writer.initialize_splits(["train"])
    for episode in toy.episodes:
        rows = range(episode.length + 1)
        steps = [
            {
                "observation": {"camera": episode.observation["camera"][t], "x": float(episode.observation["pose"][0][t, 0])},
                "action": np.full(2, 0.25, np.float32) if t == episode.length else episode.action[t],
                "reward": float(episode.reward[t]),
                "discount": into_terminal if episode.is_terminal and t == episode.length - 1 else 1.0,
                "is_terminal": episode.is_terminal and t == episode.length,
                "instruction": "go",
            }
            for t in rows
        ]
        metadata = {"file_path": episode.episode_id, "agent": 7}
        writer.add_examples({"train": [{"steps": steps, "episode_metadata": metadata}]})
    writer.close_all()
    return folder


@pytest.mark.parametrize("into_terminal", [0.0, 1.0])
def test_foreign_data_of_either_convention(nested, tmp_path, into_terminal):
    folder = tmp_path / "foreign" / "0.1.0"
    folder.mkdir(parents=True)
    write_foreign(folder, nested, into_terminal)
    spec = read_spec(folder)
    assert spec.observation == {"camera": ArraySpec((4, 5, 3), "uint8"), "x": ArraySpec((), "float32")}
    assert (spec.action, spec.env_id) == (ArraySpec((2,), "float32"), "foreign")
    assert read_splits(folder) == {"train": (12, 69)}
    for number, (found, expected) in enumerate(zip(read_episodes(folder, "train"), nested.episodes, strict=True)):
        np.testing.assert_array_equal(found.observation["camera"], expected.observation["camera"])
        np.testing.assert_array_equal(found.observation["x"], expected.observation["pose"][0][:, 0])
        for name in ("action", "reward", "discount"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), strict=True)
        assert (found.episode_id, found.is_terminal) == (f"train-{number:08d}", expected.is_terminal)
        known = {"episode_metadata/file_path": expected.episode_id, "episode_metadata/agent": 7}
        assert found.metadata == {"seed": -1, "policy": "unknown", "environment": "foreign", **known}
    assert sum(streamed(folder).values()) == 69


def write_empty(folder: Path, steps) -> Path:
    identity = tfds.core.DatasetIdentity(name="foreign", version=tfds.core.Version("0.1.0"), data_dir=str(folder), module_name="")
    info = tfds.core.DatasetInfo(builder=identity, features=tfds.features.FeaturesDict(steps))
    info.set_file_format("tfrecord")
    info.write_to_directory(folder)
    return folder


STEP = {"observation": np.float32, "action": np.float32, "reward": np.float32}
UNREADABLE = {
    "'steps', a sequence, is expected": {"image": np.float32},
    "but 'reward' is expected": {"steps": tfds.features.Dataset({"observation": np.float32, "action": np.float32})},
    "RLDS steps need 'action'": {"steps": tfds.features.Dataset({"observation": np.float32, "reward": np.float32})},
    "action is a nest of": {"steps": tfds.features.Dataset({**STEP, "action": {"arm": np.float32}})},
    "observation is Text": {"steps": tfds.features.Dataset({**STEP, "observation": tfds.features.Text()})},
    "observation is Image": {"steps": tfds.features.Dataset({**STEP, "observation": tfds.features.Image(shape=(None, None, 3))})},
}


@pytest.mark.parametrize("message", UNREADABLE)
def test_data_that_are_no_episodes_of_arrays(message, tmp_path):
    with pytest.raises(HindcastError, match=message):
        read_spec(write_empty(tmp_path, UNREADABLE[message]))


def test_the_stand_in_for_reverb_raises_when_it_is_used():
    rlds = import_rlds()
    episodes = tf.data.Dataset.range(1).map(lambda _: {"steps": tf.data.Dataset.range(3)})
    with pytest.raises(ImportError, match="reverb is not installed"):
        rlds.transformations.pattern_map(episodes, [])
