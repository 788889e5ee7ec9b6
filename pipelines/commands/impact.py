"""`hindcast impact`: what a data set, an episode or a file has touched, now and in every revision that git still has."""

import json as text
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console

from pipelines.commands.telling import tell
from pipelines.lineage.impact import Impact, Touched, impact
from pipelines.lineage.revisions import NO_HISTORY, is_shallow, names_holding
from pipelines.lineage.wording import interval, listed

FETCH = "'dvc fetch --all-commits' brings what the remote has"


def run(target: str, json: bool, console: Console) -> int:
    """Returns the exit code: 0 where nothing depends on the target now, 1 where something does, 2 where that cannot be told."""
    found = impact(target)
    if json:
        console.print_json(text.dumps(asdict(found)))
    else:
        tell(console, lines(found))
    return 1 if found.now.stages else 2 if found.now.unknown else 0


def lines(found: Impact) -> Iterator[str]:
    """Yields what is touched now and how to make it anew, and then every other state of dvc.lock that has it."""
    if found.now.stages:
        yield f"Now, {len(found.now.stages)} stages depend on {found.target}:"
        yield from _touched(found.now)
        versions = [f"datasets.{name.partition('@')[2]}.version" for name in found.now.stages if name.startswith("collect@")]
        raised = f"raise {' and '.join(versions)}, " if versions else ""
        yield f"  Mend it, {raised}then: dvc repro {' '.join(found.now_rebuild)}"
    elif found.now.unknown:
        yield f"Now, it cannot be told whether anything depends on {found.target}:"
        yield from _touched(found.now)
    else:
        yield f"Now, nothing depends on {found.target}."
    if not found.now.stages and found.past and not any(touched.stages for _, touched in found.past):
        yield "No state that can be looked at has it; see that it is written as in episodes.csv."
    for commits, touched in found.past:
        holders = names_holding(commits[-1].name)
        yield f"In {len(commits)} earlier {'state' if len(commits) == 1 else 'states'} ({listed(holders, 5) or 'no branch'}):"
        yield from (f"  commit {commit}" for commit in commits)
        yield from _touched(touched)
        yield f"  To have it as it was: git checkout {commits[0].short} && dvc pull"
    if not found.has_history:
        yield NO_HISTORY
    elif not found.past:
        yield "No other state of dvc.lock that git has depended on it."
    if is_shallow():
        yield "This clone lacks older commits: 'git fetch --unshallow' brings them."


def _touched(touched: Touched) -> Iterator[str]:
    for name, how in touched.stages.items():
        values = touched.metrics.get(name.partition("@")[2]) if name.startswith("evaluate@") else None
        yield f"  {name} {how}" + (f": {interval(values)}" if values else "")
    for name in touched.unknown:
        key = name.partition("@")[2]
        yield f"  {name}: cannot tell, for artifacts/splits/{key}/*/episodes.csv of that state is not here; {FETCH}"
