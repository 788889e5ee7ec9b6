"""`hindcast why`: why a stage would run now, and why it ran the last time."""

import json as text
from dataclasses import asdict
from typing import Any

from rich.console import Console

from pipelines import paths
from pipelines.commands.telling import tell
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import Hasher
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from pipelines.lineage.why import Why, explain
from pipelines.lineage.wording import why_lines


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
        tell(console, [*([""] if number else []), *why_lines(why, verbose), *_records(why.stage)])


def plain(why: Why) -> dict[str, Any]:
    """Returns an explanation as plain JSON values."""
    return {**asdict(why), "would_run": why.would_run}


def _records(stage: str) -> list[str]:
    records = sorted((paths.RECORDS / stage).glob("*.json"))
    return [f"Records of its runs: {len(records)}, the newest {records[-1]}"] if records else ["There is no record of a run of it."]
