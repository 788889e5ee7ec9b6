"""What is released: the artifacts that have a name, the tags in gto's form (`<name>@v<version>`), and what such a tag says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines import paths
from pipelines.lineage.outcomes import metrics_of
from pipelines.lineage.stages import Project, Stage
from pipelines.lineage.store import Store
from pipelines.lineage.tree import git, git_or_none
from pipelines.lineage.wording import interval
from rl_datasets.errors import HindcastError

SECTION = "artifacts"  # of dvc.yaml
VERDICT, LOCK_DIGEST, COMMIT = "Hindcast-Audit", "Hindcast-Lock", "Hindcast-Commit"  # the trailers of a tag's message
NUMBERS = ("IQM ", "fitted Q ")  # how the line of a model's numbers begins
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


@dataclass(frozen=True)
class Artifact:
    """What is released: the output of a stage, under the name of its experiment or data set."""

    name: str
    kind: str  # "model" or "dataset"
    path: str
    stage: Stage
    description: str

    def entry(self) -> dict[str, str]:
        """Returns its entry under `artifacts:` of dvc.yaml."""
        return {"path": self.path, "type": self.kind, "desc": self.description}


def artifact_of(project: Project, name: str) -> Artifact:
    """Returns the policies of an experiment, or the splits of a data set. Raises HindcastError that lists both where it is neither."""
    places = {f"train@{name}": ("model", f"{paths.MODELS}/{name}/policies"), f"split@{name}": ("dataset", f"{paths.SPLITS}/{name}")}
    for stage, (kind, path) in places.items():
        if stage in project.stages and path in project.stages[stage].outputs:
            what = f"Policies of the experiment {name}" if kind == "model" else f"The data set {name}, divided into splits"
            return Artifact(name, kind, path, project.stages[stage], what)
    known = [stage.partition("@")[2] for stage in project.stages if stage.startswith(("train@", "split@"))]
    raise HindcastError(f"'{name}' is no experiment and no data set, and nothing else is released. Known: {', '.join(known)}.")


def released_versions(name: str) -> list[str]:
    """Returns the versions of an artifact that have a tag, the oldest first."""
    tags = git("tag", "--list", tag_name(name, "*")).split()
    return sorted((version for tag in tags if VERSION.fullmatch(version := tag.rpartition("@v")[2])), key=version_numbers)


def tag_name(name: str, version: str) -> str:
    return f"{name}@v{version}"


def version_numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def numbers_line(project: Project, artifact: Artifact) -> str:
    """Returns what a tag says of a model's evaluation; "" where there is none, or its metrics are not here."""
    evaluation = project.stages.get(f"evaluate@{artifact.name}") if artifact.kind == "model" else None
    metrics: Mapping[str, Any] | None = metrics_of(Store(project), evaluation) if evaluation and evaluation.locked else None
    return interval(metrics) if metrics else ""


@dataclass(frozen=True)
class Tag:
    """A tag: the commit that it names, and its message ("" where it is no annotated one)."""

    name: str
    commit: str
    message: str

    def trailer(self, key: str) -> str:
        """Returns the value of a trailer; "" where the message has none."""
        return next((line.partition(": ")[2] for line in self.message.splitlines() if line.startswith(f"{key}: ")), "")

    def details(self) -> list[str]:
        """Returns the indented lines: the path and md5 of each output, and the numbers."""
        return [line.strip() for line in self.message.splitlines() if line.startswith("  ")]


def release_tags() -> dict[str, list[Tag]]:
    """Returns the tags in gto's form by the name of the artifact; none where there is no repository."""
    form = "%01%(refname:strip=2)%00%(objecttype)%00%(objectname)%00%(*objectname)%00%(contents)"
    listing = (git_or_none("for-each-ref", f"--format={form}", "refs/tags") or b"").decode("utf-8", "replace")
    found: dict[str, list[Tag]] = {}
    for entry in listing.split("\x01")[1:]:
        tag, kind, own, target, message = entry.split("\0", 4)
        name, _, version = tag.rpartition("@v")
        if name and VERSION.fullmatch(version):
            found.setdefault(name, []).append(Tag(tag, target or own, message if kind == "tag" else ""))
    return found
