"""The objects of a DVC remote: every one that an output or a source needs is read there whole, and must have the md5 that names it.

DVC itself asks a remote whether it has an object, and no more: a push leaves a damaged one as it is and takes a folder for whole whose
listing is there, and a pull hands a damaged one over unless the remote's `verify` is true.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pipelines.lineage.audit.findings import Finding, broken, holds, note, unknown
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import BLOCK
from pipelines.lineage.stages import Project, Stage
from pipelines.lineage.tracked import Origin, tracked
from rl_datasets.errors import HindcastError

FOLDER = ".dir"
_READERS = 8  # objects read at once
_SHOWN = 3  # damaged objects of one output


@dataclass(frozen=True)
class Need:
    """What must be on the remote for one path: an output of a stage, or a source that a `.dvc` file keeps."""

    stage: str
    path: str
    md5: str


@dataclass(frozen=True)
class Read:
    """What was found where an object should be: its md5 ("" where nothing is), or why it could not be read; a listing's content."""

    md5: str = ""
    fault: str = ""
    content: bytes = b""


class Remote:
    """One remote of DVC's settings: `read` is safe from several threads."""

    def __init__(self, name: str = "") -> None:
        """Raises HindcastError where there is none of this name, without one no default, or its settings or packages do not allow it."""
        from dvc.exceptions import DvcException
        from dvc.repo import Repo
        from dvc_objects.fs.errors import ConfigError, RemoteMissingDepsError

        try:
            with Repo(".") as repo:
                self.name: str = name or str(repo.config["core"].get("remote") or "")
                self.verify = bool(repo.config["remote"].get(self.name, {}).get("verify"))
                self._objects: Any = repo.cloud.get_remote_odb(name or None, "push")
        except (DvcException, ConfigError, RemoteMissingDepsError) as error:
            raise HindcastError(
                f"The remote '{name or 'default'}' cannot be used: {' '.join(str(error).split())}. 'dvc remote list' shows what there is; "
                "docs/how-to/remotes.md says how one is set up."
            ) from error

    def read(self, md5: str) -> Read:
        """Reads an object whole."""
        digest, content = hashlib.md5(usedforsecurity=False), bytearray()
        try:
            with self._objects.fs.open(self._objects.oid_to_path(md5), "rb") as file:
                while block := file.read(BLOCK):
                    digest.update(block)
                    if md5.endswith(FOLDER):
                        content += block
        except FileNotFoundError:
            return Read()
        except Exception as error:  # whatever the library of a cloud raises
            return Read(fault=f"{type(error).__name__}: {' '.join(str(error).split())}")
        return Read(digest.hexdigest(), content=bytes(content))

    def place(self, md5: str) -> str:
        return str(self._objects.fs.unstrip_protocol(self._objects.oid_to_path(md5)))


def check_remote(
    project: Project, graph: Graph, stages: Iterable[str], remote: Remote, advance: Callable[[str], None] = lambda _: None
) -> Iterator[Finding]:
    """Yields a finding for each output, and each source that DVC keeps, of these stages. Every object is read once."""
    needs = [need for name in stages for need in needs_of(project, graph, graph.stages[name])]
    advance(f"listings on {remote.name}")
    found = _read_all(remote, (need.md5 for need in needs))
    members = {need.md5: _members(found[need.md5], need.md5) for need in needs}
    advance(f"objects on {remote.name}")
    found |= _read_all(remote, (md5 for inside in members.values() for md5 in inside.values() if md5 not in found))
    for need in needs:
        yield _verdict(
            need, remote, {need.path: need.md5, **{f"{need.path}/{name}": md5 for name, md5 in members[need.md5].items()}}, found
        )
    if not remote.verify:
        yield note(
            "",
            f"remote {remote.name}",
            (),
            found="'verify' is not set, so a pull hands over a damaged object without a word",
            mend=f"'dvc remote modify {remote.name} verify true'",
        )


def needs_of(project: Project, graph: Graph, stage: Stage) -> Iterator[Need]:
    """Yields what must be on a remote of one stage's outputs and sources; what was imported from elsewhere is pulled from there."""
    for path, md5 in stage.locked_hashes("outs").items():
        yield Need(stage.name, path, md5)
    for path in stage.dependencies:
        source = None if graph.makers(path) else tracked(project.tree, path)
        if source is not None and source.md5 and source.origin is not Origin.IMPORTED:
            yield Need(stage.name, source.path, source.md5)


def _read_all(remote: Remote, md5s: Iterable[str]) -> dict[str, Read]:
    wanted = list(dict.fromkeys(md5s))
    with ThreadPoolExecutor(_READERS) as readers:
        return dict(zip(wanted, readers.map(remote.read, wanted), strict=True))


def _members(listing: Read, md5: str) -> dict[str, str]:
    """Returns path -> md5 of a folder's files; none of a file, and none where the listing is damaged."""
    if listing.md5 + FOLDER != md5:
        return {}
    return {entry["relpath"]: entry["md5"] for entry in json.loads(listing.content)}


def _verdict(need: Need, remote: Remote, objects: Mapping[str, str], found: Mapping[str, Read]) -> Finding:
    link, subject = f"{need.path} on remote {remote.name}", f"remote {remote.name}/{need.path}"
    unread = [f"{path}: {found[md5].fault}" for path, md5 in objects.items() if found[md5].fault]
    if unread:
        return unknown(
            need.stage, link, subject, found=f"what could not be read: {_first(unread)}", mend="mend the access, and audit again"
        )
    missing = [path for path, md5 in objects.items() if not found[md5].md5]
    damaged = {path: md5 for path, md5 in objects.items() if found[md5].md5 and found[md5].md5 != md5.removesuffix(FOLDER)}
    if not missing and not damaged:
        return holds(need.stage, link, subject)
    words = [f"{path} is missing" for path in missing]
    words += [f"{path} has md5 {found[md5].md5}, and is {remote.place(md5)}" for path, md5 in damaged.items()]
    mend = f"{_removals(need, remote, damaged, bool(missing))}where its bytes are in the cache, 'dvc push -r {remote.name} {need.path}'"
    return broken(need.stage, link, subject, expected=f"{len(objects)} whole objects", found=_first(words), mend=mend)


def _removals(need: Need, remote: Remote, damaged: Mapping[str, str], is_missing: bool) -> str:
    """A push leaves an object that is there as it is, and takes a folder for whole whose listing is there."""
    if need.md5.endswith(FOLDER) and need.md5 not in damaged.values() and (damaged or is_missing):
        return f"remove {remote.place(need.md5)} there{' and what is damaged' if damaged else ''}; then, "
    return "remove there what is damaged; then, " if damaged else ""


def _first(words: list[str]) -> str:
    return "; ".join(words[:_SHOWN]) + (f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else "")
