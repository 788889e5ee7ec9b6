"""What git says of a path: since which commit it is as it is. Asked only of what is broken, for each answer starts a process."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from subprocess import CompletedProcess

from pipelines import paths
from pipelines.lineage.audit.committed import Change, Departure, departures
from pipelines.lineage.audit.findings import LONGEST, Finding
from pipelines.lineage.graph import overlap
from pipelines.lineage.kept import entries, left_out, unlike
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.revisions import has_history
from pipelines.lineage.stages import PARAMS, PIPELINE
from pipelines.lineage.tree import GitTree, ask_git, git_or_none, words_of
from rl_datasets.errors import HindcastError

COMMIT = "commit %h (%cs, %an: %s)"
SHOWN = 7  # letters of a commit's name
BY_LOCK = f", which put this hash into {LOCK}"
WHOLE = {"GIT_SHALLOW_FILE": ""}  # as if no file said where history is cut
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

    @cache  # noqa: B019  it lives as long as one audit
    def uncommitted(self) -> list[str]:
        """Returns the files that git keeps and that are edited or removed since the last commit; none at a revision."""
        return [] if self._revision else [path for path in unlike("HEAD") if path not in self.left_out]

    @cached_property
    def left_out(self) -> set[str]:
        """The files that a sparse checkout leaves out; none at a revision, which has all."""
        return set() if self._revision else left_out()

    def departures(self, folder: str, read: Callable[[str], bytes | None]) -> list[Departure]:
        """Returns what happened to the files below a folder that are not what they were when they were first committed."""
        return list(departures(self._changes(folder), self.blobs(folder), read, self._is_before))

    def first_commits(self, folder: str) -> dict[str, str]:
        """Returns the first commit that added each file below a folder."""
        return {change.path: change.name for change in self._changes(folder) if not change.before}  # the newest first

    def blobs(self, path: str) -> dict[str, str]:
        """Returns git's name of the content of each file at or below a path in the last commit, or in the revision."""
        return {path: entry.name for path, entry in (entries(self._revision or "HEAD", path) or {}).items()}

    @cache  # noqa: B019
    def at(self, commit: str) -> dict[str, str] | None:
        """Returns git's name of the content of each file that a commit has, "" for a link; None where git has no such commit."""
        found = entries(commit) if commit else None
        return None if found is None else {path: entry.name if entry.mode.startswith("100") else "" for path, entry in found.items()}

    def has(self, path: str) -> bool:
        """Whether there is a repository, with a commit that has the path."""
        return bool(self.blobs(path))

    @cached_property
    def is_whole(self) -> bool:
        """Whether every commit before is here too. A repository that only says that it is a shallow one has them."""
        return git_or_none("rev-list", "--quiet", self._revision or "HEAD", environment=WHOLE) is not None

    def fault(self, deep: bool) -> str:
        """Returns git's words for why not all of history can be looked at, "" where it can. With `deep`, every object is read."""
        ways = ["--verify-objects", "--exclude-promisor-objects"] if deep else []
        answers = [self._ask("rev-list", "--quiet", *ways, self._revision or "HEAD"), self._log(paths.RECORDS.as_posix())]
        said = " ".join(dict.fromkeys(words for answer in answers if (words := words_of(answer)) and (answer.returncode or deep)))
        is_unborn = git_or_none("rev-parse", "--git-dir") is not None and not has_history()
        return "" if is_unborn or not said else f"git says: {said[:LONGEST]}"

    def content(self, blob: str) -> bytes:
        """Returns what git keeps under a content's name; nothing where it has lost that."""
        return git_or_none("cat-file", "blob", blob) or b""

    @cache  # noqa: B019
    def _changes(self, folder: str) -> list[Change]:
        """Returns what each commit did to the files below a folder, against each of the commits before it; the newest first.

        None of them where git cannot read all, which `fault` tells.
        """
        log = self._log(folder)
        return [] if log.returncode else [change for entry in _text(log.stdout).split("\x01")[1:] for change in _read_changes(entry)]

    @cache  # noqa: B019
    def _log(self, folder: str) -> CompletedProcess[bytes]:
        options = ("-m", "--full-history", "--topo-order", "--no-renames", "--raw", "--no-abbrev", "--relative", "-z")
        return self._ask("log", *options, f"--format=%x01%H%x02{COMMIT}", self._revision or "HEAD", "--", folder)

    def _is_before(self, first: str, second: str) -> bool:
        return not self._ask("merge-base", "--is-ancestor", first, second).returncode

    def _ask(self, *arguments: str) -> CompletedProcess[bytes]:
        return ask_git(*arguments, environment=WHOLE if self.is_whole else None)

    def _file_of(self, subject: str) -> str | None:
        """The file in git that a subject is about; None for an output."""
        for file in (PARAMS, PIPELINE, LOCK):
            if subject == file or subject.startswith(f"{file}/"):
                return file
        return subject if self.is_kept(subject) else None

    @cache  # noqa: B019
    def _last(self, path: str, *options: str) -> str:
        found = git_or_none("log", "-1", f"--format={COMMIT}", *options, self._revision or "HEAD", "--", path)
        return (found or b"").decode("utf-8", "replace").strip()

    def is_changed(self, path: str) -> bool:
        """Whether the bytes on disk of a file that the last commit has are other ones, or of one that it has in a folder."""
        return any(overlap(path, changed) for changed in self.uncommitted())

    @cache  # noqa: B019
    def is_kept(self, path: str) -> bool:
        """Whether git has the path in the last commit."""
        return bool(self.blobs(path))


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
