"""Files on disk: written beside and renamed, so that a reader never sees half of one; JSON in one byte-stable form."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rl_datasets.errors import HindcastError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a fresh sibling folder to fill. On success it takes the place of `path`; on any error it is removed.

    Raises HindcastError instead of OSError (a full disk, no permission), saying which and that nothing was changed.
    """
    part, before = path.with_name(f".{path.name}.partial"), path.with_name(f".{path.name}.before.partial")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        if path.exists():
            path.rename(before)
        part.rename(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        if before.exists() and not path.exists():
            before.rename(path)
        for folder in (part, before):
            shutil.rmtree(folder, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Writes a small file whole or not at all. Raises HindcastError instead of OSError."""
    part = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Sorted keys, two spaces, a final newline: equal values give equal bytes. NaN is refused (ValueError)."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n")


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


def _cannot_write(path: Path, error: OSError) -> HindcastError:
    return HindcastError(
        f"Could not write {path}: {error.strerror or error}. Nothing there was changed; mend that (free space with 'df -h', "
        "permissions with 'ls -ld') and run the same command again."
    )
