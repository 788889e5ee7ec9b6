"""Our writer and reader: the identity, the bytes, and what TFDS makes of them."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tree

from rl_datasets.digest import DatasetDigest
from rl_datasets.rlds import read_episodes, read_spec, read_splits, write_rlds
from rl_datasets.rlds.features import dataset_features, encode_episode
from rl_datasets.rlds.quiet_tensorflow import tfds

ROOT = Path(__file__).parents[2]
SHARD = "toy-train.tfrecord-00000-of-00001"


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def assert_same(found, expected):
    assert (found.episode_id, found.is_terminal, found.metadata) == (expected.episode_id, expected.is_terminal, expected.metadata)
    tree.assert_same_structure(found.observation, expected.observation)
    fields = [(e.observation, e.action, e.reward, e.discount) for e in (found, expected)]
    for one, other in zip(tree.flatten(fields[0]), tree.flatten(fields[1]), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    assert found.step_metadata.keys() == expected.step_metadata.keys()
    for name, array in expected.step_metadata.items():
        np.testing.assert_array_equal(found.step_metadata[name], array, strict=True)


def test_what_is_read_is_what_was_written(toy, tmp_path):
    folder = toy.write(tmp_path)
    for found, expected in zip(read_episodes(folder, "train"), toy.episodes, strict=True):
        assert_same(found, expected)
    assert read_spec(folder) == toy.spec
    assert read_splits(folder) == {"train": (12, 69)}


def test_written_counts_and_digests(vector, tmp_path):
    splits = {"train": vector.episodes[:8], "test": iter(vector.episodes[8:])}
    written = write_rlds(tmp_path, "toy", "1.0.0", vector.spec, splits)
    assert written.episodes == {"train": 8, "test": 4}
    assert written.transitions == {"train": 42, "test": 27}
    digest = DatasetDigest()
    for episode in read_episodes(tmp_path, "test"):
        digest.add(episode)
    assert written.digests["test"] == digest.hexdigest()
    swapped = write_rlds(tmp_path / "other", "toy", "1.0.0", vector.spec, {"train": vector.episodes[8:], "test": vector.episodes[:8]})
    assert swapped.digest != written.digest


def test_shards_and_order_do_not_change_the_digest(toy, tmp_path):
    plain = write_rlds(tmp_path / "a", "toy", "1.0.0", toy.spec, {"train": toy.episodes})
    other = write_rlds(tmp_path / "b", "toy", "1.0.0", toy.spec, {"train": toy.episodes[::-1]}, shards=3)
    assert plain == other


@pytest.mark.parametrize(("shards", "count"), [(None, 8), (1, 1), (5, 5), (100, 12)])
def test_number_of_shards(vector, tmp_path, shards, count):
    names = sorted(path.name for path in vector.write(tmp_path, shards=shards).glob("*tfrecord*"))
    assert names == [f"toy-train.tfrecord-{i:05d}-of-{count:05d}" for i in range(count)]


def test_every_example_is_what_tfds_would_serialise(toy):
    features = dataset_features(toy.spec, {"seed": int, "policy": str, "environment": str, "score": float})
    serializer = tfds.core.example_serializer.ExampleSerializer(features.get_serialized_info())
    for episode in toy.episodes:
        flags = np.zeros((3, episode.length + 1), bool)
        flags[0, 0] = flags[1, -1] = True
        flags[2, -1] = episode.is_terminal
        observation = episode.observation
        if "pose" in str(toy.spec.observation):
            observation = {"camera": observation["camera"], "pose": {"0": observation["pose"][0], "1": observation["pose"][1]}}
        steps = {"observation": observation, "action": episode.action, "reward": episode.reward, "discount": episode.discount}
        steps.update(zip(("is_first", "is_last", "is_terminal"), flags, strict=True))
        if toy.spec.step_metadata:
            kept = episode.step_metadata
            steps["metadata"] = {"time": kept["time"], "infos": {"note": list(kept["infos/note"]), "pair": kept["infos/pair"]}}
        encoded = features.encode_example({"steps": steps, "episode_id": episode.episode_id, **episode.metadata})
        assert encode_episode(episode, episode.metadata) == serializer.get_tf_example(encoded).SerializeToString(deterministic=True)


READ_WITHOUT_US = """
import sys, json
import tensorflow_datasets as tfds
path, data_dir = sys.argv[1:]
assert not any("rl_datasets" in name for name in sys.modules)
builder = tfds.builder_from_directory(path)
found = {}
for episode in builder.as_dataset(split="train"):
    steps = next(iter(episode["steps"].batch(100)))
    found[episode["episode_id"].numpy().decode()] = {
        "token": steps["observation"]["pose"]["1"].numpy().tolist(),
        "camera": steps["observation"]["camera"][:, 3, 4, 2].numpy().tolist(),
        "action": steps["action"].numpy().tolist(),
        "last": steps["is_last"].numpy().tolist(),
        "terminal": steps["is_terminal"].numpy().tolist(),
        "score": float(episode["score"]),
        "policy": episode["policy"].numpy().decode(),
        "time": steps["metadata"]["time"].numpy().tolist(),
        "note": [note.decode() for note in steps["metadata"]["infos"]["note"].numpy()],
        "pair": steps["metadata"]["infos"]["pair"].numpy().tolist(),
    }
