"""What is known of one stage's outputs at one point: the manifest and other small files that dvc.lock names, and the run that made them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from pipelines.lineage.records import Launcher, Record, made_by
from pipelines.lineage.stages import Stage
from pipelines.lineage.store import Store
from pipelines.lineage.tree import Tree
from rl_datasets.manifest import FILE_NAME

POLICY = "bundle.json"  # trainer/bundle.py, which takes a second to import
METRICS = "metrics.json"


@dataclass(frozen=True)
class StageFacts:
    """`records` are those of the stage, in any order."""

    stage: Stage
    store: Store
    tree: Tree
    records: tuple[Record, ...] = ()

    @property
    def key(self) -> str:
        return self.stage.name.partition("@")[2] or self.stage.name

    @cached_property
    def files(self) -> list[str]:
        """The paths of all files of the outputs, as DVC's listings have them; where those are not here, as the disk has them."""
        listed = [path for output in self.stage.outputs for path in self.store.files(output)]
        return listed or ([] if self.tree.revision else sorted(path for output in self.stage.outputs for path in _on_disk(output)))

    @cached_property
    def manifest_path(self) -> str:
        """The outermost manifest; "" where none is known."""
        found = [path for path in self.files if PurePosixPath(path).name == FILE_NAME]
        return min(found, key=lambda path: (path.count("/"), path), default="")

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        return self.json(self.manifest_path)

    @property
    def inputs(self) -> dict[str, str]:
        """What the manifest says was read: path -> digest of its content."""
        entries = [entry for entry in _list(self.manifest.get("inputs")) if isinstance(entry, dict)]
        return {str(entry["path"]): str(entry["digest"]) for entry in entries if "path" in entry and "digest" in entry}

    @property
    def packages(self) -> Mapping[str, Any]:
        """The packages that shaped the bytes, as the manifest has them."""
        return _mapping(self.manifest.get("packages"))

    def parameter(self, key: str) -> Mapping[str, Any]:
        """Returns a section of the parameters of the last run; empty where it had none."""
        return _mapping(self.stage.locked_parameters().get(key))

    @property
    def is_played(self) -> bool:
        """Of an evaluation: whether episodes were played, and not only told from the data."""
        evaluation = _mapping(self.parameter(f"experiments.{self.key}").get("evaluate"))
        return "episodes" in evaluation or "fitted_q" not in evaluation

    def json(self, path: str) -> Mapping[str, Any]:
        """Returns a small file of the outputs: with the bytes that dvc.lock names or, where those are not here, those on disk.

        Empty where there is none, or none that can be read; the audit says what is wrong with it.
        """
        content = self.store.read(path) if path else None
        if content is None and path and not self.tree.revision:
            content = _read(path)
        try:
            value = json.loads(content) if content else {}
        except ValueError:
            return {}
        return _mapping(value)

    @cached_property
    def run(self) -> Record | None:
        """The newest run whose outputs are those of dvc.lock."""
        path = self.manifest_path or next(iter(self.files), "")
        md5 = self.store.md5(path) if path else None
        if md5 is None:
            return None
        folders = [str(folder) for folder in PurePosixPath(path).parents]
        found = (made_by(self.records, folder, path.removeprefix(f"{folder}/"), md5) for folder in folders)
        return next((record for record in found if record is not None), None)

    @property
    def made(self) -> str:
        """How what dvc.lock has came to be, in words."""
        if self.stage.locked is None:
            return "not run yet"
        if self.run is not None:
            by_hand = "run by hand, then taken into dvc.lock with dvc commit"
            return {Launcher.HAND: by_hand, Launcher.EXPERIMENT: f"dvc exp run, experiment {self.run.experiment}"}.get(
                Launcher(self.run.launcher), str(self.run.launcher)
            )
        if not any(record.outcome == "COMPLETE" for record in self.records):
            return "no record of a run"
        if not self.files:
            return "its listing is not here, so no record can be compared: dvc pull"
        return "no recorded run made these bytes: they were taken into dvc.lock with dvc commit, or their record is lost"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _on_disk(output: str) -> Iterator[str]:
    path = Path(output)
    yield from (file.as_posix() for file in path.rglob("*") if file.is_file()) if path.is_dir() else [output] if path.is_file() else []


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
