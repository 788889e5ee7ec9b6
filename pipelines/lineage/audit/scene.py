"""What every check of the audit is given: the project, its contents, and what git and the records say of it."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipelines import paths
from pipelines.lineage.audit.committed import Departure
from pipelines.lineage.audit.contents import Contents, Workspace
from pipelines.lineage.audit.history import History
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import folder_md5
from pipelines.lineage.lockfile import LOCK, parse_lock
from pipelines.lineage.records import Launcher, Record, is_record, outcome_of, parse_record, record_paths
from pipelines.lineage.stages import Project, Stage
from pipelines.lineage.store import Store
from pipelines.lineage.tracked import tracked
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, Manifest, manifest_of

LINKS = f"{paths.COMBINE.as_posix()}/"
COMPLETE = "COMPLETE"
BUNDLE_FILE = "bundle.json"  # trainer/bundle.py, which takes a second to import


@dataclass
class Scene:
    """One audit of one project. What it reads, it reads once."""

    project: Project
    graph: Graph
    contents: Contents
    history: History
    deep: bool = False
    reading: Future[dict[str, bool]] | None = None  # of DVC's cache, while other things are looked at
    _json: dict[str, Any] = field(default_factory=dict)
    _made: dict[str, Any] = field(default_factory=dict)
    _records: dict[str, Record | HindcastError] = field(default_factory=dict)

    @cached_property
    def store(self) -> Store:
        return Store(self.project)

    def manifests(self, stage: Stage) -> list[str]:
        """Returns the folders of a stage's outputs in which a manifest lies, sorted."""
        files = (file for output in stage.outputs for file in self.contents.files(output))
        return sorted({file.rpartition("/")[0] for file in files if file.endswith(f"/{FILE_NAME}")})

    def manifest(self, folder: str) -> Manifest | None:
        """Returns None where there is none. Raises HindcastError where it is broken or was changed after it was made."""
        values = self.json(f"{folder}/{FILE_NAME}")
        return None if values is None else manifest_of(values, f"{folder}/{FILE_NAME}")

    def json(self, file: str) -> Any:
        """Returns what a JSON file says; None where there is none. Raises HindcastError where it is no JSON."""
        if file not in self._json:
            content = self.contents.read(file)
            try:
                self._json[file] = None if content is None else json.loads(content)
            except ValueError as error:
                raise HindcastError(f"{file} is not valid JSON ({error})") from error
        return self._json[file]

    def mapping(self, file: str) -> Mapping[str, Any]:
        """Returns what a JSON file says. Raises HindcastError where it is missing or no object."""
        value = self.json(file)
        if not isinstance(value, dict):
            raise HindcastError(f"{file} {'is missing' if value is None else 'is no JSON object'}")
        return value

    def digest_of(self, source: str) -> str | None:
        """What an artifact says of its own content: a manifest, or a policy's description; None for what says nothing."""
        for name in (FILE_NAME, BUNDLE_FILE):
            values = self.json(f"{source}/{name}")
            if isinstance(values, dict) and "digest" in values:
                return str(values["digest"])
        return None

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned when it was first asked for under this name, or raises the HindcastError that it raised."""
        if name not in self._made:
            try:
                self._made[name] = make()
            except HindcastError as error:
                self._made[name] = error
        if isinstance(self._made[name], HindcastError):
            raise self._made[name]
        return self._made[name]

    @contextmanager
    def directory(self, folder: str) -> Iterator[Path | None]:
        """Yields a folder on disk with the files of an output's folder; None where not all of them are here."""
        if isinstance(self.contents, Workspace):
            yield Path(folder)
        elif self.contents.hashed(folder) is None:
            yield None
        else:
            with TemporaryDirectory() as made:
                for file in self.contents.files(folder):
                    place, link = self.contents.place(file), Path(made, file[len(folder) + 1 :])
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(Path(place or file).absolute())
                yield Path(made)

    @property
    def cached(self) -> Mapping[str, bool]:
        """The hash in the name of each object in DVC's cache, with whether its content has it. Waits until all are read."""
        return {} if self.reading is None else self.reading.result()

    def linked(self, stage: Stage) -> set[str]:
        """Returns the folders of the data sets that links among a stage's inputs name, as those of a combined data set do."""
        files = (file for path in stage.dependencies if path.startswith(LINKS) for file in self.contents.files(path))
        return {str(self.mapping(file).get("path")) for file in files}

    def before(self, stage: Stage) -> Stage:
        """Returns the stage as the last commit's dvc.lock has it, while the one on disk may differ; with no run where there is none."""
        return replace(stage, locked=self._lock_before.get(stage.name))

    def other_words(self, stage: Stage, path: str) -> set[str]:
        """Returns the hashes that dvc.lock had for a path of a stage in the last commit, and that others who read or made it have now."""
        before = self.before(stage)
        said = {before.locked_hashes(kind).get(path) for kind in ("deps", "outs")}
        if path in stage.outputs:
            said |= {self.graph.stages[child].locked_hashes("deps").get(path) for child in self.graph.children(stage.name)}
        else:
            said |= {self.graph.stages[maker].locked_hashes("outs").get(path) for maker in self.graph.makers(path)}
        return {md5 for md5 in said if md5}

    def listing_of(self, path: str, md5: str) -> dict[str, str] | None:
        """Returns the md5 of each file of a folder as it was when it had this hash; None where neither cache nor git knows."""
        if self.graph.makers(path):
            files = {file: self.store.md5(file) for file in self.store.files(path)}
            listing = {file[len(path) + 1 :]: found for file, found in files.items() if found}
        else:
            listing = self.history.listing(path)
        return listing if folder_md5(listing) == md5 else None

    def is_tracked(self, path: str) -> bool:
        """Whether a source file is kept by DVC, by a `.dvc` file beside it."""
        return tracked(self.project.tree, path) is not None

    def is_kept(self, path: str, md5: str) -> bool:
        """Whether DVC, or the last commit or the revision, has a source file with this content."""
        tree = self.project.tree
        kept, content = tracked(tree, path), tree.read(path) if tree.revision else self.history.committed(path)
        committed = "" if content is None else hashlib.md5(content, usedforsecurity=False).hexdigest()
        return bool(md5) and md5 in (committed, kept.md5 if kept is not None and kept.path == path else "")

    def was_run_by_dvc(self, stage: str) -> bool:
        """Whether a record says that DVC ran the stage to its end."""
        return any(run.outcome == COMPLETE and run.launcher != Launcher.HAND for run in self.records(stage))

    def records(self, stage: str) -> list[Record]:
        """Returns the records of a stage that can be read, oldest first."""
        return [record for path in self.record_paths(stage) if isinstance(record := self.record(path), Record)]

    def record_paths(self, stage: str) -> list[str]:
        return self.all_records.get(stage, [])

    @cached_property
    def all_records(self) -> dict[str, list[str]]:
        """The paths of all records by the stage in whose folder they lie, oldest first."""
        found: dict[str, list[str]] = {}
        for path in record_paths(self.project.tree):
            found.setdefault(path.split("/")[-2], []).append(path)
        return found

    def record(self, path: str) -> Record | HindcastError:
        """Returns a record, or the error that says why it is none."""
        if path not in self._records:
            try:
                self._records[path] = parse_record(path, self.project.tree.read(path) or b"")
            except HindcastError as error:
                self._records[path] = error
        return self._records[path]

    @cached_property
    def record_edits(self) -> dict[str, list[Departure]]:
        """By stage, the records that are gone, or not as they were first committed; not those that a sparse checkout leaves out."""
        edits: dict[str, list[Departure]] = {}
        for departure in self.history.departures(paths.RECORDS.as_posix(), self.project.tree.read):
            if is_record(departure.path) and departure.path not in self.history.left_out:
                edits.setdefault(departure.path.split("/")[-2], []).append(departure)
        return edits

    @cached_property
    def first_commits(self) -> dict[str, str]:
        """The first commit that added each record, by the record's path."""
        return self.history.first_commits(paths.RECORDS.as_posix())

    def superseded(self, stage: str) -> dict[str, Record | None]:
        """Returns, by path, the records of complete runs that a commit removed which brought the record of a later run of the stage.

        None stands for one that has an older form.
        """
        found: dict[str, Record | None] = {}
        for departure in self.record_edits.get(stage, ()):
            content = self.history.content(departure.removed) if departure.later else b""
            if outcome_of(content) == COMPLETE:
                found[departure.path] = None
                with suppress(HindcastError):
                    found[departure.path] = parse_record(departure.path, content)
        return found

    @cached_property
    def _lock_before(self) -> dict[str, Any]:
        content = self.history.committed(LOCK)
        try:
            return {} if content is None else parse_lock(content)
        except HindcastError:
            return {}

    def mend(self, path: str, stage: str) -> str:
        """How to get a path back as it was made, or what followed from it made anew."""
        if self.graph.makers(path):
            return f"restore it with 'dvc checkout --force {path}', or run 'dvc repro {stage}'"
        if self.history.is_changed(path):
            return f"restore it with 'git checkout {path}', or run 'dvc repro {stage}' where it was changed on purpose"
        return f"it was changed after the run: run 'dvc repro {stage}'"
