"""Episodes read many at once are those that are read one by one, and damage is damage in both."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_datasets.digest import content_key, content_keys, episode_digest, episode_digests
from rl_datasets.errors import HindcastError
from rl_datasets.rlds import RldsReader, write_rlds
from rl_datasets.rlds.framing import HEAD, TAIL, checksums_hold, masked_checksums, record_places
from rl_datasets.rlds.stacking import read_stacks
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, stack_of
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


def stacked(reader: RldsReader) -> list[tuple[Any, ...]]:
    found = {}
    for shard in reader.shards("train"):
        for stack in read_stacks(reader, shard):
            keys = content_keys(stack)
            rest = stack.returns.tolist(), stack.is_terminal.tolist()
            rows = zip(stack.places.tolist(), stack.ids, keys, episode_digests(stack, keys), *rest, strict=True)
            for place, episode_id, key, digest, episode_return, is_terminal in rows:
                found[shard.first + place] = (episode_id, key, digest, stack.length, episode_return, is_terminal)
    return [found[place] for place in sorted(found)]


@pytest.mark.parametrize(("spec", "make"), [(PLAIN, plain), (NESTED, nested), (BESIDE, beside)], ids=["plain", "nested", "beside"])
def test_stacks_hold_what_the_episodes_do(tmp_path: Path, spec: EnvSpec, make: Any) -> None:
    reader = write(tmp_path, spec, [make(index) for index in range(240)])
    assert stacked(reader) == one_by_one(reader)
    sizes = [len(stack.ids) for shard in reader.shards("train") for stack in read_stacks(reader, shard)]
    assert sum(sizes) == 240
    if make is not beside:
        assert sizes.count(1) <= 120  # the others are looked at together
        assert max(sizes) >= 10


def test_statistics_of_stacks_are_those_of_the_episodes(tmp_path: Path) -> None:
    reader = write(tmp_path, PLAIN, [plain(index) for index in range(60)])
    alone, together = RunningStatistics(PLAIN), RunningStatistics(PLAIN)
    for episode in reader.episodes_of(reader.shards("train")):
        alone.add(episode)
    for shard in reader.shards("train"):
        for stack in read_stacks(reader, shard):
            together.add_stack(stack)
    expected, found = (running.result().to_json() for running in (alone, together))
    assert found["constant"] == expected["constant"]
    assert (found["episodes"], found["transitions"]) == (expected["episodes"], expected["transitions"])
    assert found["reward"] == pytest.approx(expected["reward"], rel=1e-12)
    np.testing.assert_allclose(
        found["observation"]["observation"]["covariance"], expected["observation"]["observation"]["covariance"], rtol=1e-9
    )


def test_returns_are_those_of_the_episodes_to_the_last_bit() -> None:
    for steps in (2, 9, 130, 9000, 20_000):
        reward = np.random.default_rng(steps).normal(size=steps).astype(np.float32)
        episode = Episode(
            "a", np.zeros((steps, 1), np.float32), np.zeros(steps, int), reward, np.ones(steps, np.float32), True, {"seed": 1}
        )
        assert stack_of(episode, 0).returns.tolist() == [episode.episode_return]


def test_a_flipped_bit_is_found_or_changes_the_same_episode(tmp_path: Path) -> None:
    reader = write(tmp_path, PLAIN, [plain(index) for index in range(1, 60)], shards=1)
    (file,) = tmp_path.glob("*tfrecord*")
    content, rng = file.read_bytes(), random.Random(0)
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        with pytest.raises(HindcastError, match=r"damaged|holds"):
            stacked(reader)


def test_a_record_with_right_checksums_is_read_as_it_is(tmp_path: Path) -> None:
    """Forged with care: other values, or a text that is none, in the middle of many of one form."""
    reader = write(tmp_path, PLAIN, [plain(4 * index + 1) for index in range(20)], shards=1)
    (file,) = tmp_path.glob("*tfrecord*")
    content = file.read_bytes()
    places = record_places(content)
    for offset in range(HEAD, int(places[1]) - TAIL, 7):
        forged = bytearray(content)
        forged[places[5] + offset] ^= 5
        forged[places[6] - TAIL : places[6]] = masked_checksums([bytes(forged[places[5] + HEAD : places[6] - TAIL])]).tobytes()
        file.write_bytes(forged)
        assert outcome(stacked, reader) == outcome(one_by_one, reader)


def outcome(read: Any, reader: RldsReader) -> Any:
    try:
        return read(reader)
    except HindcastError as error:
        return str(error)


def test_two_checksums_in_each_others_place_are_found(tmp_path: Path) -> None:
    write(tmp_path, PLAIN, [plain(4 * index + 1) for index in range(1, 20)], shards=1)
    (file,) = tmp_path.glob("*tfrecord*")
    content = file.read_bytes()
    places = record_places(content)
    sizes = np.diff(places)
    frames = np.stack([np.frombuffer(content, np.uint8)[start : start + sizes[9]] for start in places[:-1][sizes == sizes[9]]])
    assert checksums_hold(frames)
    for first in range(len(frames)):
        for second in range(first):
            swapped = frames.copy()
            swapped[[first, second], -TAIL:] = frames[[second, first], -TAIL:]
            assert not checksums_hold(swapped)


def test_what_is_cut_short_has_no_places() -> None:
    assert record_places(b"") is not None
    assert record_places(b"\1\0\0") is None
    assert record_places((1 << 60).to_bytes(8, "little") + bytes(8)) is None
