"""The graph for a terminal: a tree of what was made from what, each thing once."""

import json
from collections.abc import Iterator
from typing import Any

from rich.text import Text
from rich.tree import Tree

from pipelines.lineage.provenance.model import MADE, Kind, Link, Node, Provenance

SHORT = 12  # letters of a digest
_LISTED = 4  # files of code that are named
_COLOURS = {"broken": "bold red", "affected": "red", "cannot tell": "yellow"}
_BRIEF = ("made", "counts", "version", "here", "value", "in", "started by", "experiment", "files that differed from the commit")


def trees(graph: Provenance, down: bool, verbose: bool = False) -> list[Tree]:
    """Returns a tree for each target: what it was made from below it or, with `down`, what was made from it."""
    return _Drawing(graph, down, verbose).trees()


class _Drawing:
    """Draws each thing once, where it is met first."""

    def __init__(self, graph: Provenance, down: bool, verbose: bool) -> None:
        self._graph, self._down, self._verbose = graph, down, verbose
        self._following = graph.uses() if down else graph.sources()
        self._order = {name: place for place, name in enumerate(graph.nodes)}
        self._seen: set[str] = set()

    def trees(self) -> list[Tree]:
        ends = self._graph.sources() if self._down else self._graph.uses()
        found = []
        for target in self._graph.targets or tuple(name for name, links in ends.items() if not links):
            if target not in self._seen:
                tree = Tree(_label(self._graph.nodes[target]))
                self._grow(target, tree)
                found.append(tree)
        return found

    def _grow(self, name: str, tree: Tree) -> None:
        self._seen.add(name)
        for line in _facts(self._graph.nodes[name], self._verbose):
            tree.add(line)
        for link in sorted(self._following[name], key=self._place):
            node = self._graph.nodes[self._end(link)]
            how = Text(f"  {link.how} it" if self._down else "", style="dim")
            head = Text("" if self._down else f"{link.how} ", style="dim")
            is_known = node.id in self._seen and bool(self._following[node.id])
            branch = tree.add(Text.assemble(head, _label(node), how, (" (shown above)" if is_known else "", "dim")))
            if node.id not in self._seen:
                self._grow(node.id, branch)

    def _end(self, link: Link) -> str:
        return link.made if self._down else link.source

    def _place(self, link: Link) -> tuple[bool, bool, int]:
        """What runs make stands below what else there is, for it has more below it; a check last, for what it let through needs it too."""
        node = self._graph.nodes[self._end(link)]
        return node.kind in MADE, node.kind is Kind.CHECK, self._order[node.id]


def _label(node: Node) -> Text:
    digest = next(iter(node.digests.values()), "")
    kind = "" if node.name.startswith(str(node.kind)) else f"{node.kind} "
    return Text.assemble(kind, (node.name, "bold"), (f"  {digest[:SHORT]}", "dim") if digest else "")


def _facts(node: Node, verbose: bool) -> Iterator[Text]:
    for fault in node.faults:
        yield Text.assemble((f"{fault.verdict}: ", _COLOURS.get(fault.verdict, "")), f"{fault.link}: {fault.reason}")
    if node.kind is Kind.CODE and not verbose:
        files = list(node.details.get("files", {}))
        rest = f" and {len(files) - _LISTED} more ('--verbose' names them)" if len(files) > _LISTED else ""
        yield Text(f"{', '.join(files[:_LISTED])}{rest}", style="dim")
    elif node.kind is Kind.COMMIT and not verbose:
        yield Text(f"{node.details['time'][:10]} {node.details['message']}", style="dim")
    elif node.kind in (Kind.PARAMETERS, Kind.SOURCE, Kind.ENVIRONMENT):
        yield from (_fact(name, value, "cyan") for name, value in node.details.items())
    else:
        yield from (_fact(name, value) for name, value in node.details.items() if verbose or name in _BRIEF)
    for name, digest in list(node.digests.items())[1:] if verbose else ():
        yield Text(f"{name} = {digest}", style="dim")


def _fact(name: str, value: Any, style: str = "") -> Text:
    return Text.assemble(f"{name} = ", (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), style))
