"""What an audit remembers of files that it has read, so that the next one need not read them again while they are as they were.

A file counts as unchanged while its size, its inode, and the times of its last change of content and of status are the same: the
last of these no program can set back. It is a convenience and never a proof: `--deep` reads every byte and asks nothing here.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pipelines.lineage.hashing import Digests
from rl_datasets.errors import HindcastError
from rl_datasets.files import write_text

FILE = Path(".dvc/tmp/hindcast/read.json")
SETTLED = 2.0  # seconds: a file that was changed later than that before it was read may change again within one tick of its clock


class Read(NamedTuple):
    """That a file was read: what it looked like from outside, its digests, and when, in seconds."""

    looks: list[int]
    md5: str
    sha256: str
    when: int


class Memory:
    """The files that were read, by path. Nothing is kept outside a DVC project, and a broken memory is an empty one."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._known: dict[str, Read] = {}
        self._is_new = False
        self.oldest: int | None = None  # when the oldest that was relied upon was read
        with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            self._known = {path: Read(*entry) for path, entry in known.items()}

    def recall(self, path: str, with_sha256: bool) -> Digests | None:
        """Returns what was read at this path, if it looks the same now."""
        known = self._known.get(path)
        if known is None or (with_sha256 and not known.sha256) or _looks(path) != known.looks:
            return None
        self.oldest = min(self.oldest or known.when, known.when)
        return Digests(known.md5, known.sha256)

    def keep(self, path: str, digests: Digests, looked: list[int] | None) -> None:
        """Remembers a file that looked so before it was read; one that has changed in the meantime, or just before, is not kept."""
        if looked is None or looked != _looks(path) or max(looked[1:3]) > (time.time() - SETTLED) * 1e9:
            self._known.pop(path, None)
            return
        self._known[path] = Read(looked, digests.md5, digests.sha256, int(time.time()))
        self._is_new = True

    def looks(self, path: str) -> list[int] | None:
        return _looks(path)

    def save(self) -> None:
        if self._is_new and self._file.parents[2].is_dir():
            with suppress(HindcastError):
                write_text(self._file, json.dumps(self._known, separators=(",", ":")))


def _looks(path: str) -> list[int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
