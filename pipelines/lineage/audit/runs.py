"""Records of stage executions: each against itself and git, and together against dvc.lock and the manifests.

A record is written once. What is here must be what was written, and of what dvc.lock knows a run, a record must say the same.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pipelines import paths
from pipelines.lineage.audit.agreement import agreement, wrote
from pipelines.lineage.audit.ancestry import is_same_code
from pipelines.lineage.audit.findings import Finding, Verdict, broken, holds, note, shown, unknown
from pipelines.lineage.audit.moments import said_of_itself, timeless
from pipelines.lineage.audit.scene import COMPLETE, Scene
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.records import Launcher, Record
from pipelines.lineage.stages import Stage
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME

WHOLE = "'git sparse-checkout disable' brings them"
FORGED = "it was edited, copied or moved: restore it with 'git checkout {0}', or remove it where git has none"


def check_records(scene: Scene, stage: Stage) -> Iterator[Finding]:
    records: list[Record] = []
    for path in scene.record_paths(stage.name):
        record = scene.record(path)
        if isinstance(record, HindcastError):
            yield broken(stage.name, f"record {path}", path, found=str(record), mend=f"restore it with 'git checkout {path}'")
        else:
            records.append(record)
    yield from _alone(scene, stage, records)
    superseded = scene.superseded(stage.name)
    yield from _in_git(scene, stage, superseded)
    if stage.locked is not None:
        yield from _of_the_run(scene, stage, records)
        yield from _contradictions(scene, stage, [*filter(None, superseded.values()), *records])


def _alone(scene: Scene, stage: Stage, records: Sequence[Record]) -> Iterator[Finding]:
    """That each is as it was written, at the place that it belongs, and of a run of its own."""
    for record in records:
        place, others = _placed(stage.name, stage.name, record), _makers(scene, stage, record)
        link = f"record {record.path}"
        if place.verdict is Verdict.BROKEN:
            yield place
        elif others:
            expected, found = f"outputs of {stage.name}", f"those of {', '.join(others)}"
            yield broken(stage.name, link, record.path, expected=expected, found=found, mend=FORGED.format(record.path))
        elif contradiction := said_of_itself(record) or timeless(scene, record):
            expected, found = contradiction
            mend = f"the clock of its machine was wrong, or {FORGED.format(record.path)}"
            yield broken(stage.name, link, record.path, expected=expected, found=found, mend=mend)
        else:
            yield place


def _placed(stage: str, folder: str, record: Record) -> Finding:
    """That a record in the folder is as it was written, and belongs there."""
    if record.is_intact and record.stage == folder:
        return holds(stage, f"record {record.path}", record.path)
    expected = f"the digest that it states, and a place by its stage, start and run ({record.stage}, {record.started})"
    found = "another content or place"
    return broken(stage, f"record {record.path}", record.path, expected=expected, found=found, mend=FORGED.format(record.path))


def _makers(scene: Scene, stage: Stage, record: Record) -> list[str]:
    """The stages that make what a record says was written, where its own is none of them."""
    makers = {maker for entry in record.outputs for maker in scene.graph.makers(entry.path)}
    return [] if stage.name in makers else sorted(makers)


def other_records(scene: Scene) -> Iterator[Finding]:
    """That the records in folders that are no stage's, as of those that dvc.yaml no longer asks for, are as they were written.

    They may be removed with their stage, which is a note.
    """
    for folder in sorted({*scene.all_records, *scene.record_edits} - set(scene.graph.stages)):
        for path in scene.record_paths(folder):
            record = scene.record(path)
            if isinstance(record, Record):
                yield _placed("", folder, record)
        for edit in scene.record_edits.get(folder, ()):
            link = f"record {edit.path} in git"
            if edit.is_gone:
                yield note(
                    "", f"records of {folder}, which is no stage now", edit.path, found=f"{edit.path}: {edit.how}", mend=_back(edit.path)
                )
            else:
                yield broken("", link, edit.path, expected="as it was first committed", found=edit.how, mend=_back(edit.path))


def _in_git(scene: Scene, stage: Stage, superseded: Collection[str]) -> Iterator[Finding]:
    """That no record which was committed has been changed or removed since; a later run's may stand in the place of a complete one's."""
    edits = scene.record_edits.get(stage.name, ())
    for edit in edits:
        if edit.path not in superseded:
            link = f"record {edit.path} in git"
            yield broken(stage.name, link, edit.path, expected="as it was first committed", found=edit.how, mend=_back(edit.path))
    absent = sorted(path for path in scene.history.left_out if path.startswith(f"{paths.RECORDS}/{stage.name}/"))
    if absent:
        yield unknown(stage.name, "records in git", tuple(absent), found="a sparse checkout leaves them out", mend=WHOLE, is_missing=True)
    for commit in dict.fromkeys(edit.commit for edit in edits if edit.path in superseded):
        found = f"{commit} removed records of earlier runs, and brought those of later ones"
        yield note(stage.name, "records in git", (), found=found, mend=f"'git show --stat COMMIT -- {paths.RECORDS}' lists them")


def _back(path: str) -> str:
    return f"restore it: 'git log --full-history -m -- {path}' shows the commits, 'git checkout COMMIT -- {path}' brings it back"


def _of_the_run(scene: Scene, stage: Stage, records: Sequence[Record]) -> Iterator[Finding]:
    """That a complete run is on record which wrote just the outputs that are here, from what dvc.lock says."""
    link = f"record of the run in {LOCK}"
    outputs = _outputs(scene, stage)
    complete = [record for record in records if record.outcome == COMPLETE]
    if not outputs:
        return  # what is not here says nothing, nor does an output that no record names
    matching = [record for record in complete if not _differing(wrote(record), outputs)]
    if matching:
        yield from agreement(scene, stage, matching[-1])
        yield from _circumstances(scene, stage, link, matching[-1])
    elif not complete and (removed := [edit for edit in scene.record_edits.get(stage.name, ()) if edit.is_gone]):
        path, how = removed[-1].path, removed[-1].how
        yield broken(stage.name, link, path, expected="it kept", found=f"{path} {how}", mend=_back(path))
    elif not complete:
        mend = f"'dvc repro --force {stage.name}' runs it again and records it; 'git log -- {paths.RECORDS}' shows what records there were"
        yield unknown(stage.name, link, (), found="no record of a complete run", mend=mend)
    else:
        last = complete[-1]
        differing = _differing(wrote(last), outputs)
        expected = f"{differing[0]} with md5 {shown(wrote(last).get(differing[0], 'of no output'))}, as {last.path} says"
        found = f"md5 {shown(outputs[differing[0]])}"
        mend = f"the outputs are of no run on record: {scene.mend(differing[0], stage.name)}"
        edited = tuple(edit.path for edit in scene.record_edits.get(stage.name, ()))  # of which one may be the run's
        yield broken(stage.name, link, tuple(differing), expected=expected, found=found, mend=mend, related=edited)


def _circumstances(scene: Scene, stage: Stage, link: str, record: Record) -> Iterator[Finding]:
    """What one should know of a run that holds: not from a commit, by hand, from inputs that no clone has."""
    yield holds(stage.name, link, record.path)
    had = {**record.code, **{entry.path: entry.md5 for entry in record.inputs}}
    unkept = [path for path in record.untracked if not scene.is_kept(path, had.get(path, ""))]  # what was added after the run is kept
    if unkept:
        found = f"{record.path}: it read {', '.join(unkept[:3])}, which neither git nor DVC keeps as it was then"
        yield note(stage.name, link, record.path, found=found, mend=f"'dvc add {unkept[0]}' keeps it")
    if record.is_dirty:
        found = f"{record.path}: it ran on {record.commit[:10]} with {', '.join(record.changed[:3])} changed and not committed"
        yield note(stage.name, link, record.path, found=found, mend="what it ran is what dvc.lock names; commit before the next run")
    if record.launcher == Launcher.HAND:
        yield note(stage.name, link, record.path, found=f"{record.path}: it was run by hand, and 'dvc commit' took it into {LOCK}")
    elif record.launcher == Launcher.EXPERIMENT:
        yield note(stage.name, link, record.path, found=f"{record.path}: it was run as the experiment '{record.experiment}'")


def _contradictions(scene: Scene, stage: Stage, records: Sequence[Record]) -> Iterator[Finding]:
    """That no two complete runs of the same code, parameters, inputs and packages, on one kind of machine, wrote different outputs."""
    alike: dict[str, dict[str, Record]] = {}
    for record in records:
        if record.outcome != COMPLETE:
            continue
        others = alike.setdefault(repr(_causes(record)), {})
        for before in others.values():
            differing = sorted(path for path, md5 in wrote(before).items() if wrote(record).get(path, md5) != md5)
            if differing and is_same_code(scene, before, record):
                found = f"{record.path} has another {differing[0]} than {before.path}, of equal code, parameters, inputs and packages"
                mend = (
                    f"one of the two is forged, or the stage is not a function of its inputs: 'dvc repro --force {stage.name}' tells which"
                )
                yield broken(stage.name, "records that agree", (record.path, before.path), found=found, mend=mend)
                break
        others.setdefault(repr((record.commit, record.difference, sorted(wrote(record).items()))), record)


def _causes(record: Record) -> list[object]:
    """All that determines what a run writes, but for code that its stage does not declare."""
    inputs = sorted((entry.path, entry.digest, entry.md5) for entry in record.inputs)
    mappings = (record.code, record.parameters, record.packages, record.machine)
    return [inputs, *(sorted(map(repr, mapping.items())) for mapping in mappings)]


def _differing(wrote: Mapping[str, str], outputs: Mapping[str, str]) -> list[str]:
    """The outputs that a run did not write so; a large one, whose hash a record leaves out, counts as the same."""
    return sorted(path for path, md5 in outputs.items() if wrote.get(path) not in (md5, ""))


def _outputs(scene: Scene, stage: Stage) -> dict[str, str]:
    """What `wrote` says of a run, of what is here."""
    files = [file for output in stage.outputs for file in scene.contents.files(output)]
    manifests = [file for file in files if file.endswith(f"/{FILE_NAME}")]
    if not manifests and any(not scene.contents.files(output) for output in stage.outputs):
        return {}
    found = {file: scene.contents.hashed(file) for file in manifests or files}
    return {file: hashed.md5 for file, hashed in found.items() if hashed is not None}
