"""A path to its builder and its part: by what the file holds, not by what it is named. Reads a bounded part of a huge file."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.dialect import Sign
from rl_datasets.importing.parts import Part
from rl_datasets.importing.source import require_kind, source_files
from rl_datasets.inspection.head import HEAD_BYTES

KINDS = ("hdf5", "zip", "npy", "parquet", "arrow", "gzip", "bzip2", "zstd", "other")
_RLDS = "dataset_info.json"
_SUFFIXES = (".hdf5", ".h5", ".npz", ".npy", ".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".parquet", ".feather", ".arrow")


@dataclass(frozen=True)
class Source:
    """Which builder imports a path, and what it needs to be told of the file. `files` is how many there are; the first is looked at."""

    builder: str
    path: Path
    part: Part
    files: int
    options: Mapping[str, Any] = field(default_factory=dict)
    is_cut: bool = False  # only the first bytes of the file are in the part
    signs: Sequence[Sign] = ()  # of how a table of text is written, on which options.read rests


@contextmanager
def open_source(path: Path, head_bytes: int = HEAD_BYTES) -> Iterator[Source]:
    """Raises HindcastError, saying what it is, where the path holds nothing that can be imported."""
    files = [path]
    if path.is_dir():
        patterns = [suffix + packed for suffix in _SUFFIXES for packed in ("", ".gz", ".bz2", ".zst")]
        files = source_files(path, patterns)
    source = _opened(path, files, require_kind(files[0], *KINDS), head_bytes)
    try:
        yield source
    finally:
        source.part.close()


def rlds_folder(path: Path) -> Path | None:
    """Returns the folder of the RLDS data set that a path is, or holds as its only one; None where it is or holds none."""
    if not path.is_dir():
        return None
    found = sorted(file.parent for file in path.rglob(_RLDS))
    if len(found) > 1:
        raise HindcastError(f"{path} holds {len(found)} RLDS data sets. Name one: {', '.join(map(str, found[:5]))}.")
    return found[0] if found else None


def _opened(root: Path, files: Sequence[Path], kind: str, head_bytes: int) -> Source:
    path, count = files[0], len(files)
    if kind == "hdf5":
        from rl_datasets.builders.hdf5 import Hdf5Part

        groups = demonstration_groups(path)
        return Source("hdf5", root, Hdf5Part(path, "", groups), count, {"groups": groups} if groups else {})
    if kind == "npy":
        from rl_datasets.importing.parts import ArrayPart

        folder_of = root if root.is_dir() else path.parent
        names = sorted(file for file in (folder_of.rglob("*.npy") if root.is_dir() else [path]))
        arrays = {file.stem: np.load(file, mmap_mode="r", allow_pickle=False) for file in names}
        return Source("npz", root, ArrayPart(str(root), "", arrays), count)
    if kind == "zip":
        from rl_datasets.builders.npz import NpzPart

        part, is_cut = NpzPart(path, ""), _packed_bytes(path) > 4 * head_bytes
        return Source("npz", root, _head_of_npz(path, part, head_bytes) if is_cut else part, count, is_cut=is_cut)
    return _opened_table(root, path, count, head_bytes)


def _opened_table(root: Path, path: Path, count: int, head_bytes: int) -> Source:
    """Opens a table in the way in which it asks to be read, which the options then say."""
    from rl_datasets.importing.dialect import Dialect, UndeclaredError, adopt, declared_keys
    from rl_datasets.importing.tables import TablePart

    read, signs = Dialect(), list[Sign]()
    while True:
        try:
            part = TablePart(path, "", {}, read, most=head_bytes)
        except UndeclaredError as asked:
            if {sign.key for sign in asked.signs} <= {sign.key for sign in signs} - {"na_values"}:
                raise  # it is written in two ways
            read, signs = adopt(read, asked.signs), [*signs, *asked.signs]
        else:
            told = declared_keys(read)
            return Source("table", root, part, count, {"read": told} if told else {}, part.is_cut, signs)


def demonstration_groups(path: Path) -> str | None:
    """Returns the pattern of sibling groups that hold the same arrays, such as "data/*"; None where there are none."""
    import h5py

    from rl_datasets.builders.hdf5 import SIDE_BY_SIDE

    found: list[str] = []

    def visit(name: str, item: Any) -> None:
        if not isinstance(item, h5py.Group):
            return
        children = [item[key] for key in list(item)[:2]]
        if children and all(isinstance(child, h5py.Group) and len(child) for child in children) and _numbered(item):
            found.append(name)

    try:
        with h5py.File(path, "r") as file:
            if {"columns", "num_episodes", "version"} <= set(file):  # as d3rlpy 2 writes it
                return SIDE_BY_SIDE
            visit("", file)
            if not found:
                file.visititems(visit)
    except OSError as error:
        raise HindcastError(f"{path} is a damaged HDF5 file ({' '.join(str(error).split())}). Copy or download it again.") from error
    return None if not found else f"{found[0]}/*" if found[0] else "*"


def _numbered(group: Any) -> bool:
    """Whether children are named alike but for a number, as demonstrations are."""
    names = list(group)
    stems = {name.rstrip("0123456789") for name in names}
    return len(stems) == 1 and all(name[-1:].isdigit() for name in names)


def _packed_bytes(path: Path) -> int:
    """Bytes that must be unpacked before anything of a compressed archive can be read."""
    with zipfile.ZipFile(path) as archive:
        return sum(info.file_size for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED)


def _head_of_npz(path: Path, part: Part, head_bytes: int) -> Part:
    """The first rows of each array of a compressed archive, unpacked no further than that."""
    from rl_datasets.importing.parts import ArrayPart

    arrays: dict[str, np.ndarray] = {}
    rows = max(column.rows for column in part.columns.values())
    readable = {name: column for name, column in part.columns.items() if column.is_readable}
    row_bytes = sum(64 if c.is_text else np.dtype(c.dtype).itemsize * int(np.prod(c.shape)) for c in readable.values() if 2 * c.rows > rows)
    keep = max(head_bytes // (row_bytes or 1), 1)
    with zipfile.ZipFile(path) as archive:
        for name in part.columns:
            with archive.open(f"{name}.npy") as file:
                arrays[name] = _first_rows(file, keep)
    part.close()
    return ArrayPart(str(path), "", arrays)


def _first_rows(file: IO[bytes], rows: int) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = header(file)
    if dtype.hasobject:
        return np.broadcast_to(np.array(None, object), shape[:1])  # a column that is there, and is never unpickled
    if not shape:
        return np.frombuffer(file.read(dtype.itemsize), dtype).reshape(())
    if is_fortran and len(shape) > 1:  # its first rows are all over the array
        whole: np.ndarray = np.frombuffer(file.read(), dtype).reshape(shape, order="F")
        return whole[:rows]
    count, width = min(rows, shape[0]), int(np.prod(shape[1:], dtype=np.int64))
    return np.frombuffer(file.read(count * width * dtype.itemsize), dtype).reshape(count, *shape[1:])
