"""There and back: what a format can hold comes back bit for bit, and what it cannot is what the exporter says."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import tree

from rl_datasets.builder import Context, load_builder
from rl_datasets.errors import HindcastError
from rl_datasets.exporting.exporter import Exported, info_paths, known_formats, load_exporter
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, ReferenceReturns, named_leaves

LENGTHS = (5, 1, 8, 3)


KEPT = {
    "time": ArraySpec((), "float64"),
    "infos/note": ArraySpec((), "text"),
    "grid": ArraySpec((2, 3), "int16"),
    "seen/flag": ArraySpec((2,), "bool"),
}


def data(nested: bool = False, kept: bool = False) -> tuple[EnvSpec, list[Episode]]:
    vector = ArraySpec((2,), "float32", -1000.0, 1000.0)
    observation = (
        {"camera": ArraySpec((4, 5, 3), "uint8", 0, 255), "pose": (vector, ArraySpec((), "int64", 0, 9, 10))} if nested else vector
    )
    action = ArraySpec((), "int64", 0, 2, 3) if nested else ArraySpec((1,), "float32", -1.0, 1.0)
    spec = EnvSpec("Toy-v0", observation, action, {}, max_episode_steps=8, reference_returns=ReferenceReturns(0.0, 10.0, "a table"))
    episodes = [_episode(number, length, nested) for number, length in enumerate(LENGTHS)]
    if kept:
        return replace(spec, step_metadata=KEPT), [replace(e, step_metadata=_kept(e.length, i)) for i, e in enumerate(episodes)]
    return spec, episodes


def _kept(length: int, number: int) -> dict[str, np.ndarray]:
    at = np.arange(length + 1) + 100 * number
    return {
        "time": 1.7e9 + at / 3,
        "infos/note": np.array([f"Nr. {step}: né" if step % 2 else "" for step in at], object),
        "grid": (at[:, None, None] + np.arange(6).reshape(2, 3)).astype(np.int16),
        "seen/flag": np.stack([at % 2 == 0, at % 3 == 0], axis=1),
    }


def _episode(number: int, length: int, nested: bool) -> Episode:
    rng, at = np.random.default_rng(number), np.arange(length + 1, dtype=np.float32) + 100 * number
    vector = np.stack([at, -at], axis=1)
    camera = rng.integers(0, 256, (length + 1, 4, 5, 3)).astype(np.uint8)
    observation = {"camera": camera, "pose": (vector, np.arange(length + 1) % 10)} if nested else vector
    action = rng.integers(0, 3, length + 1) if nested else rng.uniform(-1, 1, (length + 1, 1)).astype(np.float32)
    reward, discount, is_terminal = at / 3, np.ones_like(at), number % 2 == 0
    action[-1], reward[-1], discount[-1], discount[-2] = 0, 0, 0, 0 if is_terminal else 1
    metadata = {"seed": 7 + number, "policy": "p", "environment": "Toy-v0", "score": number / 2}
    return Episode(f"day-{number}", observation, action, reward, discount, is_terminal, metadata)


def there_and_back(folder: Path, style: str, spec: EnvSpec, episodes: list[Episode]) -> tuple[Exported, EnvSpec, list[Episode]]:
    exporter = load_exporter(style)
    path = folder / f"out{exporter.SUFFIX}"
    exported = exporter.write(path, "toy", spec, iter(episodes))
    module = load_builder(exported.builder)
    builder = module.Builder(module.Options.model_validate(exported.options), Context("again", source=path))
    return exported, builder.spec(), list(builder.episodes(0))


def assert_same_steps(found: list[Episode], expected: list[Episode]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        tree.assert_same_structure(one.observation, other.observation)
        for (name, a), (_, b) in zip(named_leaves(one.observation, "o"), named_leaves(other.observation, "o"), strict=True):
            np.testing.assert_array_equal(a, b, name)
            assert a.dtype == b.dtype
        for name in ("action", "reward", "discount"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)
        assert one.is_terminal == other.is_terminal


@pytest.mark.parametrize(("style", "nested"), [("d4rl", False), ("parquet", False), ("parquet", True), ("minari", False), ("minari", True)])
def test_steps_come_back_bit_for_bit(tmp_path, style, nested):
    spec, episodes = data(nested)
    exported, found_spec, found = there_and_back(tmp_path, style, spec, episodes)
    assert_same_steps(found, episodes)
    assert (exported.episodes, exported.transitions) == (len(LENGTHS), sum(LENGTHS))
    assert found_spec == spec


@pytest.mark.parametrize("style", ["d4rl", "minari", "parquet"])
def test_step_metadata_come_back_but_for_what_is_said(tmp_path, style):
    spec, episodes = data(kept=True)
    exported, found_spec, found = there_and_back(tmp_path, style, spec, episodes)
    assert_same_steps(found, episodes)
    assert found_spec == spec
    loses_last = "Step metadata of the last step of an episode, which has no row." in exported.lost
    assert loses_last == (style == "d4rl")
    for one, other in zip(found, episodes, strict=True):
        for name, values in other.step_metadata.items():
            rows = slice(-1) if loses_last else slice(None)
            np.testing.assert_array_equal(one.step_metadata[name][rows], values[rows], strict=True)
            assert one.step_metadata[name].shape == values.shape


def test_where_infos_lie(tmp_path):
    spec, episodes = data(kept=True)
    load_exporter("d4rl").write(tmp_path / "out.hdf5", "toy", spec, episodes)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert sorted(file["infos"]) == ["grid", "note", "seen", "time"]
        assert file["infos/time"][5] == 1.7e9 + 100 / 3
    leaves = {name: ArraySpec((), "bool") for name in ("x", "infos/x", "infos/y", "y/z")}
    assert info_paths(replace(spec, step_metadata=leaves)) == {name: f"infos/{name}" for name in leaves}


def test_a_text_that_hdf5_cannot_hold_is_refused(tmp_path):
    spec, (episode, *_) = data(kept=True)
    odd = {**episode.step_metadata, "infos/note": np.array(["a\0b"] * 6, object)}
    for style in ("d4rl", "minari"):
        with pytest.raises(HindcastError, match=r"a text with a zero character, which HDF5 cannot hold\. Export it as parquet"):
            load_exporter(style).write(tmp_path / style, "toy", spec, [replace(episode, step_metadata=odd)])


def test_parquet_keeps_ids_and_metadata(tmp_path):
    spec, episodes = data()
    exported, _, found = there_and_back(tmp_path, "parquet", spec, episodes)
    assert [episode.episode_id for episode in found] == [episode.episode_id for episode in episodes]
    assert [dict(episode.metadata) for episode in found] == [dict(episode.metadata) for episode in episodes]
    assert len(exported.lost) == 1
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert table.groupby("episode_id").size().tolist() == [length + 1 for length in LENGTHS]


def test_what_others_cannot_hold_is_said(tmp_path):
    spec, episodes = data()
    for style in ("d4rl", "minari"):
        exported, _, found = there_and_back(tmp_path / style if (tmp_path / style).mkdir() is None else tmp_path, style, spec, episodes)
        assert {episode.episode_id for episode in found}.isdisjoint(episode.episode_id for episode in episodes)
        assert "Ids of episodes" in exported.lost[0]
    assert "score" in " ".join(exported.lost)
    assert [episode.metadata["seed"] for episode in found] == [7, 8, 9, 10]  # Minari keeps seeds


def test_d4rl_has_its_arrays(tmp_path):
    spec, episodes = data()
    load_exporter("d4rl").write(tmp_path / "out.hdf5", "toy", spec, episodes)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"observations", "actions", "rewards", "next_observations", "terminals", "timeouts"}
        assert np.flatnonzero(file["terminals"][:]).tolist() == [4, 13]
        assert np.flatnonzero(file["timeouts"][:]).tolist() == [5, 16]


def test_equal_episodes_give_equal_files(tmp_path):
    spec, episodes = data(kept=True)
    for style in known_formats():
        exporter, files = load_exporter(style), []
        for number in range(2):
            path = tmp_path / f"{style}{number}{exporter.SUFFIX}"
            exporter.write(path, "toy", spec, episodes)
            files.append({p.name: p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()} if path.is_dir() else path.read_bytes())
        assert files[0] == files[1]


def test_what_cannot_be_exported_is_refused(tmp_path):
    spec, episodes = data(nested=True)
    with pytest.raises(HindcastError, match="nested observations; D4RL's layout holds one array"):
        load_exporter("d4rl").write(tmp_path / "out.hdf5", "toy", spec, episodes)
    with pytest.raises(HindcastError, match=r"no export format 'lerobot'\. Known: d4rl, minari, parquet"):
        load_exporter("lerobot")


def test_infinite_bounds_and_half_infinite_ones(tmp_path):
    spec, episodes = data()
    half = replace(spec, observation=ArraySpec((2,), "float32", (-np.inf, -1000.0), (np.inf, 0.0)))
    exported, _, found = there_and_back(tmp_path, "parquet", half, episodes)
    assert "Bounds of observation, some of which are infinite." in exported.lost
    assert_same_steps(found, episodes)
