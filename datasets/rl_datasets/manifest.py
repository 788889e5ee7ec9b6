"""`manifest.json`: what an artifact is made of. It holds no time, host, user or commit, so equal inputs give equal bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, write_json

FILE_NAME = "manifest.json"


@dataclass(frozen=True)
class Input:
    """Something that was read: a name a person knows, its path in the project, and the digest of its content."""

    name: str
    path: str
    digest: str


@dataclass(frozen=True)
class Manifest:
    """`job` is the stage and its key, as in "collect@cartpole_random"; `digest` is that of the content that was made."""

    job: str
    digest: str
    parameters: Mapping[str, Any]
    inputs: Sequence[Input] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()  # what was assumed, cast, dropped or lost, one sentence each
    packages: Mapping[str, str] = field(default_factory=dict)


def package_versions(*names: str) -> dict[str, str]:
    """Returns the installed version of each distribution."""
    return {name: version(name) for name in sorted(names)}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_json(folder / FILE_NAME, asdict(manifest))


def read_manifest(folder: Path) -> Manifest:
    """Raises HindcastError where it is missing or broken."""
    values = read_json(folder / FILE_NAME, "job", "digest", "parameters", "inputs")
    try:
        return Manifest(**{**values, "inputs": tuple(Input(**entry) for entry in values["inputs"])})
    except TypeError as error:
        raise HindcastError(
            f"{folder / FILE_NAME} is no manifest of this version ({error}). Rebuild it with 'dvc repro --force'."
        ) from error
