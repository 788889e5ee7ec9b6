"""The preprocessor against hand-computed numbers, on observations that nest, count and show pictures."""

import json

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from trainer.learner import LearnerParams
from trainer.preprocessing import Preprocessor, make_preprocessor

FLAT = EnvSpec("Flat-v0", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0, 1, 2))
NESTED = EnvSpec(
    "Nested-v0",
    {"camera": ArraySpec((4, 4, 3), "uint8", 0, 255), "place": (ArraySpec((), "int64", 0, 6, 7), ArraySpec((1, 2), "float32"))},
    ArraySpec((1,), "float32", -1, 1),
)
STATISTICS = {
    "observation": {
        "observation": {"mean": [1.0, 0.0], "std": [4.0, 1.0]},
        "observation/place/1": {"mean": [10.0, -2.0], "std": [0.5, 8.0]},
    },
    "episode_return": {"minimum": -150.0, "maximum": 50.0},
}
float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def transition() -> Transition:
    observation, following = np.float32([[3, 5], [1, -7]]), np.float32([[5, 5], [-3, 0]])
    return Transition(observation, np.array([0, 1]), np.float32([2, -1]), np.float32([1, 0]), following)


def test_normalises_observations_and_leaves_the_rest_alone() -> None:
    preprocessor = make_preprocessor(LearnerParams(), FLAT, STATISTICS)
    batch = jax.jit(lambda p, b: p.transition(b))(preprocessor, transition())
    np.testing.assert_array_equal(batch.observation, [[0.5, 5], [0, -7]])
    np.testing.assert_array_equal(batch.next_observation, [[1, 5], [-1, 0]])
    np.testing.assert_array_equal(batch.action, [0, 1])
    np.testing.assert_array_equal(batch.reward, [2, -1])
    np.testing.assert_array_equal(batch.discount, [1, 0])


def test_touches_only_float_leaves_of_a_nest() -> None:
    preprocessor = make_preprocessor(LearnerParams(), NESTED, STATISTICS)
    camera, place = np.full((3, 4, 4, 3), 200, np.uint8), np.array([0, 6, 3])
    moved = preprocessor.observation({"camera": camera, "place": (place, np.float32([[[10, -2]], [[11, 6]], [[9, -10]]]))})
    assert moved["camera"].dtype == np.uint8
    np.testing.assert_array_equal(moved["camera"], camera)
    np.testing.assert_array_equal(moved["place"][0], place)
    np.testing.assert_array_equal(moved["place"][1], [[[0, 0]], [[2, 1]], [[-2, -1]]])


def whitened(rows: np.ndarray) -> tuple[Preprocessor, np.ndarray]:
    """The preprocessor from the statistics of rows [N, 2], and what it makes of them."""
    entry = {"mean": rows.mean(0).tolist(), "std": rows.std(0).tolist(), "covariance": np.cov(rows.T, bias=True).tolist()}
    preprocessor = make_preprocessor(LearnerParams(normalize_observations="whiten"), FLAT, {"observation": {"observation": entry}})
    return preprocessor, np.asarray(preprocessor.observation(rows.astype(np.float32)))


def test_whitening_removes_correlation_and_keeps_the_columns_nearest() -> None:
    common, own = np.random.default_rng(0).normal(size=(2, 500, 2))
    rows = np.stack([3 * common[:, 0] + own[:, 0] + 7, -2 * common[:, 0] + own[:, 1]], axis=1)
    preprocessor, found = whitened(rows)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(2), atol=1e-4)
    correlation = np.corrcoef(rows.T)
    matrix = np.asarray(preprocessor.whitening[0])
    np.testing.assert_allclose(matrix @ matrix @ correlation, np.eye(2), atol=1e-5)  # the inverse root, and the symmetric one
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-7)
    np.testing.assert_array_equal(np.asarray(preprocessor.observation(np.float32(rows[None])))[0], found)
    restored = Preprocessor.from_json(json.loads(json.dumps(preprocessor.to_json(FLAT))), FLAT)
    np.testing.assert_array_equal(restored.whitening[0], matrix)


