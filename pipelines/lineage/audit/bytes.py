"""The bytes of every input and output, against the hashes in dvc.lock."""

from collections.abc import Iterator, Mapping

from pipelines.lineage.audit.contents import Hashed
from pipelines.lineage.audit.findings import Finding, broken, holds, shown, unknown
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.graph import overlap
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import Stage
from rl_datasets.errors import HindcastError
from rl_datasets.words import count

NAMED = 3  # files of a folder that a finding names
SPARSE = "'git sparse-checkout disable' brings it"


def check_bytes(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """Inputs, then outputs. What dvc.yaml and dvc.lock do not both name is the business of `check_asked`."""
    for kind, declared in (("deps", stage.dependencies), ("outs", stage.outputs)):
        for entry in sorted((stage.locked or {}).get(kind, ()), key=lambda entry: str(entry["path"])):
            if entry["path"] in declared:
                yield _check(scene, stage, kind, entry)


def _check(scene: Scene, stage: Stage, kind: str, entry: dict[str, object]) -> Finding:
    path, locked = str(entry["path"]), str(entry["md5"])
    link = f"{'input' if kind == 'deps' else 'output'} {path}"
    where = f"{LOCK}/{stage.name}/{kind}/{path}"
    try:
        found = scene.contents.hashed(path)
    except HindcastError as error:
        return unknown(stage.name, link, path, found=str(error))
    if found is None:
        return _absent(scene, stage, link, path, locked)
    if found.md5 != locked:
        return _differs(scene, stage, link, where, path, locked, found)
    size, number = entry.get("size"), entry.get("nfiles")
    files = len(found.listing) if found.listing is not None else None
    if (size is not None and size != found.size) or (number is not None and number != files):
        told, is_so = f"{size} bytes, {number or 1} files", f"{found.size} bytes, {files or 1} files"
        return broken(stage.name, link, where, expected=told, found=is_so, mend=f"its lines in {LOCK} were edited: 'git checkout {LOCK}'")
    return holds(stage.name, link, path)


def _absent(scene: Scene, stage: Stage, link: str, path: str, locked: str) -> Finding:
    """An output that is not here is no damage, unless its maker's entry in dvc.lock says other bytes; a file of git's is."""
    if any(overlap(path, absent) for absent in scene.history.left_out):
        return unknown(stage.name, link, path, found="a sparse checkout leaves it out", mend=SPARSE, is_missing=True)
    if not scene.graph.makers(path) and not scene.is_tracked(path):
        mend = f"restore it with 'git checkout {path}'"
        return broken(stage.name, link, path, expected=f"md5 {shown(locked)}", found="nothing there", mend=mend)
    makers = {name: md5 for name in scene.graph.makers(path) if (md5 := scene.graph.stages[name].locked_hashes("outs").get(path))}
    for name, made in makers.items():
        if made != locked:
            expected, mend = f"md5 {shown(made)}, which {name} made", f"run 'dvc repro {stage.name}'"
            return broken(stage.name, link, path, expected=expected, found=f"md5 {shown(locked)} in {LOCK}", mend=mend)
    return unknown(stage.name, link, path, found="it is not here", mend="'dvc checkout' or 'dvc pull' brings it back", is_missing=True)


def _differs(scene: Scene, stage: Stage, link: str, where: str, path: str, locked: str, found: Hashed) -> Finding:
    expected = f"md5 {shown(locked)}"
    if found.md5 in scene.other_words(stage, path):  # so dvc.lock contradicts itself, or what it was
        words = f"restore it with 'git checkout {LOCK}'" if scene.history.is_changed(LOCK) else f"run 'dvc repro {stage.name}'"
        mend = f"the bytes are those that {LOCK} had before, or has elsewhere: {words}"
        return broken(stage.name, link, where, expected=f"{expected} by {LOCK}", found=f"md5 {shown(found.md5)}", mend=mend)
    was = scene.listing_of(path, locked) if found.listing is not None else None
    absent = [*_absent_outputs(scene, path), *sorted(file for file in scene.history.left_out if file.startswith(f"{path}/"))]
    if absent and found.listing is not None:
        here = {name: md5 for name, md5 in (was or {}).items() if not any(overlap(f"{path}/{name}", output) for output in absent)}
        if was is None or here == found.listing:  # all that differs is what is not here
            link_, mend = (
                f"{link} but for what is not here",
                "'dvc checkout' or 'dvc pull' brings it back" if scene.graph.makers(path) else SPARSE,
            )
            return unknown(stage.name, link_, tuple(absent), found=f"{count(len(absent), 'path')} not here", mend=mend, is_missing=True)
    files, words = _files(path, was, found.listing)
    is_so = words or f"md5 {shown(found.md5)}"
    return broken(stage.name, link, tuple(files) or path, expected=expected, found=is_so, mend=scene.mend(path, stage.name))


def _absent_outputs(scene: Scene, path: str) -> list[str]:
    """The outputs of any stage that lie in a folder and of which nothing is here."""
    inside = (output for maker in scene.graph.makers(path) for output in scene.graph.stages[maker].outputs)
    return sorted(output for output in inside if output.startswith(f"{path}/") and not scene.contents.files(output))


def _files(path: str, was: Mapping[str, str] | None, is_now: Mapping[str, str] | None) -> tuple[list[str], str]:
    """The files of a folder that are not as they were, where the cache or git still knows how they were, and words for them."""
    if was is None or is_now is None:
        return [], ""
    changed = [f"{name} changed" for name in sorted(was) if name in is_now and is_now[name] != was[name]]
    gone = [f"{name} missing" for name in sorted(was) if name not in is_now]
    added = [f"{name} added" for name in sorted(is_now) if name not in was]
    said = [*changed, *gone, *added]
    more = f" and {len(said) - NAMED} more" if len(said) > NAMED else ""
    return [f"{path}/{words.rpartition(' ')[0]}" for words in said], f"{len(said)} of {len(was)} files: " + ", ".join(said[:NAMED]) + more
