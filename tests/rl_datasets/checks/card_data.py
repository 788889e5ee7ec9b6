"""Small data sets on disk for tests of data cards: vectors under two policies, discrete ones, images, and one that fails."""

import dataclasses
from pathlib import Path

import numpy as np

from rl_datasets.manifest import Input, Manifest, write_manifest
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, ReferenceReturns

NOTES = ("Rewards were float64 and are float32.", "12 rows without a time were dropped.")
VECTOR = EnvSpec("Arm-v0", ArraySpec((6,), "float32"), ArraySpec((2,), "float32", -1.0, 1.0), max_episode_steps=60)
DISCRETE = EnvSpec(
    "Grid-v0",
    ArraySpec((), "int64", 0, 24, num_values=25),
    ArraySpec((), "int64", 0, 3, num_values=4),
    reference_returns=ReferenceReturns(1.5, 20, "a table | of a paper"),
)
IMAGE = EnvSpec(
    "Room-v0",
    {"camera": ArraySpec((12, 16, 3), "uint8", 0, 255), "battery": ArraySpec((), "float32", 0.0, 1.0)},
    ArraySpec((2,), "float32", -1.0, 1.0),
)
SPECS = {"vector": VECTOR, "discrete": DISCRETE, "image": IMAGE, "failing": VECTOR}


def make_episode(spec: EnvSpec, index: int, steps: int = 0) -> Episode:
    """Of `steps` transitions, or of a number that depends on the index."""
    rng, length = np.random.default_rng(index), steps or 12 + index % 7
    count = length + 1

    def filled(leaf: ArraySpec) -> np.ndarray:
        if leaf.num_values is not None:
            return rng.integers(0, leaf.num_values, count)
        if leaf.is_image:
            return rng.integers(0, 255, (count, *leaf.shape)).astype(np.uint8)
        return rng.uniform(0, 1, (count, *leaf.shape)).astype(np.float32)

    observation = {k: filled(v) for k, v in spec.observation.items()} if isinstance(spec.observation, dict) else filled(spec.observation)
    action, discount = filled(spec.action), np.ones(count, np.float32)
    reward = rng.normal(index, 1, count).astype(np.float32)
    action[-1], reward[-1], discount[-1] = 0, 0, 0
    if index % 3 == 0:
        discount[-2] = 0
    metadata = {"seed": index, "policy": ("careful", "wild <b>")[index % 2], "environment": spec.env_id}
    return Episode(f"run-{index:03d}", observation, action, reward, discount, index % 3 == 0, metadata)


def make_episodes(kind: str) -> list[Episode]:
    episodes = [make_episode(SPECS[kind], index) for index in range(8)]
    if kind == "failing":
        episodes[2].observation[3, 1] = np.nan
        episodes[4].action[5, 0] = 7.5
        episodes[5].observation[2, 0] = 1e30
        episodes.append(dataclasses.replace(episodes[1], episode_id="copy|of <1>"))
    return episodes


def write_data(folder: Path, kind: str, episodes: list[Episode] | None = None) -> Path:
    """Returns the folder of the version, `folder`/<kind>/1.0.0, with two shards and a manifest."""
    path = folder / kind / "1.0.0"
    written = write_rlds(path, kind, "1.0.0", SPECS[kind], {"raw": make_episodes(kind) if episodes is None else episodes}, shards=2)
    about = {"license": "https://spdx.org/licenses/MIT.html", "creators": ["A Laboratory"]}
    parameters = {"builder": "python", "seed": 4, "about": about}
    inputs = (Input("log", "data/log.csv", "beef" * 16),)
    write_manifest(path, Manifest(f"collect@{kind}", written.digest, parameters, inputs, {}, NOTES, {"numpy": "2.4"}))
    return path
