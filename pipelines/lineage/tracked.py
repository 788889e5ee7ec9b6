"""Source files that DVC keeps by a `.dvc` file beside them: added here, or imported from another project or an address."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from pipelines.lineage.graph import with_folders
from pipelines.lineage.tree import Tree
from pipelines.yaml_file import parse_yaml
from rl_datasets.errors import HindcastError

ENDING = ".dvc"


class Origin(StrEnum):
    ADDED = "dvc add"
    IMPORTED = "dvc import"  # from another project's git and DVC
    FETCHED = "dvc import-url"  # from an address


@dataclass(frozen=True)
class Tracked:
    """What `file` says of `path`: its md5 (a folder's ends in ".dir"; "" where it has none yet), and where it came from."""

    file: str  # "data/log.csv.dvc"
    path: str  # "data/log.csv"
    md5: str
    origin: Origin
    address: str = ""  # of the other project's git, or of the file
    revision: str = ""  # the other project's commit
    source: str = ""  # the path in the other project


def tracked(tree: Tree, path: str) -> Tracked | None:
    """Returns what the `.dvc` file of a path, or of a folder around it, says; None where there is none of the name that DVC gives it.

    Raises HindcastError where it is broken.
    """
    for place in with_folders(path):
        content = tree.read(place + ENDING)
        if content is not None:
            return _parse(place + ENDING, place, content)
    return None


def _parse(file: str, path: str, content: bytes) -> Tracked:
    values = parse_yaml(content, file)
    try:
        out = next(out for out in values["outs"] if PurePosixPath(out["path"]).name == PurePosixPath(path).name)
        dependency: Mapping[str, Any] = next(iter(values.get("deps", ())), {})
        repository = dependency.get("repo")
        if repository is not None:
            imported = (str(repository["url"]), str(repository.get("rev_lock", "")), str(dependency["path"]))
            return Tracked(file, path, out.get("md5", ""), Origin.IMPORTED, *imported)
        if dependency:
            return Tracked(file, path, out.get("md5", ""), Origin.FETCHED, str(dependency["path"]))
        return Tracked(file, path, out.get("md5", ""), Origin.ADDED)
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise HindcastError(
            f"{file} does not say what DVC keeps at {path}: it has no such entry under 'outs'. Restore it with 'git checkout {file}', "
            f"or write it anew with 'dvc add {path}'."
        ) from error
