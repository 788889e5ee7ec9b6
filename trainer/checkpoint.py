"""Snapshots of a run that was not finished, so that it can go on in the same bytes. Written by orbax, outside of DVC's outputs.

A snapshot belongs to one run: beside it stands a fingerprint of all that determines the run's result. One of another run is never
resumed but replaced. A snapshot appears under its name whole or not at all, and only then is the one before it removed.

Folders are managed here and not by orbax's CheckpointManager: after a kill its clean-up, in a thread of its own, raced with the
next save, and its removal of the last snapshot could leave half of one that it went on to warn about.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

import rl_datasets
import trainer
from rl_datasets.errors import HindcastError
from rl_datasets.files import WriteError, remove_stale, replacing
from rl_datasets.manifest import package_versions
from trainer.loop import Snapshot
from trainer.points import Row

PACKAGES = ("flax", "jax", "jaxlib", "numpy", "optax", "tensorflow-datasets")
FEED = ("*.py", "rlds/*.py")  # of rl_datasets: among them is all the code that shapes batches
ARRAYS, RECORD = "arrays", "record.json"
SHARE = 50  # at least so many times as long as a save takes lies between two, which keeps the cost within 2 %


class CheckpointFolder:
    """The snapshots of one run in one folder, meeting the protocol of trainer/loop.py. The newest alone is kept."""

    def __init__(self, path: Path, fingerprint: str, interval: float = 20.0) -> None:
        """`interval` is the least time in seconds between two snapshots; the first is due at once. It changes no result."""
        self._path = path
        self._fingerprint = fingerprint
        self._interval = interval
        self._saved: tuple[int, float] | None = None  # step and time of the last one
        self._cost = 0.0

    def restore(self) -> Snapshot | None:
        """Returns the newest snapshot of this run. Removes what belongs to another run or cannot be read, and returns None."""
        steps = [int(path.name) for path in self._path.glob("*") if path.name.isdecimal()]
        snapshot = self._read(max(steps)) if steps else None
        if snapshot is None:
            self.remove()
        else:
            self._saved = (snapshot.step, time.monotonic())
        return snapshot

    def due(self) -> bool:
        return self._saved is None or time.monotonic() - self._saved[1] >= max(self._interval, SHARE * self._cost)

    def save(self, snapshot: Snapshot) -> None:
        """Raises HindcastError where it cannot be written, a full disk say."""
        record = {"fingerprint": self._fingerprint, "rows": [_values(row) for row in snapshot.rows]}
        start = time.monotonic()
        target = self._path / str(snapshot.step)
        try:
            _require_room(target, snapshot.arrays)
            with _quiet_orbax(), replacing(target) as part, ocp.Checkpointer(ocp.StandardCheckpointHandler()) as writer:
                writer.save(part.absolute() / ARRAYS, args=ocp.args.StandardSave(snapshot.arrays))
                (part / RECORD).write_text(json.dumps(record), encoding="utf-8")
        except (HindcastError, RuntimeError, ValueError) as error:  # the latter two are orbax's, for a full disk say
            failure = error if isinstance(error, WriteError) else WriteError(target, str(error))
            _remove_late(self._path)
            raise HindcastError(
                f"Could not write the checkpoint of update {snapshot.step} to {target}: {failure.reason}. {failure.advice} "
                "Training goes on from the checkpoint before."
            ) from error
        for other in self._path.iterdir():
            if other != target:
                shutil.rmtree(other, ignore_errors=True)
        self._cost = time.monotonic() - start
        self._saved = (snapshot.step, time.monotonic())

    def describe(self) -> str:
        if self._saved is None:
            return "No checkpoint had been written yet."
        return f"The last good checkpoint, of {self._saved[0]} updates, is kept in {self._path}."

    def remove(self) -> None:
        """When the run is done, and its results are in place."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _read(self, step: int) -> Snapshot | None:
        """None where the snapshot is another run's, or damaged."""
        folder = self._path / str(step)
        try:
            record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
            if record["fingerprint"] != self._fingerprint:
                return None
            with _quiet_orbax(), ocp.Checkpointer(ocp.StandardCheckpointHandler()) as reader:
                arrays = reader.restore(folder.absolute() / ARRAYS, args=ocp.args.StandardRestore())
            return Snapshot(step, dict(arrays), [_row(*values) for values in record["rows"]])
        except Exception:  # whatever orbax raises on damaged files: to start anew gives the same bytes, only later
            return None


def run_fingerprint(**parts: Any) -> str:
    """Returns a digest of JSON values that determine a run, with the packages, devices and code that do so too."""
    surroundings = {
        "code": code_digest(),
        "device": [jax.default_backend(), jax.devices()[0].device_kind],  # and not how many: a run may go on with others
        "packages": package_versions(*PACKAGES),
    }
    return hashlib.sha256(json.dumps({**surroundings, **parts}, sort_keys=True).encode()).hexdigest()


def code_digest() -> str:
    """Returns a digest of the trainer's code and of the modules that feed it."""
    roots = {package.__name__: Path(next(iter(package.__path__))) for package in (trainer, rl_datasets)}
    found = [(roots["trainer"], path) for path in roots["trainer"].rglob("*.py")]
    found += [(roots["rl_datasets"], path) for pattern in FEED for path in roots["rl_datasets"].glob(pattern)]
    files = {path.relative_to(root.parent).as_posix(): path for root, path in found}
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _require_room(target: Path, arrays: Any) -> None:
    """Raises WriteError where the disk surely has no room. To learn it from orbax in the middle of a save costs far more."""
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    if folder.is_dir() and shutil.disk_usage(folder).free < sum(leaf.nbytes for leaf in jax.tree.leaves(arrays)):
        raise WriteError(target, os.strerror(errno.ENOSPC))


def _remove_late(folder: Path) -> None:
    """Removes what threads of orbax still write after a save has failed, until half a second brings no more (at most five)."""
    quiet, deadline = time.monotonic() + 0.5, time.monotonic() + 5
    while time.monotonic() < min(quiet, deadline):
        if any(folder.glob(".*.partial")):
            remove_stale(folder)
            quiet = time.monotonic() + 0.5
        time.sleep(0.02)


@contextmanager
def _quiet_orbax() -> Iterator[None]:
    """Without orbax's log, and without what its threads report where a save failed: their tracebacks would bury the one message."""
    orbax, threads, hook = logging.getLogger("absl"), logging.getLogger("asyncio"), sys.unraisablehook
    levels = orbax.level, threads.level
    orbax.setLevel(logging.CRITICAL + 1)
    threads.setLevel(logging.CRITICAL + 1)
    sys.unraisablehook = lambda report: None if _is_late(report) else hook(report)
    try:
        yield
        threads.setLevel(levels[1])  # not after a failure, for the threads may report yet
        sys.unraisablehook = hook
    finally:
        orbax.setLevel(levels[0])


def _is_late(report: Any) -> bool:
    """Whether a thread of orbax found that nobody waits for it any more."""
    return isinstance(report.exc_value, RuntimeError) and "Event loop is closed" in str(report.exc_value)


def _values(row: Row) -> list[Any]:
    return [row.step, row.split, {name: value.tolist() for name, value in row.metrics.items()}]


def _row(step: int, split: str, metrics: Mapping[str, list[float]]) -> Row:
    return Row(step, split, {name: np.asarray(values, np.float32) for name, values in metrics.items()})
