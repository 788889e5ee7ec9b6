"""What git says of a path: since which commit it is as it is. Asked only of what is broken, for each answer starts a process."""

import hashlib
from functools import cache
from typing import NamedTuple

from pipelines.lineage.audit.findings import Finding
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import PARAMS, PIPELINE
from pipelines.lineage.tree import GitTree, git_or_none
from rl_datasets.errors import HindcastError

COMMIT = "commit %h (%cs, %an: %s)"
ASKED = 20  # findings whose commit is looked up; a break that repeats has one cause


class Changed(NamedTuple):
    """A file that was edited ("M") or removed ("D"), and in which commit; "" where that is not committed."""

    path: str
    kind: str
    commit: str


class History:
    """Answers by git's history up to `revision`; with "", up to HEAD and what was changed since and not committed."""

    def __init__(self, revision: str = "") -> None:
        self._revision = revision
        self._asked = 0

    def since(self, finding: Finding, locked_md5: str) -> str:
        """Returns the commit since which a link is broken, as a person reads it; "" where git cannot tell.

        `locked_md5` is the hash in dvc.lock that the link is about: what is not in git may have changed at any time after that.
        """
        if self._asked >= ASKED or not finding.subject:
            return ""
        self._asked += 1
        path = self._file_of(finding.subject)
        if path is not None:
            if self.is_changed(path):
                return f"a change of {path} that is not committed"
            return self._last(path) if path in (PARAMS, PIPELINE, LOCK) or self.is_kept(path) else ""
        written = self._last(LOCK, f"-S{locked_md5}") if locked_md5 else ""
        return f"some time after {written}, which put this hash into {LOCK}" if written else ""

    def committed(self, path: str) -> bytes | None:
        """Returns what the last commit has at a path; None at a revision, and where there is none."""
        return None if self._revision else git_or_none("show", f"HEAD:./{path}")

    def listing(self, folder: str) -> dict[str, str]:
        """Returns the md5 of each file of a folder by its path in it, as the last commit has it."""
        try:
            with GitTree(self._revision or "HEAD") as tree:
                contents = {file: tree.read(file) or b"" for file in tree.files(folder)}
        except HindcastError:
            return {}
        return {file[len(folder) + 1 :]: hashlib.md5(content, usedforsecurity=False).hexdigest() for file, content in contents.items()}

    @cache  # noqa: B019
    def uncommitted(self, folder: str) -> list["Changed"]:
        """Returns the files below a folder that are edited or removed and not committed; none at a revision."""
        options = ("--no-renames", "--name-status", "--relative", "-z", "HEAD", "--", folder)
        status = b"" if self._revision else git_or_none("diff", *options) or b""
        return _changed(status.decode("utf-8", "surrogateescape"), "")

    @cache  # noqa: B019
    def changes(self, folder: str) -> list["Changed"]:
        """Returns every time that a file below a folder was edited or removed: first what is not committed, then the newest commit's."""
        found = self.uncommitted(folder)
        options = ("--no-renames", "--diff-filter=MD", "--name-status", "--relative", "-z", f"--format=%x01{COMMIT}")
        log = git_or_none("log", *options, self._revision or "HEAD", "--", folder) or b""
        for entry in log.decode("utf-8", "surrogateescape").split("\x01")[1:]:
            commit, _, names = entry.partition("\0")
            found = [*found, *_changed(names.lstrip("\n\0"), commit)]
        return found

    def _file_of(self, subject: str) -> str | None:
        """The file in git that a subject is about; None for an output."""
        for file in (PARAMS, PIPELINE, LOCK):
            if subject == file or subject.startswith(f"{file}/"):
                return file
        return subject if self.is_kept(subject) else None

    @cache  # noqa: B019  it lives as long as one audit
    def _last(self, path: str, *options: str) -> str:
        found = git_or_none("log", "-1", f"--format={COMMIT}", *options, self._revision or "HEAD", "--", path)
        return (found or b"").decode("utf-8", "replace").strip()

    @cache  # noqa: B019
    def is_changed(self, path: str) -> bool:
        """Whether a path differs from what the last commit has."""
        return not self._revision and bool(git_or_none("status", "--porcelain", "--", path))

    @cache  # noqa: B019
    def is_kept(self, path: str) -> bool:
        """Whether git has the path, or had it in HEAD."""
        return bool(git_or_none("ls-tree", self._revision or "HEAD", "--", path))


def _changed(names: str, commit: str) -> list[Changed]:
    """Reads git's list of kinds and paths, each with a NUL behind."""
    parts = [part for part in names.split("\0") if part]
    return [Changed(path, kind, commit) for kind, path in zip(parts[::2], parts[1::2], strict=False) if kind in ("M", "D")]
