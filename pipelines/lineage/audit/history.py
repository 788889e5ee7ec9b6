"""What git says of a path: since which commit it is as it is. Asked only of what is broken, for each answer starts a process."""

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from pipelines.lineage.audit.committed import Change, Departure, blob_name, departures
from pipelines.lineage.audit.findings import Finding
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import PARAMS, PIPELINE
from pipelines.lineage.tree import GitTree, git_or_none
from rl_datasets.errors import HindcastError

COMMIT = "commit %h (%cs, %an: %s)"
SHOWN = 7  # letters of a commit's name
BY_LOCK = f", which put this hash into {LOCK}"
ASKED = 20  # findings whose commit is looked up; a break that repeats has one cause


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
        written = self._last(LOCK, f"-S{locked_md5}") if locked_md5 else ""
        if path is not None:
            if self.is_changed(path):
                return f"a change of {path} that is not committed"
            last = self._last(path)
            later = written and path not in (PARAMS, PIPELINE, LOCK) and last != written and self._is_before(_name(last), _name(written))
            return f"{written}{BY_LOCK}" if later else last
        return f"some time after {written}{BY_LOCK}" if written else ""

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
    def uncommitted(self) -> list[str]:
        """Returns the files that git keeps and that are edited or removed since the last commit; none at a revision."""
        status = b"" if self._revision else git_or_none("diff", "--no-renames", "--name-only", "--relative", "-z", "HEAD") or b""
        return [path for path in _text(status).split("\0") if path]

    def departures(self, folder: str, read: Callable[[str], bytes | None]) -> list[Departure]:
        """Returns what happened to the files below a folder that are not what they were when they were first committed."""
        return list(departures(self._changes(folder), self.blobs(folder), read, self._is_before))

    def blobs(self, path: str) -> dict[str, str]:
        """Returns git's name of the content of each file at or below a path in the last commit, or in the revision."""
        listing = _listed(git_or_none("ls-tree", "-r", "-z", self._revision or "HEAD", "--", path) or b"")
        return {path: name for path, (_, name) in listing.items()}

    @cache  # noqa: B019
    def at(self, commit: str) -> dict[str, str] | None:
        """Returns git's name of the content of each file that a commit has, "" for a link; None where git has no such commit."""
        listing = _original("ls-tree", "-r", "-z", "--end-of-options", f"{commit}^{{commit}}") if commit else None
        entries = {} if listing is None else _listed(listing)
        return None if listing is None else {path: name if mode.startswith("100") else "" for path, (mode, name) in entries.items()}

    def has(self, path: str) -> bool:
        """Whether there is a repository, with a commit that has the path."""
        return bool(self.blobs(path))

    def content(self, blob: str) -> bytes:
        """Returns what git keeps under a content's name; nothing where it has lost that."""
        return _original("cat-file", "blob", blob) or b""

    def _changes(self, folder: str) -> list[Change]:
        """Returns what each commit did to the files below a folder, against each of the commits before it; the newest first."""
        options = ("-m", "--full-history", "--topo-order", "--no-renames", "--raw", "--no-abbrev", "--relative", "-z")
        log = _original("log", *options, f"--format=%x01%H%x02{COMMIT}", self._revision or "HEAD", "--", folder) or b""
        return [change for entry in _text(log).split("\x01")[1:] for change in _read_changes(entry)]

    def _is_before(self, first: str, second: str) -> bool:
        return _original("merge-base", "--is-ancestor", first, second) is not None

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
        """Whether a path differs from what the last commit has, by git's word or by the bytes of a file."""
        if self._revision:
            return False
        blob = self.blobs(path).get(path) if Path(path).is_file() else None
        return bool(git_or_none("status", "--porcelain", "--", path)) or (
            blob is not None and blob_name(Path(path).read_bytes(), blob) != blob
        )

    @cache  # noqa: B019
    def is_kept(self, path: str) -> bool:
        """Whether git has the path, or had it in HEAD."""
        return bool(git_or_none("ls-tree", self._revision or "HEAD", "--", path))


def _original(*arguments: str) -> bytes | None:
    """What git says of what was committed, whatever `git replace` or grafts show in its place."""
    return git_or_none("--no-replace-objects", *arguments, environment={"GIT_GRAFT_FILE": os.devnull})


def _listed(listing: bytes) -> dict[str, tuple[str, str]]:
    """Path -> mode and name of its content, from `ls-tree -r -z`."""
    entries = (line.partition("\t") for line in _text(listing).split("\0") if line)
    return {path: (described.split()[0], described.split()[2]) for described, _, path in entries}


def _name(commit: str) -> str:
    """The commit's own name of what COMMIT made of it."""
    return commit.split(" ")[1] if commit else ""


def _read_changes(entry: str) -> Iterator[Change]:
    """Reads one commit of git's raw list: its name and words, then a line of modes, contents and kind before each path."""
    head, _, rest = entry.partition("\0")
    name, _, commit = head.partition("\x02")
    parts = [part for part in rest.lstrip("\n").split("\0") if part]
    for described, path in zip(parts[::2], parts[1::2], strict=True):
        before, after = ("" if not blob.strip("0") else blob for blob in described.split()[2:4])
        yield Change(path, before, after, name, commit.replace(name, name[:SHOWN]))  # for a raw list has no short names


def _text(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape")
