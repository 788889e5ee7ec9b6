"""Releases: the tags of an artifact, each against the commit that it names, and the artifact's entry in dvc.yaml."""

import hashlib
from collections.abc import Iterator

from pipelines.lineage.audit.findings import Finding, broken, compared, holds, note
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.lockfile import LOCK, parse_lock
from pipelines.lineage.released import (
    COMMIT,
    LOCK_DIGEST,
    NUMBERS,
    SECTION,
    VERDICT,
    Artifact,
    Tag,
    artifact_of,
    numbers_line,
    release_tags,
)
from pipelines.lineage.stages import PIPELINE, Stage, read_project
from pipelines.lineage.tree import GitTree
from pipelines.yaml_file import parse_yaml
from rl_datasets.errors import HindcastError


def check_releases(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """Of a stage whose output can be released, that each release says what its commit has, and that dvc.yaml hands on the output."""
    try:
        artifact = artifact_of(scene.project, stage.name.partition("@")[2])
    except HindcastError:
        return
    if artifact.stage.name != stage.name:
        return
    yield from _entry(scene, artifact)
    for tag in scene.once("release tags", release_tags).get(artifact.name, ()):
        yield from _tag(scene, artifact, tag)


def _entry(scene: Scene, artifact: Artifact) -> Iterator[Finding]:
    pipeline = scene.once(PIPELINE, lambda: parse_yaml(scene.project.tree.read(PIPELINE) or b"", PIPELINE))
    entry = (pipeline.get(SECTION) or {}).get(artifact.name)
    if entry is not None:
        where, found = f"{PIPELINE}/{SECTION}/{artifact.name}", entry.get("path")
        mend = "'dvc artifacts get' hands on what it names: restore the path, or give the entry another name"
        yield compared(artifact.stage.name, f"path of {where}", where, expected=artifact.path, found=found, mend=mend)


def _tag(scene: Scene, artifact: Artifact, tag: Tag) -> Iterator[Finding]:
    stage, link = artifact.stage.name, f"release {tag.name}"
    if not tag.trailer(VERDICT):
        found = f"{tag.name}: it carries no verdict of an audit, as those that 'hindcast release' makes do"
        yield note(stage, link, tag.name, found=found, mend=f"'git ls-remote --tags' shows whether others have another {tag.name}")
    elif scene.history.at(tag.commit) is not None:
        faults = list(_faults(scene, artifact, tag))
        mend = (
            f"the tag was moved or rewritten: 'git fetch --tags --force' brings that of a remote; else remove it: 'git tag -d {tag.name}'"
        )
        yield from (broken(stage, link, tag.name, expected=expected, found=found, mend=mend) for expected, found in faults)
        yield from () if faults else [holds(stage, link, tag.name)]


def _faults(scene: Scene, artifact: Artifact, tag: Tag) -> Iterator[tuple[str, str]]:
    """What the tag says, and what its commit says, where these differ."""
    stated = tag.trailer(COMMIT)
    if stated and stated != tag.commit:
        yield f"commit {stated[:10]}, which its message names", f"it on commit {tag.commit[:10]}"
    with GitTree(tag.commit) as tree:
        lock = tree.read(LOCK) or b""
        digest = f"sha256 {hashlib.sha256(lock).hexdigest()}"
        if digest != tag.trailer(LOCK_DIGEST):
            yield f"{LOCK} with {tag.trailer(LOCK_DIGEST)[:19]}, as its message says", f"{digest[:19]} in commit {tag.commit[:10]}"
            return
        outputs = parse_lock(lock).get(artifact.stage.name, {}).get("outs", ())
        numbers = numbers_line(read_project(tree), artifact) if scene.deep else ""
    known = {*(f"{entry['path']} {entry['md5']}" for entry in outputs), *([numbers] if numbers else [])}
    said = {line for line in tag.details() if numbers or not line.startswith(NUMBERS)}
    if said != known:
        yield (
            f"{'; '.join(sorted(known - said)) or 'no more'}, as commit {tag.commit[:10]} has it",
            "; ".join(sorted(said - known)) or "less",
        )
