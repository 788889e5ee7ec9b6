"""An entry for params.yaml as text: the options of a mapping, a comment beside each guess, and a mark where a person must say more."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML

from rl_datasets.inspection.draft import Draft

UNKNOWN = "???"  # stands where nothing could be guessed
_WIDTH = 118
_INDENT = 2
_ORDER = (
    "path", "files", "read", "groups", "split", "env_id", "observation", "action", "reward", "next_observation", "terminal", "truncated",
    "ends", "rows", "reward_offset", "tail", "inner_flags", "lost_observation", "tolerance", "bounds", "max_episode_steps",
    "time_limit", "metadata", "step_metadata", "policy", "ignore",
)  # fmt: skip


def entry_text(name: str, builder: str, source: str, draft: Draft, source_comment: str = "") -> str:
    """Returns the entry, indented as it stands under `datasets`, with a final newline."""
    lines = [
        f"{name}:",
        f"  builder: {builder}",
        "  version: 1.0.0",
        "  seed: 0",
        f"  source: {_plain(source)}{_comment(source_comment)}",
        "  options:" if draft.options else "  options: {}",
    ]
    for key in (*_ORDER, *sorted(set(draft.options) - set(_ORDER))):
        if key in draft.options:
            lines += _option(key, draft.options[key], draft.comments.get(key, ""))
    return "".join(f"{' ' * _INDENT}{line}\n" for line in lines)


def dataset_name(path: str) -> str:
    """Returns a key for params.yaml made of a file's name: lower case, digits and underscores, a letter first."""
    stem = re.split(r"\.(?=[a-z])", path.lower())[0]
    words = re.sub(r"[^a-z0-9]+", "_", stem).strip("_")
    return words if words[:1].isalpha() else f"data_{words}".rstrip("_")


def _option(key: str, value: Any, comment: str) -> list[str]:
    line = f"    {key}: {_plain(value)}{_comment(comment)}"
    if len(line) <= _WIDTH or not isinstance(value, list | dict):
        return [line]
    head = f"    {key}:{_comment(comment)}"
    if isinstance(value, dict) and all(len(f"{k}: {_plain(v)}") <= _WIDTH for k, v in value.items()):
        return [head, *(f"      {_plain(k)}: {_plain(v)}" for k, v in value.items())]
    items = value if isinstance(value, list) else []
    return [head, *(f"      - {_plain(item)}" for item in items)] if items else [line]


def _comment(text: str) -> str:
    return f"  # {text}" if text else ""


def _plain(value: Any) -> str:
    """Returns a value on one line, as YAML 1.2 writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_plain(key)}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    yaml = YAML(typ="safe", pure=True)
    buffer = io.StringIO()
    yaml.dump(value, buffer)
    return buffer.getvalue().split("\n")[0]


def _quoted(text: str) -> str:
    """A plain word stays plain where it reads as the same word, also within brackets."""
    if re.fullmatch(r"[A-Za-z_/][\w./*+-]*( [\w./*+-]+)*", text):
        read = YAML(typ="safe", pure=True).load(f"[{text}]")
        if read == [text]:
            return text
    return '"' + "".join(char if char.isprintable() and char not in '"\\' else json.dumps(char)[1:-1] for char in text) + '"'
