"""`hindcast diff`: what changed between two revisions, and which change explains which."""

import json as text
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from rich.console import Console

from pipelines.commands.telling import tell
from pipelines.lineage.changes import ABSENT, Change, Kind
from pipelines.lineage.code import file_changes
from pipelines.lineage.difference import Difference, difference, not_run, package_changes
from pipelines.lineage.outcomes import DataDifference, MetricDifference, data_differences, metric_differences
from pipelines.lineage.stages import read_project, require_project
from pipelines.lineage.tree import GitTree, WorkingTree
from pipelines.lineage.wording import cause_line, data_lines, listed, metric_line
from rl_datasets.errors import HindcastError
from rl_datasets.words import count

HERE = "workspace"  # DVC's word for what is on disk
_CAUSES = 12


def run(before: str, after: str, target: str, deep: bool, verbose: bool, json: bool, console: Console) -> None:
    """With `deep`, reads the episodes of both. Raises HindcastError where there is no project or revision, or no such target."""
    require_project()
    with ExitStack() as opened:
        old, new = (read_project(_tree(revision, opened)) for revision in (before, after))
        found = difference(old, new, target)
        data, metrics = list(data_differences(found)), list(metric_differences(found))
        contents = {entry.name: list(_content(found, entry.name)) for entry in data if deep}
        if json:
            console.print_json(text.dumps({**plain(found, data, metrics), "contents": contents}))
        else:
            tell(console, lines(found, data, metrics, before, after, verbose))
            tell(console, _section("Content of the data", [line for body in contents.values() for line in body]))


def lines(
    found: Difference, data: list[DataDifference], metrics: list[MetricDifference], before: str, after: str, verbose: bool
) -> Iterator[str]:
    """Yields how much changed, then sections: parameters, data, code, packages, metrics with their causes, and what nothing explains."""
    files = _files_of(found)
    if not found.stages:
        yield f"No stage was run differently in {before} and {after}."
    else:
        counts = counted(found, data, metrics, files)
        some = ", ".join(f"{count:,} {name if count == 1 else f'{name}s'}" for name, count in counts.items())
        yield f"{before} -> {after}: {some} changed."
    yield from _section("Parameters and commands", _changes(found, Kind.PARAMETER, Kind.COMMAND))
    yield from _section("Data", [line for entry in data for line in data_lines(entry, verbose)])
    yield from _section("Source files", _changes(found, Kind.SOURCE))
    yield from _section("Code", _code(found, files, verbose))
    yield from _section("Packages", [str(change) for change in package_changes(found.before.tree, found.after.tree)])
    yield from _section("Metrics", [line for metric in metrics for line in _metric(found, metric, verbose)])
    yield from _section("Outcomes that nothing explains", _unexplained(found))
    yield from _section("Stages that one of the two has not run", _one_sided(found, before, after))
    for name, project in ((before, found.before), (after, found.after)):
        if waiting := not_run(project):
            stages = listed(waiting)
            yield f"{name} has stages whose parameters or command are not those of their last run: {stages}. 'hindcast why' says more."


