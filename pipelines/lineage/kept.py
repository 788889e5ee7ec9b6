"""What git keeps of the project, and what on disk is not that, byte by byte: no index, filter, attribute or setting of git has a say."""

import hashlib
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from pipelines.lineage.tree import git_or_none

LINK, MODULE = "120000", "160000"  # modes


class Entry(NamedTuple):
    """A file as a commit has it."""

    mode: str
    name: str  # of its content


def entries(commit: str, path: str = "") -> dict[str, Entry] | None:
    """Returns the files that a commit has at or below a path, or in the current folder; None where git has no such commit."""
    listing = git_or_none("ls-tree", "-r", "-z", "--end-of-options", f"{commit}^{{commit}}", *(["--", path] if path else []))
    if listing is None:
        return None
    pairs = (line.partition("\t") for line in listing.decode("utf-8", "surrogateescape").split("\0") if line)
    return {path: Entry(described.split()[0], described.split()[2]) for described, _, path in pairs}


def blob_name(content: bytes, like: str) -> str:
    """Returns git's name of a content, by the hash that a repository with names `like` this one uses."""
    made = hashlib.sha256 if len(like) == 64 else lambda data: hashlib.sha1(data, usedforsecurity=False)
    return made(b"blob %d\0%b" % (len(content), content)).hexdigest()


def unlike(commit: str) -> dict[str, str]:
    """Returns the files of a commit in the current folder that are not on disk as it has them, each with git's name of its content there.

    The name is "" where nothing is there that git would keep. Line ends do not count, for git may be told to write those of Windows.
    """
    return dict(_unlike(entries(commit) or {}))


def left_out() -> set[str]:
    """Returns the files that a sparse checkout leaves out, and that are not on disk."""
    if (git_or_none("config", "--bool", "core.sparseCheckout") or b"").strip() != b"true":
        return set()
    listed = (git_or_none("ls-files", "-t", "-z") or b"").decode("utf-8", "surrogateescape").split("\0")
    return {path for mark, _, path in (line.partition(" ") for line in listed) if mark == "S" and not os.path.lexists(path)}


def _unlike(kept: dict[str, Entry]) -> Iterator[tuple[str, str]]:
    for path, entry in kept.items():
        if entry.mode != MODULE:
            content = _read(path)
            name = "" if content is None else blob_name(content, entry.name)
            if name != entry.name and (content is None or blob_name(content.replace(b"\r\n", b"\n"), entry.name) != entry.name):
                yield path, name


def _read(path: str) -> bytes | None:
    """What git would keep of a path: a file's bytes, or where a link leads."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return os.fsencode(os.readlink(path))
        if stat.S_ISREG(mode):
            with open(path, "rb") as file:
                return file.read()
    except OSError:
        pass
    return None
