"""One to one at every size, and as good as a shuffle where batches would show it."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from rl_datasets.permutation import permuted


@given(st.integers(1, 3000), st.tuples(st.integers(0, 2**31), st.integers(0, 10**6)))
def test_one_to_one(size, key):
    assert sorted(permuted(np.arange(size), size, key).tolist()) == list(range(size))


def test_each_place_is_computed_alone():
    whole = permuted(np.arange(1000), 1000, [3, 1])
    assert permuted(np.array([999, 7, 7]), 1000, [3, 1]).tolist() == whole[[999, 7, 7]].tolist()


def test_the_order_is_fixed_for_all_time():
    assert permuted(np.arange(10), 10, [0, 0, 0]).tolist() == [1, 9, 8, 0, 4, 3, 2, 6, 7, 5]


def test_every_element_goes_everywhere_equally_often():
    """Chi-squared over 64 places and 6400 keys: 63 degrees of freedom, so 50 to 110 but for one time in a thousand."""
    landed = np.array([permuted(np.arange(64), 64, [seed, 0]) for seed in range(6400)])
    for element in (0, 1, 31, 63):
        counts = np.bincount(landed[:, element], minlength=64)
        assert 30 < ((counts - 100) ** 2 / 100).sum() < 110


def test_neighbours_part():
    """In a random permutation of n, elements that follow one another still do so about once."""
    kept = [np.sum(np.diff(permuted(np.arange(5000), 5000, [seed])) == 1) for seed in range(200)]
    assert 0.7 < np.mean(kept) < 1.3


def test_keys_make_different_orders():
    first, second = (permuted(np.arange(5000), 5000, [0, epoch, 0]) for epoch in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
    assert np.sum(first == second) < 10
