"""Versions of data sets: one version is one content, from the first commit that has a run of it on record."""

from collections.abc import Iterator

from pipelines.lineage.audit.findings import Finding, broken, holds, shown
from pipelines.lineage.audit.scene import COMPLETE, Scene
from pipelines.lineage.stages import PARAMS, Stage


def check_version(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That no run which is on record in git made another content of the version that a data set has now."""
    kind, _, key = stage.name.partition("@")
    if kind != "collect" or stage.locked is None:
        return
    for folder in scene.manifests(stage):
        manifest, link = scene.manifest(folder), f"version of the content of {folder}"
        if manifest is None:
            continue
        before = {
            record.path: entry.digest
            for record in scene.records(stage.name)
            for entry in record.outputs
            if record.outcome == COMPLETE and record.is_intact and entry.path == folder and entry.digest not in ("", manifest.digest)
        }
        kept = [path for path in sorted(before) if scene.history.is_kept(path)]
        if kept:
            expected = f"digest {shown(before[kept[0]])}, which this version had by {kept[0]}"
            mend = f"raise datasets.{key}.version in {PARAMS} and run 'dvc repro', or restore the data of this version"
            yield broken(stage.name, link, folder, expected=expected, found=f"digest {shown(manifest.digest)}", mend=mend)
        else:
            yield holds(stage.name, link, folder)
