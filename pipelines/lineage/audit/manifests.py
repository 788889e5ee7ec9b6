"""Manifests: each against its own digest, its files, its stage, and the manifests of what it was made from."""

from collections.abc import Iterator
from typing import Any

from pipelines.lineage.audit.findings import Finding, broken, compared, holds, shown
from pipelines.lineage.audit.scene import LINKS, Scene
from pipelines.lineage.changes import flat
from pipelines.lineage.graph import overlap
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import Stage
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, SHARD, Input, Manifest

VERSIONED = ("collect", "split")  # what they make lies in a folder that is named for the version


def check_manifests(scene: Scene, stage: Stage) -> Iterator[Finding]:
    if stage.locked is None:
        return
    for folder in scene.manifests(stage):
        where = f"{folder}/{FILE_NAME}"
        try:
            manifest = scene.manifest(folder)
        except HindcastError as error:
            yield broken(stage.name, f"manifest {where}", where, found=str(error), mend=scene.mend(where, stage.name))
            continue
        if manifest is not None:
            yield holds(stage.name, f"manifest {where}", where)
            yield from _origin(scene, stage, folder, manifest)
            yield from _parameters(stage, folder, manifest)
            yield from _files(scene, stage, folder, manifest)
            for entry in manifest.inputs:
                yield from _input(scene, stage, where, entry)


def check_links(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That a link to a data set that goes into another names the content that it has."""
    if stage.locked is None:
        return
    for file in (file for output in stage.outputs if output.startswith(LINKS) for file in scene.contents.files(output)):
        link = scene.mapping(file)
        digest = scene.digest_of(str(link["path"]))
        if digest is not None:
            name, mend = f"content of {link['path']} as {file} names it", scene.mend(file, stage.name)
            yield compared(stage.name, name, file, expected=digest, found=link["digest"], mend=mend, related=str(link["path"]))


def _origin(scene: Scene, stage: Stage, folder: str, manifest: Manifest) -> Iterator[Finding]:
    """That the stage itself made it, and that it lies where that version belongs."""
    where, mend = f"{folder}/{FILE_NAME}", f"it was swapped, copied or moved: {scene.mend(folder, stage.name)}"
    yield compared(stage.name, f"maker of {folder}", where, expected=stage.name, found=manifest.job, mend=mend)
    if stage.name.partition("@")[0] in VERSIONED:
        version = next((value for key, value in flat(stage.locked_parameters()).items() if key.endswith(".version")), None)
        if version is not None:
            name = folder.rpartition("/")[2]
            yield compared(stage.name, f"version of {folder}", where, expected=str(version), found=name, mend=mend)


def _parameters(stage: Stage, folder: str, manifest: Manifest) -> Iterator[Finding]:
    """That plain values which both dvc.lock and the manifest have are equal."""
    made, where = flat(manifest.parameters), f"{folder}/{FILE_NAME}"
    asked = {name: ran for name, ran in _asked(stage).items() if _is_plain(ran) and _is_plain(made.get(name))}
    differing = [name for name, ran in asked.items() if made[name] != ran]
    expected = ", ".join(f"{name} = {asked[name]!r}" for name in differing) + f" by {LOCK}"
    found = ", ".join(f"{name} = {made[name]!r}" for name in differing)
    link, mend = f"parameters in {where}", f"run 'dvc repro --force {stage.name}', or restore {LOCK} with git"
    if differing:
        yield broken(stage.name, link, where, expected=expected, found=found, mend=mend, related=f"{LOCK}/{stage.name}/params")
    else:
        yield holds(stage.name, link, where)


def _asked(stage: Stage) -> dict[str, Any]:
    """The parameters of the run in dvc.lock, by the names that a manifest has for them; those with other names there are left out."""
    kind, _, key = stage.name.partition("@")
    asked: dict[str, Any] = {}
    for name, value in sorted(flat(stage.locked_parameters()).items()):
        head, _, rest = name.partition(".")
        if head == "learners":
            asked[f"learner.{rest.split('.', 2)[-1]}"] = value
        elif head == "split":
            own = rest.removeprefix(f"datasets.{key}.")
            if own != rest or own not in asked:
                asked[own] = value
        elif head == "datasets" and kind != "collect":
            asked["version"] = value
        elif head != "checks":  # of which params.yaml alone tells what is merged over what
            asked[rest.removeprefix(f"{key}.")] = value
    return asked


def _files(scene: Scene, stage: Stage, folder: str, manifest: Manifest) -> Iterator[Finding]:
    """That the files beside it are those that were there when it was written: no other, none missing, each byte the same."""
    outputs = [output for output in stage.outputs if scene.contents.files(output)]
    inside = {file[len(folder) + 1 :] for output in outputs for file in scene.contents.files(output) if file.startswith(f"{folder}/")}
    here = {name for name in inside if name != FILE_NAME and SHARD not in name}
    expected_here = {name for name in manifest.files if any(overlap(f"{folder}/{name}", output) for output in outputs)}
    differing = False
    for name in sorted({*here, *expected_here}):
        file, made = f"{folder}/{name}", manifest.files.get(name)
        found = scene.contents.sha256(file) if name in here else None
        if found != made:
            differing = True
            words = [f"SHA-256 {shown(digest)}" if digest else "no such file" for digest in (made, found)]
            link = f"{file} as {FILE_NAME} names it"
            yield broken(
                stage.name,
                link,
                file,
                expected=words[0],
                found=words[1],
                mend=scene.mend(file, stage.name),
                related=f"{folder}/{FILE_NAME}",
            )
    if not differing:
        yield holds(stage.name, f"files beside {folder}/{FILE_NAME}", folder)


def _input(scene: Scene, stage: Stage, where: str, entry: Input) -> Iterator[Finding]:
    """That an input is one that the stage declares, and has the content that it had."""
    link, mend = f"content of {entry.path} as {where} names it", f"run 'dvc repro {stage.name}'"
    if not any(overlap(entry.path, path) for path in stage.dependencies) and entry.path not in scene.linked(stage):
        found = f"{entry.path}, which is not among its deps in dvc.yaml"
        mend = "declare it there, so that a change of it runs the stage again"
        yield broken(stage.name, f"inputs declared, by {where}", where, expected="what it read among its deps", found=found, mend=mend)
    try:
        digest = scene.digest_of(entry.path)
    except HindcastError as error:
        digest = f"none that can be read: {error}"
    if digest is not None:
        expected, found = f"digest {entry.digest[:12]}", f"digest {digest[:12]}" if " " not in digest else digest
        yield compared(stage.name, link, where, expected=expected, found=found, mend=mend, related=entry.path)


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)
