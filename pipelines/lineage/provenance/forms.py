"""The graph as JSON of this project's own, and as events of OpenLineage. Equal graphs give equal text."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pipelines.lineage.openlineage import SPEC, dataset, job, producer
from pipelines.lineage.provenance.model import MADE, Kind, Node, Provenance
from pipelines.lineage.records import CONTENT
from pipelines.lineage.tree import Tree

_JOB_SCHEMA = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/JobEvent"
_EPOCH = "1970-01-01T00:00:00.000Z"  # of what no run is recorded for; the form demands a time
_READ = (*MADE, Kind.SOURCE, Kind.ENVIRONMENT, Kind.POLICY)


def as_json(graph: Provenance) -> str:
    """Returns {"targets", "nodes", "links"}."""
    values = {
        "targets": list(graph.targets),
        "nodes": [asdict(node) for node in graph.nodes.values()],
        "links": [asdict(link) for link in graph.links],
    }
    return json.dumps(values, indent=2, ensure_ascii=False)


def as_openlineage(graph: Provenance, tree: Tree) -> str:
    """Returns a list of events: of each run in the graph its record, and of each stage without one what it is known to read and write.

    Environments and behaviour policies are datasets among its inputs, for OpenLineage has no other word for them.
    """
    runs = [node for node in graph.nodes.values() if node.kind is Kind.RUN]
    events = [json.loads(content) for node in runs if (content := tree.read(node.paths[0])) is not None]
    recorded = {node.stage for node in runs}
    stages = dict.fromkeys(node.stage for node in graph.nodes.values() if node.kind in MADE and node.stage not in recorded)
    return json.dumps([*events, *(_job_event(graph, stage) for stage in stages)], indent=2, sort_keys=True, ensure_ascii=False)


def _job_event(graph: Provenance, stage: str) -> dict[str, Any]:
    made = {name: node for name, node in graph.nodes.items() if node.stage == stage and node.kind in MADE}
    read = {link.source for link in graph.links if link.made in made and link.source not in made}
    sources = [node for name, node in graph.nodes.items() if name in read and node.kind in _READ]
    return {
        "eventTime": _EPOCH,
        "producer": producer(),
        "schemaURL": _JOB_SCHEMA,
        "job": job(stage),
        "inputs": [_dataset(node) for node in sources],
        "outputs": [{**_dataset(node), "outputFacets": {}} for node in made.values()],
    }


def _dataset(node: Node) -> dict[str, Any]:
    digest = next(iter(node.digests.values()), "")
    content: Mapping[str, Any] = {"kind": str(node.kind), "digests": dict(node.digests), "details": dict(node.details)}
    return dataset(
        node.paths[-1] if node.paths else node.id, {CONTENT: content, **({"version": {"datasetVersion": digest}} if digest else {})}
    )
