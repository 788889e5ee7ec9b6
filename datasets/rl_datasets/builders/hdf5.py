"""HDF5 files: D4RL's layout, both of d3rlpy's, robomimic's (a group a demonstration), any other by mapping. Read block by block.

A column is named by its path in the file, such as "infos/qpos"; with `groups`, by its path in the group. Where the arrays of all
groups lie side by side, numbered, `groups` is "*_#": `actions_0` is then the column "actions" of group 0.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from rl_datasets.errors import HindcastError
from rl_datasets.importing.builder import FileImportBuilder, FileOptions
from rl_datasets.importing.parts import BasePart, Column, Part, no_utf8
from rl_datasets.importing.source import require_kind
from rl_datasets.schema import TEXT

if TYPE_CHECKING:
    import h5py

SIDE_BY_SIDE = "*_#"
_NUMBERED = re.compile(r"(.+?)_(\d+)((?:_\d+)?)")  # column, group, element of a tuple
_CHUNK_CACHE = 64 * 2**20  # so that a chunk that two blocks share is decompressed once


class Options(FileOptions):
    """Files and their mapping. `groups` are those whose rows belong together, such as "data/*" (one may be one episode) or "*_#"."""

    groups: str | None = Field(None, min_length=1)


class Hdf5Part(BasePart):
    """An open file. With a pattern of groups, a column is that of all groups, end to end."""

    def __init__(self, path: Path, label: str, groups: str | None = None) -> None:
        import h5py

        require_kind(path, "hdf5")
        try:
            self._file = h5py.File(path, "r", rdcc_nbytes=_CHUNK_CACHE)
        except OSError as error:
            raise HindcastError(f"{path} is a damaged HDF5 file ({' '.join(str(error).split())}). Copy or download it again.") from error
        try:
            named = _grouped(self._file, groups, path)
            found = list(named.values())
            _require_alike(named, path)
            self._datasets = {name: [columns[name] for columns in found] for name in found[0]}
            columns = {name: _column(name, parts, path) for name, parts in self._datasets.items()}
        except Exception:
            self._file.close()
            raise
        super().__init__(str(path), label, columns)
        self.groups = None if groups is None else [name.rpartition("/")[2] for name in named]
        self._edges = {name: np.concatenate([[0], np.cumsum([_rows(part) for part in parts])]) for name, parts in self._datasets.items()}

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        edges, parts = self._edges[name], self._datasets[name]
        first, last = (int(np.searchsorted(edges, row, side="right")) - 1 for row in (start, max(stop - 1, start)))
        try:
            blocks = [
                _read(parts[number], max(start - int(edges[number]), 0), min(stop, int(edges[number + 1])) - int(edges[number]))
                for number in range(first, min(last, len(parts) - 1) + 1)
            ]
        except UnicodeDecodeError as error:
            raise no_utf8(self, name, start, stop, error) from error
        except OSError as error:
            reason = " ".join(str(error).split())
            raise HindcastError(f"{self.name}: '{name}', rows {start} to {stop}, cannot be read ({reason}). Download it again.") from error
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def group_rows(self, name: str) -> np.ndarray:
        return np.diff(self._edges[name])

    def close(self) -> None:
        self._file.close()


class Builder(FileImportBuilder):
    options: Options
    suffixes = (".hdf5", ".h5")
    packages = ("h5py", "numpy")

    def open_file(self, path: Path, label: str) -> Part:
        return Hdf5Part(path, label, self.options.groups)


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    import h5py

    rng = np.random.default_rng(0)
    with h5py.File(folder / "logged.hdf5", "w") as file:
        file["observations"] = rng.normal(size=(20, 4)).astype(np.float32)
        file["actions"] = rng.integers(0, 3, 20).astype(np.int32)
        file["rewards"] = np.arange(20, dtype=np.float32)
        file["terminals"] = np.arange(20) == 6
        file["timeouts"] = np.isin(np.arange(20), (12, 19))
    return {"path": str(folder / "logged.hdf5"), "env_id": "Logged-v0", "layout": "d4rl", "lost_observation": "repeat"}


def _datasets(root: "h5py.Group", prefix: str = "") -> Iterator[tuple[str, "h5py.Dataset"]]:
    """Yields the arrays below a group by their path in it, in the order of their names."""
    for key in root:
        child = root.get(key)  # None for a link that leads nowhere
        if hasattr(child, "shape"):
            yield f"{prefix}{key}", child
        elif child is not None:
            yield from _datasets(child, f"{prefix}{key}/")


def _grouped(file: "h5py.File", pattern: str | None, path: Path) -> dict[str, dict[str, "h5py.Dataset"]]:
    """Returns the arrays by their names in each group, by its name; numbers in the names of groups are in numeric order."""
    if pattern is None:
        return {"/": dict(_datasets(file))}
    groups: dict[str, dict[str, h5py.Dataset]] = {}
    if pattern == SIDE_BY_SIDE:
        for name, dataset in _datasets(file):
            if match := _NUMBERED.fullmatch(name):
                groups.setdefault(match[2], {})[match[1] + match[3]] = dataset
    else:
        expression = re.compile("[^/]*".join(map(re.escape, pattern.strip("/").split("*"))))
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if not hasattr(item, "shape") and expression.fullmatch(name) else None)
        groups = {name: dict(_datasets(file[name])) for name in names}
    if not groups:
        raise HindcastError(f"{path} has no group '{pattern}'. At its top it has: {', '.join(file) or 'nothing'}. Mend 'groups'.")
    natural = sorted(groups, key=lambda name: [int(word) if word.isdecimal() else word for word in re.split(r"(\d+)", name)])
    return {name: groups[name] for name in natural}


def _require_alike(groups: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    first, expected = next(iter(groups.items()))
    for name, columns in groups.items():
        if columns.keys() != expected.keys():
            odd = sorted(columns.keys() ^ expected.keys())
            raise HindcastError(f"{path}: group '{name}' and '{first}' differ in {', '.join(odd)}. Groups hold the same arrays.")


def _column(name: str, parts: Sequence["h5py.Dataset"], path: Path) -> Column:
    shapes = {tuple(part.shape[1:]) for part in parts}
    if len(shapes) > 1:
        raise HindcastError(f"{path}: '{name}' has rows of shapes {sorted(shapes)} in different groups; one shape is expected.")
    return Column(name, _dtype(parts[0]), shapes.pop(), sum(map(_rows, parts)))


def _dtype(dataset: "h5py.Dataset") -> str:
    import h5py

    if h5py.check_string_dtype(dataset.dtype) is not None:
        return TEXT
    return "array of varying length" if dataset.dtype.hasobject else dataset.dtype.name


def _rows(dataset: "h5py.Dataset") -> int:
    """A scalar counts as one row."""
    if dataset.shape is None:
        return 0
    return int(dataset.shape[0]) if dataset.shape else 1


def _read(dataset: "h5py.Dataset", start: int, stop: int) -> np.ndarray:
    source = dataset.asstr() if _dtype(dataset) == TEXT else dataset
    values = source[start:stop] if dataset.shape else [source[()]]
    return np.array(values, object) if source is not dataset else np.asarray(values)
