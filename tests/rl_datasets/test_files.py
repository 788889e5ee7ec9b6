"""Files are written whole or not at all, whatever ends the writing; and what cannot be written is named by its own name."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rl_datasets import files
from rl_datasets.errors import HindcastError
from rl_datasets.files import WriteError, remove_stale, replacing, write_json, write_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with replacing(tmp_path / "made") as part:
        (part / "a.txt").write_text("old")
    return tmp_path / "made"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def replace_by(folder: Path, error: Exception) -> None:
    """Begins to fill a new folder, and then fails."""
    with replacing(folder) as part:
        (part / "b.txt").write_text("new")
        raise error


def test_a_folder_takes_the_place_of_the_one_before(folder: Path) -> None:
    with replacing(folder) as part:
        assert (folder / "a.txt").read_text() == "old"
        (part / "b.txt").write_text("new")
    assert names(folder) == ["b.txt"]
    assert names(folder.parent) == ["made"]


def test_an_error_leaves_what_was_there(folder: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        replace_by(folder, ValueError("mine"))
    assert (folder / "a.txt").read_text() == "old"
    assert names(folder.parent) == ["made"]


def test_a_full_disk_names_the_artifact_its_free_space_and_what_to_do(folder: Path) -> None:
    with pytest.raises(WriteError) as error:
        replace_by(folder, full())
    assert str(error.value).startswith(f"Could not write {folder}: No space left on device. Nothing there was changed. The disk of ")
    assert f"{folder.parent} has " in str(error.value)
    assert "MB of free space, which is not enough: make room there" in str(error.value)
    assert ".partial" not in str(error.value)
    assert names(folder.parent) == ["made"]


def test_the_outermost_artifact_is_the_one_that_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage replaces its folder, and inside of it folders and files are written in the same way."""
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(full()))
    with pytest.raises(WriteError) as error, replacing(folder) as part, replacing(part / "policies") as inner:
        write_json(inner / "bundle.json", {})
    assert error.value.path == folder
    assert ".partial" not in str(error.value)


@pytest.mark.parametrize(
    ("said", "kept"), [("{}/x.tfrecord; No space left on device", "No space left on device"), ("{}/x is odd", "{}/x is odd")]
)
def test_a_reason_that_names_the_partial_folder_names_the_artifact(folder: Path, said: str, kept: str) -> None:
    """TensorFlow's messages hold the file's path."""
    with pytest.raises(WriteError) as error, replacing(folder) as part:
        raise WriteError(part, said.format(part))
    assert f"Could not write {folder}: {kept.format(folder)}. Nothing" in str(error.value)


def test_no_permission_is_told_apart_from_a_full_disk(tmp_path: Path) -> None:
    denied = OSError(errno.EACCES, os.strerror(errno.EACCES))
    with pytest.raises(WriteError, match=r"Permission denied\..*Mend the permissions \('ls -ld") as error:
        replace_by(tmp_path / "x", denied)
    assert "free" not in str(error.value)


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"Could not write .*file/x\.txt: (Not a directory|File exists)\."):
        write_text(tmp_path / "file" / "x.txt", "")


KILLED = """
import os, signal, sys
from pathlib import Path
from rl_datasets import files

class Moves(type(Path())):
    def rename(self, target):
        done = super().rename(target)
        if str(target).endswith(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

with files.replacing(Moves(sys.argv[1])) as part:
    (part / "b.txt").write_text("new")
    if sys.argv[2] == "filling":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2] == "living":
        print("writing", flush=True)
        sys.stdin.read()
"""


def start(folder: Path, moment: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(folder), moment]
    return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("moment", "left"), [("filling", [".made.partial", "made"]), (".before.partial", [".made.before.partial", ".made.partial"])]
)
def test_what_a_killed_process_left_goes_and_what_it_moved_aside_comes_back(folder: Path, moment: str, left: list[str]) -> None:
    process = start(folder, moment)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert names(folder.parent) == left
    remove_stale(folder.parent)
    assert names(folder.parent) == ["made"]
    assert (folder / "a.txt").read_text() == "old"


def test_two_processes_do_not_write_one_folder(folder: Path) -> None:
    process = start(folder, "living")
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    remove_stale(folder.parent)
    assert names(folder.parent) == [".made.partial", "made"]
    with pytest.raises(HindcastError, match=r"made is being written by another process\. Wait for it or end it"), replacing(folder):
        pass
    process.communicate("", timeout=60)
    assert names(folder) == ["b.txt"]
    assert names(folder.parent) == ["made"]


def test_where_folders_cannot_be_locked_they_are_written_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.fcntl, "flock", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOLCK, "No locks available")))
    with replacing(folder) as part:
        (part / "b.txt").write_text("new")
    assert names(folder) == ["b.txt"]
