"""The graph of what was made from what: nodes of several kinds, and links from what was made to what it was made from."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What a node is, in the order in which they are shown."""

    DATASET = "data set"
    CHECK = "check"
    SPLIT = "split"
    TRAINING = "training"
    MODEL = "model"  # of one seed
    EVALUATION = "evaluation"
    METRIC = "metric"
    REPORT = "report"
    ARTIFACT = "artifact"  # of a stage that is none of the above
    SOURCE = "source file"
    ENVIRONMENT = "environment"
    POLICY = "behaviour policy"
    PARAMETERS = "parameters"
    CODE = "code"
    PACKAGES = "packages"
    RUN = "run"  # one execution of a stage, by its record
    COMMIT = "commit"
    PERSON = "person"


# What runs make, and what they make it from.
MADE = (Kind.DATASET, Kind.CHECK, Kind.SPLIT, Kind.TRAINING, Kind.MODEL, Kind.EVALUATION, Kind.METRIC, Kind.REPORT, Kind.ARTIFACT)


@dataclass(frozen=True)
class Fault:
    """Something that the audit found wrong about a node: "broken", "affected" or "cannot tell", which link, and the reason."""

    verdict: str
    link: str
    reason: str


@dataclass(frozen=True)
class Node:
    """One thing. `digests` and `details` are for people, by name; `paths` are those that it stands for in the project."""

    id: str  # "data set:cartpole_random"
    kind: Kind
    name: str
    stage: str = ""  # that made it or, of parameters and code, that used it
    paths: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # what it may be asked for as, beside its name
    digests: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, order=True)
class Link:
    """`made` came from `source`; `how` reads as "made <how> source": "trained on"."""

    made: str
    source: str
    how: str


@dataclass(frozen=True)
class Provenance:
    """Nodes by id, in an order that does not change between equal projects, and the links between them."""

    nodes: Mapping[str, Node]
    links: tuple[Link, ...]
    targets: tuple[str, ...] = ()  # the ids of the nodes that were asked for; none for all

    def sources(self) -> dict[str, list[Link]]:
        """Returns the links from each node to what it was made from."""
        return self._by(lambda link: link.made)

    def uses(self) -> dict[str, list[Link]]:
        """Returns the links to each node from what was made from it."""
        return self._by(lambda link: link.source)

    def upstream(self, targets: Iterable[str]) -> "Provenance":
        """Returns what these nodes were made from, all the way."""
        following, asked = self.sources(), tuple(targets)
        return self.only(_reached(asked, lambda name: [link.source for link in following[name]]), asked)

    def downstream(self, targets: Iterable[str]) -> "Provenance":
        """Returns what was made from these nodes, all the way."""
        following, asked = self.uses(), tuple(targets)
        return self.only(_reached(asked, lambda name: [link.made for link in following[name]]), asked)

    def only(self, chosen: Iterable[str], targets: tuple[str, ...] = ()) -> "Provenance":
        kept = set(chosen)
        links = tuple(link for link in self.links if link.made in kept and link.source in kept)
        return Provenance({name: node for name, node in self.nodes.items() if name in kept}, links, targets)

    def with_faults(self, faults: Mapping[str, Iterable[Fault]]) -> "Provenance":
        """Returns the graph with what is wrong about each node."""
        nodes = {name: replace(node, faults=tuple(faults.get(name, ()))) for name, node in self.nodes.items()}
        return replace(self, nodes=nodes)

    def _by(self, end: Callable[[Link], str]) -> dict[str, list[Link]]:
        found: dict[str, list[Link]] = {name: [] for name in self.nodes}
        for link in self.links:
            found[end(link)].append(link)
        return found


class Draft:
    """A graph while it is put together: the first word on a node stands, its links are gathered, and links to nowhere are dropped."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._links: dict[Link, None] = {}
        self._by_path: list[tuple[str, str, str]] = []
        self.commits: set[str] = set()  # hashes that something is linked to

    def add(self, node: Node) -> str:
        """Returns the node's id."""
        self._nodes.setdefault(node.id, node)
        return node.id

    def link(self, made: str, how: str, *sources: str) -> None:
        for source in sources:
            if source != made:
                self._links[Link(made, source, how)] = None

    def link_commits(self, made: str, how: str, *hashes: str) -> None:
        self.commits |= set(hashes)
        self.link(made, how, *(node_id(Kind.COMMIT, commit) for commit in hashes))

    def link_path(self, made: str, how: str, path: str) -> None:
        """Links to whatever will stand for a path, or for the innermost folder around it."""
        self._by_path.append((made, how, path))

    def finish(self) -> Provenance:
        order = list(Kind)
        nodes = {node.id: node for node in sorted(self._nodes.values(), key=lambda node: (order.index(node.kind), node.id))}
        for made, how, path in self._by_path:
            self.link(made, how, *around(nodes.values(), path)[:1])
        links = sorted(link for link in self._links if link.made in nodes and link.source in nodes)
        return Provenance(nodes, tuple(links))


def around(nodes: Iterable[Node], path: str) -> list[str]:
    """Returns the nodes that stand for a path or for a folder around it, those of the innermost first."""
    found = [(len(own), node.id) for node in nodes for own in node.paths if path == own or path.startswith(f"{own}/")]
    longest = max((length for length, _ in found), default=0)
    return list(dict.fromkeys(name for length, name in found if length == longest))


def node_id(kind: Kind, name: str) -> str:
    return f"{kind}:{name}"


def short_digest(values: Any) -> str:
    """A name for plain values that equal values share."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def _reached(starts: Iterable[str], step: Callable[[str], list[str]]) -> set[str]:
    found = set(starts)
    waiting = list(found)
    while waiting:
        for name in step(waiting.pop()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return found
