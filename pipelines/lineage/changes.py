"""What differs between two runs of a stage, or between its last run and what the project asks for now: one `Change` each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pipelines.lineage.stages import PARAMS, Project, Stage, is_code

LOCK_OF_PACKAGES = "requirements.lock"
ABSENT = "absent"


class Kind(StrEnum):
    COMMAND = "command"
    PARAMETER = "parameter"
    CODE = "code"
    PACKAGES = "packages"
    SOURCE = "source"  # a file of the user's
    UPSTREAM = "upstream"  # what another stage makes
    OUTPUT = "output"  # of the stage itself, which is missing or was changed


@dataclass(frozen=True)
class Change:
    """One thing that was one way and is another: a value, or the md5 of a path; ABSENT where there is none on one side."""

    kind: Kind
    name: str  # "learners.iql.cartpole.expectile", "trainer/loop.py"
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {_shown(self.before)} -> {_shown(self.after)}"


Entry = Mapping[str, Any]  # a stage as dvc.lock writes it: cmd, deps, params, outs


def run_changes(before: Entry, after: Entry, is_made: Callable[[str], bool]) -> list[Change]:
    """Returns what differs in what two runs of a stage were given; `is_made` tells whether a stage makes a path."""
    return [*_command(before, after), *_parameters(before, after), *_paths(before, after, is_made)]


def output_changes(before: Entry, after: Entry) -> list[Change]:
    """Returns which outputs of two runs of a stage differ."""
    return [Change(Kind.OUTPUT, *difference) for difference in differing(hashes(before, "outs"), hashes(after, "outs"))]


def other_data(before: Entry, after: Entry) -> tuple[str, ...]:
    """Returns the data sets that a run was given parameters of, where a later run has others and none of these; else nothing."""
    old, new = (_datasets(entry) for entry in (before, after))
    return tuple(sorted(old)) if old and new and not old & new else ()


def version_of(stage: str, entry: Entry) -> str:
    """Returns the version of the data set that a collection or another stage of that data set was given; "" of other stages."""
    return str(_flat_parameters(entry).get(f"datasets.{stage.partition('@')[2]}.version", ""))


def asked_entry(project: Project, stage: Stage, hash_of: Callable[[str], str | None]) -> Entry:
    """Returns what a run of a stage would be given now, as dvc.lock would write it. `hash_of` returns None for what is not here."""
    params = {key: value for key in stage.parameters if (value := project.parameter(key)) is not None}
    found = {path: hash_of(path) for path in stage.dependencies}
    deps = [{"path": path, "md5": md5} for path, md5 in found.items() if md5 is not None]
    return {"cmd": stage.command, "params": {PARAMS: params}, "deps": deps}


def hashes(entry: Entry, kind: str) -> dict[str, str]:
    """Returns path -> md5 of an entry's "deps" or "outs"."""
    return {item["path"]: item["md5"] for item in entry.get(kind, ())}


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields the keys whose values differ, sorted, with both values; ABSENT stands for none."""
    for key in sorted({*before, *after}):
        old, new = before.get(key, ABSENT), after.get(key, ABSENT)
        if old != new or (type(old) is not type(new) and bool in (type(old), type(new))):  # True is no 1 in a parameter
            yield key, old, new


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} becomes {"a.b": 1}; an empty mapping, a list and a plain value stay as they are."""
    if not isinstance(values, Mapping) or not values:
        return {prefix: values} if prefix else {}
    return {key: value for name, inner in values.items() for key, value in flat(inner, f"{prefix}.{name}" if prefix else str(name)).items()}


def kind_of(path: str, is_made: Callable[[str], bool]) -> Kind:
    """Returns what a dependency is to the stage that reads it."""
    if is_made(path):
        return Kind.UPSTREAM
    if path == LOCK_OF_PACKAGES:
        return Kind.PACKAGES
    return Kind.CODE if is_code(path) else Kind.SOURCE


def _command(before: Entry, after: Entry) -> Iterator[Change]:
    if before.get("cmd") != after.get("cmd"):
        yield Change(Kind.COMMAND, "cmd", before.get("cmd", ABSENT), after.get("cmd", ABSENT))


def _parameters(before: Entry, after: Entry) -> Iterator[Change]:
    old, new = (_flat_parameters(entry) for entry in (before, after))
    yield from (Change(Kind.PARAMETER, *difference) for difference in differing(old, new))


def _flat_parameters(entry: Entry) -> dict[str, Any]:
    return flat({key: value for values in entry.get("params", {}).values() for key, value in values.items()})


def _datasets(entry: Entry) -> set[str]:
    """The names of the data sets that have parameters in an entry: "datasets.NAME.version"."""
    return {key.split(".")[1] for key in _flat_parameters(entry) if key.startswith("datasets.")}


def _paths(before: Entry, after: Entry, is_made: Callable[[str], bool]) -> Iterator[Change]:
    for path, old, new in differing(hashes(before, "deps"), hashes(after, "deps")):
        yield Change(kind_of(path, is_made), path, old, new)


def _shown(value: Any) -> str:
    is_hash = isinstance(value, str) and len(value.removesuffix(".dir")) == 32 and " " not in value
    return value[:8] if is_hash else value if isinstance(value, str) else repr(value)
