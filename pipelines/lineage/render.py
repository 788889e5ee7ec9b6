"""Lineage for people: trees in the terminal."""

import json
from collections.abc import Callable
from pathlib import Path

from rich.tree import Tree

from pipelines import paths
from pipelines.lineage.graph import Graph
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json


def lineage_tree(graph: Graph, stage: str, down: bool) -> Tree:
    """The stages above `stage` (or below it) as a tree, each with its code, parameters, outputs and last record."""
    step: Callable[[str], list[str]] = graph.children if down else graph.parents
    tree = Tree(f"[bold]{stage}[/]")
    _describe(graph, stage, tree)
    _grow(graph, stage, tree, step, seen=set())
    return tree


def _grow(graph: Graph, stage: str, tree: Tree, step: Callable[[str], list[str]], seen: set[str]) -> None:
    for other in step(stage):
        branch = tree.add(f"[bold]{other}[/]" + (" (shown above)" if other in seen else ""))
        if other not in seen:
            seen.add(other)
            _describe(graph, other, branch)
            _grow(graph, other, branch, step, seen)


def _describe(graph: Graph, name: str, tree: Tree) -> None:
    stage = graph.stages[name]
    if stage.locked is None:
        tree.add("[yellow]not run yet[/]")
        return
    for path, digest in stage.locked_hashes("outs").items():
        tree.add(f"output  {path}  [dim]{digest[:12]}[/]")
    sources = [path for path in stage.locked_hashes("deps") if not graph.makers(path)]
    for path in sources:
        tree.add(f"source  {path}  [dim]{stage.locked_hashes('deps')[path][:12]}[/]")
    for key, value in stage.locked_parameters().items():
        tree.add(f"param   {key} = [cyan]{json.dumps(value)}[/]")
    for record in sorted((paths.RECORDS / name).glob("*.json"))[-1:]:
        tree.add(f"record  {record}  [dim]{_commit_of(record)}[/]")


def _commit_of(record: Path) -> str:
    try:
        return f"commit {str(read_json(record)['run']['facets']['hindcast_code']['commit'])[:12]}"
    except (HindcastError, KeyError, TypeError):
        return "damaged: 'git checkout' brings it back"
