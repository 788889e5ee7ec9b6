"""Files on disk: written beside and renamed, so that a reader never sees half of one; JSON in one byte-stable form.

What is being written lies beside its place under a name that .dvcignore and .gitignore leave out. Being in the same folder it is on
the same disk, so the last step is a rename; and DVC never takes it for a part of an output, even where a killed run left it behind.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from rl_datasets.errors import HindcastError

PARTIAL, BEFORE = ".partial", ".before.partial"
_NO_SPACE = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))
_NO_PERMISSION = tuple(os.strerror(code) for code in (errno.EACCES, errno.EPERM, errno.EROFS))
_PLAIN = (*_NO_SPACE, *_NO_PERMISSION, os.strerror(errno.EFBIG))


class WriteError(HindcastError):
    """`path` could not be written. The message names the reason, what is free on its disk, and what to do.

    Of a library's reason, which names folders that are gone by now, the system's own words are kept where it holds any.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = next((words for words in _PLAIN if words in reason), reason)
        self.advice = _advice(path, self.reason)
        super().__init__(f"Could not write {path}: {self.reason}. Nothing there was changed. {self.advice}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a fresh sibling folder to fill. On success it takes the place of `path`; on any error it is removed.

    Raises WriteError for `path` instead of OSError (a full disk, no permission), and HindcastError where another process is writing it.
    """
    part, before = _beside(path, PARTIAL), _beside(path, BEFORE)
    with _write_errors(path, part), ExitStack() as held:
        for left in (before, part):
            if left.exists() and not _remove_left(left):
                raise HindcastError(f"{path} is being written by another process. Wait for it or end it, then run the same command again.")
        part.mkdir(parents=True)
        try:
            held.enter_context(_hold(part))
            yield part
            if path.exists():
                held.enter_context(_hold(path))
                path.rename(before)
            part.rename(path)
        finally:
            if before.exists() and not path.exists():
                before.rename(path)
            for folder in (part, before):
                shutil.rmtree(folder, ignore_errors=True)


def remove_stale(folder: Path) -> None:
    """Removes what killed processes left of `replacing` in a folder; what living ones are writing stays."""
    for left in sorted(folder.glob(f".*{PARTIAL}")):
        if left.is_dir():
            _remove_left(left)


def write_text(path: Path, text: str) -> None:
    """Writes a small file whole or not at all. Raises WriteError instead of OSError."""
    part = _beside(path, PARTIAL)
    with _write_errors(path, part):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text, encoding="utf-8")
            os.replace(part, path)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Writes `json_text`."""
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Sorted keys, two spaces, a final newline: equal values give equal bytes. NaN is refused (ValueError)."""
    return json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def read_json(path: Path, *keys: str) -> Any:
    """Returns the file's value, with `keys` an object that has them all. Raises HindcastError where it is not that, or missing."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise HindcastError(f"{path} is missing. Run the stage that makes it: 'dvc repro' runs all that are needed.") from error
    except ValueError as error:
        raise HindcastError(f"{path} is not valid JSON ({error}). Restore it with 'dvc checkout --force', or rebuild it.") from error
    except OSError as error:
        raise HindcastError(f"{path} cannot be read: {error.strerror or error}. Look at it with 'ls -ld', and mend that.") from error
    if keys and not (isinstance(value, dict) and all(key in value for key in keys)):
        lacks = ", ".join(key for key in keys if key not in value) if isinstance(value, dict) else "what an object has"
        raise HindcastError(f"{path} lacks {lacks}. Restore it with 'dvc checkout --force', or rebuild it.")
    return value


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}{ending}")


@contextmanager
def _write_errors(path: Path, part: Path) -> Iterator[None]:
    """Turns an OSError, and a WriteError of something inside `part`, into a WriteError for `path`."""
    try:
        yield
    except OSError as error:
        raise WriteError(path, error.strerror or str(error)) from error
    except WriteError as error:
        raise WriteError(path, error.reason.replace(str(part), str(path))) from error


@contextmanager
def _hold(folder: Path) -> Iterator[bool]:
    """Yields False where another process holds the folder. The system lets go of it when its process ends, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, on which two processes at once go unnoticed
        return True
    return True


def _remove_left(left: Path) -> bool:
    """Removes a partial folder, and returns False where a living process holds it. A folder that was moved aside goes back if need be."""
    try:
        with _hold(left) as free:
            if not free:
                return False
            place = left.with_name(left.name[1:].removesuffix(PARTIAL).removesuffix(".before"))
            if left == _beside(place, BEFORE) and not place.exists():
                left.rename(place)
            else:
                shutil.rmtree(left, ignore_errors=True)
    except FileNotFoundError:  # its process has just ended, and removed it itself
        pass
    return True


def _advice(path: Path, reason: str) -> str:
    folder = next((parent for parent in path.parents if parent.is_dir()), Path())
    permissions, again = f"permissions ('ls -ld {folder}')", "then run the same command again."
    if reason in _NO_PERMISSION:
        return f"Mend the {permissions}, {again}"
    with suppress(OSError):
        room = f"The disk of {folder} has {shutil.disk_usage(folder).free / 1e6:,.1f} MB of free space"
        if reason in _NO_SPACE:
            return f"{room}, which is not enough: make room there ('df -h' and 'du -sh *' show what is used), {again}"
        return f"{room}; look at that and at the {permissions}, {again}"
    return f"Look at the disk ('df -h') and at the {permissions}, {again}"