print(json.dumps(found))
loaded = tfds.load("toy", data_dir=data_dir, split="train")
print(json.dumps([episode["episode_id"].numpy().decode() for episode in loaded]))
print(json.dumps(dict(builder.info.metadata.items())))
"""


@pytest.mark.slow
def test_tfds_reads_it_with_no_code_of_ours(nested, tmp_path):
    folder = nested.write(tmp_path)
    command = [sys.executable, "-I", "-c", READ_WITHOUT_US, str(folder), str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment, check=False)
    assert result.returncode == 0, result.stderr
    first, loaded, metadata = map(json.loads, result.stdout.splitlines())
    assert sorted(first) == sorted(loaded) == [episode.episode_id for episode in nested.episodes]
    for episode in nested.episodes:
        assert first[episode.episode_id] == {
            "token": episode.observation["pose"][1].tolist(),
            "camera": episode.observation["camera"][:, 3, 4, 2].tolist(),
            "action": episode.action.tolist(),
            "last": [False] * episode.length + [True],
            "terminal": [False] * episode.length + [episode.is_terminal],
            "score": episode.metadata["score"],
            "policy": "random",
            "time": episode.step_metadata["time"].tolist(),
            "note": episode.step_metadata["infos/note"].tolist(),
            "pair": episode.step_metadata["infos/pair"].tolist(),
        }
    assert metadata["environment"] == "Nested-v0"


WRITE_ELSEWHERE = """
import json, resource, signal, sys
from pathlib import Path
import numpy as np
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from conftest import nested_toy, vector_toy
from rl_datasets.errors import HindcastError
from rl_datasets.files import replacing
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
folder = Path(sys.argv[3])
nested_toy().write(folder)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))
big = np.ones((4000, 8), np.float32)
spec = EnvSpec("e", ArraySpec((8,), "float32"), ArraySpec((8,), "float32"))
metadata = {"seed": 0, "policy": "p", "environment": "e"}
episodes = [Episode(str(i), big, big, big[:, 0], big[:, 0], False, metadata) for i in range(9)]
target = folder / "full" / "1.0.0"
try:
    with replacing(target) as part:
        write_rlds(part, "full", "1.0.0", spec, {"train": episodes})
except HindcastError as error:
    print(json.dumps([str(error), [path.name for path in target.parent.iterdir()]]))
"""


@pytest.mark.slow
def test_another_process_writes_the_same_bytes_and_a_full_disk_leaves_nothing(nested, tmp_path):
    arguments = [str(ROOT / "datasets"), str(Path(__file__).parent), str(tmp_path / "there")]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "LANG": "C"}
    command = [sys.executable, "-c", WRITE_ELSEWHERE, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stderr
    here = contents(nested.write(tmp_path / "here"))
    assert contents(tmp_path / "there" / "toy" / "1.0.0") == here
    assert {"dataset_info.json", "features.json", "metadata.json"} < set(here)
    assert str(tmp_path).encode() not in b"".join(here.values())
    message, left = json.loads(result.stdout)
    assert "Could not write" in message
    assert "free space" in message
    assert left == []


def test_data_without_step_metadata_have_the_bytes_that_they_always_had(vector, tmp_path):
    written = write_rlds(tmp_path, "toy", "1.0.0", vector.spec, {"train": vector.episodes}, shards=1)
    assert written.digest == "830cc7bef990f62eeb5259454350fcc8a62a203f82568da75da62812fdbd208e"
    files = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()[:16] for name in ("metadata.json", SHARD)}
    assert files == {"metadata.json": "e9644c8d582fa3cb", SHARD: "ea4e897e3dcf00d9"}


def test_metadata_says_what_the_data_are(vector, tmp_path):
    write_rlds(tmp_path, "toy", "1.0.0", vector.spec, {"train": vector.episodes}, shards=2, versions={"gymnasium": "1.4.0"})
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["versions"] == {"gymnasium": "1.4.0"}
    assert metadata["reference_returns"] == {"random": 22.0, "expert": 500.0, "source": "a table"}
    assert metadata["steps_per_shard"] == {"train": [37, 44]}
