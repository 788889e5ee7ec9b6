"""What an exporter is: a module `rl_datasets/exporting/<format>.py` with `write(path, name, spec, episodes) -> Exported`."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

import rl_datasets.exporting
from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves

Write = Callable[..., "Exported"]
BLOCK_STEPS = 2**16
_ALWAYS = ("seed", "policy", "environment")


@dataclass(frozen=True)
class Exported:
    """`lost` says in a sentence each what the format cannot hold; builder and options read it back."""

    episodes: int
    transitions: int
    builder: str
    options: Mapping[str, Any]
    lost: Sequence[str] = field(default_factory=tuple)


def known_formats() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(rl_datasets.exporting.__path__) if module.name != "exporter")


def load_exporter(name: str) -> ModuleType:
    """Raises HindcastError that lists the known formats where there is none of this name."""
    if name not in known_formats():
        raise HindcastError(f"There is no export format '{name}'. Known: {', '.join(known_formats())}.")
    return importlib.import_module(f"rl_datasets.exporting.{name}")


def blocks(episodes: Iterable[Episode]) -> Iterator[list[Episode]]:
    """Yields episodes some ten thousand steps at a time."""
    waiting: list[Episode] = []
    steps = 0
    for episode in episodes:
        waiting.append(episode)
        steps += episode.length + 1
        if steps >= BLOCK_STEPS:
            yield waiting
            waiting, steps = [], 0
    if waiting:
        yield waiting


def array_options(columns: str, spec: ArraySpec) -> dict[str, Any] | str:
    """Returns the part of a mapping that makes an array of this spec from a column that holds it."""
    options: dict[str, Any] = {"columns": columns}
    if spec.is_discrete and spec.minimum == 0:
        return {**options, "num_values": spec.num_values}
    for key, bound in (("minimum", spec.minimum), ("maximum", spec.maximum)):
        values = np.asarray(bound, np.float64)
        if np.isfinite(values).all():
            options[key] = values.tolist()
    return options if len(options) > 1 else columns


def unbounded_note(spec: EnvSpec) -> list[str]:
    """A mapping has finite bounds or none, so bounds of which some are infinite are not said in it."""
    leaves = [*named_leaves(spec.observation, "observation"), ("action", spec.action)]
    partly = [
        name for name, leaf in leaves if not leaf.is_bounded and np.isfinite(np.concatenate([b.ravel() for b in leaf.bounds()])).any()
    ]
    return [f"Bounds of {', '.join(partly)}, some of which are infinite."] if partly else []


def common_options(spec: EnvSpec) -> dict[str, Any]:
    """Returns what the entry must say of the environment, since a format does not."""
    options: dict[str, Any] = {"env_id": spec.env_id}
    if spec.env_kwargs:
        options["env_kwargs"] = dict(spec.env_kwargs)
    if spec.max_episode_steps is not None:
        options["max_episode_steps"] = spec.max_episode_steps
    references = spec.reference_returns
    if references is not None:
        options["reference_returns"] = {"random": references.random, "expert": references.expert, "source": references.source}
    return options


def info_paths(spec: EnvSpec) -> dict[str, str]:
    """Returns where step metadata go in formats that have a group "infos": by name, a path that begins with it, once where that may be."""
    paths = {name: name if name.startswith("infos/") else f"infos/{name}" for name in spec.step_metadata}
    is_clear = len(set(paths.values())) == len(paths) and not any(a.startswith(f"{b}/") for a in paths.values() for b in paths.values())
    return paths if is_clear else {name: f"infos/{name}" for name in spec.step_metadata}


def hdf5_rows(rows: np.ndarray, name: str) -> dict[str, Any]:
    """Returns the data, and for texts the type, that h5py makes a dataset of. Raises HindcastError for a text that HDF5 cannot hold."""
    import h5py

    if rows.dtype != object:
        return {"data": rows}
    if any("\0" in text for text in rows):
        raise HindcastError(f"Step metadata '{name}' has a text with a zero character, which HDF5 cannot hold. Export it as parquet.")
    return {"data": rows, "dtype": h5py.string_dtype()}


def extra_metadata(episode: Episode) -> list[str]:
    """Names of the metadata that not every episode of every data set has."""
    return sorted(set(episode.metadata) - set(_ALWAYS))
