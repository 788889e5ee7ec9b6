"""The graph of stages: who made which path, and what stands above and below a target."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipelines.lineage.lock import Stage
from rl_datasets.errors import HindcastError


@dataclass(frozen=True)
class Graph:
    """Stages by name, with the edges that follow from paths: a stage depends on whoever makes what it reads."""

    stages: Mapping[str, Stage]

    def parents(self, stage: str) -> list[str]:
        """Returns the stages whose outputs this one reads."""
        return sorted({other for path in self.stages[stage].dependencies for other in self.makers(path)})

    def children(self, stage: str) -> list[str]:
        return [other for other in self.stages if stage in self.parents(other)]

    def makers(self, path: str) -> list[str]:
        """Returns the stages with an output at this path, inside it, or around it."""
        return [name for name, stage in self.stages.items() if any(overlap(path, output) for output in stage.outputs)]

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
    one, two = PurePosixPath(path), PurePosixPath(other)
    return one == two or one in two.parents or two in one.parents
