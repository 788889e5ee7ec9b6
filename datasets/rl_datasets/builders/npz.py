"""NumPy files: an .npz archive, a lone .npy, or a folder of either (of .npy, each file is a column). Pickled objects are never read.

Arrays are mapped into memory where they lie; compressed ones are unpacked to a temporary file first, so memory is that of a block.
"""

import ast
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.builder import FileImportBuilder, FileOptions
from rl_datasets.importing.parts import ArrayPart, BasePart, Column, Part, Scratch, array_column
from rl_datasets.importing.source import require_kind


class Options(FileOptions):
    """Files and their mapping; in a folder of .npy files, a column is named as its file is, without the suffix."""


class NpzPart(BasePart):
    """One archive. What is compressed is unpacked when it is first read."""

    def __init__(self, path: Path, label: str) -> None:
        self._path, self._arrays = path, dict[str, np.ndarray]()
        self._scratch = Scratch()
        require_kind(path, "zip")
        try:
            with zipfile.ZipFile(path) as archive:
                members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
                columns = {key: _column(archive, member, key) for key, member in members.items()}
        except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
            raise HindcastError(f"{path} is a damaged .npz file ({error}). Copy or download it again.") from error
        if not columns:
            raise HindcastError(f"{path} holds no .npy array. Save arrays with numpy.savez.")
        super().__init__(str(path), label, columns)
        self._members = members

    def read(self, name: str, start: int, stop: int) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = self._open(name)
        return ArrayPart(self.name, self.label, {name: self._arrays[name]}).read(name, start, stop)

    def close(self) -> None:
        self._arrays.clear()
        self._scratch.close()

    def _open(self, name: str) -> np.ndarray:
        """Maps the array into memory."""
        member = self._members[name]
        target = self._scratch.path / f"{len(self._arrays)}.npy"
        try:
            with zipfile.ZipFile(self._path) as archive:
                info = archive.getinfo(member)
                if info.compress_type == zipfile.ZIP_STORED:
                    return _mapped(self._path, _data_offset(self._path, info))
                with archive.open(member) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 2**20)
        except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
            raise HindcastError(f"{self._path}: the array '{name}' is damaged ({error}). Copy or download the file again.") from error
        return _mapped(target, 0)


class Builder(FileImportBuilder):
    options: Options
    suffixes = (".npz", ".npy")
    packages = ("numpy",)

    def open_file(self, path: Path, label: str) -> Part:
        return NpzPart(path, label)

    def parts(self) -> Iterator[Part]:
        arrays = [path for path in self.files if path.suffix == ".npy"]
        if arrays:
            if len(arrays) < len(self.files):
                raise HindcastError(f"{self.root} holds .npz and .npy files. Say with 'files' which of them to read.")
            yield ArrayPart(str(self.root), "", {path.stem: _load_array(path) for path in arrays})
            return
        yield from super().parts()


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    rng = np.random.default_rng(0)
    np.savez(
        folder / "logged.npz",
        observations=rng.normal(size=(12, 3)).astype(np.float32),
        actions=rng.uniform(-1, 1, (12, 2)),
        rewards=np.arange(12.0),
        lengths=np.array([5, 3, 4]),
    )
    mapping = {"observation": "observations", "action": "actions", "reward": "rewards", "ends": {"kind": "lengths", "column": "lengths"}}
    return {"path": str(folder / "logged.npz"), "env_id": "Logged-v0", "bounds": "data", **mapping}


def _column(archive: zipfile.ZipFile, member: str, name: str) -> Column:
    """Reads the header of an array alone."""
    with archive.open(member) as file:
        shape, dtype = read_header(file)
    if dtype == np.dtype(object) or dtype.kind == "V":
        return Column(name, "object" if dtype.kind == "O" else "structured", shape[1:], shape[0] if shape else 1)
    return array_column(name, np.broadcast_to(np.zeros((), dtype), shape))


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Raises ValueError where the bytes are no array. No object is unpickled."""
    if np.lib.format.read_magic(file) == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    return shape, dtype


def _load_array(path: Path) -> np.ndarray:
    require_kind(path, "npy")
    try:
        with path.open("rb") as file:
            shape, dtype = read_header(file)
        if dtype.hasobject:
            return np.broadcast_to(np.array(None, object), shape)  # a column that is there, and cannot be read
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        return array
    except (ValueError, EOFError, OSError) as error:
        raise HindcastError(f"{path} is a damaged .npy file ({error}). Copy or download it again.") from error


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Returns where the content of a member that isn't compressed begins, after its local header."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
    return info.header_offset + 30 + name + extra


def _mapped(path: Path, offset: int) -> np.ndarray:
    """Maps the .npy content that begins at an offset of a file."""
    with path.open("rb") as file:
        file.seek(offset)
        version = np.lib.format.read_magic(file)
        size = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
        header = ast.literal_eval(file.read(size).decode("latin1"))
        start = file.tell()
    dtype, shape = np.lib.format.descr_to_dtype(header["descr"]), header["shape"]
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if header["fortran_order"] else "C")
