"""What a card draws stands for what the data hold: samples, envelopes, histograms, planes and pictures."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rl_datasets.checks import CheckParams, Expected, run_checks
from rl_datasets.checks.card.coverage import _plane, coverage
from rl_datasets.checks.card.episodes import envelope, frames_of, thinned
from rl_datasets.checks.card.figures import binned
from rl_datasets.checks.card.samples import choose
from rl_datasets.checks.card.steps import Steps, steps_of
from rl_datasets.checks.gate import sample_episodes
from rl_datasets.page.pictures import diverging, heat, png
from rl_datasets.rlds import RldsReader
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from tests.rl_datasets.checks.card_data import VECTOR, make_episode, write_data


def table(*returns: float, lengths: tuple[int, ...] = ()) -> pd.DataFrame:
    ids = [f"e{i}" for i in range(len(returns))]
    return pd.DataFrame({"episode_id": ids, "episode_return": returns, "length": lengths or (20,) * len(returns)})


def test_first_high_median_and_low_are_chosen_by_hand():
    assert choose(table(3.0, 9.0, 1.0, 5.0, 4.0)) == {0: ("first",), 1: ("high return",), 2: ("low return",), 4: ("median return",)}
    assert choose(table(2.0, 2.0, 2.0)) == {0: ("first", "high return", "median return", "low return")}
    assert choose(table(np.nan, 1.0, np.inf, 0.0)) == {0: ("first",), 1: ("high return",), 3: ("median return", "low return")}
    assert choose(table(np.nan)) == {0: ("first",)}
    assert choose(table()) == {}


def test_of_many_returns_neither_the_greatest_nor_the_least_is_shown():
    assert choose(table(*range(100))) == {0: ("first",), 5: ("low return",), 49: ("median return",), 94: ("high return",)}


def test_an_episode_that_is_too_short_to_show_anything_is_shown_only_where_there_are_no_longer_ones():
    returns = (3.0, 99.0, 5.0, -9.0, 7.0, 4.0)
    long = {2: ("first",), 3: ("low return",), 4: ("high return",), 5: ("median return",)}
    assert choose(table(*returns, lengths=(1, 1, 12, 30, 30, 10))) == long
    assert choose(table(*returns, lengths=(1, 1, 12, 9, 30, 10))) == long
    assert 1 in choose(table(*returns, lengths=(1, 1, 12, 1, 1, 1)))


def rows(episodes: list[Episode]) -> pd.DataFrame:
    values = [(e.episode_id, e.length, e.episode_return) for e in episodes]
    return pd.DataFrame(values, columns=["episode_id", "length", "episode_return"])


def test_samples_are_read_from_their_files_and_left_out_where_these_are_damaged(tmp_path):
    episodes = [make_episode(VECTOR, index) for index in range(9)]
    path = write_data(tmp_path, "vector", episodes)
    samples = sample_episodes(RldsReader(path), ["raw"], rows(episodes))
    by_return = sorted(episodes, key=lambda e: e.episode_return)
    assert [sample.episode.episode_id for sample in samples] == ["run-000", *(by_return[i].episode_id for i in (-1, 4, 0))][: len(samples)]
    np.testing.assert_array_equal(samples[1].episode.observation, by_return[-1].observation)
    last = sorted(path.glob("*tfrecord*"))[-1]
    last.write_bytes(last.read_bytes()[:100])
    left = sample_episodes(RldsReader(path), ["raw"], rows(episodes))
    assert "run-000" in {sample.episode.episode_id for sample in left}
    assert len(left) < len(samples)


SMALL = EnvSpec("Count-v0", ArraySpec((1,), "float32"), ArraySpec((), "int64", 0, 1, 2))


def counted(number: int, steps: int, start: int) -> Episode:
    place = np.arange(start, start + steps + 1, dtype=np.float32)
    return Episode(f"{number}", place[:, None], np.zeros(steps + 1, np.int64), place, np.ones(steps + 1, np.float32), False, {})


def sampled(episodes: list[Episode]) -> Steps:
    expected = Expected.of(SMALL)
    return steps_of(run_checks(episodes, expected, CheckParams()), expected)


def test_all_steps_of_little_data_are_drawn_but_the_last_of_each_episode():
    steps = sampled([counted(0, 3, 0), counted(1, 2, 100)])
    assert steps.is_whole
    assert steps.arrays["reward"].ravel().tolist() == [0, 1, 2, 100, 101]
    assert steps.episode.tolist() == [0, 0, 0, 1, 1]


def test_of_long_episodes_some_steps_are_drawn_each_with_its_own():
    steps = sampled([counted(number, 999, 1000 * number) for number in range(20)])
    kept = steps.arrays["reward"].ravel()
    assert not steps.is_whole
    assert (steps.episode == kept // 1000).all()
    assert set(steps.episode) == set(range(20))


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=2000), st.integers(2, 50))
def test_an_envelope_reaches_as_far_as_the_values_do(values, points):
    x, y = envelope(np.array(values), points)
    assert len(x) == len(y) <= max(2 * points, len(values) if len(values) <= 2 * points else 0)
    assert (y.min(), y.max()) == (min(values), max(values))
    assert (np.diff(x) >= 0).all()


def test_thinned_rows_are_means():
    matrix = np.arange(12.0).reshape(6, 2)
    assert thinned(matrix, 3).tolist() == [[1, 2], [5, 6], [9, 10]]
    assert thinned(matrix, 6).tolist() == matrix.tolist()


def test_a_number_far_out_does_not_hide_the_others():
    values = np.append(np.linspace(0, 1, 9999), 1e30)
    histogram = binned(values, 0.0, 1e30)
    assert histogram is not None
    assert histogram.edges[-1] < 2
    assert histogram.counts.sum() == 9999
    assert (histogram.counts > 0).sum() > 20


def test_a_histogram_reaches_to_the_bounds_of_the_data_where_nothing_is_far_out():
    histogram = binned(np.linspace(-1, 1, 500), -1.0, 1.0)
    assert histogram is not None
    assert (histogram.edges[0], histogram.edges[-1], histogram.counts.sum()) == (-1, 1, 500)
    assert binned(np.array([np.nan]), None, None) is None
    constant = binned(np.full(9, 3.0), 3.0, 3.0)
    assert constant is not None
    assert constant.counts.sum() == 9


def test_the_plane_of_two_columns_is_these_and_of_more_their_principal_components():
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 1, 5000), rng.uniform(5, 9, 5000)
    plane = _plane({"o[0]": a, "o[1]": b, "o[2]": np.full(5000, 7.0)})
    assert plane is not None
    assert (plane.labels, plane.share) == (("o[0]", "o[1]"), 1)
    np.testing.assert_allclose(plane.x, a, atol=0.01)
    line = _plane({"x": a, "y": 2 * a + 1, "z": b})
    assert line is not None
    assert line.share == pytest.approx(1)
    assert abs(np.corrcoef(line.x, a)[0, 1]) == pytest.approx(1, abs=1e-3)
    assert _plane({"x": a}) is None
    assert _plane({"x": a[:5], "y": b[:5]}) is None


def test_coverage_tells_policies_apart():
    spec = EnvSpec("Plane-v0", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0, 1, 2))
    points = np.concatenate([np.random.default_rng(0).uniform(0, 1, (400, 2)), np.full((400, 2), 0.5)])
    steps = Steps({"observation": points.astype(np.float32)}, np.repeat([0, 1], 400), True)
    _, figures = coverage(spec, steps, np.array(["free", "stuck"]))
    assert "stuck: 0% of the cells" in figures
    assert "1 of 2,240 cells hold one of 400 steps" in figures


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_png_holds_the_pixels(channels):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, channels)).astype(np.uint8)
    read = np.asarray(Image.open(io.BytesIO(png(pixels))))
    np.testing.assert_array_equal(read.reshape(pixels.shape), pixels)


def test_colours_follow_the_values():
    assert heat(np.array([[0.0, 1.0, np.nan]]), 0.0, 1.0)[0].tolist() == [[0, 114, 178, 0], [0, 114, 178, 255], [128, 128, 128, 160]]
    below, at, above = diverging(np.array([[-1.0, 0.0, 1.0]]))[0].tolist()
    assert below[0] > below[2]
    assert above[0] < above[2]
    assert (below[3], at[3], above[3]) == (255, 0, 255)


def test_frames_are_bytes_of_two_or_three_axes():
    frames = frames_of(np.zeros((3, 200, 100, 4), np.uint8))
    assert frames is not None
    assert frames.shape == (3, 67, 34, 1)  # the last of a stack, every third pixel
    grey = frames_of(np.zeros((3, 20, 10), np.uint8))
    assert grey is not None
    assert grey.shape == (3, 20, 10, 1)
    assert frames_of(np.zeros((3, 20, 10, 3), np.float32)) is None
    assert frames_of(np.zeros((3, 2), np.uint8)) is None
