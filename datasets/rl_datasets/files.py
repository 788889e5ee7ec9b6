"""Files on disk: written beside and renamed, so that a reader never sees half of one; JSON in one byte-stable form."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rl_datasets.errors import HindcastError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a fresh sibling folder to fill. On success it takes the place of `path`; on any error it is removed.

    Raises HindcastError instead of OSError (a full disk, no permission), saying which and that nothing was changed.
    """
    part = path.with_name(f".{path.name}.partial")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        yield part
        _remove(path)
        part.rename(path)
    except OSError as error:
        raise HindcastError(
            f"Could not write {path}: {error.strerror or error}. Nothing there was changed; mend that (free space with 'df -h', "
            "permissions with 'ls -ld') and run the same command again."
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Writes a small file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.partial")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Sorted keys, two spaces, a final newline: equal values give equal bytes. NaN is refused (ValueError)."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Raises HindcastError where the file is missing or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise HindcastError(f"{path} is missing. Run the stage that makes it: 'dvc repro' runs all that are needed.") from error
    except ValueError as error:
        raise HindcastError(f"{path} is not valid JSON ({error}). Restore it with 'dvc checkout', or rebuild it.") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
