"""The record of the run that made what is here, against dvc.lock: the command, the code, the parameters, and every input's hash.

Who edits a file and dvc.lock together makes these two agree with each other; the record still has what was read.
"""

import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from pipelines.lineage.audit.contents import ARTIFACTS
from pipelines.lineage.audit.findings import Finding, broken, compared, shown
from pipelines.lineage.audit.scene import COMPLETE, Scene
from pipelines.lineage.graph import overlap
from pipelines.lineage.lockfile import LOCK, parse_lock
from pipelines.lineage.records import Content, Record
from pipelines.lineage.stages import Stage, is_code
from pipelines.lineage.tree import git_or_none
from rl_datasets.manifest import FILE_NAME


def agreement(scene: Scene, stage: Stage, record: Record) -> Iterator[Finding]:
    """That the record of the outputs that are here names the run that dvc.lock names."""
    mend = f"{LOCK} was edited, or 'dvc commit' took another state for the run's: run 'dvc repro --force {stage.name}'"
    yield _command(stage, record, mend)
    if record.code:  # none where the stage was not in dvc.yaml when it ran
        yield _code(stage, record, mend)
    if record.parameters:
        ran, where = stage.locked_parameters(), f"{LOCK}/{stage.name}/params"
        keys = sorted(key for key in {*ran, *record.parameters} if ran.get(key) != record.parameters.get(key))
        then, now = ({key: values.get(key) for key in keys} for values in (record.parameters, ran))
        yield compared(stage.name, f"parameters by {LOCK} and {record.path}", where, expected=then, found=now, mend=mend)
    for entry in record.inputs:
        yield from _input(scene, stage, record, entry, mend)
    yield from _outputs(scene, stage, record)


def wrote(record: Record) -> dict[str, str]:
    """Path -> md5 of what a record says that was written: manifests, and the files of a folder without one."""
    return {f"{entry.path}/{name}": md5 for entry in record.outputs for name, md5 in entry.files.items()}


def _command(stage: Stage, record: Record, mend: str) -> Finding:
    """A record has the name of the program's file, and its arguments."""
    link, where = f"command by {LOCK} and {record.path}", f"{LOCK}/{stage.name}/cmd"
    asked = (stage.locked or {}).get("cmd", "")
    text = asked if isinstance(asked, str) else "\n".join(asked)
    if _program(text) == list(record.command):
        return compared(stage.name, link, where, expected=text, found=text, mend=mend)
    return broken(stage.name, link, where, expected=f"one that runs '{shlex.join(record.command)}'", found=text, mend=mend)


def _program(command: str) -> list[str]:
    """`python -m pipelines.train key` -> ["train.py", "key"], which is how a program sees itself; a script by its file's name."""
    try:
        words = shlex.split(command)
    except ValueError:
        return [command]
    if "-m" in words[:-1]:
        place = words.index("-m") + 1
        return [f"{words[place].rpartition('.')[2]}.py", *words[place + 1 :]]
    place = next((number for number, word in enumerate(words) if word.endswith(".py")), 0)
    return [PurePosixPath(word).name if number == 0 else word for number, word in enumerate(words[place:])]


def _code(stage: Stage, record: Record, mend: str) -> Finding:
    ran = {path: md5 for path, md5 in record.code.items() if md5}
    locked = {path: md5 for path, md5 in stage.locked_hashes("deps").items() if is_code(path)}
    differing = sorted(path for path in {*ran, *locked} if ran.get(path) != locked.get(path) and record.code.get(path) != "")
    expected, found = ({path: shown(hashes.get(path, "not read")) for path in differing} for hashes in (ran, locked))
    return compared(stage.name, f"code by {LOCK} and {record.path}", f"{LOCK}/{stage.name}/deps", expected=expected, found=found, mend=mend)


