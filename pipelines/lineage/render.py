"""Lineage and audit for people: trees and lines in the terminal."""

import json
from collections.abc import Callable, Iterator

from rich.text import Text
from rich.tree import Tree

from pipelines.lineage.audit import Finding, Verdict, records_of
from pipelines.lineage.graph import Graph
from rl_datasets.files import read_json

STYLES = {Verdict.HOLDS: "green", Verdict.BROKEN: "bold red", Verdict.UNKNOWN: "yellow"}


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
    for record in records_of(name)[-1:]:
        facets = read_json(record)["run"]["facets"]
        tree.add(f"record  {record}  [dim]commit {str(facets['hindcast_git']['commit'])[:12]}[/]")


def audit_lines(findings: list[Finding]) -> Iterator[Text]:
    """A line a stage with its verdict and number of links, and under it a line for each link that does not hold."""
    for stage in dict.fromkeys(finding.stage for finding in findings):
        mine = [finding for finding in findings if finding.stage == stage]
        troubled = [finding for finding in mine if finding.verdict is not Verdict.HOLDS]
        worst = next((verdict for verdict in (Verdict.BROKEN, Verdict.UNKNOWN) if verdict in {f.verdict for f in mine}), Verdict.HOLDS)
        yield Text.assemble((f"{worst:12}", STYLES[worst]), stage, (f"  {len(mine)} links", "dim"))
        for finding in troubled:
            yield Text.assemble((f"  {finding.verdict}: ", STYLES[finding.verdict]), f"{finding.link}: {finding.detail}")
