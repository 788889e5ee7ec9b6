"""Snapshots of a run that was not finished, so that it can go on in the same bytes. Written by orbax, outside of DVC's outputs.

A snapshot belongs to one run: beside it stands a fingerprint of all that determines the run's result. One of another run is never
resumed but replaced. A snapshot appears under its name whole or not at all, so a kill at any moment leaves the one before it.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

import rl_datasets
import trainer
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import package_versions
from trainer.loop import Row, Snapshot

PACKAGES = ("flax", "jax", "jaxlib", "numpy", "optax", "tensorflow-datasets")
FEED = ("schema.py", "stream.py", "rlds/*.py")  # of rl_datasets: whose code shapes the batches
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
        if not self._path.is_dir():
            return None
        try:
            with self._manager() as manager:
                step = manager.latest_step()
                found = None if step is None else manager.restore(step, args=_restore_args())
        except Exception:  # whatever orbax raises on damaged files: starting anew gives the same bytes, only later
            found = None
        if found is None or found.record["fingerprint"] != self._fingerprint:
            self.remove()
            return None
        self._saved = (step, time.monotonic())
        return Snapshot(step, dict(found.arrays), [_row(*values) for values in found.record["rows"]])

    def due(self) -> bool:
        return self._saved is None or time.monotonic() - self._saved[1] >= max(self._interval, SHARE * self._cost)

    def save(self, snapshot: Snapshot) -> None:
        """Raises HindcastError where it cannot be written, a full disk say."""
        record = {"fingerprint": self._fingerprint, "rows": [_values(row) for row in snapshot.rows]}
        start = time.monotonic()
        try:
            with self._manager() as manager:
                args = ocp.args.Composite(arrays=ocp.args.StandardSave(snapshot.arrays), record=ocp.args.JsonSave(record))
                manager.save(snapshot.step, args=args, force=True)
        except (OSError, ValueError) as error:
            raise HindcastError(
                f"Could not write the checkpoint of update {snapshot.step} to {self._path}: {error}. Free space or mend the permissions "
                "and run the same command again; it goes on from the checkpoint before."
            ) from error
        self._cost = time.monotonic() - start
        self._saved = (snapshot.step, time.monotonic())

    def describe(self) -> str:
        if self._saved is None:
            return "No checkpoint had been written yet."
        return f"The last good checkpoint, of {self._saved[0]} updates, is kept in {self._path}."

    def remove(self) -> None:
        """When the run is done, and its results are in place."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _manager(self) -> Any:
        options = ocp.CheckpointManagerOptions(max_to_keep=1, enable_async_checkpointing=False, cleanup_tmp_directories=True)
        return ocp.CheckpointManager(self._path.absolute(), options=options)


def run_fingerprint(**parts: Any) -> str:
    """Returns a digest of JSON values that determine a run, with the packages, devices and code that do so too."""
    surroundings = {
        "code": code_digest(),
        "devices": [jax.default_backend(), jax.devices()[0].device_kind, jax.device_count()],
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


def _restore_args() -> Any:
    return ocp.args.Composite(arrays=ocp.args.StandardRestore(), record=ocp.args.JsonRestore())


def _values(row: Row) -> list[Any]:
    return [row.step, row.split, {name: value.tolist() for name, value in row.metrics.items()}]


def _row(step: int, split: str, metrics: Mapping[str, list[float]]) -> Row:
    return Row(step, split, {name: np.asarray(values, np.float32) for name, values in metrics.items()})
