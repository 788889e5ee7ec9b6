"""What one stage execution did: a small JSON file in artifacts/records/, kept in git and not hashed by DVC.

Its words are OpenLineage's (run, job, inputs, outputs, facets). It is written whole or not at all, on failure too.
"""

import os
import platform
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from pipelines import paths
from rl_datasets.errors import HindcastError
from rl_datasets.files import write_json
from rl_datasets.manifest import FILE_NAME, read_manifest

NAMESPACE = "hindcast"


@dataclass
class Outcome:
    """What the stage tells its record: the folders with a manifest.json that it wrote."""

    folders: list[Path] = field(default_factory=list)


@contextmanager
def recording(job: str, folder: Path = paths.RECORDS) -> Iterator[Outcome]:
    """Records the execution of `job` ("collect@cartpole_random") around the block; an exception is recorded and passes on."""
    started, clock, outcome = datetime.now(UTC), time.monotonic(), Outcome()
    error = ""
    try:
        yield outcome
    except BaseException as exception:
        error = "".join(traceback.format_exception_only(exception)).strip()
        raise
    finally:
        run_id = str(uuid.uuid4())
        try:
            event = _event(job, run_id, started, time.monotonic() - clock, error, outcome)
            write_json(folder / job / f"{started:%Y%m%dT%H%M%S}-{run_id[:8]}.json", event)
        except HindcastError as failure:  # the stage's own outcome is what counts, and what the caller must see
            if not error:
                print(f"No record of this run was kept: {failure}", file=sys.stderr)


def _event(job: str, run_id: str, started: datetime, seconds: float, error: str, outcome: Outcome) -> dict[str, Any]:
    manifests = {folder: read_manifest(folder) for folder in outcome.folders if (folder / FILE_NAME).is_file()}
    run_facets: dict[str, Any] = {
        "nominalTime": {"nominalStartTime": started.isoformat()},
        "processing_engine": {"name": "python", "version": platform.python_version()},
        "hindcast_environment": _environment(),
        "hindcast_git": _git_state(),
        "hindcast_command": {"arguments": [Path(sys.argv[0]).name, *sys.argv[1:]], "seconds": round(seconds, 3)},
    }
    if error:
        run_facets["errorMessage"] = {"message": error, "programmingLanguage": "python"}
    return {
        "eventType": "FAIL" if error else "COMPLETE",
        "eventTime": datetime.now(UTC).isoformat(),
        "run": {"runId": run_id, "facets": run_facets},
        "job": {"namespace": NAMESPACE, "name": job},
        "inputs": [
            _dataset(entry.path, {"name": entry.name, "digest": entry.digest})
            for manifest in manifests.values()
            for entry in manifest.inputs
        ],
        "outputs": [_dataset(folder.as_posix(), asdict(manifest)) for folder, manifest in manifests.items()],
    }


def _dataset(path: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"namespace": NAMESPACE, "name": path, "facets": {"hindcast_content": content}}


def _environment() -> dict[str, Any]:
    packages = {entry.metadata["Name"].lower(): entry.version for entry in distributions()}
    return {"platform": platform.platform(), "processor": platform.machine(), "cores": _cores(), "packages": dict(sorted(packages.items()))}


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _git_state() -> dict[str, Any]:
    """The commit, and a hash of what differs from it in tracked files; nulls outside of a git checkout."""
    commit = _git("rev-parse", "HEAD")
    difference = _git("diff", "HEAD", "--", ".", ":!dvc.lock")
    return {
        "commit": commit.decode().strip() if commit is not None else None,
        "dirty": bool(difference) if difference is not None else None,
        "difference": sha256(difference).hexdigest() if difference else None,
    }


def _git(*arguments: str) -> bytes | None:
    try:
        return subprocess.run(["git", *arguments], capture_output=True, check=True).stdout  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        return None
