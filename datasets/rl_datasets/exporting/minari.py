"""Minari's layout on disk (its HDF5 format): a folder with data/metadata.json and data/main_data.hdf5, a group an episode.

Step metadata are its `infos`, which have a row for each observation.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.exporting.exporter import Exported, extra_metadata, hdf5_rows, info_paths
from rl_datasets.files import write_json
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

SUFFIX = ""
MINARI_VERSION = "0.5.4"  # whose layout this is


def write(path: Path, name: str, spec: EnvSpec, episodes: Iterable[Episode]) -> Exported:
    """Fills the folder, which is one version of a data set: <name>/<part>-v0 in Minari's words. Images are kept raw, not as JPEG."""
    import h5py

    data = path / "data"
    data.mkdir(parents=True)
    count = transitions = 0
    extra: list[str] = []
    policies: set[str] = set()
    infos = info_paths(spec)
    with h5py.File(data / "main_data.hdf5", "w", track_order=True) as file:
        for number, episode in enumerate(episodes):
            group = file.create_group(f"episode_{number}")
            _write_episode(group, number, episode)
            for kept, key in infos.items():
                group.create_dataset(key, **hdf5_rows(episode.step_metadata[kept], kept))
            extra = extra or extra_metadata(episode)
            policies.add(str(episode.metadata["policy"]))
            count, transitions = count + 1, transitions + episode.length
    metadata: dict[str, Any] = {
        "algorithm_name": " and ".join(sorted(policies)),
        "data_format": "hdf5",
        "dataset_id": f"{name}/hindcast-v0",
        "dataset_size": round((data / "main_data.hdf5").stat().st_size / 1e6, 1),
        "jpeg_encoding": False,
        "minari_version": MINARI_VERSION,
        "observation_space": json.dumps(space_of(spec.observation)),
        "action_space": json.dumps(space_of(spec.action)),
        "total_episodes": count,
        "total_steps": transitions,
    }
    environment = _environment(spec)
    if environment is not None:
        metadata["env_spec"] = environment
    write_json(data / "metadata.json", metadata)
    mapping: dict[str, Any] = {"env_id": spec.env_id}
    if spec.max_episode_steps is not None:
        mapping["max_episode_steps"] = spec.max_episode_steps
    if spec.reference_returns is not None:
        references = spec.reference_returns
        mapping["reference_returns"] = {"random": references.random, "expert": references.expert, "source": references.source}
    if infos:
        mapping["step_metadata"] = infos
    lost = [
        "Ids of episodes (they are numbered in Minari) and reference returns.",
        *([f"Metadata of episodes: {', '.join(extra)}."] if extra else []),
        *(["Which episode is of which policy."] if len(policies) > 1 else []),
        *(["The environment, which this Gymnasium does not know; the entry says its id."] if environment is None else []),
    ]
    return Exported(count, transitions, "minari", {"mapping": mapping}, lost)


def space_of(nest: Any) -> dict[str, Any]:
    """Returns a space as Minari writes it in JSON. Raises HindcastError for one that Gymnasium has no space for."""
    if isinstance(nest, Mapping):
        return {"type": "Dict", "subspaces": {key: space_of(part) for key, part in nest.items()}}
    if not isinstance(nest, ArraySpec):
        return {"type": "Tuple", "subspaces": [space_of(part) for part in nest]}
    if nest.is_discrete:
        if not isinstance(nest.minimum, float | int) or nest.num_values is None:
            raise HindcastError("A category has one lowest value; mend the data set's spec().")
        return {"type": "Discrete", "dtype": "int64", "start": int(nest.minimum), "n": nest.num_values}
    low, high = nest.bounds()
    dtype = np.dtype(nest.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = np.maximum(low, limits.min), np.minimum(high, limits.max)
        return {"type": "Box", "dtype": nest.dtype, "shape": list(nest.shape), "low": _integers(low), "high": _integers(high)}
    return {"type": "Box", "dtype": nest.dtype, "shape": list(nest.shape), "low": low.tolist(), "high": high.tolist()}


def _integers(bound: np.ndarray) -> Any:
    return np.vectorize(int, otypes=[object])(bound).tolist()


def _write_episode(group: Any, number: int, episode: Episode) -> None:
    group.attrs["id"] = number
    group.attrs["total_steps"] = episode.length
    if int(episode.metadata["seed"]) >= 0:
        group.attrs["seed"] = int(episode.metadata["seed"])
    _write_nest(group, "observations", episode.observation)
    group["actions"] = episode.action[:-1]
    group["rewards"] = episode.reward[:-1]
    last = np.arange(episode.length) == episode.length - 1
    group["terminations"], group["truncations"] = last & episode.is_terminal, last & (not episode.is_terminal)


def _write_nest(group: Any, key: str, nest: Any) -> None:
    if isinstance(nest, Mapping):
        inner = group.create_group(key)
        for name, part in nest.items():
            _write_nest(inner, name, part)
    elif isinstance(nest, tuple):
        inner = group.create_group(key)
        for index, part in enumerate(nest):
            _write_nest(inner, f"_index_{index}", part)
    else:
        group[key] = nest


def _environment(spec: EnvSpec) -> str | None:
    """The environment as Gymnasium writes it, or None where it does not know it."""
    import gymnasium as gym

    if spec.env_id not in gym.registry:
        return None
    known = gym.spec(spec.env_id)
    known.kwargs = {**known.kwargs, **spec.env_kwargs}
    try:
        return known.to_json()
    except (TypeError, ValueError):
        return None
