"""Files of d3rlpy since version 2: arrays of all episodes side by side, as the ReplayBuffer's `dump` writes them."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from ruamel.yaml import YAML

from rl_datasets.builder import Context, load_builder
from rl_datasets.errors import HindcastError
from rl_datasets.inspection.inspect import inspect
from rl_datasets.schema import Episode

ROWS, TERMINATED = (2, 3, 1, 4, *[2] * 8), (True, False, True, False, *[True] * 8)  # so many that "10" comes after "2"


def dump(path: Path, **more: Any) -> Path:
    """The observation 103 is step 3 of episode 1, the action and the reward of that step are half and a tenth of it."""
    with h5py.File(path, "w") as file:
        keys = ["observations", "actions", "rewards", "terminated", *more]
        file.create_dataset("columns", data=keys)
        file.create_dataset("num_episodes", data=len(ROWS))
        for i, (rows, terminated) in enumerate(zip(ROWS, TERMINATED, strict=True)):
            step = 100 * i + np.arange(rows, dtype=np.float32)
            file.create_dataset(f"observations_{i}", data=np.stack([step, -step], axis=1))
            file.create_dataset(f"actions_{i}", data=step[:, None] / 2)
            file.create_dataset(f"rewards_{i}", data=step[:, None] / 10)
            file.create_dataset(f"terminated_{i}", data=terminated)
            for name, values in more.items():
                file.create_dataset(f"{name}_{i}", data=values)
        file.create_dataset("version", data="2.1")
    return path


def built(path: Path, options: dict[str, Any]) -> list[Episode]:
    module = load_builder("hdf5")
    return list(module.Builder(module.Options.model_validate(options), Context("toy", source=path)).episodes(0))


def check_episodes(episodes: list[Episode]) -> None:
    """As d3rlpy counts them: the last row of an episode is a transition where it is terminal, and only an observation elsewhere."""
    assert [e.episode_id for e in episodes] == [str(i) for i in range(len(ROWS))]
    assert [e.length for e in episodes] == [rows - (not end) for rows, end in zip(ROWS, TERMINATED, strict=True)]
    assert [e.is_terminal for e in episodes] == list(TERMINATED)
    assert episodes[1].observation.tolist() == [[100, -100], [101, -101], [102, -102]]
    np.testing.assert_allclose(episodes[1].reward, [10, 10.1, 0])
    np.testing.assert_allclose(episodes[11].action[:, 0], [550, 550.5, 0])
    assert episodes[0].discount.tolist() == [1, 0, 0]


def test_by_its_layout(tmp_path) -> None:
    check_episodes(built(dump(tmp_path / "buffer.h5"), {"env_id": "Toy", "layout": "d3rlpy2"}))
    with_more = dump(tmp_path / "more.h5", embeddings=np.zeros(3))
    check_episodes(built(with_more, {"env_id": "Toy", "layout": "d3rlpy2"}))


def test_it_is_recognised_and_its_entry_imports_it(tmp_path) -> None:
    file = dump(tmp_path / "buffer.h5")
    found = inspect(file)
    assert found.fault == ""
    (entry,) = YAML(typ="safe").load(found.entry).values()
    assert (entry["builder"], entry["options"]["groups"]) == ("hdf5", "*_#")
    check_episodes(built(file, entry["options"]))


def test_observations_of_several_arrays_are_joined(tmp_path) -> None:
    with h5py.File(dump(tmp_path / "buffer.h5"), "a") as file:
        for i in range(len(ROWS)):
            both = file[f"observations_{i}"][:]
            del file[f"observations_{i}"]
            file[f"observations_{i}_0"], file[f"observations_{i}_1"] = both[:, :1], both[:, 1:]
    check_episodes(built(tmp_path / "buffer.h5", {"env_id": "Toy", "layout": "d3rlpy2"}))


def test_an_episode_without_one_of_the_arrays_is_named(tmp_path) -> None:
    with h5py.File(dump(tmp_path / "buffer.h5"), "a") as file:
        del file["rewards_10"]
    with pytest.raises(HindcastError, match="group '10' and '0' differ in rewards"):
        built(tmp_path / "buffer.h5", {"env_id": "Toy", "layout": "d3rlpy2"})
