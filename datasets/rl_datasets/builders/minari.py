"""Local data sets of Minari (HDF5, Arrow and Parquet). Spaces, environment and ends come from its metadata.

`infos` are left out, or kept as step metadata where the mapping names them: `step_metadata: "infos/*"`.

Its package is not needed: `pip install minari` and `minari download <id>` are one way to get the folder that `path` names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from rl_datasets.builder import BuilderOptions, Context
from rl_datasets.importing.builder import ImportBuilder, file_inputs, filled_in, source_path
from rl_datasets.importing.episodic import flat, parts_of
from rl_datasets.importing.minari_files import MinariFiles, bounded, leaf_spaces, mapped, step_limit
from rl_datasets.importing.parts import Part
from rl_datasets.manifest import Input
from rl_datasets.schema import EnvSpec, named_leaves


class Options(BuilderOptions):
    """`path` is the folder of one data set and version. `mapping` takes the place of what its metadata say, key by key."""

    path: str | None = Field(None, min_length=1)  # the entry's source where nothing is said
    mapping: Mapping[str, Any] = Field(default_factory=dict)


class Builder(ImportBuilder):
    packages = ("h5py", "numpy", "pyarrow")

    def __init__(self, options: Options, context: Context) -> None:
        self.root = source_path(options.path, context)
        self.source = source = MinariFiles(self.root)
        defaults = {
            "env_id": source.env.get("id") or source.data_set_id,
            "env_kwargs": source.env.get("kwargs") or {},
            "observation": mapped(source.observation_space, "observations"),
            "action": mapped(source.action_space, "actions"),
            "reward": "rewards",
            "terminal": "terminations",
            "truncated": "truncations",
            "ends": {"kind": "groups"},
            "rows": "extra_observation",
            "metadata": {"seed": "seed"},
            "max_episode_steps": step_limit(source.env),
            "policy": source.policy,
            "ignore": ["infos/*?"],
        }
        super().__init__(filled_in(defaults, options.mapping), context)
        self._spec = self._with_bounds(self._spec)
        left_out = "" if self.options.step_metadata else "; infos, where there are any, were left out"
        self._assumed = [f"Bounds are those of the spaces that the metadata name{left_out}."]

    def parts(self) -> Iterator[Part]:
        episodes = self.source.episodes(with_infos=bool(self.options.step_metadata))
        arrays = ((key, {name: np.asarray(leaf) for name, leaf in flat(found).items()}) for key, found in episodes)
        return parts_of(arrays, str(self.root))

    @cached_property
    def inputs(self) -> Sequence[Input]:
        return file_inputs(self.source.files())

    def _with_bounds(self, spec: EnvSpec) -> EnvSpec:
        spaces = {**leaf_spaces(self.source.observation_space, "observation"), **leaf_spaces(self.source.action_space, "action")}
        leaves = {
            name: bounded(leaf, spaces[name]) if name in spaces else leaf for name, leaf in named_leaves(spec.observation, "observation")
        }
        action = bounded(spec.action, spaces["action"]) if "action" in spaces else spec.action
        return replace(spec, observation=self.options.observation.nest(leaves, "observation"), action=action)


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    import h5py

    data, rng = folder / "data", np.random.default_rng(0)
    data.mkdir()
    box = {"type": "Box", "dtype": "float64", "shape": [2], "low": [-10.0, -10.0], "high": [10.0, 10.0]}
    metadata = {"data_format": "hdf5", "total_episodes": 3, "dataset_id": "toy/walk-v0", "algorithm_name": "random"}
    spaces = {"observation_space": json.dumps(box), "action_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 3})}
    (data / "metadata.json").write_text(json.dumps({**metadata, **spaces}))
    with h5py.File(data / "main_data.hdf5", "w") as file:
        for number in range(3):
            group, steps = file.create_group(f"episode_{number}"), 4 + number
            group.attrs["seed"] = 10 + number
            group["observations"], group["actions"] = rng.normal(size=(steps + 1, 2)), rng.integers(0, 3, steps)
            group["rewards"] = rng.normal(size=steps)
            group["terminations"] = np.arange(steps) == (steps - 1 if number else -1)
            group["truncations"] = np.arange(steps) == (-1 if number else steps - 1)
    return {"path": str(folder)}
