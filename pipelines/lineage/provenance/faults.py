"""What the audit found wrong, by the node of the graph that it is about."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from pipelines.lineage.provenance.model import MADE, Fault, Node, Provenance, around
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
    """What stands for the subject. What is wrong about an input that another stage made is wrong about what this stage made from it."""
    stage = finding.subject.removeprefix("dvc.lock/") if finding.subject.startswith("dvc.lock/") else finding.stage
    main = main_id(stage) if stage else ""
    used = {link.source for link in graph.links if link.made == main}
    by_path = around(graph.nodes.values(), finding.subject) if finding.subject else []
    own = [name for name in by_path if main not in graph.nodes or _is_of(graph.nodes[name], stage, name in used)]
    return own[0] if own else main


def _is_of(node: Node, stage: str, is_used: bool) -> bool:
    return node.stage == stage or (is_used and node.kind not in MADE)
