"""The graph of stages: who made which path, and what stands above and below a target."""

import difflib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from pipelines.lineage.stages import Stage
from rl_datasets.errors import HindcastError


@dataclass(frozen=True)
class Graph:
    """Stages by name, with the edges that follow from paths: a stage depends on whoever makes what it reads."""

    stages: Mapping[str, Stage]

    def parents(self, stage: str) -> list[str]:
        """Returns the stages whose outputs this one reads."""
        return self._parents[stage]

    def children(self, stage: str) -> list[str]:
        """Returns the stages that read an output of this one, in the order of dvc.yaml."""
        return self._children[stage]

    def makers(self, path: str) -> list[str]:
        """Returns the stages with an output at this path, inside it, or around it, in the order of dvc.yaml."""
        found = {name for place in with_folders(path) for name in self._at.get(place, ())} | set(self._inside.get(path, ()))
        return [name for name in self.stages if name in found] if len(found) > 1 else list(found)

    def upstream(self, stages: list[str]) -> list[str]:
        """Returns these stages and all that they depend on, each after what it depends on."""
        return _reached(stages, self.parents)

    def downstream(self, stages: list[str]) -> list[str]:
        """Returns these stages and all that depend on them, each after what it depends on."""
        reached = set(_reached(stages, self.children))
        return [name for name in self.upstream(list(self.stages)) if name in reached]

    def find(self, target: str) -> list[str]:
        """Returns the stages that a target means: a stage, a data set or experiment (its last stages first), or a path.

        Raises HindcastError that lists what there is where nothing fits.
        """
        if target in self.stages:
            return [target]
        keyed = [name for name in self.stages if name.partition("@")[2] == target]
        found = keyed[::-1] or self._makers_of_existing(inside_project(target))
        if not found:
            known = sorted({*(name.partition("@")[2] or name for name in self.stages), *self.outputs()})
            near = difflib.get_close_matches(target, known, n=3, cutoff=0.4)
            hint = f"Nearest: {', '.join(near)}." if near else f"Known: {', '.join(name for name in known if '/' not in name)}."
            raise HindcastError(f"'{target}' is no stage, data set, experiment or output path. {hint}")
        return found

    def find_one(self, target: str, down: bool) -> str:
        """Returns the one stage that a target means: of a key its last stage, with `down` its first.

        Raises HindcastError where there is none, and where a path holds the outputs of several.
        """
        found = self.find(target)
        if len(found) > 1 and {name.partition("@")[2] for name in found} != {target}:
            shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
            raise HindcastError(f"'{target}' holds outputs of {len(found)} stages. Name one of them, or a path further inside: {shown}.")
        return found[-1] if down else found[0]

    @cached_property
    def _at(self) -> dict[str, list[str]]:
        """Output path to the stages that make it."""
        return _grouped((output, name) for name, stage in self.stages.items() for output in stage.outputs)

    @cached_property
    def _inside(self) -> dict[str, list[str]]:
        """Folder to the stages that make something in it."""
        return _grouped((folder, name) for output, names in self._at.items() for folder in with_folders(output)[1:] for name in names)

    @cached_property
    def _parents(self) -> dict[str, list[str]]:
        return {name: sorted({other for path in stage.dependencies for other in self.makers(path)}) for name, stage in self.stages.items()}

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        children: dict[str, list[str]] = {name: [] for name in self.stages}
        for name, parents in self._parents.items():
            for parent in parents:
                children[parent].append(name)
        return children

    def outputs(self) -> list[str]:
        return sorted(output for stage in self.stages.values() for output in stage.outputs)

    def _makers_of_existing(self, path: str) -> list[str]:
        """The makers of a path, unless it lies in an output that is here and that does not have it."""
        around = [output for output in self.outputs() if PurePosixPath(output) in PurePosixPath(path).parents]
        return [] if any(Path(output).exists() for output in around) and not Path(path).exists() else self.makers(path)


def inside_project(target: str) -> str:
    """Returns a path as dvc.yaml writes it, relative to the project's root. Raises HindcastError where it is outside, or the root."""
    path = os.path.relpath(target or ".")
    if path == "." or path.startswith(".."):
        raise HindcastError(
            f"'{target}' is no path inside the project ({Path.cwd().name}/). Name a stage, data set, experiment or output path."
        )
    return PurePosixPath(path).as_posix()


def overlap(path: str, other: str) -> bool:
    """Whether the two are one path, or one lies in the other."""
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


def with_folders(path: str) -> list[str]:
    """Returns a path and the folders that it lies in, the innermost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def _grouped(pairs: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for key, value in pairs:
        if value not in groups[key]:
            groups[key].append(value)
    return dict(groups)


def _reached(stages: list[str], step: Callable[[str], list[str]]) -> list[str]:
    """Returns what can be reached, each after all that the step leads to from it; without recursion, for chains may be long."""
    order: dict[str, None] = {}
    entered: set[str] = set()  # a pipeline that goes in a circle, which DVC refuses, ends here too
    for start in stages:
        waiting = [(start, iter(step(start)))] if start not in entered else []
        entered.add(start)
        while waiting:
            name, following = waiting[-1]
            nearest = next((other for other in following if other not in entered), None)
            if nearest is None:
                order[name] = None
                waiting.pop()
            else:
                entered.add(nearest)
                waiting.append((nearest, iter(step(nearest))))
    return list(order)
