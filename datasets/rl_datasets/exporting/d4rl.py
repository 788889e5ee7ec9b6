"""D4RL's HDF5 layout: rows are transitions, all episodes end to end, with `terminals`, `timeouts` and `next_observations`.

Step metadata are its `infos`.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.exporting.exporter import Exported, array_options, blocks, common_options, hdf5_rows, info_paths, unbounded_note
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

if TYPE_CHECKING:
    import h5py

SUFFIX = ".hdf5"
_CHUNK_BYTES = 2**20


def write(path: Path, name: str, spec: EnvSpec, episodes: Iterable[Episode]) -> Exported:
    """Writes one file. Raises HindcastError for observations that are a Dict or Tuple, which this layout has no place for."""
    import h5py

    if not isinstance(spec.observation, ArraySpec):
        raise HindcastError(f"'{name}' has nested observations; D4RL's layout holds one array. Export it as minari or parquet.")
    count = transitions = 0
    infos = info_paths(spec)
    with h5py.File(path, "w") as file:
        for block in blocks(episodes):
            for key, make in _COLUMNS.items():
                _append(file, key, np.concatenate([make(episode) for episode in block]))
            for kept, key in infos.items():
                _append(file, key, np.concatenate([episode.step_metadata[kept][:-1] for episode in block]))
            count, transitions = count + len(block), transitions + sum(episode.length for episode in block)
    observation, action = array_options("observations", spec.observation), array_options("actions", spec.action)
    options = {**common_options(spec), "layout": "d4rl", "observation": observation, "action": action}
    if infos:
        options["step_metadata"] = infos
    lost = [
        "Ids of episodes (they are numbered when read back), and their metadata: seed, policy and all others.",
        "The environment's id, its step limit, bounds and reference returns, which the entry says instead.",
        *(["Step metadata of the last step of an episode, which has no row."] if infos else []),
        *unbounded_note(spec),
    ]
    return Exported(count, transitions, "hdf5", options, lost)


def _last(episode: Episode, is_set: bool) -> np.ndarray:
    flags = np.zeros(episode.length, bool)
    flags[-1] = is_set
    return flags


_COLUMNS: dict[str, Callable[[Episode], Any]] = {
    "observations": lambda episode: episode.observation[:-1],
    "actions": lambda episode: episode.action[:-1],
    "rewards": lambda episode: episode.reward[:-1],
    "next_observations": lambda episode: episode.observation[1:],
    "terminals": lambda episode: _last(episode, episode.is_terminal),
    "timeouts": lambda episode: _last(episode, not episode.is_terminal),
}


def _append(file: "h5py.File", key: str, rows: np.ndarray) -> None:
    if key not in file:
        chunk = max(_CHUNK_BYTES // max(rows[:1].nbytes, 1), 1)
        file.create_dataset(key, **hdf5_rows(rows, key), maxshape=(None, *rows.shape[1:]), chunks=(chunk, *rows.shape[1:]))
        return
    dataset = file[key]
    start = len(dataset)
    dataset.resize(start + len(rows), axis=0)
    dataset[start:] = hdf5_rows(rows, key)["data"]
