"""`hindcast lineage`: what a target was made from, or what was made from it, in one of several forms."""

import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path

from rich.console import Console

from pipelines import paths
from pipelines.lineage.graph import Graph
from pipelines.lineage.provenance.model import Provenance
from pipelines.lineage.provenance.target import provenance_of
from pipelines.lineage.provenance.text import trees
from pipelines.lineage.stages import Project, read_project
from pipelines.lineage.tree import GitTree, Tree, WorkingTree, is_bare
from rl_datasets.errors import HindcastError
from rl_datasets.files import write_text

_WIDEST = 10_000  # columns
PAGE = paths.REPORT / "lineage.html"  # where the report's page links to


class Form(StrEnum):
    TEXT = "text"
    JSON = "json"
    HTML = "html"
    OPENLINEAGE = "openlineage"
    PROV = "prov"


def run(target: str, revision: str, down: bool, form: Form, out: Path | None, verbose: bool, console: Console) -> None:
    """Prints or writes the graph. Raises HindcastError where there is no such target or revision."""
    with ExitStack() as opened:
        tree: Tree = opened.enter_context(GitTree(revision or "HEAD")) if revision or is_bare() else WorkingTree()
        project = read_project(tree)
        graph = Graph(project.stages)
        found = provenance_of(project, graph, target, down)
        if form is Form.TEXT and out is None and console.is_terminal:
            for drawn in trees(found, down, verbose):
                console.print(drawn)
            return
        text = _plain(found, down, verbose) if form is Form.TEXT else _render(found, form, project, graph, target, down)
    place = out or (PAGE if form is Form.HTML else None)
    if place is None:
        sys.stdout.write(f"{text}\n")
        return
    write_text(place, f"{text}\n")
    console.print(f"{len(found.nodes)} things and {len(found.links)} links: {place}", highlight=False, soft_wrap=True)


def _plain(found: Provenance, down: bool, verbose: bool) -> str:
    """The trees without colours, a fact a line however long."""
    plain = Console(no_color=True, width=_WIDEST)
    with plain.capture() as capture:
        for drawn in trees(found, down, verbose):
            plain.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _render(found: Provenance, form: Form, project: Project, graph: Graph, target: str, down: bool) -> str:
    match form:
        case Form.JSON:
            from pipelines.lineage.provenance.forms import as_json

            return as_json(found)
        case Form.OPENLINEAGE:
            from pipelines.lineage.provenance.forms import as_openlineage

            return as_openlineage(found, project.tree)
        case Form.PROV:
            from pipelines.lineage.provenance.prov_form import as_prov

            return as_prov(found)
    return _page(found, project, graph, target, down)


def _page(found: Provenance, project: Project, graph: Graph, target: str, down: bool) -> str:
    """The page, with what a cheap audit of the same stages finds."""
    from pipelines.lineage.audit import audit_stages
    from pipelines.lineage.provenance.faults import with_findings
    from pipelines.lineage.provenance.page import render_page

    stages = [name for name in graph.stages if any(node.stage == name for node in found.nodes.values())]
    title = f"What was made from {target}" if down else f"What {target} was made from" if target else "What everything was made from"
    return render_page(with_findings(found, audit_stages(project, graph, stages)), title)


def form_of(name: str) -> Form:
    """Raises HindcastError where there is no such form."""
    try:
        return Form(name)
    except ValueError as error:
        known = ", ".join(Form)
        raise HindcastError(f"--format {name} is none of the forms of lineage. Use one of: {known}.") from error
