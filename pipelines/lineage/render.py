"""Lineage and audit for people: trees and lines in the terminal."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from rich.text import Text
from rich.tree import Tree

from pipelines.lineage.audit import Finding, Verdict, records_of
from pipelines.lineage.graph import Graph
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json

STYLES = {Verdict.HOLDS: "green", Verdict.BROKEN: "bold red", Verdict.AFFECTED: "red", Verdict.UNKNOWN: "yellow"}
WORST_FIRST = (Verdict.BROKEN, Verdict.AFFECTED, Verdict.UNKNOWN)


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
        tree.add(f"record  {record}  [dim]{_commit_of(record)}[/]")


def _commit_of(record: Path) -> str:
    try:
        return f"commit {str(read_json(record)['run']['facets']['hindcast_code']['commit'])[:12]}"
    except (HindcastError, KeyError, TypeError):
        return "damaged: 'git checkout' brings it back"


def audit_lines(findings: list[Finding], verbose: bool = False) -> Iterator[Text]:
    """A line a stage with its verdict and number of links, and under it a line for each link that does not hold.

    What is merely not here is one line for all, at the end; `verbose` shows each as well.
    """
    shown = [finding for finding in findings if verbose or not finding.is_missing]
    for stage in dict.fromkeys(finding.stage for finding in findings):
        mine = [finding for finding in shown if finding.stage == stage]
        is_hidden = any(finding.is_missing for finding in findings if finding.stage == stage) and not verbose
        troubled = [finding for finding in mine if finding.verdict is not Verdict.HOLDS]
        if is_hidden and not troubled:
            continue
        worst = next((verdict for verdict in WORST_FIRST if verdict in {finding.verdict for finding in mine}), Verdict.HOLDS)
        yield Text.assemble((f"{worst:12}", STYLES[worst]), stage, (f"  {len(mine)} links", "dim"))
        for finding in troubled:
            yield Text.assemble((f"  {finding.verdict}: ", STYLES[finding.verdict]), f"{finding.link}: {finding.detail}")
    missing = {finding.subject for finding in findings if finding.is_missing}
    if missing:
        these = "path is" if len(missing) == 1 else "paths are"
        names = "" if verbose else " ('hindcast audit --verbose' names them)"
        mend = f"{len(missing)} {these} not in this clone: 'dvc pull' or 'dvc checkout' brings them, 'dvc repro' makes them anew{names}."
        yield Text.assemble((f"{Verdict.UNKNOWN:12}", STYLES[Verdict.UNKNOWN]), mend)


def audit_json(findings: list[Finding]) -> str:
    """Every finding as an object: stage, verdict, link, detail, subject, is_missing."""
    return json.dumps([asdict(finding) for finding in findings], indent=2)
