"""The one reader of YAML, as DVC reads it (YAML 1.2: `3e-4` is a number, `on` is a word), with faults named by their line."""

import copy
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode

from rl_datasets.errors import HindcastError

MARKS = ("<<<<<<<", "=======", ">>>>>>>")  # of git, where two versions differ


class _Constructor(SafeConstructor):
    """One that says where a date is that the calendar does not have."""

    def construct_date(self, node: ScalarNode) -> Any:
        try:
            return self.construct_yaml_timestamp(node)
        except ValueError as error:
            raise MarkedYAMLError(problem=f"'{node.value}' is no date: {error}", problem_mark=node.start_mark) from error


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", _Constructor.construct_date)


def read_yaml(path: Path, remedy: str = "Mend that line") -> Any:
    """Raises HindcastError with the line and column of a fault, and FileNotFoundError. `remedy` says what to do about it."""
    try:
        return parse_yaml(path.read_bytes(), path.as_posix(), remedy)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HindcastError(f"{path} cannot be read: {error.strerror or error}. Look at it with 'ls -ld', and mend that.") from error


def parse_yaml(content: bytes, path: str, remedy: str = "Mend that line") -> Any:
    """Returns what the content of the file at `path` says, the caller's own. Raises HindcastError with the line and column of a fault."""
    return copy.deepcopy(_parsed(content, path, remedy))


@lru_cache(maxsize=16)  # an audit compares a file with that of several commits, which are mostly equal
def _parsed(content: bytes, path: str, remedy: str) -> Any:
    try:
        text = content.decode("utf-8")
        refuse_marks(path, text)
        yaml = YAML(typ="safe", pure=True)
        yaml.Constructor = _Constructor
        value = yaml.load(text)
        json.dumps(value, default=str)  # which refuses an anchor that holds an alias of itself
        return value
    except UnicodeDecodeError as error:
        raise HindcastError(f"{path} is not text in UTF-8: byte {error.start} is {error.object[error.start]:#04x}. {remedy}.") from error
    except (YAMLError, TypeError, ValueError, RecursionError) as error:
        raise HindcastError(f"{path}{_place(error)} is not valid YAML: {_problem(error)}. {remedy}.") from error


def refuse_marks(path: str, text: str) -> None:
    """Raises HindcastError with the line of the first marker that a merge by git left."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.split(" ")[0] in MARKS:
            raise HindcastError(
                f"{path}, line {number}: a merge left its marker '{line[:40]}'. Take one side ('git checkout --theirs {path}' or --ours), "
                "or edit the file so that none is left, then run 'dvc repro'."
            )


def _place(error: Exception) -> str:
    mark = (error.problem_mark or error.context_mark) if isinstance(error, MarkedYAMLError) else None
    return f", line {mark.line + 1}, column {mark.column + 1}," if mark else ""


def _problem(error: Exception) -> str:
    """What is wrong, without where: ruamel names a text that it was handed "<unicode string>"."""
    if isinstance(error, MarkedYAMLError):
        parts = [part for part in (error.context, error.problem) if part]
        return ", ".join(" ".join(part.split()) for part in parts)
    return " ".join(str(error).split()).replace('in "<unicode string>", ', "at ")