def _input(scene: Scene, stage: Stage, record: Record, entry: Content, mend: str) -> Iterator[Finding]:
    """That an input is still one by dvc.lock, with the content and the hash that the run read."""
    now = scene.digest_of(entry.path) if entry.digest else None
    if now is not None:
        link = f"content of {entry.path} as {record.path} names it"
        again = f"run 'dvc repro {stage.name}'"
        yield compared(stage.name, link, record.path, expected=entry.digest, found=now, mend=again, related=entry.path)
    locked, where = stage.locked_hashes("deps"), f"{LOCK}/{stage.name}/deps"
    link = f"input {entry.path} by {LOCK} and {record.path}"
    if not any(overlap(entry.path, path) for path in locked):
        if entry.path not in scene.linked(stage):
            yield broken(stage.name, link, where, expected="it among the inputs, as the run read it", found="no such input", mend=mend)
    elif entry.md5:
        file, md5 = _hash_now(scene, locked, entry.path)
        if md5 is not None:
            expected, found = (f"md5 {shown(value)}" for value in (entry.md5, md5))
            yield compared(stage.name, link, (where, file), expected=expected, found=found, mend=mend, related=entry.path)


def _hash_now(scene: Scene, locked: Mapping[str, str], path: str) -> tuple[str, str | None]:
    """The file that a record's md5 of an input is of, and its md5 now. Of an artifact, that is its manifest."""
    if path in locked and not path.startswith(ARTIFACTS):
        return path, locked[path]
    manifest = f"{path}/{FILE_NAME}"
    file = manifest if path.startswith(ARTIFACTS) and scene.contents.hashed(manifest) is not None else path
    is_read = any(file == dependency or file.startswith(f"{dependency}/") for dependency in locked)
    hashed = scene.contents.hashed(file) if is_read else None
    return file, None if hashed is None else hashed.md5


def _outputs(scene: Scene, stage: Stage, record: Record) -> Iterator[Finding]:
    """That dvc.lock names the outputs as it did when the record was committed, where it names the same causes.

    A record has the hashes of manifests, and these leave out in which order episodes are stored. A later run with another result of
    the same causes has a record of its own, so where there is one nothing is said.
    """
    commit = scene.first_commits.get(record.path, "")
    then = commit and scene.once(f"{LOCK} in {commit}", partial(_lock_in, commit)).get(stage.name)
    if not then or stage.locked is None or then.get("params") != stage.locked.get("params"):
        return
    before = {kind: {entry["path"]: entry["md5"] for entry in then.get(kind, ())} for kind in ("deps", "outs")}
    if then.get("cmd") != stage.locked.get("cmd"):
        if all(before[kind] == stage.locked_hashes(kind) for kind in before):  # so it is that run's entry, with another command
            link, where = f"command by {LOCK} when {record.path} was committed", f"{LOCK}/{stage.name}/cmd"
            mend = f"{LOCK} was edited since: restore its line, or run 'dvc repro --force {stage.name}'"
            yield broken(stage.name, link, where, expected=then.get("cmd"), found=stage.locked.get("cmd"), mend=mend)
        return
    if before["deps"] != stage.locked_hashes("deps") or any(_is_other_result(record, other) for other in scene.records(stage.name)):
        return
    now = stage.locked_hashes("outs")
    differing = sorted(path for path in {*before["outs"], *now} if before["outs"].get(path) != now.get(path))
    expected, found = ({path: shown(hashes.get(path, "no output")) for path in differing} for hashes in (before["outs"], now))
    link = f"outputs by {LOCK} when {record.path} was committed"
    mend = f"{LOCK} was edited since: 'git checkout {commit[:10]} -- {LOCK}' and 'dvc checkout --force' bring them back"
    yield compared(stage.name, link, tuple(differing), expected=expected, found=found, mend=mend)


def _is_other_result(record: Record, other: Record) -> bool:
    is_same_cause = other.code == record.code and other.parameters == record.parameters
    return other.outcome == COMPLETE and is_same_cause and wrote(other) != wrote(record)


def _lock_in(commit: str) -> dict[str, Any]:
    content = git_or_none("show", f"{commit}:./{LOCK}")
    return {} if content is None else parse_lock(content)
