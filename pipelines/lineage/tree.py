"""The project's files: as they are on disk, or as a revision of git holds them. Everything about lineage reads through one of the two.

Paths are written as dvc.yaml writes them, relative to the project's root, with "/".
"""

import errno
import os
import stat
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from rl_datasets.errors import HindcastError

_SETTINGS = ("core.commitGraph=false", "core.fsmonitor=false", "advice.graftFileDeprecated=false")  # nothing is believed that can be read
NO_GIT = 127
_ELSEWHERE = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_SHALLOW_FILE"}
GIT = ("git", *(word for setting in _SETTINGS for word in ("-c", setting)))


class Tree(Protocol):
    """`revision` is a commit, or "" for what is on disk."""

    revision: str

    def read(self, path: str) -> bytes | None:
        """Returns a file's bytes; None where there is no such file."""

    def files(self, folder: str) -> list[str]:
        """Returns the paths of all files below a folder, sorted; none where there is no such folder."""


class WorkingTree:
    """The files below the current folder, which is the project's root."""

    revision = ""

    def read(self, path: str) -> bytes | None:
        """Raises HindcastError where the file is there and cannot be read. A folder, a pipe, and a link to itself are none."""
        try:
            return Path(path).read_bytes() if stat.S_ISREG(os.stat(path).st_mode) else None
        except (FileNotFoundError, NotADirectoryError, ValueError):  # the last of a name that no file can have
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise HindcastError(f"{path} cannot be read: {error.strerror or error}. Look at it with 'ls -ld', and mend that.") from error

    def files(self, folder: str) -> list[str]:
        return sorted(path.as_posix() for path in Path(folder).rglob("*") if path.is_file())


class GitTree:
    """The files of one commit; works without a working tree, so in a bare clone too. Close it, or use it in a `with`."""

    def __init__(self, revision: str) -> None:
        """Raises HindcastError where git knows no such commit, or the current folder is in no repository."""
        self.revision = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", otherwise=f"'{revision}' is no revision").strip()
        self._prefix = "" if git("rev-parse", "--is-bare-repository").strip() == "true" else git("rev-parse", "--show-prefix").strip()
        self._reader: subprocess.Popen[bytes] | None = None

    def read(self, path: str) -> bytes | None:
        blob = self._blobs.get(path)
        return None if blob is None else self._cat(blob)

    def files(self, folder: str) -> list[str]:
        inside = PurePosixPath(folder)
        return sorted(path for path in self._blobs if inside in PurePosixPath(path).parents)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.communicate()
            self._reader = None

    def __enter__(self) -> "GitTree":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _blobs(self) -> dict[str, str]:
        """Path to the name of its content in git."""
        listing = git("ls-tree", "-r", "-z", "--full-tree", self.revision)
        entries = (line.split("\t", 1) for line in listing.split("\0") if line)
        return {
            path.removeprefix(self._prefix): described.split(" ")[2]
            for described, path in entries
            if path.startswith(self._prefix) and described.split(" ")[1] == "blob"
        }

    def _cat(self, blob: str) -> bytes:
        """One process answers all reads: a project may have thousands of records."""
        if self._reader is None:
            self._reader = subprocess.Popen([*GIT, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables())  # noqa: S603
        asked, answered = self._reader.stdin, self._reader.stdout
        assert asked is not None
        assert answered is not None
        asked.write(f"{blob}\n".encode())
        asked.flush()
        header = answered.readline().split()
        if len(header) != 3:
            raise HindcastError(
                f"git has lost the content {blob} of {self.revision[:12]}. 'git fsck' says what is damaged; clone it again."
            )
        content = answered.read(int(header[2]))
        answered.read(1)  # the line end behind it
        return content


def git(*arguments: str, otherwise: str = "git cannot answer") -> str:
    """Returns what git prints. Raises HindcastError with `otherwise` and git's own words where it fails."""
    answer = ask_git(*arguments)
    if answer.returncode:
        said = words_of(answer)
        raise HindcastError(f"{otherwise} in {Path.cwd().name}/{': ' + said if said else ''}. 'git log --oneline' lists revisions.")
    return answer.stdout.decode("utf-8", "surrogateescape")


def git_or_none(*arguments: str, environment: Mapping[str, str] | None = None) -> bytes | None:
    """Returns what git prints, with these variables beside the process's own; None where it fails or is not there."""
    answer = ask_git(*arguments, environment=environment)
    return None if answer.returncode else answer.stdout


def ask_git(*arguments: str, environment: Mapping[str, str] | None = None, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs git with `given` as its input, and returns whatever it answers; where there is no git, that it failed."""
    try:
        return subprocess.run([*GIT, *arguments], input=given, capture_output=True, check=False, env=variables(environment))  # noqa: S603
    except OSError as error:
        return subprocess.CompletedProcess(GIT, NO_GIT, b"", f"git cannot be run ({error.strerror})".encode())


def words_of(answer: subprocess.CompletedProcess[bytes]) -> str:
    """Returns git's words for what is wrong, in one line; "" where nothing is."""
    lines = answer.stderr.decode("utf-8", "replace").splitlines()
    return " ".join(line for line in lines if line.startswith(("error:", "fatal:")) or answer.returncode == NO_GIT)


def variables(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the variables that git runs with: what it has kept is what counts, whatever stands in its place, and a path is a path.

    The repository is that around the current folder: those that name another, as git itself sets them for its hooks, are left out.
    """
    own = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE and not name.endswith("_PATHSPECS")}
    return {**own, "GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": os.devnull, "LC_ALL": "C", **(more or {})}


def is_bare() -> bool:
    """Whether the current folder is a bare repository, which has nothing on disk. One that only says that it is, is none."""
    return not Path("params.yaml").exists() and (git_or_none("rev-parse", "--is-bare-repository") or b"").strip() == b"true"
