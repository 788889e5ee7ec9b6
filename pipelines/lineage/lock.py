"""What DVC wrote down: the stages of dvc.yaml with what dvc.lock says of each, and the hash of a path as DVC computes it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dvc.exceptions import DvcException
from dvc.repo import Repo

from pipelines.params import read_values
from pipelines.yaml_file import read_yaml
from rl_datasets.errors import HindcastError

LOCK = Path("dvc.lock")
REMEDY = "Restore it with 'git checkout dvc.lock', or remove it and run 'dvc repro'"
BLOCK = 1 << 20  # bytes read at once


@dataclass(frozen=True)
class Stage:
    """One stage: what dvc.yaml asks for now, and what dvc.lock says of its last run (None where it has none)."""

    name: str  # "train@cartpole_iql"
    command: str
    dependencies: tuple[str, ...]
    outputs: tuple[str, ...]
    locked: Mapping[str, Any] | None

    def locked_hashes(self, kind: str) -> dict[str, str]:
        """Returns path -> md5 of the last run's "deps" or "outs"; a folder's ends in ".dir"."""
        return {entry["path"]: entry["md5"] for entry in (self.locked or {}).get(kind, ())}

    def locked_parameters(self) -> dict[str, Any]:
        return dict((self.locked or {}).get("params", {}).get("params.yaml", {}))


def read_stages() -> dict[str, Stage]:
    """Returns all stages by name, in the order of dvc.yaml. Raises HindcastError where dvc.yaml or dvc.lock is broken."""
    locked = _read_lock()
    read_values()  # DVC reads it too, and says less of what is wrong
    try:
        stages = [stage for stage in Repo(".").index.stages if stage.path_in_repo == "dvc.yaml"]
    except DvcException as error:
        raise HindcastError(f"dvc.yaml cannot be read: {error}. 'dvc status' shows the same.") from error
    return {
        stage.addressing: Stage(
            name=stage.addressing,
            command=stage.cmd,
            dependencies=tuple(sorted(dep.def_path for dep in stage.deps if dep.def_path != "params.yaml")),
            outputs=tuple(sorted(out.def_path for out in stage.outs)),
            locked=locked.get(stage.addressing),
        )
        for stage in stages
    }


class Hasher:
    """Computes the hashes of paths as DVC does, each once."""

    def __init__(self) -> None:
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


def _read_lock() -> dict[str, Any]:
    if not LOCK.is_file():
        return {}
    content = read_yaml(LOCK, REMEDY) or {}
    try:
        stages = dict(content.get("stages", {}))
        for stage in stages.values():
            _ = [(entry["path"], entry["md5"]) for kind in ("deps", "outs") for entry in stage.get(kind, ())]
        return stages
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HindcastError(f"{LOCK} is not what DVC writes ({' '.join(str(error).split())}). {REMEDY}.") from error
