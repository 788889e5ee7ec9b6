"""A project to plant faults in: every change goes through here and is taken back afterwards, byte for byte."""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.graph import Graph
from pipelines.lineage.lockfile import parse_lock
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from rl_datasets.manifest import FILE_NAME, OWN, SHARD, values_digest
from tests.pipelines.audit.small_project import git

LOCK = "dvc.lock"


@dataclass
class World:
    """The project in the current folder. `graph` and `order` are those of the state without a fault."""

    undo: list[Callable[[], None]] = field(default_factory=list)

    @cached_property
    def graph(self) -> Graph:
        return Graph(read_project(WorkingTree()).stages)

    @cached_property
    def order(self) -> list[str]:
        return self.graph.upstream(list(self.graph.stages))

    def maker(self, path: str) -> str:
        (stage,) = self.graph.makers(path)
        return stage

    def first(self, *stages: str) -> str:
        """The stage that comes first of some."""
        return min(stages, key=self.order.index)

    def files(self, *patterns: str) -> list[str]:
        return sorted(path.as_posix() for pattern in patterns for path in Path().glob(pattern) if path.is_file())

    def write(self, path: str, content: bytes | str, keep_times: bool = False) -> None:
        file = Path(path)
        before, times = (file.read_bytes(), file.stat()) if file.exists() else (None, None)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        if keep_times and times is not None:
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.undo.append(lambda: file.unlink() if before is None else _put(file, before))

    def write_json(self, path: str, value: Any) -> None:
        self.write(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")

    def remove(self, path: str) -> None:
        file = Path(path)
        before = file.read_bytes()
        file.unlink()
        self.undo.append(lambda: _put(file, before))

    def rename(self, path: str, to: str) -> None:
        Path(path).rename(to)
        self.undo.append(lambda: Path(to).rename(path) and None)

    def remove_folder(self, path: str) -> None:
        kept = Path(f".dvc/tmp/kept_{len(self.undo)}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, kept)
        self.undo.append(lambda: shutil.move(kept, path) and None)

    def commit(self) -> None:
        before = git("rev-parse", "HEAD")
        git("add", "-A")
        git("commit", "-qm", "A change")
        self.undo.append(lambda: git("reset", "-q", before) and None)

    def restore(self) -> None:
        while self.undo:
            self.undo.pop()()

    def flip(self, path: str, rng: random.Random, keep_times: bool = False) -> None:
        content = bytearray(Path(path).read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        self.write(path, bytes(content), keep_times)

    def lock(self) -> dict[str, Any]:
        return parse_lock(Path(LOCK).read_bytes())

    def write_lock(self, stages: dict[str, Any]) -> None:
        self.write(LOCK, yaml.dump({"schema": "2.0", "stages": stages}, Dumper=yaml.CSafeDumper, sort_keys=False, width=1000))

    def relock(self) -> None:
        """Makes dvc.lock agree with what is on disk, as 'dvc commit --force' does; objects of DVC's cache included."""
        contents, stages = Workspace(WorkingTree(), deep=True), self.lock()
        for stage in stages.values():
            for kind in ("deps", "outs"):
                for entry in stage.get(kind, ()):
                    found = contents.hashed(entry["path"]) if entry["path"].startswith(("artifacts/", "data/")) else None
                    if found is not None and found.md5 != entry["md5"]:
                        entry |= {"md5": found.md5, "size": found.size}
                        if found.listing is not None:
                            entry["nfiles"] = len(found.listing)
                        if kind == "outs":
                            self._cache(entry["path"], found.md5, found.listing)
        self.write_lock(stages)

    def reseal(self, folder: str, **changes: Any) -> None:
        """Rewrites a manifest with the digests that its files have now, and its own; `changes` are made to its values first."""
        values = {**json.loads(Path(folder, FILE_NAME).read_bytes()), **changes}
        contents = Workspace(WorkingTree(), deep=True)
        names = [file.removeprefix(f"{folder}/") for file in contents.files(folder)]
        values["files"] = {name: contents.sha256(f"{folder}/{name}") for name in names if name != FILE_NAME and SHARD not in name}
        values[OWN] = values_digest({key: value for key, value in values.items() if key != OWN})
        self.write_json(f"{folder}/{FILE_NAME}", values)

    def _cache(self, path: str, md5: str, listing: dict[str, str] | None) -> None:
        files = {found: f"{path}/{name}" for name, found in (listing or {}).items()} or {md5: path}
        objects = {found: Path(file).read_bytes() for found, file in files.items()}
        if listing is not None:
            entries = [{"md5": listing[name], "relpath": name} for name in sorted(listing)]
            objects[md5] = json.dumps(entries, sort_keys=True).encode()
        for name, content in objects.items():
            place = f".dvc/cache/files/md5/{name[:2]}/{name[2:]}"
            if not Path(place).exists():
                self.write(place, content)


def _put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists():
        file.unlink()
    file.write_bytes(content)


def is_clean() -> bool:
    return not subprocess.run(["git", "status", "--porcelain"], capture_output=True, check=True).stdout
