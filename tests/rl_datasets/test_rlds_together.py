"""Episodes read many at once are those that are read one by one, and damage is damage in both."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_datasets.digest import content_key, content_keys, episode_digest, episode_digests
from rl_datasets.errors import HindcastError
from rl_datasets.recorded import EndToEnd, Recorded, end_to_end
from rl_datasets.rlds import RldsReader, write_rlds
from rl_datasets.rlds.features import encode_episode, encode_together
from rl_datasets.rlds.framing import HEAD, TAIL, Checksums, blocks, masked_checksums
from rl_datasets.rlds.together import read_together
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.stats import RunningStatistics

PLAIN = EnvSpec("Plain", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0, 1, 2))
BESIDE = dataclasses.replace(PLAIN, step_metadata={"note": ArraySpec((), "text"), "pose/x": ArraySpec((2,), "float64")})
NESTED = EnvSpec(
    "Nested",
    {"picture": ArraySpec((2, 2, 3), "uint8"), "flag": ArraySpec((), "bool"), "pair": (ArraySpec((3,), "float32"), ArraySpec((), "int32"))},
    ArraySpec((1,), "float32", -1, 1),
)


def plain(index: int) -> Episode:
    """Of the lengths 3 to 6; every ninth ends without a terminal state, and every tenth has an action that takes two bytes."""
    steps = 4 + index % 4
    position = np.arange(2 * steps, dtype=np.float32).reshape(steps, 2) + 100 * index
    action = np.arange(steps) % 2 + (200 if index % 10 == 0 else 0)
    metadata = {
        "seed": index * 37 - 1,
        "policy": 'a "word"' if index % 3 else "ein W\u00f6rtchen",
        "environment": "%s",
        "score": index / 3 or -0.0,
    }
    reward = np.sin(np.arange(steps, dtype=np.float32) + index)
    return Episode(f"{index}", position, action, reward, np.ones(steps, np.float32), index % 9 > 0, metadata)


def even(index: int) -> Episode:
    """Each of whose actions takes one byte, and whose last step's, as the record's, is zero."""
    episode = plain(index)
    return dataclasses.replace(episode, action=np.minimum(episode.action, 1), metadata={**episode.metadata, "seed": 0, "policy": "same"})


def nested(index: int) -> Episode:
    steps, number = 3 + index % 2, np.float32(index)
    observation = {
        "picture": np.full((steps, 2, 2, 3), index, np.uint8),
        "flag": np.arange(steps) % 2 == 0,
        "pair": (np.full((steps, 3), number), np.full(steps, index, np.int32)),
    }
    floats = (np.full((steps, 1), number / 100), np.full(steps, number), np.ones(steps, np.float32))
    return Episode(f"{index:03d}", observation, *floats, True, {"seed": -1, "policy": f"policy {index % 2}", "environment": "e"})


def beside(index: int) -> Episode:
    episode = plain(index)
    steps = len(episode.reward)
    notes = np.array([f"{index} {step} %s" for step in range(steps)], object)
    return dataclasses.replace(episode, step_metadata={"note": notes, "pose/x": np.full((steps, 2), index / 7)})


def write(folder: Path, spec: EnvSpec, episodes: list[Episode], shards: int = 2) -> RldsReader:
    write_rlds(folder, "toy", "1.0.0", spec, {"train": episodes}, shards=shards)
    return RldsReader(folder)


def one_by_one(reader: RldsReader) -> list[tuple[Any, ...]]:
    episodes = reader.episodes_of(reader.shards("train"))
    return [(e.episode_id, content_key(e), episode_digest(e), e.length, e.episode_return, e.is_terminal) for e in episodes]


def together(reader: RldsReader) -> list[tuple[Any, ...]]:
    found = []
    for shard in reader.shards("train"):
        for item in read_together(reader, shard, with_step_metadata=True):
            episodes = end_to_end([item.episode]) if isinstance(item, Recorded) else item
            keys = content_keys(episodes)
            rest = episodes.lengths.tolist(), episodes.returns.tolist(), episodes.is_terminal.tolist()
            found += zip(episodes.episode_id, keys, episode_digests(episodes, keys), *rest, strict=True)
    return found


@pytest.mark.parametrize(("spec", "make"), [(PLAIN, plain), (NESTED, nested), (BESIDE, beside)], ids=["plain", "nested", "beside"])
def test_they_are_the_episodes(tmp_path: Path, spec: EnvSpec, make: Any) -> None:
    reader = write(tmp_path, spec, [make(index) for index in range(240)])
    assert together(reader) == one_by_one(reader)
    sizes = [len(item.episode_id) for item in taken(reader)]
    assert sizes == [120, 120]


def taken(reader: RldsReader) -> list[EndToEnd]:
    items = [item for shard in reader.shards("train") for item in read_together(reader, shard)]
    assert all(isinstance(item, EndToEnd) for item in items)
    return items


@pytest.mark.parametrize("count", [1, 5, 240])
@pytest.mark.parametrize("make", [plain, even, nested, beside])
def test_records_of_many_are_those_of_the_episodes(make: Callable[[int], Episode], count: int) -> None:
    episodes = [make(index) for index in range(count)]
    assert encode_together(end_to_end(episodes)) == [encode_episode(episode, episode.metadata) for episode in episodes]


def test_statistics_of_many_are_those_of_the_episodes(tmp_path: Path) -> None:
    reader = write(tmp_path, PLAIN, [plain(index) for index in range(60)])
    single, joint = RunningStatistics(PLAIN), RunningStatistics(PLAIN)
    for episode in reader.episodes_of(reader.shards("train")):
        single.add(episode)
    for episodes in taken(reader):
        joint.add_all(episodes)
    expected, found = (running.result().to_json() for running in (single, joint))
    assert found["constant"] == expected["constant"]
    assert (found["episodes"], found["transitions"]) == (expected["episodes"], expected["transitions"])
    assert found["reward"] == pytest.approx(expected["reward"], rel=1e-12)
    np.testing.assert_allclose(
        found["observation"]["observation"]["covariance"], expected["observation"]["observation"]["covariance"], rtol=1e-9
    )


def test_returns_are_those_of_the_episodes_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where their digits are more than a number holds."""
    random = np.random.default_rng(0)
    lengths = [2, *[9] * 8, *[130] * 8, *[9000] * 8, 20_000]
    made = []
    for index, steps in enumerate(lengths):
        reward = (random.normal(size=steps) * 10.0 ** random.integers(-9, 9, steps)).astype(np.float32)
        empty = np.zeros((steps, 2), np.float32), np.zeros(steps, int)
        made.append(Episode(f"{index}", *empty, reward, np.ones(steps, np.float32), True, {"seed": 1, "policy": "", "environment": ""}))
    reader = write(tmp_path, PLAIN, made, shards=1)
    assert together(reader) == one_by_one(reader)  # long ones, each for itself
    monkeypatch.setattr("rl_datasets.rlds.together.LONG", 1 << 30)
    (episodes,) = taken(reader)
    assert episodes.returns.tolist() == [episode.episode_return for episode in made]