def counted(
    found: Difference, data: list[DataDifference], metrics: list[MetricDifference], files: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Returns how many of each changed. Of code that differs only in what was read, or that git cannot compare, a path counts as one."""
    changes = [change for entry in found.stages.values() for change in entry.changes]
    code = {name for path, names in files.items() for name in names or [path]}
    return {
        "stage": len(found.stages),
        "parameter": len({change.name for change in changes if change.kind is Kind.PARAMETER}),
        "data set": len(data),
        "code file": len({name.partition(" (")[0] for name in code}),
        "evaluation": len(metrics),
    }


def _content(found: Difference, dataset: str) -> Iterator[str]:
    """What differs inside of the episodes of one data set, and how its columns have drifted."""
    from pipelines.lineage.data import content_difference  # which imports TensorFlow

    try:
        content = content_difference(dataset, found.before, found.after)
    except HindcastError as error:
        yield str(error)
        return
    names = f": {listed(content.changed)}" if content.changed else ""
    yield f"{dataset}: {count(len(content.changed), 'episode of the same id differs', 'episodes of the same id differ')} inside{names}"
    yield from (f"  {line}" for line in content.drift.summary())


def plain(found: Difference, data: list[DataDifference], metrics: list[MetricDifference]) -> dict[str, Any]:
    """Returns all of it as plain JSON values."""
    return {
        "stages": [asdict(entry) for entry in found.stages.values()],
        "packages": [asdict(change) for change in package_changes(found.before.tree, found.after.tree)],
        "data": [asdict(entry) for entry in data],
        "metrics": [
            {
                **asdict(metric),
                "apart": metric.are_apart,
                "causes": [asdict(cause) for cause in found.causes(f"evaluate@{metric.experiment}")],
            }
            for metric in metrics
        ],
        "unexplained": [entry.name for entry in found.stages.values() if entry.is_unexplained],
    }


def _tree(revision: str, opened: ExitStack) -> WorkingTree | GitTree:
    return WorkingTree() if revision == HERE else opened.enter_context(GitTree(revision))


def _section(title: str, body: list[str]) -> Iterator[str]:
    if body:
        yield title
        yield from (f"  {line}" for line in body)


def _changes(found: Difference, *kinds: Kind) -> list[str]:
    """A line a change, with the stages that were given it."""
    given: dict[str, list[str]] = {}
    for entry in found.stages.values():
        for change in entry.changes:
            if change.kind in kinds:
                given.setdefault(str(change), []).append(entry.name)
    return [f"{change}  ({listed(names, 3)})" for change, names in given.items()]


def _files_of(found: Difference) -> dict[str, list[str]]:
    """The files that differ in git, by the path of code that a stage was given and that changed; none where git cannot tell."""
    before, after = found.before.tree.revision, found.after.tree.revision
    paths = {change.name for entry in found.stages.values() for change in entry.changes if change.kind is Kind.CODE}
    return {path: list(map(str, file_changes(path, before, after))) if before else [] for path in sorted(paths)}


def _code(found: Difference, files: Mapping[str, Sequence[str]], verbose: bool) -> list[str]:
    """A line a path with the files that differ in it; only the number of stages unless all is asked for."""
    given: dict[str, tuple[Change, list[str]]] = {}
    for entry in found.stages.values():
        for change in entry.changes:
            if change.kind is Kind.CODE:
                given.setdefault(change.name, (change, []))[1].append(entry.name)
    limit = 1000 if verbose else 2
    return [f"{_files(change, files[change.name], limit)}  ({listed(names, limit)})" for _, (change, names) in sorted(given.items())]


def _files(change: Change, files: Sequence[str], limit: int) -> str:
    """The files of a path that differ; a path that only one side's stages read may be the same in git."""
    if ABSENT in (change.before, change.after):
        return f"{change.name} ({'not read before' if change.before == ABSENT else 'no longer read'})"
    return listed(files, limit + 1) or f"{change.name} (no difference in git: the code that was run was not committed with its lock)"


def _metric(found: Difference, metric: MetricDifference, verbose: bool) -> Iterator[str]:
    yield metric_line(metric)
    causes = found.causes(f"evaluate@{metric.experiment}")
    shown = causes if verbose else sorted(causes, key=lambda cause: cause.change.kind is Kind.CODE)[:_CAUSES]
    for cause in shown:
        yield f"  because of {cause_line(cause)}"
    if len(shown) < len(causes):
        yield f"  and of {len(causes) - len(shown)} more (--verbose shows them)"
    if len(causes) > 1:
        yield f"  Which of them it was: 'hindcast history evaluate@{metric.experiment}' shows the runs between."
    for name in found.unexplained(f"evaluate@{metric.experiment}"):
        yield f"  {name} was given the same and made other bytes."


def _unexplained(found: Difference) -> list[str]:
    return [
        f"{entry.name} was given the same and made other bytes: {listed(change.name for change in entry.outputs)}"
        for entry in found.stages.values()
        if entry.is_unexplained
    ]


def _one_sided(found: Difference, before: str, after: str) -> list[str]:
    only = [
        (name, [e.name for e in found.stages.values() if (e.before, e.after) == sides])
        for name, sides in ((before, (True, False)), (after, (False, True)))
    ]
    return [f"only {name}: {listed(names)}" for name, names in only if names]
