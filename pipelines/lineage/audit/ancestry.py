"""Records against the commits that they name: a run whose code was committed had the code and the parameters of that commit."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from pipelines.lineage.audit.findings import Finding, compared, note, shown, unknown
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.graph import overlap
from pipelines.lineage.hashing import folder_md5
from pipelines.lineage.records import Record
from pipelines.lineage.revisions import contents
from pipelines.lineage.stages import PARAMS, Project, Stage
from pipelines.lineage.tree import WorkingTree
from pipelines.yaml_file import parse_yaml
from rl_datasets.errors import HindcastError
from rl_datasets.words import count

Blobs = Mapping[str, str]  # path -> git's name of its content, "" for a link
Md5s = dict[str, tuple[str, str]]  # git's name of a content -> its md5, and its md5 with the line ends of Windows


def check_ancestry(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That each record has the code and parameters of its commit, but for the files that it says were changed or unknown to git.

    Of a commit that this clone does not have, nothing can be said here.
    """
    for record in scene.records(stage.name):
        blobs = scene.history.at(record.commit)
        if blobs is None:
            continue
        link = f"record {record.path} and commit {record.commit[:10]}, which it names"
        try:
            expected, found = _code(scene, record, blobs), _parameters(scene, record, blobs)
        except HindcastError as error:
            yield unknown(stage.name, link, record.path, found=str(error))
            continue
        then = {**expected[0], **found[0]}
        now = {**expected[1], **found[1]}
        mend = "it was forged, or its commit is another: remove it where git has none, or 'git log' it and revert what brought it"
        yield compared(stage.name, link, record.path, expected=then, found=now, mend=mend)


def lost_commits(scene: Scene, names: Iterable[str]) -> Iterator[Finding]:
    """Tells of records whose commit git does not have: of their code there is only their own word."""
    records = (record for name in names for record in scene.records(name))
    lost = [record.path for record in records if record.commit and scene.history.at(record.commit) is None]
    if lost:
        found = f"{count(len(lost), 'record')} of commits that git does not have, as {lost[0]}"
        mend = "a branch was squashed, the history rewritten, or the clone is shallow: what they say of code was not compared with it"
        yield note("", "commits of records", tuple(lost), found=found, mend=mend)


def is_same_code(scene: Scene, first: Record, second: Record) -> bool:
    """Whether two runs had the same Python code in all of the project, and not only where dvc.yaml declares it.

    False where git cannot tell. What a run had changed and not committed counts where its record does not have the hash of it.
    """
    if _uncommitted_code(first) or _uncommitted_code(second):
        return (first.commit, first.difference) == (second.commit, second.difference)
    one, other = (scene.history.at(record.commit) for record in (first, second))
    return first.commit == second.commit or (one is not None and other is not None and _python(one) == _python(other))


def _uncommitted_code(record: Record) -> list[str]:
    return [path for path in record.changed if path.endswith(".py") and not any(overlap(path, given) for given in record.code)]


def _python(blobs: Blobs) -> dict[str, str]:
    return {path: name for path, name in blobs.items() if path.endswith(".py") and not path.startswith("tests/")}


def _code(scene: Scene, record: Record, blobs: Blobs) -> tuple[dict[str, str], dict[str, str]]:
    """Path -> md5 by the commit and by the record, of the code that has another; a folder's as DVC computes it."""
    apart = (*record.changed, *record.untracked)
    asked = [path for path, md5 in record.code.items() if md5 and not any(overlap(path, other) for other in apart)]
    files = {path: [file for file in blobs if file == path or file.startswith(f"{path}/")] for path in asked}
    asked = [path for path in asked if all(blobs[file] for file in files[path])]
    md5s = _md5s(scene, (blobs[file] for path in asked for file in files[path]))
    then = {path: [_md5(path, {file: md5s[blobs[file]][kind] for file in files[path]}) for kind in (0, 1)] for path in asked}
    differing = sorted(path for path in asked if record.code[path] not in then[path])
    return {path: shown(then[path][0]) for path in differing}, {path: shown(record.code[path]) for path in differing}


def _md5(path: str, files: Mapping[str, str]) -> str:
    if not files:
        return "not there"
    return files[path] if path in files else folder_md5({file.removeprefix(f"{path}/"): md5 for file, md5 in files.items()})


def _md5s(scene: Scene, blobs: Iterable[str]) -> Md5s:
    known: Md5s = scene.once("md5 of committed contents", dict)
    for blob, content in contents(sorted({*blobs} - set(known))):
        ends = content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        known[blob] = tuple(hashlib.md5(data, usedforsecurity=False).hexdigest() for data in (content, ends))  # type: ignore[assignment]
    return known


def _parameters(scene: Scene, record: Record, blobs: Blobs) -> tuple[dict[str, Any], dict[str, Any]]:
    """Key -> value by the commit and by the record, of the parameters that have another."""
    blob = blobs.get(PARAMS)
    if not blob or PARAMS in record.changed:
        return {}, {}
    project = scene.once(f"{PARAMS} {blob}", partial(_values, blob))
    then = {key: project.parameter(key) for key in record.parameters if ":" not in key}
    differing = sorted(key for key, value in then.items() if _plain(value) != _plain(record.parameters[key]))
    return {key: then[key] for key in differing}, {key: record.parameters[key] for key in differing}


def _values(blob: str) -> Project:
    ((_, content),) = contents([blob])
    values = parse_yaml(content, PARAMS)
    return Project(WorkingTree(), values if isinstance(values, dict) else {}, {})


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