def test_a_flipped_bit_is_found_or_changes_the_same_episode(tmp_path: Path) -> None:
    reader = write(tmp_path, PLAIN, [plain(index) for index in range(1, 60)], shards=1)
    (file,) = tmp_path.glob("*tfrecord*")
    content, rng = file.read_bytes(), random.Random(0)
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        with pytest.raises(HindcastError, match=r"damaged|holds"):
            together(reader)


def test_a_record_with_right_checksums_is_read_as_it_is(tmp_path: Path) -> None:
    """Forged with care: other values, or a text that is none, in the middle of many of one form."""
    reader = write(tmp_path, PLAIN, [plain(4 * index + 1) for index in range(20)], shards=1)
    (file,) = tmp_path.glob("*tfrecord*")
    content = file.read_bytes()
    ((_, places),) = blocks(file)
    for offset in range(HEAD, int(places[1]) - TAIL, 7):
        forged = bytearray(content)
        forged[places[5] + offset] ^= 5
        forged[places[6] - TAIL : places[6]] = masked_checksums([bytes(forged[places[5] + HEAD : places[6] - TAIL])]).tobytes()
        file.write_bytes(forged)
        assert outcome(together, reader) == outcome(one_by_one, reader)


def outcome(read: Any, reader: RldsReader) -> Any:
    try:
        return read(reader)
    except HindcastError as error:
        return str(error)


def checksums_hold(content: np.ndarray, places: np.ndarray) -> bool:
    """Frames of one size are added together, as a reader does."""
    checksums, sizes = Checksums(), np.diff(places)
    for size in np.unique(sizes).tolist():
        checksums.add(np.array([content[place : place + size] for place in places[:-1][sizes == size].tolist()]))
    return checksums.hold()


def test_two_checksums_in_each_others_place_are_found(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, [plain(index) for index in range(1, 30)], shards=1)
    (file,) = tmp_path.glob("*tfrecord*")
    ((content, places),) = blocks(file)
    assert checksums_hold(content, places)
    for first in range(29):
        for second in range(first):
            swapped, tails = content.copy(), (places[1:] - TAIL)[[first, second], None] + np.arange(TAIL)
            swapped[tails] = swapped[tails[::-1]]
            assert not checksums_hold(swapped, places)


@pytest.mark.parametrize("size", [1, 40, 300, 1 << 20])
def test_a_file_comes_in_parts_of_whole_records(tmp_path: Path, size: int) -> None:
    write(tmp_path, PLAIN, [plain(index) for index in range(30)], shards=1)
    (file,) = tmp_path.glob("*tfrecord*")
    found = list(blocks(file, size))
    assert b"".join(content.tobytes() for content, _ in found) == file.read_bytes()
    assert sum(len(places) - 1 for _, places in found) == 30
    assert all(places[0] == 0 and places[-1] == len(content) and checksums_hold(content, places) for content, places in found)


@pytest.mark.parametrize("content", [b"\1\0\0", b"\1" + bytes(15), (1 << 60).to_bytes(8, "little") + bytes(8)])
def test_what_is_cut_short_is_no_whole_record(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cut").write_bytes(content)
    with pytest.raises(ValueError, match="ends within a record"):
        list(blocks(tmp_path / "cut"))
