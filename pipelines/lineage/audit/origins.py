"""Where bytes come from beside code: sources that DVC keeps or imported, and the packages that shaped an artifact."""

import re
from collections.abc import Iterator

from pipelines.lineage.audit.findings import Finding, compared, note, shown
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.stages import Stage, is_code
from pipelines.lineage.tracked import Origin, tracked
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME

PACKAGES = "requirements.lock"


def check_sources(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That the run read what the `.dvc` file beside a source names; and of an import, from where it is."""
    for path, md5 in stage.locked_hashes("deps").items():
        source = None if is_code(path) or scene.graph.makers(path) else tracked(scene.project.tree, path)
        if source is None or source.path != path or not source.md5:
            continue
        link, mend = f"source {path} by {source.file}", f"run 'dvc repro {stage.name}', or restore {source.file} with git"
        yield compared(stage.name, link, source.file, expected=source.md5, found=md5, mend=mend, related=path)
        if source.origin is not Origin.ADDED:
            at = f" at {source.revision[:10]}" if source.revision else ""
            found = f"it was brought by '{source.origin}' from {source.address}{at}"
            yield note(stage.name, link, source.file, found=found, mend=f"'dvc update {source.file}' looks for a newer one")


def check_packages(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """Tells of packages that shaped an artifact in other versions than requirements.lock has now: made anew, its bytes may be others."""
    pinned = scene.once(PACKAGES, lambda: _pinned((scene.project.tree.read(PACKAGES) or b"").decode("utf-8", "replace")))
    for folder in scene.manifests(stage) if stage.locked is not None else ():
        try:
            manifest = scene.manifest(folder)
        except HindcastError:
            continue  # which `check_manifests` tells
        used = {name.lower(): version for name, version in (manifest.packages if manifest else {}).items()}
        other = {name: version for name, version in used.items() if name in pinned and version not in pinned[name]}
        if other:
            listed = ", ".join(f"{name} {version} ({' or '.join(sorted(pinned[name]))})" for name, version in sorted(other.items()))
            found = f"made with other versions than {PACKAGES} has now (in brackets): {shown(listed)}"
            mend = f"'dvc repro --force {stage.name}' makes it with these"
            yield note(stage.name, f"packages in {folder}/{FILE_NAME}", f"{folder}/{FILE_NAME}", found=found, mend=mend)


def _pinned(text: str) -> dict[str, set[str]]:
    """Package -> versions, for markers may choose among several."""
    pinned: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE):
        pinned.setdefault(name.lower(), set()).add(version)
    return pinned
