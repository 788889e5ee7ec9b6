"""The records of stage executions as they are read: what artifacts/records/<stage>/<time>-<run>.json says.

pipelines/lineage/record.py writes them.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from pipelines import paths
from pipelines.lineage.tree import Tree
from rl_datasets.errors import HindcastError

RUN, CODE, MACHINE, PACKAGES = "hindcast_run", "hindcast_code", "hindcast_machine", "hindcast_packages"
PARAMETERS, CONTENT, INTEGRITY = "hindcast_parameters", "hindcast_content", "hindcast_integrity"


class Launcher(StrEnum):
    """Who started a stage."""

    REPRO = "dvc repro"
    EXPERIMENT = "dvc exp run"
    HAND = "by hand"


class Keeper(StrEnum):
    """Who keeps the bytes of an input."""

    GIT = "git"
    DVC = "dvc"
    NOBODY = "nobody"  # so that no other clone can have it


@dataclass(frozen=True)
class Content:
    """What an input or output was: the digest of its content where a manifest states one, the md5 of a file or folder as DVC has it."""

    path: str
    digest: str = ""
    md5: str = ""
    keeper: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # of an output: path in it -> md5


@dataclass(frozen=True)
class Record:
    """One execution of one stage."""

    path: str  # of the record
    stage: str  # "train@cartpole_iql"
    run_id: str
    outcome: str  # COMPLETE, FAIL, ABORT
    error: str
    started: str  # ISO 8601
    ended: str
    command: tuple[str, ...]
    launcher: str
    experiment: str  # of `dvc exp run`, by name
    baseline: str  # the commit that the experiment began from
    commit: str  # "" outside of a git checkout
    difference: str  # SHA-256 of what tracked files differed by; "" where they did not
    changed: tuple[str, ...]  # those tracked files
    code: Mapping[str, str]  # file or folder of code that the stage depends on -> md5
    parameters: Mapping[str, Any]
    seeds: Mapping[str, Any]  # parameter -> seed or seeds
    inputs: tuple[Content, ...]
    outputs: tuple[Content, ...]
    untracked: tuple[str, ...]  # files of its code and inputs that neither git nor DVC keeps
    packages: Mapping[str, str]
    machine: Mapping[str, Any]
    is_intact: bool  # it has the digest that it states, and lies where its content says

    @property
    def is_dirty(self) -> bool:
        return bool(self.difference)


def records_of(tree: Tree, stage: str) -> list[Record]:
    """Returns the records of a stage, oldest first. Raises HindcastError where one is broken; `read_records` goes on."""
    return [parse_record(path, tree.read(path) or b"") for path in record_paths(tree, stage)]


def read_records(tree: Tree, stage: str = "") -> Iterator[Record | HindcastError]:
    """Yields every record (of one stage), oldest first within a stage; for a broken one, the error that says so."""
    for path in record_paths(tree, stage):
        try:
            yield parse_record(path, tree.read(path) or b"")
        except HindcastError as error:
            yield error


def record_paths(tree: Tree, stage: str = "") -> list[str]:
    folder = (paths.RECORDS / stage).as_posix()
    return [path for path in tree.files(folder) if is_record(path)]


def is_record(path: str) -> bool:
    """Whether a path below artifacts/records has a record's name."""
    return path.endswith(".json") and not PurePosixPath(path).name.startswith(".")


def made_by(records: Iterable[Record], output: str, name: str, md5: str) -> Record | None:
    """Returns the newest complete run that wrote `output` with a file `name` of this md5; None where no record says so.

    A run that DVC started comes before one by hand, which made no difference where both wrote the same.
    """
    fitting = (
        record
        for record in records
        if record.outcome == "COMPLETE" and any(entry.path == output and entry.files.get(name) == md5 for entry in record.outputs)
    )
    return max(fitting, key=lambda record: (record.launcher != Launcher.HAND, record.ended), default=None)


def parse_record(path: str, content: bytes) -> Record:
    """Raises HindcastError where it is no record of this form."""
    try:
        event = json.loads(content)
        run = event["run"]["facets"]
        return Record(
            path=path,
            stage=event["job"]["name"],
            run_id=event["run"]["runId"],
            outcome=event["eventType"],
            error=run.get("errorMessage", {}).get("message", ""),
            started=run[RUN]["started"],
            ended=event["eventTime"],
            command=tuple(run[RUN]["command"]),
            launcher=run[RUN]["launcher"],
            experiment=run[RUN]["experiment"],
            baseline=run[RUN]["baseline"],
            commit=run[CODE]["commit"],
            difference=run[CODE]["difference"],
            changed=tuple(run[CODE]["changed"]),
            code=dict(run[CODE]["files"]),
            untracked=(*run[CODE]["untracked"], *_kept_by_nobody(event["inputs"])),
            parameters=dict(run[PARAMETERS]["values"]),
            seeds=dict(run[PARAMETERS]["seeds"]),
            inputs=tuple(_content(entry) for entry in event["inputs"]),
            outputs=tuple(_content(entry) for entry in event["outputs"]),
            packages=dict(run[PACKAGES]["packages"]),
            machine={key: value for key, value in run[MACHINE].items() if not key.startswith("_")},
            is_intact=run[INTEGRITY]["digest"] == digest_of(event) and place_of(event) == PurePosixPath(path).parts[-2:],
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise HindcastError(
            f"{path} is no record of this version ({type(error).__name__}: {error}). Restore it with 'git checkout {path}'; "
            "where git does not have it, 'dvc repro --force' of its stage makes a new one."
        ) from error


def outcome_of(content: bytes) -> str:
    """Returns what a record of any version says of the run's end; "" where it is none."""
    try:
        return str(json.loads(content)["eventType"])
    except (ValueError, KeyError, TypeError):
        return ""


def digest_of(event: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a record without the facet that states it."""
    run = event["run"]
    rest = {**event, "run": {**run, "facets": {name: facet for name, facet in run["facets"].items() if name != INTEGRITY}}}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def place_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the folder and the file name that a record belongs at, below artifacts/records/."""
    started = "".join(mark for mark in event["run"]["facets"][RUN]["started"][:19] if mark not in "-:")
    return event["job"]["name"], f"{started}-{event['run']['runId'][:8]}.json"


def _content(entry: Mapping[str, Any]) -> Content:
    facet = entry["facets"][CONTENT]
    return Content(entry["name"], facet["digest"], facet["md5"], facet["keeper"], dict(facet["files"]))


def _kept_by_nobody(entries: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from (entry["name"] for entry in entries if entry["facets"][CONTENT]["keeper"] == Keeper.NOBODY)
