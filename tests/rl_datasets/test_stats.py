"""Statistics of a split against NumPy in float64 on all rows at once, and where one-pass sums would fail."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_datasets import stats
from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.stats import RunningMoments, merge, moments, statistics

SPEC = EnvSpec(
    "Toy-v0",
    observation={"camera": ArraySpec((4, 4, 3), "uint8"), "joint": ArraySpec((2, 2), "float32"), "tip": (ArraySpec((), "float64"),)},
    action=ArraySpec((3,), "float32"),
)


def episodes(count: int = 6) -> list[Episode]:
    return [episode(index, np.random.default_rng(index)) for index in range(count)]


def episode(index: int, random: np.random.Generator) -> Episode:
    steps = index + 3
    observation = {
        "camera": random.integers(0, 256, (steps, 4, 4, 3), np.uint8),
        "joint": random.normal(5, 2, (steps, 2, 2)).astype(np.float32),
        "tip": (random.normal(size=steps),),
    }
    observation["joint"][:, 1, 0] = 7.25
    action, reward, discount = (
        random.normal(size=(steps, 3)).astype(np.float32),
        random.normal(size=steps).astype(np.float32),
        np.ones(steps),
    )
    action[-1], reward[-1], discount[-1] = 0, 0, 0
    return Episode(f"toy-{index}", observation, action, reward, discount.astype(np.float32), False)


@pytest.mark.parametrize("block", [1, 20, 1 << 20])
def test_statistics_equal_numpy_on_all_rows(monkeypatch, block):
    monkeypatch.setattr(stats, "BLOCK", block)
    data = episodes()
    found = statistics(data, SPEC).to_json()

    joint = np.concatenate([e.observation["joint"].reshape(-1, 4) for e in data]).astype(np.float64)
    tip = np.concatenate([e.observation["tip"][0] for e in data])
    action = np.concatenate([e.action[:-1] for e in data]).astype(np.float64)
    reward = np.concatenate([e.reward[:-1] for e in data]).astype(np.float64)
    returns = np.array([e.reward[:-1].astype(np.float64).sum() for e in data])

    assert list(found["observation"]) == ["observation/joint", "observation/tip/0"]  # no image
    mean, std = joint.mean(0), joint.std(0)
    mean[2], std[2] = 0, 1  # joint[1, 0] never varies
    assert found["constant"] == {"observation/joint": [2]}
    np.testing.assert_allclose(found["observation"]["observation/joint"]["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(found["observation"]["observation/joint"]["std"], std, rtol=1e-12)
    covariance = np.cov(joint.T, bias=True)
    covariance[2], covariance[:, 2], covariance[2, 2] = 0, 0, 1
    np.testing.assert_allclose(found["observation"]["observation/joint"]["covariance"], covariance, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["observation"]["observation/tip/0"]["mean"], [tip.mean()], rtol=1e-12)
    np.testing.assert_allclose(found["action"]["action"]["std"], action.std(0), rtol=1e-12)
    for name, values in (("reward", reward), ("episode_return", returns)):
        expected = {"mean": values.mean(), "std": values.std(), "minimum": values.min(), "maximum": values.max()}
        assert found[name] == pytest.approx(expected, rel=1e-12)
    assert (found["episodes"], found["transitions"]) == (6, sum(range(2, 8)))
    json.dumps(found, allow_nan=False)


def test_categories_and_images_have_no_mean():
    spec = EnvSpec("Toy-v1", observation=ArraySpec((), "int64", num_values=5), action=ArraySpec((), "int64", num_values=2))
    zero = np.zeros(3, np.int64)
    toy = Episode("a", zero, zero, np.float32([1, 2, 0]), np.float32([1, 1, 0]), False)
    found = statistics([toy], spec).to_json()
    assert (found["observation"], found["action"], found["constant"]) == ({}, {}, {})
    assert found["reward"] == {"mean": 1.5, "std": 0.5, "minimum": 1.0, "maximum": 2.0}
    assert found["episode_return"] == {"mean": 3.0, "std": 0.0, "minimum": 3.0, "maximum": 3.0}


def test_a_wide_array_has_no_covariance():
    width = stats.MAX_COVARIANCE + 1
    spec = EnvSpec("Toy-v2", observation=ArraySpec((width,), "float32"), action=ArraySpec((), "int64", num_values=2))
    toy = Episode("a", np.ones((2, width), np.float32), np.zeros(2, np.int64), np.float32([1, 0]), np.float32([1, 0]), False)
    assert set(statistics([toy], spec).to_json()["observation"]["observation"]) == {"mean", "std"}


def test_no_episodes_have_no_statistics():
    assert statistics([], SPEC) is None


def test_a_small_deviation_beside_a_large_mean_keeps_its_digits():
    values = 1e9 + np.arange(1000.0)[:, None]  # sums of squares in float64 would lose the deviation
    running = RunningMoments()
    for block in np.array_split(values, 37):
        running.add(block)
    assert running.result().std[0] == pytest.approx(math.sqrt((1000**2 - 1) / 12), rel=1e-12)


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=40), st.data())
def test_merging_parts_gives_the_whole(values, data):
    rows = np.array(values, np.float64)[:, None]
    cut = data.draw(st.integers(1, len(rows) - 1))
    whole, parts = moments(rows), merge(moments(rows[:cut]), moments(rows[cut:]))
    assert (parts.rows, parts.minimum, parts.maximum) == (whole.rows, whole.minimum, whole.maximum)
    np.testing.assert_allclose(parts.mean, whole.mean, atol=1e-9)
    np.testing.assert_allclose(parts.squares, whole.squares, atol=1e-6, rtol=1e-9)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_statistics_that_are_not_finite_are_refused(value):
    data = episodes()
    data[2].observation["joint"][1, 0, 1] = value
    with pytest.raises(HindcastError, match="'observation/joint' are not finite"):
        statistics(data, SPEC).to_json()
