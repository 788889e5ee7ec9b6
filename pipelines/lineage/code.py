"""Code and other files that git keeps: which commit had the bytes that a run read, and which lines differ since."""

import hashlib
from dataclasses import dataclass

from pipelines.lineage.hashing import folder_md5
from pipelines.lineage.revisions import Commit, commits_changing
from pipelines.lineage.tree import GitTree, Tree, git

_SEARCHED = 200  # commits, the newest first


@dataclass(frozen=True)
class FileChange:
    """A file that differs between two points, with the numbers of lines that came and went; None for a file that is no text."""

    path: str
    added: int | None
    removed: int | None

    def __str__(self) -> str:
        return self.path if self.added is None else f"{self.path} (+{self.added} -{self.removed} lines)"


def tree_md5(tree: Tree, path: str) -> str | None:
    """Returns the md5 of a path as DVC computes it, from the files of a tree; None where nothing is there."""
    content = tree.read(path)
    if content is not None:
        return _md5(content)
    files = tree.files(path)
    if not files:
        return None
    return folder_md5({file.removeprefix(f"{path}/"): _md5(tree.read(file) or b"") for file in files})


def commit_with(path: str, md5: str, revision: str = "HEAD") -> Commit | None:
    """Returns the newest commit up to `revision` in which a path had this md5; None where none of the last ones had."""
    for commit in commits_changing(path, revision=revision)[:_SEARCHED]:
        with GitTree(commit.name) as tree:
            if tree_md5(tree, path) == md5:
                return commit
    return None


def file_changes(path: str, before: str, after: str = "") -> list[FileChange]:
    """Returns the files at or below a path that differ between two commits; without `after`, between one and what is on disk."""
    listing = git("diff", "--numstat", "--no-renames", "-z", "--relative", before, *([after] if after else []), "--", path)
    fields = (line.split("\t", 2) for line in listing.split("\0") if line)
    return [FileChange(name, *(None if count == "-" else int(count) for count in counts)) for *counts, name in fields]


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
