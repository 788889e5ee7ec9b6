"""What the audit found wrong, by the node of the graph that it is about."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from pipelines.lineage.provenance.model import Fault, Kind, Node, Provenance, around
from pipelines.lineage.provenance.trace import main_id

SHOWN = ("broken", "affected", "cannot tell")


class Found(Protocol):
    """A finding of the audit, as far as it is shown here."""

    @property
    def stage(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def link(self) -> str: ...
    @property
    def detail(self) -> str: ...
    @property
    def subject(self) -> str: ...


def with_findings(graph: Provenance, findings: Iterable[Found]) -> Provenance:
    """Returns the graph with every finding that is not in order at the node that it is about, as far as that is in the graph."""
    faults: dict[str, list[Fault]] = defaultdict(list)
    for finding in findings:
        if finding.verdict in SHOWN:
            faults[_node_of(graph, finding)].append(Fault(str(finding.verdict), finding.link, finding.detail))
    return graph.with_faults(faults)


def _node_of(graph: Provenance, finding: Found) -> str:
    """What stands for the subject: of several, that which the stage made or used; else all that the stage made."""
    stage = finding.subject.removeprefix("dvc.lock/") if finding.subject.startswith("dvc.lock/") else finding.stage
    main = main_id(stage) if stage else ""
    used = {link.source for link in graph.links if link.made == main}
    by_path = around(graph.nodes.values(), finding.subject) if finding.subject else []
    by_path.sort(key=lambda name: _distance(graph.nodes[name], stage, name in used))
    return by_path[0] if by_path else main


def _distance(node: Node, stage: str, is_used: bool) -> int:
    return 0 if is_used and node.kind in (Kind.CODE, Kind.PARAMETERS) else 1 if node.stage == stage else 2
