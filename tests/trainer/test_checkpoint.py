"""Checkpoints: what is kept, what is refused, and real processes that are killed and end in the same bytes."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from tests.compiling import QUICK, flags
from trainer import checkpoint
from trainer.checkpoint import CheckpointFolder, code_digest, run_fingerprint
from trainer.loop import Snapshot
from trainer.points import Row

RUN = Path(__file__).with_name("interrupted_run.py")


def snapshot(step: int) -> Snapshot:
    arrays = {
        ".state['weight']": np.float32([[0.1, np.pi], [-0.0, 1e-38]]),
        ".state.step": np.int32(step),
        ".key": np.uint32([[7, 2**32 - 1]]),
    }
    rows = [Row(step, "train", {"loss": np.float32([0.1, np.nan])}), Row(step, "validation", {"loss": np.float32([np.inf, -3e-9])})]
    return Snapshot(step, {name: np.asarray(array) for name, array in arrays.items()}, rows)


def test_restores_every_bit_of_the_newest(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "c", "a")
    assert folder.restore() is None
    for step in (5, 10):
        folder.save(snapshot(step))
    found, wanted = CheckpointFolder(tmp_path / "c", "a").restore(), snapshot(10)
    assert found is not None
    assert (found.step, found.arrays.keys()) == (10, wanted.arrays.keys())
    for name, array in wanted.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes()
        assert (found.arrays[name].dtype, found.arrays[name].shape) == (array.dtype, array.shape)
    for left, right in zip(found.rows, wanted.rows, strict=True):
        assert (left.step, left.split) == (right.step, right.split)
        assert left.metrics["loss"].tobytes() == right.metrics["loss"].tobytes()
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["10"]


def test_another_run_is_replaced_not_resumed(tmp_path: Path) -> None:
    CheckpointFolder(tmp_path / "c", "a").save(snapshot(500))
    other = CheckpointFolder(tmp_path / "c", "b")
    assert other.restore() is None
    assert not (tmp_path / "c").exists()
    other.save(snapshot(3))
    found = CheckpointFolder(tmp_path / "c", "b").restore()
    assert found is not None
    assert found.step == 3


def test_a_damaged_checkpoint_is_replaced(tmp_path: Path) -> None:
    CheckpointFolder(tmp_path / "c", "a").save(snapshot(5))
    for path in (tmp_path / "c" / "5" / "arrays").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert CheckpointFolder(tmp_path / "c", "a").restore() is None
    assert not (tmp_path / "c").exists()


def test_says_what_is_kept_and_removes_it_when_told(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "c", "a")
    assert folder.describe() == "No checkpoint had been written yet."
    folder.save(snapshot(5))
    assert folder.describe() == f"The last good checkpoint, of 5 updates, is kept in {tmp_path / 'c'}."
    folder.remove()
    assert not (tmp_path / "c").exists()


def test_is_due_at_once_then_by_the_clock_and_the_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    folder = CheckpointFolder(tmp_path / "c", "a", interval=20)
    assert folder.due()
    replacing = checkpoint.replacing

    def slow(path: Path) -> Any:
        clock[0] += 2.0
        return replacing(path)

    folder.save(snapshot(1))
    clock[0] += 19.0
    assert not folder.due()
    clock[0] += 1.0
    assert folder.due()
    monkeypatch.setattr(checkpoint, "replacing", slow)
    folder.save(snapshot(2))  # takes 2 s, so the next is due after 100 s
    clock[0] += 99.0
    assert not folder.due()
    clock[0] += 1.0
    assert folder.due()


def test_a_place_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HindcastError, match=r"Could not write the checkpoint of update 7 to .*goes on from the checkpoint before"):
        CheckpointFolder(tmp_path / "file" / "c", "a").save(snapshot(7))


FULL = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from rl_datasets.errors import HindcastError
from trainer.checkpoint import CheckpointFolder
from trainer.loop import Snapshot

folder = CheckpointFolder(Path(sys.argv[1]), "a")
folder.save(Snapshot(1, {"x": np.arange(9.0)}, []))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    folder.save(Snapshot(2, {f"x{i}": np.random.default_rng(i).normal(size=20_000) for i in range(20)}, []))
except HindcastError as error:
    print(error)
"""


def test_a_file_that_cannot_grow_is_one_message_and_leaves_the_one_before(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FULL, str(tmp_path / "c")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert re.fullmatch(r"Could not write the checkpoint of update 2 to \S*/2: File too large\. .* goes on from .*\n", done.stdout)
    assert done.stderr == ""
    found = CheckpointFolder(tmp_path / "c", "a").restore()
    assert found is not None
    assert found.step == 1
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["1"]


def test_a_disk_without_room_is_known_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CheckpointFolder(tmp_path / "c", "a")
    folder.save(snapshot(1))
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(HindcastError, match=r"to \S*/c/2: No space left on device\. The disk of \S* has 0\.0 MB .* goes on from"):
        folder.save(snapshot(2))
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["1"]


def test_fingerprint_follows_what_determines_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_fingerprint(parameters={"updates": 5}, dataset="d")
    assert first == run_fingerprint(dataset="d", parameters={"updates": 5})
    assert first != run_fingerprint(parameters={"updates": 6}, dataset="d")
    monkeypatch.setattr(checkpoint, "package_versions", lambda *names: dict.fromkeys(names, "0"))
    assert first != run_fingerprint(parameters={"updates": 5}, dataset="d")


def test_fingerprint_follows_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trainer" / "learners").mkdir(parents=True)
    learner = tmp_path / "trainer" / "learners" / "bc.py"
    learner.write_text("x = 1")
    monkeypatch.setattr(checkpoint.trainer, "__path__", [str(tmp_path / "trainer")])
    before = code_digest()
    learner.write_text("x = 2")
    changed = code_digest()
    learner.rename(learner.with_name("iql.py"))
    assert len({before, changed, code_digest()}) == 3


def start(folder: Path) -> "subprocess.Popen[str]":
    """Starts the run. The processes share what they compile."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder.with_name("compiled")), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XLA_FLAGS": flags(QUICK), **cache}
    return subprocess.Popen([sys.executable, str(RUN), str(folder)], stdout=subprocess.PIPE, text=True, env=environment)


def read_until(process: "subprocess.Popen[str]", word: str, times: int) -> bool:
    """Whether the process said the word so many times before it ended."""
    assert process.stdout is not None
    for line in process.stdout:
        times -= line.startswith(word)
        if times == 0:
            return True
    return False


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_in_the_same_bytes(tmp_path: Path) -> None:
    """The kills fall into the writing of a checkpoint, just after one, and between two."""
    rng = random.Random(0)
    unbroken = start(tmp_path / "unbroken")
    for word, times, longest in (("saving", 2, 0.0), ("saving", 3, 0.06), ("saved", 4, 0.1)):
        process = start(tmp_path / "killed")
        assert read_until(process, word, times)
        time.sleep(rng.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "killed" / "model").exists()
    last = start(tmp_path / "killed")
    said, _ = last.communicate(timeout=120)
    assert int(said.split()[1]) > 0, "it did not resume"
    assert (last.returncode, unbroken.wait(timeout=120)) == (0, 0)
    unbroken.communicate()
    wanted, found = files(tmp_path / "unbroken"), files(tmp_path / "killed")
    assert len([name for name in wanted if name.startswith("model/")]) == 9
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if found[name] != wanted[name]] == []
