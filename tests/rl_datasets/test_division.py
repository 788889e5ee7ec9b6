"""Divided data on disk: the union is the data set, nothing leaks, and what two data sets share is found by their tables alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.allocation import QUARANTINE
from rl_datasets.builder import Context
from rl_datasets.builders.table import Builder, Options
from rl_datasets.contents import contents_of
from rl_datasets.division import divide, read_quarantine
from rl_datasets.errors import HindcastError
from rl_datasets.leakage import Contents, Leak, Shared, episode_entry, leaks, read_contents, shared
from rl_datasets.manifest import Manifest, read_manifest, write_manifest
from rl_datasets.rlds import read_episodes, write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.similarity import Sketcher
from rl_datasets.splits import Fractions, SplitParams, TimeOrder

SPEC = EnvSpec("Drive-v0", ArraySpec((2,), "float32"), ArraySpec((1,), "float32"), step_metadata={"clock": ArraySpec((), "float64")})
SPLITS = ("train", "validation", "test")


def drive(index: int, noise: float = 0.0, **metadata) -> Episode:
    rng = np.random.default_rng(index)
    steps = 12 + index % 5
    observation = rng.normal(size=(steps, 2)).cumsum(0) * (1 + noise)
    action, reward, discount = rng.normal(size=(steps, 1)).astype(np.float32), np.full(steps, index, np.float32), np.ones(steps, np.float32)
    action[-1] = reward[-1] = discount[-1] = 0
    known = {
        "seed": index,
        "policy": "driver",
        "environment": "Drive-v0",
        "site": index % 30,
        "day": f"2026-01-{index % 28 + 1:02d}",
        **metadata,
    }
    clock = 1.7e9 + 1000 * index + np.arange(steps) / 3
    return Episode(f"{index:03d}", observation.astype(np.float32), action, reward, discount, False, known, {"clock": clock})


def write_raw(folder: Path, episodes: list[Episode]) -> Path:
    written = write_rlds(folder, "drives", "1.0.0", SPEC, {"raw": episodes}, shards=2)
    write_manifest(folder, Manifest("collect@drives", written.digest, {}))
    return folder


def divided(tmp_path: Path, episodes: list[Episode], params: SplitParams | None = None, name: str = "drives", **options) -> Path:
    folder = tmp_path / "splits" / name
    raw = write_raw(tmp_path / "raw" / name, episodes)
    divide(raw, folder, name, "1.0.0", params or SplitParams(), (), **options)
    return folder


def found_splits(folder: Path) -> dict[str, str]:
    return {episode.episode_id: split for split in SPLITS for episode in read_episodes(folder, split)}


def test_splits_and_quarantine_together_are_the_data_set(tmp_path):
    reasons = {"004": "finite: found nan", "017": "replay: found other rewards"}
    folder = divided(tmp_path, [drive(index) for index in range(150)], quarantine=reasons)
    found, entries = found_splits(folder), read_contents(folder).entries
    assert sorted([*found, *reasons]) == [f"{index:03d}" for index in range(150)]
    assert {entry.episode_id: entry.split for entry in entries} == {**found, **dict.fromkeys(reasons, QUARANTINE)}
    assert {entry.episode_id: entry.reason for entry in entries if entry.reason} == reasons
    assert (folder / "episodes.csv").read_text().splitlines()[5].startswith(f"004,{QUARANTINE},15,60.0,False,driver,4,")


def test_step_metadata_go_with_their_episode_and_part_no_copies(tmp_path):
    """The copy was logged at another time, and is one all the same."""
    copy = replace(drive(3), episode_id="copy", step_metadata={"clock": np.arange(15.0)})
    folder = divided(tmp_path, [*(drive(index) for index in range(60)), copy])
    for split in SPLITS:
        for episode in read_episodes(folder, split):
            expected = copy if episode.episode_id == "copy" else drive(int(episode.episode_id))
            np.testing.assert_array_equal(episode.step_metadata["clock"], expected.step_metadata["clock"], strict=True)
    assert "1 episode repeats another's content and shares its split." in read_manifest(folder).notes


def test_a_copy_in_quarantine_shares_no_split(tmp_path):
    episodes = [*(drive(index) for index in range(150)), *(replace(drive(index), episode_id=f"copy-{index}") for index in range(3))]
    both = divided(tmp_path, episodes, quarantine={"copy-0": "duplicates: a copy", "copy-1": "duplicates: a copy"})
    notes = [note for note in read_manifest(both).notes if "content" in note]
    assert notes == ["1 episode repeats another's content and shares its split."]
    reasons = {f"copy-{index}": "duplicates: a copy" for index in range(3)}
    assert not [note for note in read_manifest(divided(tmp_path, episodes, quarantine=reasons)).notes if "content" in note]


def test_an_episode_in_quarantine_moves_no_other(tmp_path):
    episodes = [drive(index) for index in range(150)]
    before = found_splits(divided(tmp_path, episodes, name="whole"))
    after = found_splits(divided(tmp_path, episodes, name="less", quarantine={"004": "finite: nan"}))
    assert after == {key: split for key, split in before.items() if key != "004"}


def test_copies_with_noise_are_in_the_split_of_the_original(tmp_path):
    episodes = [drive(index) for index in range(100)]
    copies = [replace(drive(index, 1e-5), episode_id=f"copy-{index:03d}") for index in range(0, 100, 3)]
    folder = divided(tmp_path, episodes + copies)
    found = found_splits(folder)
    assert all(found[f"copy-{index:03d}"] == found[f"{index:03d}"] for index in range(0, 100, 3))
    assert list(leaks(contents_of(folder))) == []
    assert len({split for key, split in found.items() if key.startswith("copy")}) > 1
    manifest = (folder / "manifest.json").read_text()
    assert "34 episodes are nearly the same as an earlier one and share its split; the first is 'copy-000'." in manifest
    loose = divided(tmp_path, episodes + copies, SplitParams(near_duplicates=False), name="loose")
    assert {leak.equal for leak in leaks(contents_of(loose))} == {False}
    assert "pairs of episodes in different splits are nearly the same." in (loose / "manifest.json").read_text()


def test_groups_by_a_column_and_by_time(tmp_path):
    episodes = [drive(index) for index in range(150)]
    folder = divided(tmp_path, episodes, SplitParams(group="site", fractions=Fractions(train=0.6, validation=0.2, test=0.2)))
    sites = {split: {e.metadata["site"] for e in read_episodes(folder, split)} for split in SPLITS}
    assert len(set.union(*sites.values())) == sum(len(own) for own in sites.values()) == 30
    folder = divided(tmp_path, episodes, SplitParams(order=TimeOrder(time="day")), name="timed")
    days = {split: [e.metadata["day"] for e in read_episodes(folder, split)] for split in SPLITS}
    assert max(days["train"]) < min(days["validation"])
    assert max(days["validation"]) < min(days["test"])
    assert "Split by 'day': train from 1767225600, validation from " in (folder / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            SplitParams(group="driver"),
            "split.group: found 'driver', but the metadata of the episodes are day, environment, policy, seed, site",
        ),
        (SplitParams(order=TimeOrder(time="when")), "split.order.time: found 'when', but the metadata"),
        (SplitParams(order=TimeOrder(time="policy")), "Episode '000': 'policy' is the time 'driver', but a number or a time"),
    ],
)
def test_a_column_that_is_not_there_is_named(tmp_path, params, words):
    with pytest.raises(HindcastError, match=words):
        divided(tmp_path, [drive(index) for index in range(20)], params)


def test_the_table_and_sketches_are_those_of_the_data(tmp_path):
    folder = divided(tmp_path, [drive(index) for index in range(100)])
    stored, read = read_contents(folder), contents_of(folder)
    order = sorted(range(100), key=lambda place: read.entries[place].episode_id)
    assert [entry._replace(reason="") for entry in stored.entries] == [read.entries[place] for place in order]
    np.testing.assert_array_equal(stored.sketches, read.sketches[order])
    again = divided(tmp_path, [drive(index) for index in range(100)], name="drives")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {path.name: path.read_bytes() for path in again.iterdir()}


def test_damaged_tables_say_what_to_do(tmp_path):
    folder = divided(tmp_path, [drive(index) for index in range(100)])
    table = (folder / "episodes.csv").read_text()
    for damage in (table[: len(table) // 2], table.replace("content", "contents"), table.replace(",12,", ",twelve,")):
        (folder / "episodes.csv").write_text(damage)
        with pytest.raises(HindcastError, match=r"does not say what its episodes hold .*dvc checkout --force"):
            read_contents(folder)


def test_a_quarantine_of_other_data_is_refused(tmp_path):
    (tmp_path / "quarantine.csv").write_text("episode_id,check,step,reason\n007,finite,3,found nan\n007,replay,,moved\n")
    assert read_quarantine(tmp_path / "quarantine.csv") == {"007": "finite: found nan"}
    with pytest.raises(HindcastError, match=r"names episode 'x', which is not in .*Run the check again"):
        divided(tmp_path, [drive(index) for index in range(100)], quarantine={"x": "finite: nan"})
    (tmp_path / "quarantine.csv").write_text("episode\n007\n")
    with pytest.raises(HindcastError, match="cannot be read as a table with the columns episode_id, check and reason"):
        read_quarantine(tmp_path / "quarantine.csv")


def contents(*placed: tuple[Episode, str]) -> Contents:
    sketcher = Sketcher(SPEC)
    for episode, _ in placed:
        sketcher.add(episode)
    return Contents([episode_entry(episode, split) for episode, split in placed], sketcher.result())


def test_leaks_are_found_and_told():
    again, noisy = replace(drive(0), episode_id="again"), replace(drive(1, 1e-5), episode_id="noisy")
    found = list(leaks(contents((drive(0), "train"), (drive(1), "train"), (drive(2), "test"), (again, "test"), (noisy, "validation"))))
    assert [str(leak) for leak in found] == [
        "'again' (test) is the same as '000' (train)",
        "'noisy' (validation) is nearly the same as '001' (train)",
    ]
    assert list(leaks(contents((drive(0), "train"), (again, "train")))) == []


def test_what_two_data_sets_share():
    """The same drives, imported twice: half of them under other ids, some with other rewards, one in another split."""
    scaled = [replace(drive(index), episode_id=f"trip {index}", reward=drive(index).reward / 7) for index in (4, 5)]
    a = contents(*((drive(index), "train") for index in range(6)))
    b = contents(
        *((replace(drive(index), episode_id=f"trip {index}"), "test" if index == 3 else "train") for index in (2, 3, 9)),
        *((e, "train") for e in scaled),
    )
    assert shared(a, b) == Shared(2, 2, 1, Leak(a.entries[2], b.entries[0], True))
    assert shared(b, a)[:3] == (2, 2, 1)
    assert shared(a, contents((drive(7), "train"))) is None


def test_a_split_that_is_unlike_train_is_told(tmp_path):
    """By time, the last drives are slower; by content, each split has its share of them."""
    episodes = [drive(index) for index in range(400)]
    slow = [
        replace(e, reward=e.reward * np.float32(0), metadata={**e.metadata, "day": "2026-02-01"}) if i >= 300 else e
        for i, e in enumerate(episodes)
    ]
    halves = Fractions(train=0.75, validation=0, test=0.25)
    folder = divided(tmp_path, slow, SplitParams(fractions=halves, order=TimeOrder(time="day")), name="timed")
    drift = json.loads((folder / "drift.json").read_text())
    assert set(drift) == {"test"}
    assert {column["column"] for column in drift["test"]["columns"] if column["drifted"]} == {"reward", "return"}
    notes = read_manifest(folder).notes
    assert any(
        note.startswith("'test' is unlike train in re") and note.endswith("and 1 more columns; drift.json has all.") for note in notes
    )
    folder = divided(tmp_path, slow)
    assert not any("unlike" in note for note in read_manifest(folder).notes)


def imported(source: Path, name: str, **options) -> Builder:
    values = {
        "env_id": "Hill-v0",
        "observation": ["x", "y"],
        "action": {"columns": ["push"], "minimum": -9, "maximum": 9},
        "reward": "points",
    }
    ends = {"kind": "ids", "column": "trip", "sequence": "minute"}
    return Builder(Options.model_validate({**values, "ends": ends, **options}), Context(name, source=source))


def test_the_same_file_imported_under_two_names_is_found(tmp_path):
    """Under another name with another policy's name, with rewards in another unit, and with noise of rounding in the file itself."""
    rng = np.random.default_rng(0)
    rows = [(trip, minute, *rng.normal(size=4)) for trip in range(100) for minute in range(20)]
    names = ("trip", "minute", "x", "y", "push", "points")
    for file, digits in (("trips.csv", 9), ("rounded.csv", 4)):
        lines = [",".join(f"{value:.{digits}g}" if isinstance(value, float) else str(value) for value in row) for row in rows]
        (tmp_path / file).write_text("\n".join([",".join(names), *lines]))
    entries = {
        "trips": imported(tmp_path / "trips.csv", "trips"),
        "again": imported(tmp_path / "trips.csv", "again", policy="somebody"),
        "scaled": imported(tmp_path / "trips.csv", "scaled", reward={"columns": "points", "scale": 0.1}),
        "rounded": imported(tmp_path / "rounded.csv", "rounded"),
    }
    found = {}
    for name, builder in entries.items():
        raw = tmp_path / "raw" / name
        written = write_rlds(raw, name, "1.0.0", builder.spec(), {"raw": builder.episodes(0)})
        write_manifest(raw, Manifest(f"collect@{name}", written.digest, {}))
        divide(raw, tmp_path / "splits" / name, name, "1.0.0", SplitParams(), ())
        found[name] = read_contents(tmp_path / "splits" / name)
    assert shared(found["trips"], found["again"])[:3] == (100, 0, 0)
    equal, near, across, _ = shared(found["trips"], found["scaled"])
    assert (equal, near) == (0, 100)
    assert across > 10
    assert shared(found["trips"], found["rounded"])[:2] == (0, 100)
