"""What git says about the people behind a project: who made a commit, and which commits set a parameter, by the lines of params.yaml."""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from pipelines.lineage.stages import PARAMS
from pipelines.lineage.tree import Tree, git_or_none

_FIELDS = "%H%x1f%aI%x1f%an <%ae>%x1f%s"
_UNCOMMITTED = "0" * 40


def authors(commits: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns the time (ISO 8601), author and first line of the message of each commit; those that this clone lacks are left out."""
    wanted = sorted(set(commits))
    listing = git_or_none("log", "--no-walk=unsorted", "--ignore-missing", f"--format={_FIELDS}", *wanted) if wanted else None
    lines = [line.split("\x1f", 3) for line in (listing or b"").decode("utf-8", "replace").splitlines() if line]
    return {name: {"time": time, "author": author, "message": subject} for name, time, author, subject in lines}


class Decisions:
    """Which commits last changed the lines of params.yaml that a parameter stands in. Read once, when it is first asked."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._lines: list[str] | None = None
        self._root: Any = None

    def of(self, keys: Iterable[str]) -> list[str]:
        """Returns the commits of parameters such as "datasets.cartpole_random", sorted; "" stands for what is not committed yet."""
        if self._lines is None:
            self._lines, self._root = self._blame(), self._compose()
        found = {self._lines[line] for key in keys for line in _span(self._root, key.split(".")) if line < len(self._lines)}
        return sorted(found)

    def _blame(self) -> list[str]:
        """The commit of each line."""
        revision = [self._tree.revision] if self._tree.revision else []
        listing = git_or_none("blame", "--line-porcelain", *revision, "--", PARAMS) or b""
        heads = (line.split(b" ") for line in _first_lines(listing))
        return ["" if head[0].decode() == _UNCOMMITTED else head[0].decode() for head in heads]

    def _compose(self) -> Any:
        content = self._tree.read(PARAMS)
        try:
            return yaml.compose(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if content else None
        except yaml.YAMLError:
            return None


def _first_lines(listing: bytes) -> Iterable[bytes]:
    """Of `git blame --line-porcelain`, the line that each entry begins with; the content of the line comes last, behind a tab."""
    is_first = True
    for line in listing.split(b"\n"):
        if is_first and line:
            yield line
        is_first = line.startswith(b"\t")


def _span(node: Any, parts: list[str]) -> Iterable[int]:
    """The numbers, from 0, of the lines that a key and its value take."""
    for position, part in enumerate(parts):
        pairs: Mapping[str, tuple[Any, Any]] = {
            key.value: (key, value) for key, value in (node.value if isinstance(node, yaml.MappingNode) else ())
        }
        if part not in pairs:
            return []
        key, node = pairs[part]
        if position == len(parts) - 1:
            last = node.end_mark.line - (1 if node.end_mark.column == 0 and node.end_mark.line > key.start_mark.line else 0)
            return range(key.start_mark.line, last + 1)
    return []
