"""`hindcast check` on what other programs wrote, whole and broken: a verdict and a card, or one message; never a traceback."""

import io
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from pipelines import cli
from pipelines.commands.check import run
from rl_datasets.errors import HindcastError
from rl_datasets.rlds.quiet_tensorflow import tf
from tests.pipelines import foreign_data
from tests.rl_datasets.checks.card_data import make_episodes, write_data

CARD = {"report.json", "quarantine.csv", "card.html", "card.md", "croissant.json"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a data set of each kind; tests that break one copy it first."""
    folder = tmp_path_factory.mktemp("foreign")
    return {make.__name__: make(folder) for make in (foreign_data.flat, foreign_data.robot, foreign_data.grid, foreign_data.pictures)}


@pytest.fixture
def broken(written, tmp_path):
    """Returns a function that copies a data set, so that it can be broken."""

    def copied(name: str = "flat") -> Path:
        return Path(shutil.copytree(written[name], tmp_path / name / written[name].name))

    return copied


@pytest.fixture
def hindcast(tmp_path, monkeypatch, capsys):
    """Runs `hindcast check` and returns (exit code, what it printed, the folder of the card)."""

    def check(path: Path, *options: str) -> tuple[int, str, Path]:
        out = tmp_path / "out"
        monkeypatch.setattr(cli, "console", Console(width=400))
        monkeypatch.setattr(sys, "argv", ["hindcast", "check", str(path), "--out", str(out), *options])
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        assert "Traceback" not in printed.out + printed.err
        return left.value.code or 0, printed.out + printed.err, out

    return check


@pytest.mark.parametrize(("name", "episodes", "transitions"), [("flat", 7, 84), ("robot", 8, 96), ("grid", 6, 48)])
def test_what_tfds_wrote_gets_a_verdict_and_a_card(written, hindcast, name, episodes, transitions):
    code, printed, out = hindcast(written[name])
    assert code == 0
    assert f"{episodes:,} episodes, {transitions:,} transitions." in printed
    assert {file.name for file in out.iterdir()} == CARD
    report = json.loads((out / "report.json").read_text())
    assert (report["dataset"], report["version"], report["digest"]) == (name, written[name].name, "")
    assert report["summary"]["episodes"] == episodes
    assert "They carry no manifest" in (out / "card.html").read_text()


def test_what_is_no_array_is_left_out_and_parts_of_an_action_are_one_vector(written, hindcast):
    _, printed, out = hindcast(written["robot"])
    assert "Not looked at, for it is no array: action/said, observation/instruction." in printed
    report = json.loads((out / "report.json").read_text())
    assert set(report["summary"]["arrays"]) == {"observation/image", "observation/state", "action", "reward"}
    assert report["summary"]["arrays"]["action"]["columns"][0]["maximum"] == 1  # the gripper
    assert len(report["summary"]["arrays"]["action"]["columns"]) == 4


def test_the_folder_above_the_version_will_do_and_one_split_can_be_named(written, hindcast):
    code, printed, _ = hindcast(written["robot"].parent, "--split", "test")
    assert code == 0
    assert "3 episodes, 36 transitions." in printed


def test_what_is_in_two_splits_fails(tmp_path, hindcast):
    code, printed, out = hindcast(foreign_data.robot(tmp_path / "leaky", crossing=2))
    assert code == 1
    assert "fail leakage: 2" in printed
    assert "'test-00000000' (test) is the same as 'train-00000000' (train)" in printed
    assert "What is trained on is then tested on" in (out / "card.html").read_text()


def test_our_own_data_are_checked_as_their_manifest_says(tmp_path, hindcast):
    code, printed, out = hindcast(write_data(tmp_path / "own", "failing", make_episodes("failing")))
    assert code == 1
    assert "episode 'run-002', step 3: found observation[1] = nan; expected a finite number" in printed
    assert "A Laboratory" in (out / "card.html").read_text()


def test_severities_come_from_a_file(tmp_path, hindcast):
    raw, params = write_data(tmp_path / "own", "failing", make_episodes("failing")), tmp_path / "mine.yaml"
    params.write_text("checks: {default: {finite: warn}, failing: {action_bounds: warn, duplicates: off}}\n")
    code, printed, _ = hindcast(raw, "--params", str(params))
    assert "warn finite: 1" in printed
    assert "warn action_bounds: 1" in printed
    assert "duplicates" not in printed
    params.write_text("checks: {default: {finite: maybe}}\n")
    code, printed, _ = hindcast(raw, "--params", str(params))
    assert code == 2
    assert "checks.default.finite" in printed
    params.write_text("chekcs: {}\n")
    assert "has no section 'checks'" in hindcast(raw, "--params", str(params))[1]


def test_the_same_data_give_the_same_bytes(written, tmp_path):
    for name in ("a", "b"):
        run(written["robot"], tmp_path / name / "card", None, [], Console(quiet=True))
    a, b = ({file.name: file.read_bytes() for file in (tmp_path / name / "card").iterdir()} for name in ("a", "b"))
    assert a == b


def test_a_folder_that_holds_something_else_is_not_replaced(written, tmp_path, hindcast):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    code, printed, out = hindcast(written["flat"])
    assert code == 2
    assert "exists, and is no card of an earlier check" in printed
    assert (out / "thesis.tex").exists()


def first_shard(folder: Path) -> Path:
    return sorted(folder.glob("*.tfrecord*"))[0]


def edit(folder: Path, name: str, function) -> None:
    content = json.loads((folder / name).read_text())
    function(content)
    (folder / name).write_text(json.dumps(content))


def retyped(folder: Path) -> None:
    """The description says that observations are integers; the files hold floats."""
    text = (folder / "features.json").read_text()
    (folder / "features.json").write_text(text.replace('"float32"', '"int64"', 1))


def emptied(folder: Path) -> None:
    edit(folder, "dataset_info.json", lambda info: info["splits"][0].update(shardLengths=["0"], numBytes="0"))
    for shard in folder.glob("*.tfrecord*"):
        shard.unlink()
    (folder / "flat-train.tfrecord-00000-of-00001").touch()


def rewritten(folder: Path) -> None:
    """The rewards of the first episode are one short."""
    shard = first_shard(folder)
    examples = [tf.train.Example.FromString(record) for record in tf.data.TFRecordDataset(str(shard)).as_numpy_iterator()]
    del examples[0].features.feature["steps/reward"].float_list.value[-1]
    with tf.io.TFRecordWriter(str(shard)) as writer:
        for example in examples:
            writer.write(example.SerializeToString())


def directory_in_place_of_shard(folder: Path) -> None:
    shard = first_shard(folder)
    shard.unlink()
    shard.mkdir()


CANNOT = {  # how a directory is broken -> words of the one message
    "features.json": (lambda f: (f / "features.json").write_text("{"), "cannot be read"),
    "features of another kind": (lambda f: (f / "features.json").write_text("[]"), "cannot be read"),
    "no features": (lambda f: (f / "features.json").unlink(), "cannot be read"),
    "dataset_info.json": (lambda f: (f / "dataset_info.json").write_text("<html>"), "cannot be read"),
    "an empty dataset_info.json": (lambda f: (f / "dataset_info.json").write_text(""), "cannot be read"),
    "no splits": (lambda f: edit(f, "dataset_info.json", lambda info: info.update(splits=[])), "names no split"),
    "another file format": (
        lambda f: edit(f, "dataset_info.json", lambda info: info.update(fileFormat="riegeli")),
        "only tfrecord can be read",
    ),
    "no description": (lambda f: (f / "dataset_info.json").unlink(), "holds 4 files and folders, but no dataset_info.json"),
}
FAILS = {  # how a directory is broken -> words of what is found
    "an HTML page named as a shard": (lambda f: first_shard(f).write_text("<!DOCTYPE html><title>404</title>"), "is damaged after 0 of 3"),
    "a shard that is cut": (lambda f: first_shard(f).write_bytes(first_shard(f).read_bytes()[:900]), "episodes that can be read"),
    "a flipped bit": (lambda f: first_shard(f).write_bytes(flipped(first_shard(f).read_bytes(), 200)), "is damaged after 0 of 3"),
    "an empty shard": (lambda f: first_shard(f).write_bytes(b""), "holds 0 episodes, but dataset_info.json says 3"),
    "a missing shard": (lambda f: first_shard(f).unlink(), "expected a file of 3 episodes"),
    "a stray shard": (lambda f: shutil.copy(first_shard(f), f / "flat-train.tfrecord-00007-of-00009"), "does not name"),
    "a folder named as a shard": (directory_in_place_of_shard, "expected a file of 3 episodes"),
    "arrays of different lengths": (rewritten, "its arrays have"),
    "another dtype": (retyped, "cannot be decoded"),
    "no episode": (emptied, "no episode"),
}


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("how", CANNOT)
def test_what_cannot_be_read_is_one_message(broken, hindcast, how):
    breaking, words = CANNOT[how]
    folder = broken()
    breaking(folder)
    code, printed, out = hindcast(folder)
    assert code == 2
    assert words in printed
    assert str(folder) in printed
    assert not out.exists()


@pytest.mark.parametrize("how", FAILS)
def test_damage_is_found_and_gets_a_card(broken, hindcast, how):
    breaking, words = FAILS[how]
    folder = broken()
    breaking(folder)
    code, printed, out = hindcast(folder)
    assert code == 1
    assert words in printed
    assert "Failed." in (out / "card.html").read_text()


def test_what_is_no_rlds_says_so(written, broken, hindcast, tmp_path):
    empty, file = tmp_path / "empty", tmp_path / "log.csv"
    empty.mkdir()
    file.touch()
    unrewarded = foreign_data.flat(tmp_path / "unrewarded", reward=None)
    inactive = foreign_data.flat(tmp_path / "inactive", action=None)
    for path, words in (
        (empty, "it is empty"),
        (tmp_path / "nowhere", "does not exist"),
        (file, "is a file"),
        (written["pictures"], "'steps', a sequence, is expected"),
        (unrewarded, "'reward' is expected"),
        (inactive, "RLDS steps need 'action'"),
        (written["flat"].parents[1], "holds 4 RLDS data sets: flat/1.0.0, grid/2.0.0"),
    ):
        code, printed, out = hindcast(path)
        assert code == 2
        assert words in printed
        assert not out.exists()


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user who may not read everything; root may."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was == 0:
            os.seteuid(0)


def test_files_that_may_not_be_read_are_told(broken, tmp_path):
    folder, out, console = broken(), tmp_path / "out", Console(file=io.StringIO(), width=400)
    temporary = Path(tempfile.gettempdir())
    for place in (tmp_path, *(parent for parent in tmp_path.parents if temporary in parent.parents)):
        place.chmod(0o777)
    first_shard(folder).chmod(0)
    with unprivileged():
        assert run(folder, out, None, [], console) == 1
    assert "Permission denied" in console.file.getvalue()
    folder.chmod(0)
    try:
        with unprivileged(), pytest.raises(HindcastError, match=r"flat/1\.0\.0/dataset_info\.json cannot be read: Permission denied"):
            run(folder, tmp_path / "none", None, [], console)
    finally:
        folder.chmod(0o755)


def test_random_damage_is_never_a_traceback(written, tmp_path):
    """40 times: some bytes of one file are changed, cut off or added."""
    chance = random.Random(0)
    for number in range(40):
        name = chance.choice(["flat", "robot", "grid"])
        folder = Path(shutil.copytree(written[name], tmp_path / f"{number}" / name / "1.0.0"))
        file = chance.choice(sorted(folder.iterdir()))
        content = bytearray(file.read_bytes())
        for _ in range(chance.choice([1, 1, 5, 50])):
            place = chance.randrange(len(content))
            match chance.randrange(3):
                case 0:
                    content[place] = chance.randrange(256)
                case 1:
                    del content[place : place + chance.randrange(1, 40)]
                case 2:
                    content[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
            content = content or bytearray(b"x")
        file.write_bytes(content)
        code, message = outcome(folder, tmp_path / f"{number}" / "card")
        assert code in (0, 1) or str(folder) in message, message
        shutil.rmtree(tmp_path / f"{number}")


def outcome(folder: Path, out: Path) -> tuple[int, str]:
    try:
        return run(folder, out, None, [], Console(quiet=True)), ""
    except HindcastError as error:
        return 2, str(error)