def test_whitening_magnifies_no_direction_without_bound() -> None:
    column = np.linspace(-1, 1, 50)
    preprocessor, found = whitened(np.stack([column, 2 * column + 1], axis=1))
    assert np.abs(np.linalg.eigvalsh(np.asarray(preprocessor.whitening[0]))).max() <= 1001**0.5
    assert np.isfinite(found).all()


def test_whitening_says_what_it_lacks() -> None:
    with pytest.raises(HindcastError, match=r"needs the covariance of 'observation'.*Use standardize"):
        make_preprocessor(LearnerParams(normalize_observations="whiten"), FLAT, STATISTICS)


def test_takes_any_number_of_leading_axes() -> None:
    preprocessor = make_preprocessor(LearnerParams(), FLAT, STATISTICS)
    observation = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    expected = (observation - [1, 0]) / [4, 1]
    np.testing.assert_array_equal(preprocessor.observation(observation), expected)
    np.testing.assert_array_equal(jax.vmap(jax.vmap(preprocessor.observation))(observation), expected)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"reward_scale": 0.5, "reward_shift": -1.0}, [0, -1.5]),
        ({"reward_scaling": "return_range"}, [10, -5]),  # 1000 / (50 - -150)
        ({"reward_scaling": "return_range", "reward_scale": 2.0, "reward_shift": 1.0}, [21, -9]),
    ],
)
def test_transforms_rewards(params: dict[str, float], expected: list[float]) -> None:
    preprocessor = make_preprocessor(LearnerParams(**params), FLAT, STATISTICS)
    np.testing.assert_array_equal(preprocessor.transition(transition()).reward, expected)


def test_asked_not_to_normalise_needs_no_statistics() -> None:
    preprocessor = make_preprocessor(LearnerParams(normalize_observations="none"), FLAT, {})
    np.testing.assert_array_equal(preprocessor.observation(transition().observation), transition().observation)


@given(mean=st.lists(float32, min_size=2, max_size=2), std=st.floats(2.0**-100, 2.0**100, width=32), scale=float32, shift=float32)
def test_json_restores_every_bit(mean: list[float], std: float, scale: float, shift: float) -> None:
    pair = (np.float32(mean).reshape(1, 2), np.full((1, 2), std, np.float32))
    before = Preprocessor((None, None, pair[0]), (None, None, pair[1]), (None, None, None), np.float32(scale), np.float32(shift))
    after = Preprocessor.from_json(json.loads(json.dumps(before.to_json(NESTED))), NESTED)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    for left, right in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, r"no statistics of 'observation' \(it has: none\)"),
        ({"observation": {"mean": [0.0], "std": [1.0]}}, "1 means and 1 deviations, but the spec has 2 elements"),
        ({"observation": {"mean": [0.0, 1.0], "std": [1.0, 0.0]}}, "not usable.*std \\[1.0, 0.0\\].*normalize_observations: none"),
        ({"observation": {"mean": [0.0, float("nan")], "std": [1.0, 1.0]}}, "not usable: means must be finite"),
    ],
)
def test_refuses_statistics_that_it_cannot_use(entry: dict[str, dict[str, list[float]]], message: str) -> None:
    with pytest.raises(HindcastError, match=message):
        make_preprocessor(LearnerParams(), FLAT, {"observation": entry})


def test_refuses_a_return_range_of_nothing() -> None:
    statistics = {**STATISTICS, "episode_return": {"minimum": 7.0, "maximum": 7.0}}
    with pytest.raises(HindcastError, match=r"between 7\.0 and 7\.0\. Use reward_scaling: none"):
        make_preprocessor(LearnerParams(reward_scaling="return_range"), FLAT, statistics)
