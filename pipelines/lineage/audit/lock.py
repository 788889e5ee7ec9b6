"""What dvc.yaml and params.yaml ask for now, against what dvc.lock says was run."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipelines.lineage.audit.findings import Finding, broken, compared, holds, unknown
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import PARAMS, PIPELINE, Stage


def check_run(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That dvc.lock knows a run of the stage at all."""
    if stage.locked is not None:
        return
    left = [path for path in stage.outputs if scene.contents.files(path)]
    where = f"{LOCK}/{stage.name}"
    if left and (scene.before(stage).locked is not None or scene.was_run_by_dvc(stage.name)):
        found = f"no run of this stage, though {left[0]} is here and was made by one"
        mend = f"restore its lines with 'git checkout {LOCK}', or run 'dvc repro {stage.name}'"
        yield broken(stage.name, LOCK, where, found=found, mend=mend)
    else:
        yield unknown(stage.name, LOCK, where, found="no run of this stage", mend=f"make it with 'dvc repro {stage.name}'")


def check_asked(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That the last run was of this command, with these values, from these paths and to these."""
    if stage.locked is None:
        return
    parameters = list(_parameters(scene, stage))
    yield from parameters
    # A value may stand in a command or a path, so what differs there may come of one that was changed.
    changed = tuple(path for finding in parameters if finding.found for path in finding.subjects)
    mend = f"run 'dvc repro {stage.name}', or restore {PIPELINE}, {PARAMS} and {LOCK} with git"
    ran = stage.locked.get("cmd")
    ran = "\n".join(ran) if isinstance(ran, list) else ran
    where = f"{PIPELINE}/{stage.name}/cmd"
    yield compared(stage.name, "command", where, expected=ran, found=stage.command, mend=mend, related=changed)
    for kind, word, declared in (("deps", "input", stage.dependencies), ("outs", "output", stage.outputs)):
        locked = set(stage.locked_hashes(kind))
        for path in sorted(locked.symmetric_difference(declared)):
            where = f"{PIPELINE}/{stage.name.partition('@')[0]}/{kind}/{path}"
            found = (
                f"{word} of the last run, {PIPELINE} has it no longer" if path in locked else f"in {PIPELINE}, no {word} of the last run"
            )
            yield broken(stage.name, f"{word} {path} as declared", where, found=found, mend=mend, related=changed)


def _parameters(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """Of values that differ, the innermost keys are named."""
    locked = stage.locked_parameters()
    for key in sorted({*locked, *(key for key in stage.parameters if ":" not in key)}):
        if key in locked:
            yield _parameter(scene, stage, key, locked[key])
        else:
            where, found = f"{PIPELINE}/{stage.name}/params", "it was not known to the last run"
            yield broken(stage.name, f"parameter {key}", where, found=found, mend=f"run 'dvc repro {stage.name}'")


def _parameter(scene: Scene, stage: Stage, key: str, ran: Any) -> Finding:
    now, link = scene.project.parameter(key), f"parameter {key}"
    differing = list(_differing(ran, now, key))
    if not differing:
        return holds(stage.name, link, _subject(key))
    before = scene.before(stage).locked_parameters().get(key)
    is_lock_edited = before is not None and not list(_differing(before, now, key))
    keys = tuple(_subject(name) for name, _, _ in differing)
    return broken(
        stage.name,
        link,
        f"{LOCK}/{stage.name}/params" if is_lock_edited else keys,
        expected=f"{_listed((name, value) for name, value, _ in differing)}, as {LOCK} says of the run",
        found=f"{_listed((name, value) for name, _, value in differing)} in {PARAMS}",
        mend=f"restore it with 'git checkout {LOCK}'" if is_lock_edited else f"restore the value, or run 'dvc repro {stage.name}'",
    )


def _subject(key: str) -> str:
    return f"{PARAMS}/{key.replace('.', '/')}"


def _listed(pairs: Iterable[tuple[str, Any]]) -> str:
    listed = [f"{name} = {value!r}" for name, value in pairs]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def _differing(ran: Any, now: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    """Yields (innermost key, value of the run, value now)."""
    if isinstance(ran, Mapping) and isinstance(now, Mapping) and ran and now:
        for name in sorted({*ran, *now}, key=str):
            yield from _differing(ran.get(name), now.get(name), f"{key}.{name}")
    elif ran != now:
        yield key, ran, now
