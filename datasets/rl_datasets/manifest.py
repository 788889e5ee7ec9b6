"""`manifest.json`: what an artifact is made of. It holds no time, host, user or commit, so equal inputs give equal bytes."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, write_json

FILE_NAME = "manifest.json"
OWN = "manifest_digest"  # the key of the digest of all else in it
SHARD = ".tfrecord"  # in the name of a file of episodes, whose content is what the manifest's `digest` names


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
    files: Mapping[str, str] = field(default_factory=dict)  # path in the folder -> SHA-256, of all but shards; `write_manifest` fills it in


def package_versions(*names: str) -> dict[str, str]:
    """Returns the installed version of each distribution."""
    return {name: version(name) for name in sorted(names)}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes it beside the files that are there by now, with their digests and, last, its own."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / FILE_NAME and SHARD not in path.name)
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in paths}
    values = asdict(replace(manifest, files=digests))
    write_json(folder / FILE_NAME, {**values, OWN: values_digest(values)})


def require_files(folder: Path, manifest: Manifest, *names: str) -> None:
    """Raises HindcastError where a file in `folder` is missing, or is not, byte for byte, the one that was there when `manifest` was."""
    for path, expected in ((folder / name, manifest.files.get(name)) for name in names):
        mend = f"Restore it with 'dvc checkout --force {path}', or rebuild it with 'dvc repro --force {manifest.job}'."
        if not path.is_file():
            raise HindcastError(f"{path} is missing. {mend}")
        found = _digest(path)
        if found != expected:
            made = f"was made with {expected[:12]}" if expected else f"is not in {FILE_NAME} beside it"
            raise HindcastError(f"{path} ({path.stat().st_size:,} bytes, SHA-256 {found[:12]}) {made}: it was cut or changed since. {mend}")


def values_digest(values: Any) -> str:
    """Returns the SHA-256 of plain values, whatever the order of their keys. Raises ValueError where a number is not finite."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise HindcastError(f"{path} cannot be read: {error.strerror or error}. Look at it with 'ls -ld', and mend that.") from error


def read_manifest(folder: Path) -> Manifest:
    """Raises HindcastError where it is missing, broken, or was changed after it was made."""
    return manifest_of(read_json(folder / FILE_NAME, "job", "digest", "parameters", "inputs", OWN), (folder / FILE_NAME).as_posix())


def manifest_of(values: Mapping[str, Any], where: str) -> Manifest:
    """Returns what the values of the file `where` say. Raises HindcastError where they are no manifest, or not as it was made."""
    mend = f"Restore it with 'dvc checkout --force {where}', or rebuild it with 'dvc repro --force'."
    try:
        rest = {key: value for key, value in values.items() if key != OWN}
        if values[OWN] != values_digest(rest):
            raise HindcastError(f"{where} was changed after it was made: it does not have the digest that it states. {mend}")
        return Manifest(**{**rest, "inputs": tuple(Input(**entry) for entry in rest["inputs"])})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise HindcastError(f"{where} is no manifest of this version ({type(error).__name__}: {error}). {mend}") from error
