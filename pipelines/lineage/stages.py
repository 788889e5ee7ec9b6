"""The stages of a project as DVC sees them: what dvc.yaml asks for with the values of params.yaml, and what dvc.lock says was run.

DVC's own resolver unfolds dvc.yaml, without opening a repository, so that a revision of git is read as the files on disk are.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from pipelines.lineage.lockfile import VALUES, read_lock
from pipelines.lineage.tree import GitTree, Tree, WorkingTree
from pipelines.yaml_file import parse_yaml
from rl_datasets.errors import HindcastError

PIPELINE = "dvc.yaml"
PARAMS = VALUES
CODE = ("pipelines/", "trainer/", "datasets/")


@dataclass(frozen=True)
class Stage:
    """One stage: what dvc.yaml asks for now, and what dvc.lock says of its last run (None where it has none)."""

    name: str  # "train@cartpole_iql"
    command: str
    dependencies: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]  # keys of params.yaml, "datasets.cartpole_random"
    locked: Mapping[str, Any] | None

    def locked_hashes(self, kind: str) -> dict[str, str]:
        """Returns path -> md5 of the last run's "deps" or "outs"; a folder's ends in ".dir"."""
        return {entry["path"]: entry["md5"] for entry in (self.locked or {}).get(kind, ())}

    def locked_parameters(self) -> dict[str, Any]:
        return dict((self.locked or {}).get("params", {}).get(PARAMS, {}))


@dataclass(frozen=True)
class Project:
    """A project at one point: its files, its values, its stages in the order of dvc.yaml, and what dvc.lock has beyond them."""

    tree: Tree
    values: Mapping[str, Any]  # params.yaml
    stages: Mapping[str, Stage]
    ghosts: tuple[str, ...] = ()  # stages of dvc.lock that dvc.yaml no longer has

    def parameter(self, key: str) -> Any:
        """Returns the value of a key such as "datasets.cartpole_random.seed"; None where params.yaml has none."""
        value: Any = self.values
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value


def read_project(tree: Tree) -> Project:
    """Raises HindcastError where dvc.yaml, params.yaml or dvc.lock is missing or broken."""
    values, asked = _asked(_content(tree, PARAMS), _content(tree, PIPELINE))
    locked = read_lock(tree)
    stages = {name: _stage(name, entry, locked.get(name)) for name, entry in asked.items()}
    return Project(tree, values, stages, tuple(name for name in locked if name not in stages))


def require_project() -> None:
    """Raises HindcastError where the current folder is no project: params.yaml is neither on disk nor, as in a bare clone, in HEAD."""
    here = WorkingTree()
    if here.read(PARAMS) is not None:
        return
    with suppress(HindcastError), GitTree("HEAD") as tree:
        if tree.read(PARAMS) is not None:
            return
    _content(here, PARAMS)


def is_code(path: str) -> bool:
    """Whether a dependency is code, of the project or of the user."""
    return f"{path}/".startswith(CODE) or path.endswith(".py")


def read_stage(tree: Tree, name: str) -> tuple[Stage, dict[str, Any]] | None:
    """Returns one stage as dvc.yaml asks for it, without the lock, and the values of its parameters; None where there is none of the name.

    Raises HindcastError as `read_project` does, and takes less time.
    """
    values = _mapping(_content(tree, PARAMS), PARAMS)
    asked = _resolve(_mapping(_content(tree, PIPELINE), PIPELINE), values, name)
    if name not in asked:
        return None
    stage = _stage(name, asked[name], None)
    project = Project(tree, values, {name: stage})
    return stage, {key: value for key in stage.parameters if (value := project.parameter(key)) is not None}


def _stage(name: str, entry: Mapping[str, Any], locked: Mapping[str, Any] | None) -> Stage:
    outputs = [path for kind in ("outs", "metrics", "plots") for path in _paths(entry.get(kind, ()))]
    command = entry.get("cmd", "")
    return Stage(
        name=name,
        command=command if isinstance(command, str) else "\n".join(command),
        dependencies=tuple(sorted(_paths(entry.get("deps", ())))),
        outputs=tuple(sorted(outputs)),
        parameters=tuple(sorted(_keys(entry.get("params", ())))),
        locked=locked,
    )


def _paths(entries: Any) -> Iterator[str]:
    """An entry is a path, or a mapping of one path to options. Raises HindcastError where it is a name that no file can have."""
    for path in (path for entry in entries for path in ([entry] if isinstance(entry, str) else map(str, entry))):
        if "\0" in path:
            raise HindcastError(f"{PIPELINE}: {path!r} is no path, for it holds a zero byte. Correct it there.")
        yield path


def _keys(entries: Any) -> Iterator[str]:
    """An entry is a key of params.yaml, or a mapping of another file to its keys, which this project does not use."""
    for entry in entries:
        yield from [entry] if isinstance(entry, str) else (f"{file}:{key}" for file, keys in entry.items() for key in keys or ("",))


@lru_cache(maxsize=64)
def _asked(params: bytes, pipeline: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values and the entries of all stages by name; nobody changes them. Most revisions of a project share both files."""
    values = _mapping(params, PARAMS)
    return values, _resolve(_mapping(pipeline, PIPELINE), values)


def _content(tree: Tree, path: str) -> bytes:
    content = tree.read(path)
    if content is None:
        where = f"revision {tree.revision[:12]}" if tree.revision else "this folder"
        raise HindcastError(f"{path} is missing in {where}. Run from the project's root, where {path} is.")
    return content


def _mapping(content: bytes, path: str) -> dict[str, Any]:
    values = parse_yaml(content, path)
    if not isinstance(values, dict):
        raise HindcastError(f"{path} holds {type(values).__name__}, but a mapping of sections is expected.")
    return values


def _resolve(pipeline: Mapping[str, Any], values: Mapping[str, Any], only: str = "") -> dict[str, Any]:
    """Returns the entries of all stages (of one) by name, foreach unfolded and values filled in. The values travel as DVC's `vars`."""
    from dvc.exceptions import DvcException
    from dvc.parsing import DataResolver
    from dvc_objects.fs.memory import MemoryFileSystem

    content = {**pipeline, "vars": [dict(values), *pipeline.get("vars", [])]}
    try:
        resolver = DataResolver(SimpleNamespace(fs=MemoryFileSystem(global_store=False), config={}), "", content)  # type: ignore[no-untyped-call]
        return {name: resolver.resolve_one(name)[name] for name in resolver.get_keys() if only in ("", name)}
    except (DvcException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise HindcastError(f"{PIPELINE} cannot be read: {' '.join(str(error).split())}. 'dvc status' shows the same.") from error
