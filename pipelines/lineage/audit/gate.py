"""The quality gate: its report against its manifest and the data that it is about, and what a split made of its verdict."""

from collections.abc import Iterator

from pipelines.lineage.audit.findings import Finding, broken, compared
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.stages import Stage
from rl_datasets.manifest import FILE_NAME, values_digest

REPORT = "report.json"


def check_gate(scene: Scene, stage: Stage) -> Iterator[Finding]:
    if stage.locked is None:
        return
    for folder in scene.manifests(stage):
        where = f"{folder}/{REPORT}"
        manifest = scene.manifest(folder)
        if manifest is None or REPORT not in manifest.files or scene.json(where) is None:
            continue
        report = scene.mapping(where)
        mend = scene.mend(where, stage.name)
        link = f"digest of {where} by {FILE_NAME}"
        yield compared(stage.name, link, where, expected=manifest.digest, found=values_digest(report), mend=mend)
        for entry in manifest.inputs:
            link = f"data that {where} is about"
            yield compared(stage.name, link, where, expected=entry.digest, found=report.get("digest"), mend=mend, related=entry.path)
        if report.get("verdict") == "fail":
            readers = ", ".join(scene.graph.children(stage.name))
            found = f"the gate failed, and {readers or 'nothing'} depends on it"
            yield broken(stage.name, f"verdict of {where}", where, found=found, mend="mend the data; the data card says why")
