"""Near copies are near, and what is merely of the same kind is not; the estimate is the share of common runs."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.similarity import EMPTY, KEPT, Sketcher, _similarity, can_be_near, near_pairs, sketch

SPEC = EnvSpec("Walk-v0", ArraySpec((3,), "float32"), ArraySpec((1,), "float32"))


def walk(seed: int, steps: int = 60) -> Episode:
    rng = np.random.default_rng(seed)
    observation = rng.normal(size=(steps + 1, 3)).cumsum(0).astype(np.float32)
    action, reward = rng.normal(size=(steps + 1, 1)).astype(np.float32), rng.normal(size=steps + 1).astype(np.float32)
    action[-1], reward[-1] = 0, 0
    return Episode(f"walk-{seed}", observation, action, reward, np.ones(steps + 1, np.float32), False, {})


def cut(episode: Episode, start: int, stop: int) -> Episode:
    action = episode.action[start:stop].copy()
    action[-1] = 0
    return replace(episode, observation=episode.observation[start:stop], action=action, reward=episode.reward[start:stop])


def sketches_of(episodes, spec=SPEC):
    sketcher = Sketcher(spec)
    for episode in episodes:
        sketcher.add(episode)
    return sketcher.result()


def pairs_of(*episodes, spec=SPEC):
    return [tuple(pair) for pair in near_pairs(sketches_of(episodes, spec)).tolist()]


CHANGES = {
    "noise": lambda e: replace(e, observation=e.observation + np.float32(1e-4) * np.random.default_rng(9).normal(size=e.observation.shape)),
    "half precision": lambda e: replace(e, observation=e.observation.astype(np.float16), action=e.action.astype(np.float16)),
    "other rewards": lambda e: replace(e, reward=-3 * e.reward),
    "double precision": lambda e: replace(e, observation=e.observation.astype(np.float64)),
    "first steps cut": lambda e: cut(e, 9, 61),
    "last steps cut": lambda e: cut(e, 0, 50),
    "edited in the middle": lambda e: replace(e, observation=np.where(np.arange(61)[:, None] == 30, 7, e.observation)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_near_its_original_and_no_other(change):
    others = [walk(seed) for seed in range(1, 30)]
    assert pairs_of(*others[:14], walk(0), *others[14:], CHANGES[change](walk(0))) == [(14, 30)]


def test_episodes_of_one_kind_are_not_near():
    assert pairs_of(*(walk(seed) for seed in range(300))) == []


def test_half_an_episode_of_another_is_not_near():
    """30 of 60 steps are shared: some 27 of 87 runs."""
    other = replace(
        walk(0), observation=np.where(np.arange(61)[:, None] < 30, walk(0).observation, walk(1).observation), action=walk(0).action
    )
    assert pairs_of(walk(0), other) == []


def test_each_of_many_copies_is_paired_with_the_first():
    copies = [replace(walk(0), observation=walk(0).observation * np.float32(1 + index * 1e-6)) for index in range(40)]
    assert {(0, later) for later in range(1, 40)} <= set(pairs_of(*copies))


def test_coming_to_rest_alike_is_not_near():
    """Two thirds of each episode decay to the same rest, by the same law; only the way there tells them apart."""
    decay = np.float32(0.9) ** np.arange(80, dtype=np.float32)[:, None] * np.ones(3, np.float32)

    def settling(seed):
        start = walk(seed, 40)
        observation = np.concatenate([start.observation, decay + np.float32(1)])
        action = np.concatenate([start.action, decay[:, :1]])
        return replace(start, observation=observation, action=action, reward=np.zeros(121, np.float32))

    noisy = replace(settling(0), observation=settling(0).observation * np.float32(1.00001))
    assert pairs_of(*(settling(seed) for seed in range(20)), noisy) == [(0, 20)]


def test_short_monotonous_and_categorical_episodes_are_near_none():
    still = replace(walk(0), observation=np.zeros((61, 3), np.float32), action=np.zeros((61, 1), np.float32))
    assert pairs_of(still, still) == []
    assert pairs_of(walk(0, 7), walk(0, 7)) == []
    assert pairs_of(walk(0, 8), walk(0, 8)) == [(0, 1)]
    rooms = EnvSpec("Rooms-v0", ArraySpec((), "int64", 0, 8, num_values=9), ArraySpec((), "int64", 0, 3, num_values=4))
    assert not can_be_near(rooms)
    episode = replace(walk(0), observation=np.arange(61), action=np.arange(61) % 4)
    assert (sketches_of([episode, episode], rooms) == EMPTY).all()


def test_an_image_with_noise_is_near():
    spec = EnvSpec("Camera-v0", {"camera": ArraySpec((16, 16, 3), "uint8", 0, 255)}, ArraySpec((), "int64", 0, 3, num_values=4))
    rng = np.random.default_rng(0)

    def filmed(seed):
        brightness = np.random.default_rng(seed).integers(20, 200, (61, 16, 1, 1))
        frames = (brightness + np.random.default_rng(seed).integers(0, 50, (61, 16, 16, 3))).astype(np.uint8)
        return replace(walk(seed), observation={"camera": frames}, action=np.arange(61) % 4)

    noisy = filmed(0)
    noisy = replace(noisy, observation={"camera": noisy.observation["camera"] + rng.integers(-1, 2, (61, 16, 16, 3)).astype(np.uint8)})
    assert pairs_of(filmed(0), filmed(1), noisy, spec=spec) == [(0, 2)]


def test_a_block_of_episodes_has_the_sketches_that_each_has_alone():
    episodes = [walk(seed, 5 + 3 * seed) for seed in range(12)]
    alone = np.concatenate([sketch([e.observation], e.action, np.array([0, len(e.reward)])) for e in episodes])
    np.testing.assert_array_equal(sketches_of(episodes), alone)
    assert alone.shape == (12, KEPT)


def mixed(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def coarse(value: float) -> int:
    """Sign, exponent and three binary digits of a float32."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 2**19) >> 20


def test_sketches_are_those_of_a_slow_version_in_whole_numbers():
    """Sketches lie in artifacts that are compared with later ones, so they must never change."""
    count = np.arange(20, dtype=np.float32)
    found = sketch([np.stack([count, -count / 3], 1)], count.astype(np.int64) % 5, np.array([0, 20]))
    steps = []
    for row in range(20):
        values = [coarse(row), coarse(-(np.float32(row) / 3) + 0.0), row % 5]
        steps.append(mixed(sum(value * (mixed(place) | 1) for place, value in enumerate(values, 1)) % 2**64))
    runs = set()
    for row in range(16):  # the last of 20 steps has no action
        run = steps[row]
        for later in range(1, 4):
            run = mixed(run ^ steps[row + later])
        runs.add(run)  # each moves as much as the others
    assert [value for value in found[0].tolist() if value != EMPTY] == sorted(runs)[:KEPT]


@given(st.sets(st.integers(0, 60), min_size=1, max_size=KEPT), st.sets(st.integers(0, 60), min_size=1, max_size=KEPT))
def test_similarity_is_the_share_of_the_smallest_hashes_together_that_both_have(a, b):
    rows = np.full((2, KEPT), EMPTY)
    for row, values in zip(rows, (a, b), strict=True):
        row[: len(values)] = sorted(values)
    smallest = sorted(a | b)[:KEPT]
    expected = sum(value in a and value in b for value in smallest) / len(smallest)
    assert _similarity(rows[:1], rows[1:])[0] == pytest.approx(expected)
