"""The commits that changed what was run, and what dvc.lock said in each. Many are read by one process of git, and in bare clones too."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.lineage.lockfile import LOCK, parse_lock, read_lock
from pipelines.lineage.stages import Project, Stage
from pipelines.lineage.tree import WorkingTree, ask_git, git, git_or_none
from rl_datasets.errors import HindcastError

_BLOCK = re.compile(rb"^(?=  [^ ])", re.MULTILINE)  # where a stage begins, as DVC writes it
_AT_ONCE = 64  # contents held in memory
NO_HISTORY = "The history cannot be looked at, for this folder is in no repository of git with a commit."
_FIELDS = "%H%x1f%aI%x1f%an <%ae>%x1f%P%x1f%s"


@dataclass(frozen=True)
class Commit:
    """One commit: its name, when it was made (ISO 8601), by whom, the commits before it, and the first line of what its author said."""

    name: str
    time: str
    author: str
    parents: tuple[str, ...]
    subject: str

    @property
    def short(self) -> str:
        return self.name[:10]

    def __str__(self) -> str:
        return f"{self.short} {self.time[:10]} {self.subject}"


Stages = Mapping[str, Mapping[str, Any]]  # of dvc.lock, by name


@dataclass(frozen=True)
class Step:
    """One commit: the stages that dvc.lock had in it, and those that it had in each of the commits before it."""

    commit: Commit
    stages: Stages
    before: tuple[Stages, ...]

    def changed(self) -> list[str]:
        """Returns the stages whose runs this commit brought: their entries are in none of the commits before it. Also those that went."""
        earlier = self.before or ({},)
        names = sorted({*self.stages, *(name for stages in earlier for name in stages)})
        return [name for name in names if all(stages.get(name) != self.stages.get(name) for stages in earlier)]


def commits_changing(*paths: str, revision: str = "HEAD", everywhere: bool = False) -> list[Commit]:
    """Returns the commits that changed one of these paths, the newest first.

    Those that led to `revision`; with `everywhere`, those that any branch, tag, stash or experiment still holds.
    Raises HindcastError where there is no such revision, or no repository.
    """
    scope = ["--all", "--full-history"] if everywhere else [revision]
    listing = git("log", f"--format={_FIELDS}", "--date-order", *scope, "--", *paths, otherwise=f"The history of {revision} cannot be read")
    return [_commit(line) for line in listing.splitlines() if line]


def steps(commits: Sequence[Commit]) -> Iterator[Step]:
    """Yields what each commit did to dvc.lock, in their order; a lock that is absent or broken has no stages."""
    known: dict[str, Stages] = {"": {}}
    blocks: dict[bytes, Stages] = {}
    for start in range(0, len(commits), _AT_ONCE):
        some = commits[start : start + _AT_ONCE]
        names = list(dict.fromkeys(name for commit in some for name in (commit.name, *commit.parents)))
        blobs = dict(zip(names, _blobs([f"{name}:{_prefix()}{LOCK}" for name in names]), strict=True))
        for blob, content in contents(sorted(set(blobs.values()) - set(known))):
            known[blob] = _stages(content, blocks)
        for commit in some:
            yield Step(commit, known[blobs[commit.name]], tuple(known[blobs[parent]] for parent in commit.parents))


def run_project(stages: Stages) -> Project:
    """Returns a project as dvc.lock alone knows it: what was run, with what was read and written. It has no values and no files."""
    return Project(WorkingTree(), {}, {name: _stage(name, entry) for name, entry in stages.items()})


def stages_here() -> Stages | None:
    """Returns the stages of dvc.lock on disk; None where there is none that can be read."""
    try:
        return read_lock(WorkingTree()) or None
    except HindcastError:
        return None


def is_shallow() -> bool:
    """Whether this clone lacks older commits."""
    return (git_or_none("rev-parse", "--is-shallow-repository") or b"").strip() == b"true"


def has_history() -> bool:
    """Whether the current folder is in a repository of git with a commit."""
    return git_or_none("rev-parse", "--verify", "--quiet", "HEAD") is not None


def was_tracked(path: str) -> bool:
    """Whether git has, or in any commit had, a file at or below a path."""
    return bool(git_or_none("--literal-pathspecs", "log", "--all", "-1", "--format=%H", "--", path))


def contents(blobs: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yields the bytes of each content, by the name that git has for it. Raises HindcastError where git does not have one."""
    answer, place = _ask("--batch", blobs), 0
    for blob in blobs:
        head, found, _ = answer[place : place + 200].partition(b"\n")
        if not found or head.split()[1:2] != [b"blob"]:
            raise HindcastError(
                f"git has lost the content {blob}, or left it on the remote. 'git fsck' says what is damaged; clone it again."
            )
        start, size = place + len(head) + 1, int(head.split()[2])
        yield blob, answer[start : start + size]
        place = start + size + 1  # a line end stands behind each


def names_holding(commit: str) -> list[str]:
    """Returns the branches, tags and experiments whose history has a commit, sorted."""
    return sorted(git("for-each-ref", "--contains", commit, "--format=%(refname:short)").split())


def _commit(line: str) -> Commit:
    name, time, author, parents, subject = line.split("\x1f", 4)
    return Commit(name, time, author, tuple(parents.split()), subject)


def _stage(name: str, entry: Mapping[str, Any]) -> Stage:
    paths = {kind: tuple(sorted(item["path"] for item in entry.get(kind, ()))) for kind in ("deps", "outs")}
    keys = tuple(sorted(key for values in entry.get("params", {}).values() for key in values))
    return Stage(name, str(entry.get("cmd", "")), paths["deps"], paths["outs"], keys, entry)


def _stages(content: bytes, blocks: dict[bytes, Stages]) -> Stages:
    """Returns the stages of a lock. Locks in a row share most of their lines, so what a stage says is parsed once, and kept in `blocks`."""
    head, _, body = content.partition(b"\nstages:\n")
    some = [block for block in _BLOCK.split(body) if block] if b"\n" not in head else []
    try:
        for block in some:
            if block not in blocks:
                blocks[block] = parse_lock(b"stages:\n" + block)
        return {name: entry for block in some for name, entry in blocks[block].items()} if some else parse_lock(content)
    except HindcastError:
        return _whole(content)


def _whole(content: bytes) -> Stages:
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


def _ask(kind: str, names: Sequence[str]) -> bytes:
    if not names:
        return b""
    asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    return ask_git("cat-file", kind, given=asked).stdout
