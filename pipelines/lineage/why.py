"""Why a stage would run now, and why it ran the last time: what it was given, against what it was given before."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.lineage.changes import ABSENT, Change, Entry, Kind, asked_entry, hashes, other_data, output_changes, run_changes
from pipelines.lineage.code import FileChange, commit_with, file_changes
from pipelines.lineage.graph import Graph
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.revisions import Commit, commits_changing, has_history, is_shallow, steps
from pipelines.lineage.stages import Project, Stage

HashOf = Callable[[str], str | None]


@dataclass(frozen=True)
class LastRun:
    """The run that dvc.lock describes: since which commit it does, and what was different in the run before it.

    `commit` is None where the lock is not committed yet. `before` is None where the history has no run before it.
    """

    commit: Commit | None
    before: Commit | None
    changes: tuple[Change, ...] = ()
    outputs: tuple[Change, ...] = ()
    is_cut: bool = False  # the clone lacks older commits, so there may have been a run before it
    other: tuple[str, ...] = ()  # the data sets of the run before it, where those are all other ones
    has_history: bool = True  # whether git has anything to look at


@dataclass(frozen=True)
class Why:
    """One stage: what has changed since its last run, what of it is not here to be compared, and why that run was made."""

    stage: str
    changes: tuple[Change, ...]
    above: Mapping[str, tuple[Change, ...]]  # stages that it depends on and that would run first, sources first
    absent: tuple[str, ...]  # what other stages make and is not here
    last: LastRun | None  # None where dvc.lock has no run of it
    files: Mapping[str, tuple[FileChange, ...]] = field(default_factory=dict)  # of changed code, by the path that changed
    since: Mapping[str, Commit] = field(default_factory=dict)  # by the same path, the last commit with the bytes that were run

    @property
    def would_run(self) -> bool:
        return self.last is None or bool(self.changes or self.above)


def explain(project: Project, graph: Graph, name: str, hash_of: HashOf) -> Why:
    """Explains one stage of the project on disk. Reads the stages above it too, for what they would make is not here yet."""
    above: dict[str, tuple[Change, ...]] = {}
    for other in graph.upstream([name])[:-1]:
        changes = changes_since_run(project, graph, graph.stages[other], hash_of)
        if changes or graph.stages[other].locked is None or any(parent in above for parent in graph.parents(other)):
            above[other] = changes
    stage = graph.stages[name]
    changes = changes_since_run(project, graph, stage, hash_of)
    code = {change.name: str(change.before) for change in changes if change.kind is Kind.CODE and change.before != ABSENT}
    since = {path: commit for path, md5 in code.items() if has_history() and (commit := commit_with(path, md5))}
    files = {path: tuple(file_changes(path, commit.name)) for path, commit in since.items()}
    absent = [path for path in stage.dependencies if graph.makers(path) and hash_of(path) is None]
    last = None if stage.locked is None else last_run(graph, name, stage.locked)
    return Why(name, changes, above, tuple(absent), last, files, since)


def changes_since_run(project: Project, graph: Graph, stage: Stage, hash_of: HashOf) -> tuple[Change, ...]:
    """Returns what a run would now be given that the last one was not, and which outputs are no longer as it left them.

    What another stage makes and is not here is no change; nothing is where the stage never ran.
    """
    if stage.locked is None:
        return ()
    asked = asked_entry(project, stage, hash_of)
    given = run_changes(stage.locked, asked, is_made(graph))
    here = [
        change for change in given if not (change.kind is Kind.UPSTREAM and change.after == ABSENT and change.name in stage.dependencies)
    ]
    outputs = {path: hash_of(path) or ABSENT for path in stage.outputs}
    locked = hashes(stage.locked, "outs")
    spoilt = [
        Change(Kind.OUTPUT, path, locked.get(path, ABSENT), found) for path, found in outputs.items() if locked.get(path, ABSENT) != found
    ]
    return (*here, *spoilt)


def last_run(graph: Graph, name: str, locked: Mapping[str, Any], revision: str = "HEAD") -> LastRun:
    """Finds the run in the history of dvc.lock that leads to `revision`."""
    if not has_history():
        return LastRun(None, None, has_history=False)
    commits = commits_changing(LOCK, revision=revision)
    for number, step in enumerate(steps(commits)):
        found = step.stages.get(name)
        if found == locked and name in step.changed():
            earlier = (commits_changing(LOCK, revision=parent) for parent in step.commit.parents[:1])
            return _against(graph, locked, step.commit, next((some[0] for some in earlier if some), None), (*step.before, {})[0].get(name))
        if number == 0 and found != locked:
            return _against(graph, locked, None, step.commit, found)
    return LastRun(None, None, is_cut=is_shallow())


def _against(graph: Graph, locked: Entry, commit: Commit | None, before: Commit | None, found: Entry | None) -> LastRun:
    """The run that a commit brought, against the one that stood there before it."""
    if found is None:
        return LastRun(commit, None, is_cut=is_shallow())
    if other := other_data(found, locked):
        return LastRun(commit, before, other=other)
    return LastRun(commit, before, tuple(run_changes(found, locked, is_made(graph))), tuple(output_changes(found, locked)))


def is_made(graph: Graph) -> Callable[[str], bool]:
    return lambda path: bool(graph.makers(path))
