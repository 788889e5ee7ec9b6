"""The history of a target: each commit that brought another run of it, with what was different and what came of it."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.lineage.changes import Change, other_data, output_changes, run_changes, version_of
from pipelines.lineage.graph import Graph, inside_project, overlap
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.outcomes import metrics_of
from pipelines.lineage.past_runs import Execution, PastRecords, execution_of
from pipelines.lineage.revisions import Commit, Step, commits_changing, run_project, stages_here, steps
from pipelines.lineage.stages import require_project
from pipelines.lineage.store import Store
from rl_datasets.errors import HindcastError

UNCOMMITTED = Commit("", "", "", (), "not committed yet")


@dataclass(frozen=True)
class Run:
    """One run of a stage that a commit brought. `changes` is what it was given that the one before was not.

    `is_first` where the commits before have none, or one of other data sets, which `other` names; `is_last` where this commit took the
    stage away. `version` is the data set's, of a collection and a split; `record` is what says how the run went, where one is known.
    """

    commit: Commit
    stage: str
    changes: tuple[Change, ...]
    outputs: tuple[Change, ...]
    is_first: bool
    is_last: bool
    metrics: Mapping[str, Any] | None  # of an evaluation, where they are still here
    other: tuple[str, ...] = ()
    version: str = ""
    record: Execution | None = None


def history(target: str, everywhere: bool = False) -> Iterator[Run]:
    """Yields the runs of a stage, a data set, an experiment or whatever makes a path, the newest first.

    Raises HindcastError where the current folder is no project, and where no commit ever had one of them.
    """
    require_project()
    commits = commits_changing(LOCK, everywhere=everywhere)
    found, known, records = False, set[str](), PastRecords()
    for step in (*_uncommitted(), *steps(commits)):
        names = _meant(step, target)
        found = found or bool(names)
        known |= {name for stage in step.stages for name in (stage, stage.partition("@")[2])}
        for name in step.changed():
            if name in names:
                yield _run(step, name, records)
    if not found:
        near = difflib.get_close_matches(target, sorted(known), n=3, cutoff=0.4)
        hint = f" Nearest: {', '.join(near)}." if near else ""
        raise HindcastError(
            f"No commit has a run of '{target}': it is no stage, data set, experiment or output path in any dvc.lock.{hint}"
        )


def _uncommitted() -> list[Step]:
    """What dvc.lock on disk has and the last commit has not."""
    here, newest = stages_here(), commits_changing(LOCK)[:1]
    if here is None:
        return []
    return [Step(UNCOMMITTED, here, tuple(step.stages for step in steps(newest)))]


def _meant(step: Step, target: str) -> set[str]:
    """The stages, of this step or of before it, that a target means."""
    entries = {name: entry for stages in (*step.before, step.stages) for name, entry in stages.items()}
    named = {name for name in entries if target in (name, name.partition("@")[2])}
    return named or {name for name, entry in entries.items() if _makes(entry, target)}


def _makes(entry: Mapping[str, Any], target: str) -> bool:
    path = inside_project(target)
    return any(overlap(path, output["path"]) for output in entry.get("outs", ()))


def _run(step: Step, name: str, records: PastRecords) -> Run:
    before, after = (*step.before, {})[0].get(name), step.stages.get(name)
    if after is None:
        return Run(step.commit, name, (), (), False, True, None)
    project = run_project(step.stages)
    graph, store = Graph(project.stages), Store(project)
    other = () if before is None else other_data(before, after)
    is_first = before is None or bool(other)
    changes = () if before is None or other else tuple(run_changes(before, after, lambda path: bool(graph.makers(path))))
    outputs = () if before is None or other else tuple(output_changes(before, after))
    metrics = metrics_of(store, project.stages[name]) if name.startswith("evaluate@") else None
    execution = execution_of(project.stages[name], store, records.of(name), step.commit.time)
    return Run(step.commit, name, changes, outputs, is_first, False, metrics, other, version_of(name, after), execution)
