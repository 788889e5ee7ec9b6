"""Sources that give whole episodes: RLDS directories and TFDS classes, Minari's files, Python functions."""

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from PIL import Image

from rl_datasets.builder import Context, load_builder
from rl_datasets.builders.rlds import prepared
from rl_datasets.digest import episode_digest
from rl_datasets.errors import HindcastError
from rl_datasets.importing import episodic
from rl_datasets.importing.parts import Scratch
from rl_datasets.schema import ArraySpec, Episode, validate_episode


def imported(kind: str, **options: Any) -> tuple[list[Episode], Any]:
    module = load_builder(kind)
    builder = module.Builder(module.Options.model_validate(options), Context("toy"))
    episodes = list(builder.episodes(0))
    for episode in episodes:
        validate_episode(episode, builder.spec())
    return episodes, builder


# Python functions

FUNCTIONS = """
import numpy as np

def walks(lengths):
    for index, length in enumerate(lengths):
        at = np.arange(length + 1.0) + 100 * index
        observation = {"place": at, "camera": np.zeros((length + 1, 2, 2, 3), np.uint8) + np.uint8(index)}
        yield {"id": f"walk-{index}", "observation": observation, "action": at[:-1, None] / 1000, "reward": at[1:], "fell": index == 1}

def broken():
    yield {"observation": {"place": [0.0, 1.0]}, "action": [[0.0]], "reward": [0.0], "fell": False}
    raise RuntimeError("the log ends here")

def ragged():
    yield {"observation": {"place": [[0.0], [1.0, 2.0]]}, "action": [[0.0]], "reward": [0.0], "fell": False}

def changing():
    for width in (2, 3):
        yield {"observation": {"place": np.zeros((3, width))}, "action": np.zeros((2, 1)), "reward": np.zeros(2), "fell": False}

def nothing():
    return iter(())

def wrong():
    yield [1, 2]
"""
MAPPING = {
    "env_id": "Walk",
    "observation": {"entries": {"place": "observation/place", "camera": "observation/camera"}},
    "action": "action",
    "reward": "reward",
    "terminal": "fell",
    "ends": {"kind": "groups"},
    "rows": "extra_observation",
}


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    (tmp_path / "walks.py").write_text(FUNCTIONS)
    return tmp_path / "walks.py"


@pytest.mark.parametrize("block", [1, 2**25])
def test_what_a_function_yields(functions, monkeypatch, block) -> None:
    monkeypatch.setattr(episodic, "BLOCK_BYTES", block)
    options = {"function": f"{functions}:walks", "arguments": {"lengths": [1, 3, 2]}, "path": str(functions)}
    episodes, builder = imported("python", **options, **MAPPING)
    assert [(e.episode_id, e.length, e.is_terminal) for e in episodes] == [("walk-0", 1, False), ("walk-1", 3, True), ("walk-2", 2, False)]
    assert episodes[1].observation["place"][:, 0].tolist() == [100, 101, 102, 103]
    assert (episodes[2].observation["camera"] == 2).all()
    assert episodes[1].reward.tolist() == [101, 102, 103, 0]
    assert [entry.path for entry in builder.inputs] == [functions.as_posix()]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", ["episode 1", "RuntimeError: the log ends here", "walks.py, line"]),
        ("ragged", ["episode 0", "one shape"]),
        ("changing", ["episode '00000001'", "[3, 3]", "[2]"]),
        ("nothing", ["holds no episode"]),
        ("wrong", ["episode 0", "found list", "dict of arrays"]),
        ("missing", ["no function 'missing'", "walks"]),
    ],
)
def test_a_function_that_fails_is_named(functions, name, words) -> None:
    mapping = {**MAPPING, "observation": "observation/place"}
    with pytest.raises(HindcastError) as error:
        imported("python", function=f"{functions}:{name}", path=str(functions), **mapping)
    assert all(word in str(error.value) for word in words), error.value


# RLDS and TFDS

