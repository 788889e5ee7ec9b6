"""The hash of a path as DVC computes it, from the bytes on disk."""

import hashlib
import json
from pathlib import Path

BLOCK = 1 << 20  # bytes read at once


class Hasher:
    """Computes the hashes of paths as DVC does, each once."""

    def __init__(self) -> None:
        from dvc.repo import Repo

        self._ignored = Repo(".").dvcignore.is_ignored_file
        self._known: dict[str, str | None] = {}

    def __call__(self, path: str) -> str | None:
        """Returns DVC's md5 of a file, or of a folder (with ".dir" behind); None where nothing is there. Reads every byte."""
        if path not in self._known:
            self._known[path] = self._hash(Path(path))
        return self._known[path]

    def _hash(self, path: Path) -> str | None:
        if not path.is_dir():
            return _hash_file(path) if path.is_file() else None
        files = sorted(file for file in path.rglob("*") if file.is_file() and not self._ignored(str(file.absolute())))
        entries = [{"md5": _hash_file(file), "relpath": file.relative_to(path).as_posix()} for file in files]
        listing = json.dumps(sorted(entries, key=lambda entry: entry["relpath"]), sort_keys=True)
        return hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest() + ".dir"


def _hash_file(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
