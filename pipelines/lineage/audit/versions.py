"""Versions of data sets: one version is one content, in all commits whose dvc.lock has it."""

from collections.abc import Iterator
from dataclasses import replace

from pipelines.lineage.audit.findings import Finding, broken, holds, shown
from pipelines.lineage.audit.scene import COMPLETE, Scene
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.records import Record
from pipelines.lineage.revisions import commits_changing, steps
from pipelines.lineage.stages import PARAMS, Stage
from rl_datasets.errors import HindcastError


def check_version(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That no run which a commit's dvc.lock had made another content of the version that a data set has now; trials do not count."""
    kind, _, key = stage.name.partition("@")
    if kind != "collect" or stage.locked is None:
        return
    for folder in scene.manifests(stage):
        manifest, link = scene.manifest(folder), f"version of the content of {folder}"
        if manifest is None:
            continue
        others = [record for record in scene.records(stage.name) if _content(record, folder) not in ("", manifest.digest)]
        published = [(record, commit) for record in others if record.is_intact and (commit := _commit_with(scene, stage, record))]
        if published:
            record, commit = published[-1]
            expected = f"digest {shown(_content(record, folder))}, which this version had in {commit} by {record.path}"
            mend = f"raise datasets.{key}.version in {PARAMS} and run 'dvc repro', or restore the data of this version"
            yield broken(stage.name, link, folder, expected=expected, found=f"digest {shown(manifest.digest)}", mend=mend)
        else:
            yield holds(stage.name, link, folder)


def _content(record: Record, folder: str) -> str:
    """The digest of what a complete run wrote into a folder; "" where it wrote none."""
    return next((entry.digest for entry in record.outputs if record.outcome == COMPLETE and entry.path == folder), "")


def _commit_with(scene: Scene, stage: Stage, record: Record) -> str:
    """The newest commit whose dvc.lock names the code and the parameters of a run; "" where none does."""
    try:
        commits = commits_changing(LOCK, revision=scene.project.tree.revision or "HEAD")
    except HindcastError:  # there is no history
        return ""
    for step in steps(commits):
        then = replace(stage, locked=step.stages.get(stage.name))
        code = then.locked_hashes("deps")
        is_same_code = all(code.get(path) == md5 for path, md5 in record.code.items() if md5)
        if then.locked is not None and then.locked_parameters() == record.parameters and is_same_code:
            return f"commit {step.commit.short}"
    return ""
