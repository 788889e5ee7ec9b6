"""Writes what one stage execution did: a small JSON file in artifacts/records/, kept in git and not hashed by DVC.

It is an OpenLineage event. It is written whole or not at all, on failure too, and no fault in writing it changes how the stage ends.
"""

import sys
import time
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.lineage import execution, openlineage
from pipelines.lineage.records import CODE, CONTENT, INTEGRITY, MACHINE, PACKAGES, PARAMETERS, RUN, Content, Keeper, digest_of, place_of
from rl_datasets.files import write_json
from rl_datasets.manifest import FILE_NAME, Manifest, read_manifest


@dataclass
class Outcome:
    """What the stage tells its record: the folders and files that it wrote."""

    written: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class _Begin:
    """What was so when the stage began."""

    job: str
    run_id: str
    started: datetime
    clock: float
    facets: dict[str, Any]
    inputs: list[Content]


@contextmanager
def recording(job: str, folder: Path | None = None) -> Iterator[Outcome]:
    """Records the execution of `job` ("collect@cartpole_random") around the block; an exception is recorded and passes on."""
    begin = _guarded(_begin, job)
    if begin is not None:
        openlineage.send(openlineage.event("START", _iso(begin.started), begin.run_id, job, begin.facets))
    outcome, kind, error = Outcome(), "COMPLETE", ""
    try:
        yield outcome
    except BaseException as exception:
        kind = "FAIL" if isinstance(exception, Exception) else "ABORT"
        error = "".join(traceback.format_exception_only(exception)).strip()
        raise
    finally:
        if begin is not None:
            _guarded(_finish, begin, outcome, kind, error, folder or execution.records_folder(job))


def _guarded(step: Any, *arguments: Any) -> Any:
    """The stage's own outcome is what counts, so whatever goes wrong here is told in one line and goes no further."""
    try:
        return step(*arguments)
    except Exception as error:
        print(f"No record of this run was kept: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        return None


def _begin(job: str) -> _Begin:
    dependencies, parameters = execution.asked(job)
    started, launcher = datetime.now(UTC), execution.launcher(job)
    base = launcher["baseline"] or "HEAD"  # an experiment runs on a commit of DVC's own, which goes away
    facets = {
        RUN: {"started": _iso(started), "command": [Path(sys.argv[0]).name, *sys.argv[1:]], **launcher},
        CODE: {**execution.code_state(base), **execution.code(dependencies)},
        PARAMETERS: {"values": parameters, "seeds": execution.seeds_in(parameters)},
        PACKAGES: {"packages": execution.packages()},
    }
    return _Begin(job, str(uuid.uuid4()), started, time.monotonic(), facets, execution.inputs(dependencies))


def _finish(begin: _Begin, outcome: Outcome, kind: str, error: str, folder: Path) -> None:
    event = _event(begin, outcome, kind, error)
    event["run"]["facets"] |= openlineage.facets("RunFacet", {INTEGRITY: {"digest": digest_of(event)}})
    write_json(folder.joinpath(*place_of(event)), event)
    openlineage.send(event)


def _event(begin: _Begin, outcome: Outcome, kind: str, error: str) -> dict[str, Any]:
    manifests = {folder: read_manifest(folder) for folder in outcome.written if (folder / FILE_NAME).is_file()}
    run = {**begin.facets[RUN], "seconds": round(time.monotonic() - begin.clock, 3)}
    facets = {**begin.facets, RUN: run, MACHINE: execution.machine()}
    facets["processing_engine"] = {"name": "python", "version": facets[MACHINE]["python"]}
    if error:
        facets["errorMessage"] = {"message": error, "programmingLanguage": "python"}
    inputs = _inputs(begin.inputs, list(manifests.values()))
    outputs = [_output(place, manifests.get(place)) for place in outcome.written]
    return openlineage.event(kind, _iso(datetime.now(UTC)), begin.run_id, begin.job, facets, inputs, outputs)


def _inputs(begun: list[Content], manifests: list[Manifest]) -> list[dict[str, Any]]:
    """What the stage says that it read, and all else that it depends on."""
    entries = {entry.path: entry for entry in begun}
    for manifest in manifests:
        for named in manifest.inputs:
            known = entries.get(named.path, Content(named.path, keeper=Keeper.DVC))
            entries[named.path] = replace(known, digest=named.digest)
    return [_dataset(entries[path]) for path in sorted(entries)]


def _output(place: Path, manifest: Manifest | None) -> dict[str, Any]:
    """A manifest names all else in its folder by SHA-256; of a folder without one, each file is named. A file is told with its folder."""
    folder = place if place.is_dir() else place.parent
    if manifest is None:
        written = [place] if folder != place else [path for path in folder.rglob("*") if path.is_file()]
        names = sorted(path.relative_to(folder).as_posix() for path in written)
        statistics: dict[str, Any] = {"fileCount": len(names)}
    else:
        names, statistics = [FILE_NAME], {"fileCount": len(manifest.files) + 1}
        with suppress(StopIteration):
            statistics["rowCount"] = next(manifest.counts[name] for name in ("transitions", "steps") if name in manifest.counts)
    files = {name: execution.hash_small(folder / name) for name in names}
    content = Content(folder.as_posix(), manifest.digest if manifest else "", keeper=Keeper.DVC, files=files)
    return _dataset(content, {"outputStatistics": statistics})


def _dataset(content: Content, output: dict[str, Any] | None = None) -> dict[str, Any]:
    values = asdict(content)
    facets = {CONTENT: {name: values[name] for name in ("digest", "md5", "keeper", "files")}}
    if content.digest or content.md5:
        facets["version"] = {"datasetVersion": content.digest or content.md5}
    return openlineage.dataset(content.path, facets, output)


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
