"""params.yaml as text: an entry is put in, and every other byte, with its comments and its order, stays."""

import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from rl_datasets.errors import HindcastError

DATASETS, EXPERIMENTS = "datasets", "experiments"
_WHAT = {DATASETS: "a data set", EXPERIMENTS: "an experiment"}


def insert_entry(text: str, name: str, entry: str, section: str = DATASETS) -> str:
    """Returns the text with the entry, which is indented as in a section, at the end of that section.

    Raises HindcastError where there is an entry of this name, or the section is not written as a block of lines.
    """
    before = _loaded(text)
    if name in (before.get(section) or {}):
        raise HindcastError(f"params.yaml has {_WHAT[section]} '{name}' already. Choose another name, or edit that entry.")
    lines = text.splitlines(keepends=True)
    start = next((number for number, line in enumerate(lines) if re.match(rf"{section}:\s*({{}}\s*)?(#.*)?$", line)), None)
    if start is None:
        raise HindcastError(f"params.yaml: the section '{section}' is not written as a block of lines. Put this into it by hand:\n{entry}")
    lines[start] = re.sub(rf"^{section}:\s*{{}}", f"{section}:", lines[start])  # an empty section
    end = next((number for number in range(start + 1, len(lines)) if re.match(r"[^\s#]", lines[number])), len(lines))
    while end > start + 1 and re.match(r"(#.*)?$", lines[end - 1].rstrip("\n")):  # blank lines and comments before the next section
        end -= 1
    indented = _with_indent(entry, _indent(lines[start + 1 : end]))
    if lines[end - 1].endswith("\n"):
        joined = "".join([*lines[:end], "\n", indented, *lines[end:]])
    else:
        joined = "".join([*lines[:end], "\n\n", indented])
    after = _loaded(joined)
    added = after[section].pop(name, None)
    if added is None or after != {**before, section: before.get(section) or {}}:
        raise HindcastError(f"params.yaml: the entry could not be put in without a change to others. Put it in by hand:\n{entry}")
    return joined


def _indent(lines: list[str]) -> int:
    return next((len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.lstrip().startswith("#")), 2)


def _with_indent(entry: str, spaces: int) -> str:
    own = len(entry) - len(entry.lstrip())
    return "".join(f"{' ' * spaces}{line[own:]}" if line.strip() else line for line in entry.splitlines(keepends=True))


def _loaded(text: str) -> dict[str, Any]:
    try:
        values = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise HindcastError(f"params.yaml is not valid YAML: {' '.join(str(error).split())}. Mend it first.") from error
    if not isinstance(values, dict):
        raise HindcastError(f"params.yaml holds no sections. It needs '{DATASETS}'.")
    return values
