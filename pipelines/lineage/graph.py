"""The graph of stages: who made which path, and what stands above and below a target."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

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
        return [name for name, stage in self.stages.items() if any(_overlap(path, output) for output in stage.outputs)]

    def find(self, target: str) -> list[str]:
        """Returns the stages that a target means: a stage, a data set or experiment (its last stages first), or a path.

        Raises HindcastError that lists what there is where nothing fits.
        """
        if target in self.stages:
            return [target]
        keyed = [name for name in self.stages if name.partition("@")[2] == target]
        found = keyed[::-1] or self.makers(target.rstrip("/"))
        if not found:
            keys = sorted({name.partition("@")[2] or name for name in self.stages})
            raise HindcastError(f"'{target}' is no stage, data set, experiment or output path. Known: {', '.join(keys)}.")
        return found


def _overlap(path: str, other: str) -> bool:
    one, two = PurePosixPath(path), PurePosixPath(other)
    return one == two or one in two.parents or two in one.parents
