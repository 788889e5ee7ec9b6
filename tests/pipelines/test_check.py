"""The check stage on data on disk: a report always, a failure where it must, and flags as they are stored."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from pipelines import check
from pipelines.inputs import parameters_of
from pipelines.params import Params
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import Manifest, read_manifest, write_manifest
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

RAW = Path("artifacts/raw/toy/1.0.0")
FOLDER = Path("artifacts/checks/toy")
SPEC = EnvSpec("Toy-v0", ArraySpec((2,), "float32"), ArraySpec((1,), "float32", -1.0, 1.0), max_episode_steps=9)


def episode(index: int) -> Episode:
    steps = index % 7 + 3
    count = np.arange(steps, dtype=np.float32) + 100 * index
    action, reward, discount = np.full((steps, 1), 0.5, np.float32), np.ones(steps, np.float32), np.ones(steps, np.float32)
    action[-1] = reward[-1] = discount[-1] = discount[-2] = 0
    metadata = {"seed": index, "policy": "random", "environment": "Toy-v0"}
    return Episode(f"toy-{index:03d}", np.stack([count, -count], 1), action, reward, discount, True, metadata)


def params(**checks: object) -> Params:
    entry = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "requirements.lock", "options": {}}
    sections = {"split": {}, "learners": {}, "experiments": {}}
    return Params.model_validate({"datasets": {"toy": entry}, "checks": {"default": checks}, **sections})


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_raw(episodes: list[Episode]) -> None:
    written = write_rlds(RAW, "toy", "1.0.0", SPEC, {"raw": episodes}, shards=2)
    write_manifest(RAW, Manifest("collect@toy", written.digest, parameters_of("collect@toy", params()), notes=("A note of the builder.",)))


def set_flag(flag: str, episode_id: str, step: int, value: int) -> None:
    """Rewrites one flag in the file that holds the episode."""
    for path in sorted(RAW.glob("*.tfrecord*")):
        examples = [tf.train.Example.FromString(record) for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()]
        for example in examples:
            if example.features.feature["episode_id"].bytes_list.value[0] == episode_id.encode():
                example.features.feature[f"steps/{flag}"].int64_list.value[step] = value
        with tf.io.TFRecordWriter(str(path)) as writer:
            for example in examples:
                writer.write(example.SerializeToString(deterministic=True))


def test_clean_data_pass(project):
    write_raw([episode(index) for index in range(6)])
    assert check.run("toy", params()) == FOLDER
    report = json.loads((FOLDER / "report.json").read_text())
    assert (report["verdict"], report["findings"], report["digest"]) == ("pass", [], read_manifest(RAW).digest)
    assert "A note of the builder." in (FOLDER / "card.md").read_text()


def test_a_fault_leaves_the_report_and_fails_with_its_place(project):
    faulty = episode(2)
    faulty.action[1] = 1.25
    write_raw([episode(0), episode(1), faulty])
    with pytest.raises(HindcastError, match=r"episode 'toy-002', step 1: found action\[0\] = 1\.25; expected between -1 and 1"):
        check.run("toy", params())
    assert json.loads((FOLDER / "report.json").read_text())["verdict"] == "fail"
    assert "**Failed.**" in (FOLDER / "card.md").read_text()
    check.run("toy", params(action_bounds="warn"))
    assert json.loads((FOLDER / "report.json").read_text())["verdict"] == "warn"


@pytest.mark.parametrize(("flag", "step", "value"), [("is_first", 2, 1), ("is_last", 6, 0), ("is_terminal", 3, 1)])
def test_flags_are_checked_as_they_are_stored(project, flag, step, value):
    write_raw([episode(index) for index in range(6)])
    set_flag(flag, "toy-004", step, value)
    with pytest.raises(HindcastError, match=f"flags: episode 'toy-004', step {step}: found {flag} {bool(value)};"):
        check.run("toy", params())


def test_a_terminal_flag_that_was_lost_contradicts_the_discount(project):
    write_raw([episode(index) for index in range(6)])
    set_flag("is_terminal", "toy-004", 6, 0)
    with pytest.raises(HindcastError, match="discount: episode 'toy-004', step 5: found discount 0; expected 1"):
        check.run("toy", params())


def test_a_shard_cut_in_half_is_reported_with_what_else_could_be_read(project):
    write_raw([episode(index) for index in range(6)])
    shard = sorted(RAW.glob("*.tfrecord*"))[1]
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    with pytest.raises(HindcastError, match=rf"files: data set: found {shard.name}: .*damaged after 1 of 3 episodes"):
        check.run("toy", params())
    report = json.loads((FOLDER / "report.json").read_text())
    assert (report["verdict"], report["checks"]["files"]["faults"], report["summary"]["episodes"]) == ("fail", 1, 4)


def test_an_unknown_data_set_lists_the_known_ones(project):
    with pytest.raises(HindcastError, match="'tyo'; the data sets are: toy"):
        check.run("tyo", params())


def test_the_same_data_give_the_same_bytes(project):
    write_raw([dataclasses.replace(episode(index % 5), episode_id=f"toy-{index}") for index in range(6)])
    folders = []
    for _ in range(2):
        check.run("toy", params())
        folders.append({path.name: path.read_bytes() for path in FOLDER.iterdir()})
    assert folders[0] == folders[1]
    assert b"the same content in 'toy-5'" in folders[0]["report.json"]
