"""Minari's data sets on disk, read without its package: `metadata.json`, and episodes as HDF5, Arrow or Parquet.

Layout (minari 0.5): <data set>/data/metadata.json beside main_data.hdf5 with a group an episode, or a folder an episode. An episode
has one observation more than actions. Images of 32 pixels or more a side are JPEG there, which is what their recorder made of them.
"""

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json
from rl_datasets.importing.source import require_kind
from rl_datasets.schema import ArraySpec

Space = Mapping[str, Any]  # as Minari writes it in JSON
Fields = tuple[str, ...]
_IMAGE_SIDE = 32  # pixels, from which on Minari keeps a uint8 Box as JPEG
_ARRAYS = ("rewards", "terminations", "truncations")


class MinariFiles:
    """One data set. Raises HindcastError where the folder is none, or damaged."""

    def __init__(self, path: Path) -> None:
        self.folder = path if (path / "metadata.json").is_file() else path / "data"
        if not (self.folder / "metadata.json").is_file():
            raise HindcastError(f"{path} is no Minari data set: data/metadata.json is missing. Give the folder of one version.")
        metadata = read_json(self.folder / "metadata.json", "data_format", "total_episodes", "observation_space", "action_space")
        self.observation_space: Space = json.loads(metadata["observation_space"])
        self.action_space: Space = json.loads(metadata["action_space"])
        self.env: Mapping[str, Any] = json.loads(metadata.get("env_spec") or "{}")
        self.data_set_id = str(metadata.get("dataset_id", path.name))
        self.policy = str(metadata.get("algorithm_name", "unknown"))
        self.total = int(metadata["total_episodes"])
        self._format, self._is_jpeg = str(metadata["data_format"]), bool(metadata.get("jpeg_encoding", True))

    def files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file())

    def episodes(self, with_infos: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields (id, arrays): observations and actions nested as their spaces are, rewards, terminations, truncations, and the seed.

        Infos are nested as they are, and have as many rows as observations: the first ones are of the reset.
        """
        if self._format not in ("hdf5", "arrow", "parquet"):
            raise HindcastError(f"{self.folder}: data_format is '{self._format}'; expected hdf5, arrow or parquet.")
        found = self._in_hdf5(with_infos) if self._format == "hdf5" else self._in_tables(with_infos)
        try:
            yield from found
        except (KeyError, OSError, ValueError, StopIteration) as error:
            raise HindcastError(f"{self.folder} is damaged ({type(error).__name__}: {error}). Download the data set again.") from error

    def _in_hdf5(self, with_infos: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        import h5py

        path = self.folder / "main_data.hdf5"
        require_kind(path, "hdf5")
        with h5py.File(path, "r") as file:
            for number in range(self.total):
                group = file[f"episode_{number}"]

                def read(fields: Fields, group: Any = group) -> Any:
                    """In HDF5 the elements of a tuple are _index_0, _index_1, ..."""
                    return group["/".join(f"_index_{field}" if field.isdecimal() else field for field in fields)][()]

                arrays: dict[str, Any] = {key: group[key][()] for key in _ARRAYS}
                if with_infos:
                    arrays["infos"] = _infos_in_group(group.get("infos", {}))
                yield self._episode(number, read, arrays, None, group.attrs.get("seed"))

    def _in_tables(self, with_infos: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        for number in range(self.total):
            folder = self.folder / str(number)
            table = ds.dataset(str(folder), format=self._format, ignore_prefixes=["_", ".", "metadata"]).to_table()

            def read(fields: Fields, table: Any = table) -> Any:
                column = table.column(fields[0]).combine_chunks()
                for field in fields[1:]:
                    column = pc.struct_field(column, field)
                is_list = str(column.type).startswith("fixed_size_list")
                return column.flatten().to_numpy(zero_copy_only=False) if is_list else column.to_pylist()

            known = read_json(folder / "metadata.json")
            arrays: dict[str, Any] = {key: np.asarray(read((key,)))[:-1] for key in _ARRAYS}
            if with_infos and "infos" in table.column_names:
                arrays["infos"] = _infos_in_column(table.column("infos").combine_chunks())
            yield self._episode(number, read, arrays, table.num_rows - 1, known.get("seed"))

    def _episode(
        self, number: int, read: Callable[[Fields], Any], arrays: dict[str, Any], length: int | None, seed: Any
    ) -> tuple[str, dict[str, Any]]:
        """`length` cuts the actions, which Arrow fills up to the number of observations."""
        arrays["observations"] = self._decode(self.observation_space, ("observations",), read, None)
        arrays["actions"] = self._decode(self.action_space, ("actions",), read, length)
        arrays["seed"] = np.array(-1 if seed is None else int(seed), np.int64)
        return f"episode_{number}", arrays

    def _decode(self, space: Space, fields: Fields, read: Callable[[Fields], Any], length: int | None) -> Any:
        kind = space["type"]
        if kind == "Dict":
            return {key: self._decode(part, (*fields, key), read, length) for key, part in space["subspaces"].items()}
        if kind == "Tuple":
            return tuple(self._decode(part, (*fields, str(index)), read, length) for index, part in enumerate(space["subspaces"]))
        values = read(fields)
        if kind == "Text":
            return np.array([value.decode() if isinstance(value, bytes) else value or "" for value in values], str)[:length]
        if self._is_jpeg and _is_image(space):
            return np.stack([_image(value) for value in values if value is not None])[:length]
        shape = space_shape(space)
        return np.asarray(values).reshape(-1, *shape)[:length]


def space_shape(space: Space) -> tuple[int, ...]:
    """Of one row. Raises HindcastError for a kind of space that has no arrays."""
    match space["type"]:
        case "Box":
            return tuple(space["shape"])
        case "Discrete" | "Text":
            return ()
        case "MultiDiscrete":
            return tuple(np.shape(space["nvec"]))
        case "MultiBinary":
            return tuple(np.atleast_1d(space["n"]).tolist())
    raise HindcastError(f"The space {space['type']} has no arrays of a fixed shape. Import its episodes with a Python function.")


def leaf_spaces(space: Space, name: str) -> dict[str, Space]:
    """Returns the spaces that are no Dict and no Tuple, by path."""
    if space["type"] not in ("Dict", "Tuple"):
        space_shape(space)
        return {name: space}
    parts = space["subspaces"].items() if space["type"] == "Dict" else enumerate(space["subspaces"])
    return {path: leaf for key, part in parts for path, leaf in leaf_spaces(part, f"{name}/{key}").items()}


def mapped(space: Space, column: str) -> dict[str, Any]:
    """Returns the `Array` of a mapping for a space, whose arrays are columns with the path as their name."""
    if space["type"] == "Dict":
        return {"entries": {key: mapped(part, f"{column}/{key}") for key, part in space["subspaces"].items()}}
    if space["type"] == "Tuple":
        return {"elements": [mapped(part, f"{column}/{index}") for index, part in enumerate(space["subspaces"])]}
    if space["type"] == "Text":
        width = 1 if str(space.get("charset", "é")).isascii() else 4
        return {"columns": column, "text": max(int(space["max_length"]) * width, 1)}
    return {"columns": column}


def bounded(spec: ArraySpec, space: Space) -> ArraySpec:
    """Returns the spec with the bounds of the space."""
    match space["type"]:
        case "Box":
            return spec.bounded(np.asarray(space["low"], np.float64), np.asarray(space["high"], np.float64))
        case "Discrete":
            first, count = int(space.get("start", 0)), int(space["n"])
            return spec.bounded(first, first + count - 1, count)
        case "MultiDiscrete":
            lowest = np.broadcast_to(space.get("start", 0), space_shape(space))
            return spec.bounded(lowest, lowest + np.asarray(space["nvec"]) - 1)
        case "MultiBinary":
            return spec.bounded(0, 1)
    return spec


def _infos_in_group(group: Any) -> Any:
    """Of HDF5: arrays nested as the groups are; text as text."""
    if not hasattr(group, "shape"):
        return {key: _infos_in_group(group[key]) for key in sorted(group)}
    return np.array(group.asstr()[()], str) if group.dtype.kind == "O" else group[()]


def _infos_in_column(column: Any) -> Any:
    """Of Arrow: arrays nested as the structs are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_struct(column.type):
        return {field.name: _infos_in_column(pc.struct_field(column, [index])) for index, field in enumerate(column.type)}
    values = column.to_pylist()
    return np.array(values, str) if pa.types.is_string(column.type) else np.array(values)


def _is_image(space: Space) -> bool:
    """As Minari decides it."""
    shape = tuple(space.get("shape", ()))
    sides = space["type"] == "Box" and len(shape) in (2, 3) and min(shape[:2]) >= _IMAGE_SIDE
    return bool(sides and space["dtype"] == "uint8" and np.all(np.asarray(space["low"]) == 0) and np.all(np.asarray(space["high"]) == 255))


def _image(encoded: Any) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(bytes(encoded))), np.uint8)


def step_limit(env: Mapping[str, Any]) -> int | None:
    limit = env.get("max_episode_steps")
    return int(limit) if isinstance(limit, int | float) and math.isfinite(limit) else None
