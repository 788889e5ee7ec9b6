"""`hindcast why`: why a stage would run now, and why it ran the last time."""

import json as text
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from rich.console import Console

from pipelines.commands.telling import tell
from pipelines.lineage.changes import differing
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import Hasher
from pipelines.lineage.records import Record, read_records
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from pipelines.lineage.why import Why, explain
from pipelines.lineage.wording import listed, why_lines
from rl_datasets.errors import HindcastError

COMPLETE = "COMPLETE"  # OpenLineage's word


def run(target: str, verbose: bool, json: bool, console: Console) -> None:
    """Explains each stage that the target means, sources first. Raises HindcastError where it means none."""
    project = read_project(WorkingTree())
    graph = Graph(project.stages)
    hash_of = Hasher()
    found = [explain(project, graph, name, hash_of) for name in reversed(graph.find(target))]
    if json:
        console.print_json(text.dumps([plain(why) for why in found]))
        return
    for number, why in enumerate(found):
        tell(console, [*([""] if number else []), *why_lines(why, verbose), *record_lines(list(read_records(project.tree, why.stage)))])


def plain(why: Why) -> dict[str, Any]:
    """Returns an explanation as plain JSON values."""
    return {**asdict(why), "would_run": why.would_run}


def record_lines(records: Sequence[Record | HindcastError]) -> Iterator[str]:
    """Yields what the newest record of a stage says, and which packages it had other than the one before it."""
    broken = [record for record in records if isinstance(record, HindcastError)]
    whole = sorted((record for record in records if isinstance(record, Record)), key=lambda record: record.started)
    if not whole:
        yield "There is no record of a run of it."
    for record in whole[-1:]:
        how = "" if record.outcome == COMPLETE else f" {record.outcome}: {record.error}"
        commit = f"commit {record.commit[:10]}" if record.commit else "no commit"
        dirty = f" with uncommitted changes in {listed(record.changed, 3)}" if record.is_dirty else ""
        yield f"Newest of {len(whole)} records: {record.started[:16]}, {record.launcher}, {commit}{dirty}:{how} {record.path}"
    for before, after in pairwise(whole[-2:]):
        yield from (f"  package {name}: {old} -> {new}" for name, old, new in differing(before.packages, after.packages))
    yield from (f"A record is broken: {error}" for error in broken)
