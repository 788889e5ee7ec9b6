"""Files that are written once, as records are: each against every content that a commit ever gave it.

Bytes are compared with git's own names of contents, so that no index, ignore rule or merge hides a change.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipelines.lineage.kept import blob_name

NOT_COMMITTED = "and not committed"


class Change(NamedTuple):
    """What a commit did to a file: the names of the contents before and after ("" where there was none)."""

    path: str
    before: str
    after: str
    name: str  # of the commit
    commit: str  # the same for a reader


class Departure(NamedTuple):
    """A file that is gone, or not what it was when it was first committed.

    Of one that a commit removed, `removed` names its last content, and `later` a file of the same folder that sorts behind it and that
    the same commit brought: "" where there is none.
    """

    path: str
    how: str  # for a reader
    is_gone: bool
    removed: str = ""
    later: str = ""
    commit: str = ""  # that removed it, for a reader


def departures(
    changes: Sequence[Change],
    last: Mapping[str, str],
    read: Callable[[str], bytes | None],
    is_before: Callable[[str, str], bool],
) -> Iterator[Departure]:
    """Yields what happened to every file that is not, or not as it was first committed.

    `changes` are all of history, the newest first; `last` has the content's name of each path in the last commit; `is_before` tells
    whether one commit led to another.
    """
    by_path: dict[str, list[Change]] = {}
    brought: dict[tuple[str, str], list[str]] = {}  # commit and folder -> paths
    for change in changes:
        by_path.setdefault(change.path, []).append(change)
        if not change.before:
            brought.setdefault((change.name, _folder(change.path)), []).append(change.path)
    for path in sorted({*by_path, *last}):
        mine, content = by_path.get(path, []), read(path)
        if content is not None:
            how = _edit(mine, last.get(path, ""), content, is_before)
            if how:
                yield Departure(path, how, is_gone=False)
        elif path in last:
            yield Departure(path, f"removed {NOT_COMMITTED}", is_gone=True)
        else:
            removal = next(change for change in mine if not change.after)
            later = [other for other in brought.get((removal.name, _folder(path)), ()) if other > path]
            how = f"removed in {removal.commit}"
            yield Departure(path, how, True, removal.before, max(later, default=""), removal.commit)


def _edit(changes: Sequence[Change], last: str, content: bytes, is_before: Callable[[str, str], bool]) -> str:
    """How a file came to another content than its first; "" where it has that."""
    added = [change for change in changes if change.after and not change.before]
    first = added[-1] if added else None
    original = first.after if first else last
    now = blob_name(content, original)
    if now != original:
        return f"edited {_when(changes, now) if now == last else NOT_COMMITTED}"
    for other in added[:-1]:
        if first is not None and other.after != first.after and not is_before(first.name, other.name):
            return f"committed with one content in {first.commit} and another in {other.commit}, neither of which led to the other"
    return ""


def _when(changes: Sequence[Change], after: str) -> str:
    """The newest commit that left a content."""
    return next((f"in {change.commit}" for change in changes if change.after == after), "in a commit that git does not show")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
