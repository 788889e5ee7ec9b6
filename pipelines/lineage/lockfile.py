"""dvc.lock as plain values, fast: a project may have a thousand stages, and the pure parser reads ten thousand lines a second.

The scanner is libyaml's. Which words are numbers is YAML 1.2's rule, as DVC has it: `3e-4` is a number, `on` is a word.
"""

import copy
import re
from collections import Counter
from functools import lru_cache
from typing import Any

import yaml

from pipelines.lineage.tree import Tree
from pipelines.yaml_file import refuse_marks
from rl_datasets.errors import HindcastError

LOCK, VALUES = "dvc.lock", "params.yaml"
REMEDY = "Restore it with 'git checkout dvc.lock', or remove it and run 'dvc repro'"

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  PyYAML keeps them so


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


def read_lock(tree: Tree) -> dict[str, Any]:
    """Returns the stages of dvc.lock by name; none where there is no such file. Raises HindcastError where it is broken."""
    content = tree.read(LOCK)
    return {} if content is None else parse_lock(content)


def parse_lock(content: bytes) -> dict[str, Any]:
    """Returns the stages by name, the caller's own. Raises HindcastError with the line of a merge marker or of a fault."""
    return copy.deepcopy(_parsed(content))


@lru_cache(maxsize=8)  # an audit compares the file on disk with that of several commits, which are mostly equal
def _parsed(content: bytes) -> dict[str, Any]:
    try:
        text = content.decode("utf-8")
        refuse_marks(LOCK, text)
        values = yaml.load(text, Loader=_Loader) or {}  # noqa: S506  it is the safe loader
        stages = dict(values.get("stages") or {})
        _refuse_twice(text)
        for stage in stages.values():
            named = [entry[key] for kind in ("deps", "outs") for entry in stage.get(kind, ()) for key in ("path", "md5")]
            is_named = all(isinstance(name, str) and "\0" not in name for name in named)
            if not is_named or not isinstance(stage.get("params", {}).get(VALUES, {}), dict):
                raise ValueError("a path or hash that is no text, or parameters that are no mapping")
        return stages
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise HindcastError(f"{LOCK} is not what DVC writes ({' '.join(str(error).split())}). {REMEDY}.") from error


def _refuse_twice(text: str) -> None:
    """A stage that stands twice, as after a bad merge, has two runs, and of two the parser keeps the last without a word."""
    names = Counter(re.findall(r"^  ([^ \n].*):[ ]*$", text, re.MULTILINE))
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise HindcastError(f"{LOCK} has the stage {twice[0]} twice, as a merge may leave it. {REMEDY}.")
