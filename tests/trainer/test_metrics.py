"""Numbers made by hand, an independent plain-Python bootstrap, and the share of intervals that cover the truth."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ReferenceReturns
from trainer.metrics import interquartile_mean, iqm_interval, normalized_score, score_note, summarize_returns


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_interquartile_mean_cuts_a_quarter_from_either_end() -> None:
    assert interquartile_mean(np.array([[900.0, 2.0, 3.0, -800.0]])) == 2.5
    assert interquartile_mean(np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 1000.0]])) == (3 + 4 + 5 + 6) / 4
    assert interquartile_mean(np.array([[1.0, 2.0, 6.0]])) == 3.0  # a quarter of three rounds down to none


def test_summary_by_hand() -> None:
    returns = np.array([[1.0, 3.0], [5.0, 7.0], [2.0, 6.0]])
    summary = summarize_returns(returns, rng())
    assert summary.mean == 4.0
    assert summary.std == pytest.approx((28 / 6) ** 0.5)
    assert summary.median == 4.0
    assert summary.iqm == (2 + 3 + 5 + 6) / 4
    assert summary.seed_means == (2.0, 6.0, 4.0)
    assert summary.seed_std == 2.0
    assert summary.worst_seed_mean == 2.0


def test_one_seed_has_no_spread_over_seeds_but_an_interval_over_episodes() -> None:
    summary = summarize_returns(np.array([[0.0, 10.0, 20.0, 30.0]]), rng())
    assert summary.seed_std is None
    assert 0 <= summary.iqm_low < summary.iqm == 15 < summary.iqm_high <= 30


def test_interval_of_constant_returns_is_a_point() -> None:
    assert iqm_interval(np.full((5, 100), 500.0), rng()) == (500.0, 500.0)


def test_interval_resamples_seeds_and_shares_episodes() -> None:
    """All equally likely resamples of a 2 x 2 matrix, listed: the interval's ends must be quantiles of exactly these."""
    returns = np.array([[0.0, 1.0], [10.0, 100.0]])
    pairs = list(itertools.product(range(2), repeat=2))
    means = [np.mean([returns[s, e] for s in seeds for e in episodes]) for seeds in pairs for episodes in pairs]
    low, high = iqm_interval(returns, rng(), resamples=20_000, confidence=0.6)
    assert (low, high) == tuple(np.quantile(means, [0.2, 0.8], method="inverted_cdf"))


def test_interval_without_difference_between_seeds_comes_from_episodes_alone() -> None:
    """Equal rows: resampled seeds change nothing, so five rows must give the spread that one gives."""
    row = np.arange(40.0)[None]
    one, five = iqm_interval(row, rng(1)), iqm_interval(np.repeat(row, 5, axis=0), rng(2))
    assert one == pytest.approx(five, abs=0.6)
    assert five[1] - five[0] > 9


def test_interval_does_not_depend_on_how_much_is_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    returns = rng().normal(size=(3, 7))
    whole = iqm_interval(returns, rng())
    monkeypatch.setattr("trainer.metrics._VALUES_AT_ONCE", 1000)
    assert iqm_interval(returns, rng()) == whole


@pytest.mark.parametrize(("seed_effect", "episode_effect", "noise"), [(0.0, 1.0, 0.2), (0.3, 1.0, 0.5), (0.5, 0.0, 1.0)])
def test_coverage(seed_effect: float, episode_effect: float, noise: float) -> None:
    """The interval covers the true value about as often as it says, also where returns depend on the starting state."""
    generator = rng(7)
    covered = 0
    for _ in range(100):
        seeds, episodes = generator.normal(size=(10, 1)), generator.normal(size=(1, 25))
        returns = seed_effect * seeds + episode_effect * episodes + noise * generator.normal(size=(10, 25))
        low, high = iqm_interval(returns, generator, resamples=300)
        covered += low <= 0 <= high
    assert 88 <= covered <= 100


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), min_size=1, max_size=4),
    st.floats(-1e3, 1e3),
    st.integers(0, 2**31),
)
def test_interval_is_ordered_bounded_reproducible_and_moves_with_the_returns(rows: list[list[float]], shift: float, seed: int) -> None:
    returns = np.array(rows)
    low, high = iqm_interval(returns, rng(seed), resamples=50)
    assert returns.min() - 1e-6 <= low <= high <= returns.max() + 1e-6
    assert iqm_interval(returns, rng(seed), resamples=50) == (low, high)
    assert iqm_interval(returns + shift, rng(seed), resamples=50) == pytest.approx((low + shift, high + shift), abs=1e-6)


def test_normalized_score() -> None:
    references = ReferenceReturns(random=20.0, expert=500.0, source="a table")
    assert normalized_score(20.0, references) == 0
    assert normalized_score(500.0, references) == 100
    assert normalized_score(260.0, references) == 50
    assert "20 (random)" in score_note("CartPole-v1", references)
    assert "a table" in score_note("CartPole-v1", references)


def test_without_references_there_is_no_score_and_it_says_so() -> None:
    assert normalized_score(260.0, None) is None
    assert score_note("CartPole-v1", None) == "No normalised score: no reference returns are known for CartPole-v1."


def test_equal_references_are_an_error() -> None:
    with pytest.raises(HindcastError, match=r"both 5 \(a table\)"):
        normalized_score(1.0, ReferenceReturns(5.0, 5.0, "a table"))


@pytest.mark.parametrize("returns", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3)])
def test_returns_of_a_wrong_shape_are_an_error(returns: np.ndarray) -> None:
    with pytest.raises(HindcastError, match=r"\[seeds, episodes\] with at least one of each"):
        summarize_returns(returns, rng())


def test_a_return_that_is_not_finite_is_named() -> None:
    with pytest.raises(HindcastError, match="seed number 1, episode 2 is nan"):
        summarize_returns(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, np.nan]]), rng())
