"""What a person means by a target: a data set, split, experiment, seed's model, metric, stage or path, or anything in the graph."""

import difflib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pipelines.lineage.graph import Graph, inside_project
from pipelines.lineage.provenance.model import Kind, Node, Provenance, around
from pipelines.lineage.provenance.trace import trace
from pipelines.lineage.stages import Project
from rl_datasets.errors import HindcastError

# A name may be that of several nodes: of an experiment, what was made last is meant upstream, and what was made first downstream.
_FIRST = (Kind.DATASET, Kind.TRAINING, Kind.EVALUATION)
_SHORTEST_HASH = 7


def provenance_of(project: Project, graph: Graph, target: str, down: bool) -> Provenance:
    """Returns what a target was made from or, with `down`, what was made from it; of everything without a target.

    Raises HindcastError that lists what is near where nothing fits.
    """
    if not target:
        return trace(project, graph, graph.stages)
    whole = trace(project, graph, stages_for(graph, target, down), target.partition(":")[2])
    found = find(whole, target, down)
    if not found:
        raise HindcastError(_nothing(whole, graph, target))
    return whole.downstream(found) if down else whole.upstream(found)


def stages_for(graph: Graph, target: str, down: bool) -> Iterator[str]:
    """Yields the stages that a target may concern, in the order of dvc.yaml: all where its words alone do not tell."""
    base = target.partition(":")[0].split("/seed_")[0]
    keyed = [name for name in graph.stages if base in (name, name.partition("@")[2])]
    concerned = set(graph.stages) if not keyed else set(graph.downstream(keyed)) if down else set(graph.upstream(keyed))
    yield from (name for name in graph.stages if name in concerned)


def find(whole: Provenance, target: str, down: bool) -> list[str]:
    """Returns the ids of the nodes that a target means: one by a name, those of a file or folder by a path."""
    nodes = whole.nodes.values()
    by_name = [node for node in nodes if target in (node.id, node.name, *node.aliases)]
    if by_name:
        order = sorted(by_name, key=lambda node: _FIRST.index(node.kind) if node.kind in _FIRST else len(_FIRST))
        experiments = [node for node in by_name if node.kind is Kind.EVALUATION]
        return [node.id for node in (order[:1] if down or not experiments else experiments[:1])]
    if len(target) >= _SHORTEST_HASH and not set(target) - set("0123456789abcdef"):
        return [node.id for node in nodes if any(value.startswith(target) for value in node.digests.values())]
    return _by_path(whole, inside_project(target))


def _by_path(whole: Provenance, path: str) -> list[str]:
    """What stands for the path itself, else for what lies in it, else for the folder around it, where that has it."""
    nodes = whole.nodes.values()
    exact = [node.id for node in nodes if path in node.paths]
    inside = [node.id for node in nodes if any(own.startswith(f"{path}/") for own in node.paths)]
    is_lost = not exact and not inside and _is_there(nodes, path) and not Path(path).exists()
    return exact or inside or ([] if is_lost else around(nodes, path))


def _is_there(nodes: Iterable[Node], path: str) -> bool:
    """Whether the output or folder around a path is on disk, so that the path should be too."""
    has: Callable[[str], bool] = lambda own: path.startswith(f"{own}/") and Path(own).exists()  # noqa: E731
    return any(has(own) for node in nodes for own in node.paths)


def _nothing(whole: Provenance, graph: Graph, target: str) -> str:
    known = {name for node in whole.nodes.values() for name in (node.name, *node.aliases, *node.paths)}
    known |= {name.partition("@")[2] or name for name in graph.stages}
    near = difflib.get_close_matches(target, sorted(known), n=3, cutoff=0.4)
    keys = sorted({name.partition("@")[2] or name for name in graph.stages})
    hint = f"Nearest: {', '.join(near)}." if near else f"Known: {', '.join(keys[:20])}."
    return f"'{target}' is no data set, split, experiment, model, metric, stage or path of this project. {hint}"