TFDS_CLASS = """
import numpy as np
import tensorflow_datasets as tfds

class Robot(tfds.core.GeneratorBasedBuilder):
    "Toy."
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        steps = {
            "observation": {"pose": tfds.features.Tensor(shape=(2,), dtype=np.float32), "state": {"mode": np.int64},
                            "said": tfds.features.Text()},
            "action": tfds.features.Tensor(shape=(1,), dtype=np.float32),
            "reward": np.float32, "discount": np.float32, "is_first": np.bool_, "is_last": np.bool_, "is_terminal": np.bool_,
            "instruction": tfds.features.Text(),
        }
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({"steps": tfds.features.Dataset(steps)}))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(3), "test": self._generate_examples(1)}

    def _generate_examples(self, count):
        for number in range(count):
            last = 2 + number
            yield number, {"steps": [
                {"observation": {"pose": [100.0 * number + t, 0.0], "state": {"mode": number},
                 "said": "yes"}, "action": [t / 8], "reward": float(t),
                 "discount": 1.0, "is_first": t == 0, "is_last": t == last, "is_terminal": t == last and number == 1, "instruction": "go"}
                for t in range(last + 1)]}
"""


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(a folder of raw data, a folder where the class has prepared its own); the class is "toy_tfds.robot:Robot"."""
    folder = tmp_path_factory.mktemp("tfds")
    (folder / "toy_tfds").mkdir()
    (folder / "toy_tfds" / "__init__.py").touch()
    (folder / "toy_tfds" / "robot.py").write_text(TFDS_CLASS)
    sys.path.insert(0, str(folder))
    (folder / "raw").mkdir()
    (folder / "raw" / "notes.txt").write_text("raw")
    scratch = Scratch()
    path = prepared("toy_tfds.robot:Robot", folder / "raw", scratch)
    shutil.copytree(path.parents[1], folder / "data")
    scratch.close()
    yield folder
    sys.path.remove(str(folder))
    for name in ("toy_tfds", "toy_tfds.robot"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("way", ["directory", "class of prepared data", "class that prepares"])
def test_foreign_rlds(robot, way) -> None:
    options = {
        "directory": {"path": str(robot / "data" / "robot" / "1.0.0")},
        "class of prepared data": {"path": str(robot / "data"), "tfds_class": "toy_tfds.robot:Robot"},
        "class that prepares": {"path": str(robot / "raw"), "tfds_class": "toy_tfds.robot:Robot"},
    }[way]
    episodes, builder = imported("rlds", **options, splits=["train"])
    found = {float(episode.observation["pose"][0, 0]): episode for episode in episodes}  # TFDS shuffles what it writes
    assert {start: (e.length, e.is_terminal) for start, e in found.items()} == {0: (2, False), 100: (3, True), 200: (4, False)}
    assert found[100].observation["pose"][:, 0].tolist() == [100, 101, 102, 103]
    assert found[100].observation["state"]["mode"].tolist() == [1] * 4
    assert found[100].action[:, 0].tolist() == [0, 0.125, 0.25, 0]
    assert found[100].reward.tolist() == [0, 1, 2, 0]
    assert found[100].discount.tolist() == [1, 1, 0, 0]
    assert builder.spec().env_id == "robot"
    assert "Arrays of a step that were left out: instruction, observation/said." in builder.notes
    assert builder.counts["rows_read"] == 12


def test_a_mapping_of_rlds_takes_the_place_of_the_features(robot) -> None:
    mapping = {
        "env_id": "Robot-v0",
        "observation": "observation/pose",
        "action": {"columns": "action", "scale": 8, "minimum": 0, "maximum": 8},
    }
    episodes, builder = imported("rlds", path=str(robot / "data" / "robot" / "1.0.0"), mapping=mapping)
    assert len({episode.episode_id for episode in episodes}) == 4
    assert episodes[0].episode_id.startswith("t")
    assert builder.spec().observation == ArraySpec((2,), "float32")
    assert (builder.spec().env_id, builder.spec().action.maximum) == ("Robot-v0", 8)
    assert any("observation/state/mode" in note for note in builder.notes)
    with pytest.raises(HindcastError, match=r"'mapping' does not fit: .*scael"):
        imported("rlds", path=str(robot / "data" / "robot" / "1.0.0"), mapping={"action": {"columns": "action", "scael": 8}})


def test_our_own_data_come_through_as_they_are(toy, tmp_path) -> None:
    path = toy.write(tmp_path)
    episodes, builder = imported("rlds", path=str(path))
    assert builder.spec() == toy.spec
    assert [episode_digest(episode) for episode in episodes] == [episode_digest(episode) for episode in toy.episodes]
    assert builder.counts["terminals"] == sum(episode.is_terminal for episode in toy.episodes)


# Minari

IMAGE = {"type": "Box", "dtype": "uint8", "shape": [32, 40, 3], "low": 0, "high": 255}
POSE = {"type": "Box", "dtype": "float64", "shape": [2], "low": [-1.0, -5.0], "high": [float("inf"), 5.0]}
PAIR = {
    "type": "Tuple",
    "subspaces": [{"type": "Discrete", "n": 5, "start": 0}, {"type": "MultiDiscrete", "nvec": [3, 4], "start": [0, 0]}],
}
MISSION = {"type": "Text", "max_length": 12, "min_length": 1, "charset": "abgot "}
SPACE = {"type": "Dict", "subspaces": {"camera": IMAGE, "mission": MISSION, "pair": PAIR, "pose": POSE}}
ACTION = {"type": "Discrete", "n": 3, "start": 1}
LENGTHS = (4, 1, 3)


def recorded(number: int) -> dict[str, Any]:
    """An episode, its place shown by every value."""
    at = np.arange(LENGTHS[number] + 1)
    return {
        "camera": np.stack([np.full((32, 40, 3), 10 * t + 100 * number, np.uint8) for t in at]),
        "mission": [f"go to {'ab'[number % 2]}"] * len(at),
        "pair": (at % 5, np.stack([at % 3, at % 4], axis=1)),
        "pose": np.stack([at / 8, at + 100.0 * number], axis=1),
        "actions": 1 + at[:-1] % 3,
        "rewards": at[:-1] + 0.5,
        "terminations": at[:-1] == (len(at) - 2 if number == 0 else -1),
        "truncations": at[:-1] == (-1 if number == 0 else len(at) - 2),
    }


def jpeg(image: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="JPEG")
    return buffer.getvalue()


def write_minari(folder: Path, data_format: str) -> None:
    """As minari 0.5.4 lays out its files."""
    data = folder / "data"
    data.mkdir()
    env = {"id": "Mixed-v0", "max_episode_steps": 6, "kwargs": {"size": 3}}
    metadata = {
        "data_format": data_format,
        "total_episodes": 3,
        "dataset_id": "toy/mixed-v0",
        "algorithm_name": "sac",
        "jpeg_encoding": True,
    }
    spaces = {"observation_space": json.dumps(SPACE), "action_space": json.dumps(ACTION), "env_spec": json.dumps(env)}
    (data / "metadata.json").write_text(json.dumps({**metadata, **spaces}))
    for number in range(3):
        episode = recorded(number)
        if data_format == "hdf5":
            with h5py.File(data / "main_data.hdf5", "a") as file:
                group = file.create_group(f"episode_{number}")
                group.attrs["seed"] = 40 + number
                group["observations/pose"], group["actions"] = episode["pose"], episode["actions"]
                group["observations/pair/_index_0"], group["observations/pair/_index_1"] = episode["pair"]
                group.create_dataset("observations/mission", data=episode["mission"], dtype=h5py.string_dtype())
                frames = [np.frombuffer(jpeg(image), np.uint8) for image in episode["camera"]]
                varying = group.create_dataset("observations/camera", (len(frames),), h5py.vlen_dtype(np.uint8))
                for row, frame in enumerate(frames):
                    varying[row] = frame
                for key in ("rewards", "terminations", "truncations"):
                    group[key] = episode[key]
                group["infos/x"] = np.zeros(len(frames))
            continue
        vectors = {
            name: pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 2)
            for name, values in (("pose", episode["pose"]), ("nvec", episode["pair"][1]))
        }
        pair = pa.StructArray.from_arrays([pa.array(episode["pair"][0]), vectors["nvec"]], names=["0", "1"])
        columns = {"camera": pa.array([jpeg(image) for image in episode["camera"]]), "mission": pa.array(episode["mission"])}
        observations = pa.StructArray.from_arrays([*columns.values(), pair, vectors["pose"]], names=[*columns, "pair", "pose"])
        padded = {
            key: np.append(episode[key], np.zeros(1, episode[key].dtype)) for key in ("actions", "rewards", "terminations", "truncations")
        }
        table = pa.table({"observations": observations, **padded})
        (data / str(number)).mkdir()
        (data / str(number) / "metadata.json").write_text(json.dumps({"id": number, "seed": 40 + number}))
        path = data / str(number) / f"part-0.{data_format}"
        if data_format == "parquet":
            pa.parquet.write_table(table, path)
        else:
            pa.feather.write_feather(table, path, compression="uncompressed")


@pytest.mark.parametrize("data_format", ["hdf5", "arrow", "parquet"])
def test_minari(tmp_path, data_format) -> None:
    write_minari(tmp_path, data_format)
    episodes, builder = imported("minari", path=str(tmp_path))
    spec = builder.spec()
    assert spec.observation == {
        "camera": ArraySpec((32, 40, 3), "uint8", 0.0, 255.0),
        "mission": ArraySpec((12,), "uint8", 0.0, 255.0),
        "pair": (ArraySpec((), "int64", 0.0, 4.0, 5), ArraySpec((2,), "int64", 0.0, (2.0, 3.0))),
        "pose": ArraySpec((2,), "float32", (-1.0, -5.0), (np.inf, 5.0)),
    }
    assert spec.action == ArraySpec((), "int64", 1.0, 3.0, 3)
    assert (spec.env_id, spec.max_episode_steps, dict(spec.env_kwargs)) == ("Mixed-v0", 6, {"size": 3})
    assert [(e.episode_id, e.length, e.is_terminal) for e in episodes] == [
        ("episode_0", 4, True),
        ("episode_1", 1, False),
        ("episode_2", 3, False),
    ]
    for number, episode in enumerate(episodes):
        expected = recorded(number)
        np.testing.assert_array_equal(episode.observation["pose"], expected["pose"].astype(np.float32))
        np.testing.assert_array_equal(episode.observation["pair"][0], expected["pair"][0])
        np.testing.assert_array_equal(episode.observation["pair"][1], expected["pair"][1])
        np.testing.assert_array_equal(episode.observation["camera"], expected["camera"])  # of one colour, which JPEG keeps
        assert [bytes(row).rstrip(b"\0").decode() for row in episode.observation["mission"]] == expected["mission"]
        np.testing.assert_array_equal(episode.action[:-1], expected["actions"])
        np.testing.assert_array_equal(episode.reward[:-1], expected["rewards"])
        assert episode.metadata == {"seed": 40 + number, "policy": "sac", "environment": "Mixed-v0"}
    assert "observation/pose: float64 is stored as float32." in builder.notes


def test_a_folder_that_is_no_minari_data_set(tmp_path) -> None:
    with pytest.raises(HindcastError, match=r"no Minari data set: data/metadata\.json is missing"):
        imported("minari", path=str(tmp_path))
    write_minari(tmp_path, "hdf5")
    with h5py.File(tmp_path / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1"]
    with pytest.raises(HindcastError, match=r"is damaged .*episode_1"):
        imported("minari", path=str(tmp_path))
