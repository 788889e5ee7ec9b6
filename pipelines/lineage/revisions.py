"""The commits that changed what was run, and what dvc.lock said in each. Many are read by one process of git, and in bare clones too."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.lineage.lockfile import LOCK, parse_lock
from pipelines.lineage.stages import Project, Stage
from pipelines.lineage.tree import GitTree, git, git_or_none
from rl_datasets.errors import HindcastError

_AT_ONCE = 64  # contents held in memory
_FIELDS = "%H%x1f%aI%x1f%an <%ae>%x1f%s"


@dataclass(frozen=True)
class Commit:
    """One commit: its name, when it was made (ISO 8601), by whom, and the first line of what that person said."""

    name: str
    time: str
    author: str
    subject: str

    @property
    def short(self) -> str:
        return self.name[:10]

    def __str__(self) -> str:
        return f"{self.short} {self.time[:10]} {self.subject}"


@dataclass(frozen=True)
class Locked:
    """The stages that dvc.lock had in one commit."""

    commit: Commit
    stages: Mapping[str, Mapping[str, Any]]


def commits_changing(*paths: str, revision: str = "HEAD", everywhere: bool = False) -> list[Commit]:
    """Returns the commits that changed one of these paths, the newest first.

    Those that led to `revision`; with `everywhere`, those that any branch, tag, stash or experiment still holds.
    Raises HindcastError where there is no such revision, or no repository.
    """
    scope = ["--all", "--full-history"] if everywhere else [revision]
    listing = git("log", f"--format={_FIELDS}", "--date-order", *scope, "--", *paths, otherwise=f"The history of {revision} cannot be read")
    return [Commit(*line.split("\x1f", 3)) for line in listing.splitlines() if line]


def commit_of(revision: str) -> Commit:
    """Raises HindcastError where git knows no such commit."""
    return Commit(
        *git("log", "-1", f"--format={_FIELDS}", revision, "--", otherwise=f"'{revision}' is no revision").strip().split("\x1f", 3)
    )


def locks(commits: Sequence[Commit]) -> Iterator[Locked]:
    """Yields what dvc.lock said in each commit, in their order; a lock that is absent or broken there has no stages."""
    known: dict[str, Mapping[str, Any]] = {}
    for start in range(0, len(commits), _AT_ONCE):
        some = commits[start : start + _AT_ONCE]
        blobs = _blobs([f"{commit.name}:{_prefix()}{LOCK}" for commit in some])
        for blob, content in _contents(sorted({blob for blob in blobs if blob and blob not in known})):
            known[blob] = _stages(content)
        yield from (Locked(commit, known.get(blob, {})) for commit, blob in zip(some, blobs, strict=True))


def as_stages(locked: Mapping[str, Mapping[str, Any]]) -> dict[str, Stage]:
    """Returns stages as dvc.lock alone knows them: what was run, with what was read and written."""
    return {name: _stage(name, entry) for name, entry in locked.items()}


def project_at(locked: Locked) -> Project:
    """Returns a project with the stages that were run in one commit; its files and values are not read."""
    return Project(GitTree(locked.commit.name), {}, as_stages(locked.stages))


def is_shallow() -> bool:
    """Whether this clone lacks older commits."""
    return (git_or_none("rev-parse", "--is-shallow-repository") or b"").strip() == b"true"


def tags_holding(commit: str) -> list[str]:
    """Returns the branches and tags whose history has a commit, sorted."""
    listed = git("for-each-ref", "--contains", commit, "--format=%(refname:short)", "refs/heads", "refs/tags", "refs/remotes")
    return sorted(listed.split())


def _stage(name: str, entry: Mapping[str, Any]) -> Stage:
    paths = {kind: tuple(sorted(item["path"] for item in entry.get(kind, ()))) for kind in ("deps", "outs")}
    keys = tuple(sorted(key for values in entry.get("params", {}).values() for key in values))
    return Stage(name, str(entry.get("cmd", "")), paths["deps"], paths["outs"], keys, entry)


def _stages(content: bytes) -> Mapping[str, Any]:
    try:
        return parse_lock(content)
    except HindcastError:
        return {}


def _prefix() -> str:
    """The folder of the project in its repository, with "/" behind; "" at its root and in a bare clone."""
    return (git_or_none("rev-parse", "--show-prefix") or b"").decode("utf-8", "surrogateescape").strip()


def _blobs(names: Sequence[str]) -> list[str]:
    """Returns the content that each `commit:path` names; "" where there is none."""
    answer = _ask("--batch-check", names).decode("utf-8", "replace").splitlines()
    return [line.split()[0] if line.split()[1:2] == ["blob"] else "" for line in answer]


def _contents(blobs: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    answer, place = _ask("--batch", blobs), 0
    for blob in blobs:
        end = answer.index(b"\n", place)
        size = int(answer[place:end].split()[2])
        yield blob, answer[end + 1 : end + 1 + size]
        place = end + 1 + size + 1  # a line end stands behind each


def _ask(kind: str, names: Sequence[str]) -> bytes:
    if not names:
        return b""
    asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    return subprocess.run(["git", "cat-file", kind], input=asked, capture_output=True, check=True).stdout  # noqa: S603, S607
