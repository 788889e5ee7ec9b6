"""The contents that a revision names: code and parameters from git, outputs from the workspace or DVC's cache where they are there."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

from pipelines.lineage.audit.contents import Hashed, Workspace
from pipelines.lineage.hashing import folder_md5
from pipelines.lineage.stages import Project
from pipelines.lineage.store import FOLDER, Store


class Revision:
    """`deep` reads every byte of every output; without it, an object in DVC's cache counts as what its name says."""

    def __init__(self, project: Project, deep: bool) -> None:
        self._tree, self._deep = project.tree, deep
        self._store = Store(project)
        self._outputs = sorted(path for stage in project.stages.values() for path in stage.locked_hashes("outs"))
        self._workspace = Workspace(project.tree, deep)
        self._places: dict[str, Path | None] = {}
        self._same: dict[tuple[str, str], bool] = {}  # by an output and its md5

    def prepare(self, paths: Iterable[str], advance: Callable[[], None] = lambda: None) -> None:
        self._workspace.prepare((path for path in paths if self._is_output(path)), advance)

    def hashed(self, path: str) -> Hashed | None:
        if not self._is_output(path):
            return self._in_git(path)
        if self._is_as_it_was(path):
            return self._workspace.hashed(path)
        if self._store.output_of(path) is None:
            return self._around(path)
        md5, files = self._store.md5(path), self._store.files(path)
        if not files or any(self.place(file) is None for file in files):
            return None
        listing = {file[len(path) + 1 :]: self._store.md5(file) or "" for file in files}
        size = sum(place.stat().st_size for file in files if (place := self.place(file)))
        if md5 is not None and not md5.endswith(FOLDER):
            return Hashed(md5, size, None)
        return Hashed(folder_md5(listing), size, listing)

    def _around(self, folder: str) -> Hashed | None:
        """A folder that outputs lie in, as those of many stages do."""
        parts = {output: self.hashed(output) for output in self._outputs if output.startswith(f"{folder}/")}
        listing: dict[str, str] = {}
        for output, part in parts.items():
            if part is None:
                return None
            inside = {output: part.md5} if part.listing is None else {f"{output}/{name}": md5 for name, md5 in part.listing.items()}
            listing |= {file[len(folder) + 1 :]: md5 for file, md5 in inside.items()}
        return Hashed(folder_md5(listing), sum(part.size or 0 for part in parts.values() if part), listing)

    def sha256(self, file: str) -> str | None:
        content = self.read(file)
        return None if content is None else hashlib.sha256(content).hexdigest()

    def files(self, path: str) -> list[str]:
        if not self._is_output(path):
            return self._tree.files(path)
        if self._is_as_it_was(path):
            return self._workspace.files(path)
        return [file for file in self._store.files(path) if self.place(file) is not None]

    def read(self, file: str) -> bytes | None:
        if not self._is_output(file):
            return self._tree.read(file)
        place = self.place(file)
        return None if place is None else place.read_bytes()

    def place(self, file: str) -> Path | None:
        if file not in self._places:
            self._places[file] = self._find(file)
        return self._places[file]

    def hashed_files(self) -> dict[str, Path]:
        return self._workspace.hashed_files()

    def close(self) -> None:
        self._workspace.close()

    def _is_as_it_was(self, path: str) -> bool:
        """Whether the workspace has the whole output that a path is or lies in as the revision had it."""
        output = self._store.output_of(path)
        if output is None:
            return False
        if output not in self._same:
            here = self._workspace.hashed(output[0])
            self._same[output] = here is not None and here.md5 == output[1]
        return self._same[output]

    def _find(self, file: str) -> Path | None:
        if self._is_as_it_was(file):
            return Path(file) if Path(file).is_file() else None
        return self._store.find(file) if self._deep else self._seen(file)

    def _seen(self, file: str) -> Path | None:
        """Where a file of an output is, by what the workspace's file was when it was last read, or by the cache's names."""
        md5 = self._store.md5(file)
        here = self._workspace.hashed(file)
        if md5 is None or (here is not None and here.md5 == md5):
            return None if md5 is None else Path(file)
        cached = self._store.cached(md5)
        return cached if cached.is_file() else None

    def _is_output(self, path: str) -> bool:
        return self._store.output_of(path) is not None or any(output.startswith(f"{path}/") for output in self._outputs)

    def _in_git(self, path: str) -> Hashed | None:
        content = self._tree.read(path)
        if content is not None:
            return Hashed(_md5(content), len(content), None)
        contents = {file: self._tree.read(file) or b"" for file in self._tree.files(path)}
        if not contents:
            return None
        listing = {file[len(path) + 1 :]: _md5(content) for file, content in contents.items()}
        return Hashed(folder_md5(listing), sum(map(len, contents.values())), listing)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
