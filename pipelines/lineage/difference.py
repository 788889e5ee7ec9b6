"""What differs between two revisions: what each stage was given and made, and which change explains which outcome."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from pipelines.lineage.changes import LOCK_OF_PACKAGES, Change, Kind, differing, output_changes, run_changes
from pipelines.lineage.graph import Graph
from pipelines.lineage.stages import Project
from pipelines.lineage.tree import Tree


@dataclass(frozen=True)
class StageDifference:
    """One stage that was run differently, or whose outputs differ, or that only one of the two revisions has run."""

    name: str
    before: bool  # whether the first revision has run it
    after: bool
    changes: tuple[Change, ...] = ()
    outputs: tuple[Change, ...] = ()

    @property
    def is_unexplained(self) -> bool:
        """Other outputs from the same inputs: the stage is no function of what it declares, or was run by hand."""
        return self.before and self.after and bool(self.outputs) and not self.changes


@dataclass(frozen=True)
class Cause:
    """A change that no other stage explains, and the stages that were given it, of those above an outcome."""

    change: Change
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """Two revisions of a project."""

    before: Project
    after: Project
    stages: Mapping[str, StageDifference]  # those that differ, sources first

    def causes(self, stage: str) -> list[Cause]:
        """Returns what explains that a stage's outputs differ: its own changes, and those of the stages whose outputs changed above it."""
        found: dict[str, tuple[Change, list[str]]] = {}
        for name, change in self._roots(stage, set()):
            found.setdefault(repr(change), (change, []))[1].append(name)
        return [Cause(change, tuple(names)) for change, names in found.values()]

    def unexplained(self, stage: str) -> list[str]:
        """Returns the stages at or above one whose outputs differ though they were given the same."""
        return [name for name in self.graph.upstream([stage]) if name in self.stages and self.stages[name].is_unexplained]

    @cached_property
    def graph(self) -> Graph:
        """Of the second revision, with the stages that only the first had."""
        return Graph({**self.before.stages, **self.after.stages})

    def _roots(self, stage: str, seen: set[str]) -> Iterator[tuple[str, Change]]:
        if stage in seen or stage not in self.stages:
            return
        seen.add(stage)
        for change in self.stages[stage].changes:
            if change.kind is not Kind.UPSTREAM:
                yield stage, change
                continue
            makers = [maker for maker in self.graph.makers(change.name) if maker in self.stages]
            for maker in makers:
                yield from self._roots(maker, seen)


def difference(before: Project, after: Project, target: str = "") -> Difference:
    """Compares all stages, or those that a target means with all above them. Raises HindcastError where it means none."""
    whole = Difference(before, after, {})
    graph = whole.graph
    names = graph.upstream(graph.find(target) if target else list(graph.stages))
    found = {name: entry for name in names if (entry := _compare(whole, name)) is not None}
    return Difference(before, after, found)


def package_changes(before: Tree, after: Tree) -> list[Change]:
    """Returns the packages whose versions differ in requirements.lock."""
    versions = [_versions(tree.read(LOCK_OF_PACKAGES) or b"") for tree in (before, after)]
    return [Change(Kind.PACKAGES, *entry) for entry in differing(*versions)]


def not_run(project: Project) -> list[str]:
    """Returns the stages whose parameters or command are other than those of their last run, in the order of dvc.yaml."""
    return [
        name
        for name, stage in project.stages.items()
        if stage.locked is None
        or stage.locked.get("cmd") != stage.command
        or any(project.parameter(key) != value for key, value in stage.locked_parameters().items())
    ]


def _compare(whole: Difference, name: str) -> StageDifference | None:
    old, new = ((project.stages[name].locked if name in project.stages else None) for project in (whole.before, whole.after))
    if old is None or new is None:
        return None if old is new else StageDifference(name, old is not None, new is not None)
    changes = run_changes(old, new, lambda path: bool(whole.graph.makers(path)))
    outputs = output_changes(old, new)
    return StageDifference(name, True, True, tuple(changes), tuple(outputs)) if changes or outputs else None


def _versions(lock: bytes) -> dict[str, str]:
    """Name -> version, or versions by marker where the lock has several, of lines such as "jax==0.10.2 ; python_version >= '3.11'"."""
    found: dict[str, str] = {}
    for line in lock.decode("utf-8", "replace").splitlines():
        name, separator, rest = line.partition("==")
        if separator and not line.startswith("#"):
            found[name.strip()] = ", ".join(filter(None, (found.get(name.strip()), rest.strip())))
    return found
