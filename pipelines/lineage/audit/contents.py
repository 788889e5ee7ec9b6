"""The contents that an audit looks at: those of the workspace, or those that a revision names and that are still to be had.

Of a revision, code and parameters are read from git, and outputs from the workspace or DVC's cache where these have the bytes.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from pipelines.lineage.audit.memory import Memory
from pipelines.lineage.hashing import Digests, Ignored, digests_of_all, folder_md5
from pipelines.lineage.tree import Tree
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import SHARD

ARTIFACTS = "artifacts/"


class Hashed(NamedTuple):
    """A path as DVC sees it. `listing` has the md5 of each file by its path in a folder; None for a file."""

    md5: str
    size: int | None
    listing: dict[str, str] | None


class Contents(Protocol):
    def prepare(self, paths: Iterable[str], advance: Callable[[], None]) -> None:
        """Reads what will be asked for, with all cores."""

    def hashed(self, path: str) -> Hashed | None:
        """Returns None where nothing is there. Raises HindcastError where it is there and cannot be read."""

    def sha256(self, file: str) -> str | None:
        """Returns None where there is no such file."""

    def files(self, path: str) -> list[str]:
        """Returns the paths of the files at or below a path, sorted."""

    def read(self, file: str) -> bytes | None:
        """Returns None where there is no such file."""

    def place(self, file: str) -> Path | None:
        """Returns a file on disk with the content; None where there is none."""

    def hashed_files(self) -> dict[str, Path]:
        """Returns the files of the workspace that were read so far, one of each md5."""

    def close(self) -> None: ...


class Workspace:
    """What is on disk. Without `deep`, a file that looks as it did when an audit last read it is not read again."""

    def __init__(self, tree: Tree, deep: bool) -> None:
        self._tree, self._deep = tree, deep
        self._ignored, self._memory = Ignored(), Memory()
        self._digests: dict[str, Digests | None] = {}
        self._files: dict[str, list[str]] = {}
        self.bytes_read = 0

    @property
    def oldest(self) -> int | None:
        """When the oldest file that was not read again had been read, in seconds; None where all were."""
        return self._memory.oldest

    def prepare(self, paths: Iterable[str], advance: Callable[[], None] = lambda: None) -> None:
        files = [file for path in paths for file in self.files(path) if file not in self._digests]
        unread = []
        for file in dict.fromkeys(files):
            known = None if self._deep else self._memory.recall(file, _wants_sha256(file))
            if known is None:
                unread.append((file, self._memory.looks(file)))
            else:
                self._digests[file] = known
        wanted = ((Path(file), _wants_sha256(file)) for file, _ in unread)
        found = digests_of_all(wanted, advance, spare=int(self._deep))
        for (file, looked), digests in zip(unread, found, strict=True):
            self._digests[file] = digests
            self.bytes_read += looked[0] if looked else 0
            if digests is not None:
                self._memory.keep(file, digests, looked)

    def hashed(self, path: str) -> Hashed | None:
        if not os.path.exists(path):
            return None
        self.prepare([path])
        files = self.files(path)
        listing = {file[len(path) + 1 :]: self._md5(file) for file in files}
        size = sum(os.path.getsize(file) for file in files)
        return Hashed(folder_md5(listing), size, listing) if os.path.isdir(path) else Hashed(self._md5(path), size, None)

    def sha256(self, file: str) -> str | None:
        self.prepare([file])
        found = self._digests.get(file)
        return found.sha256 if found else None

    def files(self, path: str) -> list[str]:
        if path not in self._files:
            self._files[path] = self._ignored.files(path)
        return self._files[path]

    def read(self, file: str) -> bytes | None:
        return self._tree.read(file)

    def place(self, file: str) -> Path | None:
        return Path(file) if os.path.isfile(file) else None

    def hashed_files(self) -> dict[str, Path]:
        return {digests.md5: Path(file) for file, digests in list(self._digests.items()) if digests is not None}

    def close(self) -> None:
        self._memory.save()

    def _md5(self, file: str) -> str:
        found = self._digests.get(file)
        if found is None:
            raise HindcastError(f"{file} is here but cannot be read. Look at it with 'ls -ld {file}', and mend that.")
        return found.md5


def _wants_sha256(file: str) -> bool:
    """Manifests name the SHA-256 of all files of an artifact but the shards."""
    return file.startswith(ARTIFACTS) and SHARD not in file
