"""A split depends on an episode's content alone, takes its share, and is never empty in silence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_datasets.errors import HindcastError
from rl_datasets.splits import Fractions, SplitParams, assign_split, episodes_needed, require_episodes

DEFAULT = Fractions()
SHARES = st.tuples(st.integers(1, 100), st.integers(0, 100), st.integers(0, 100)).map(
    lambda parts: Fractions(train=parts[0] / sum(parts), validation=parts[1] / sum(parts), test=parts[2] / sum(parts))
)


def test_assignment_is_the_one_that_was_released():
    """Data sets that are out there keep their splits: these follow from SHA-256 of "seed/group"."""
    assert [assign_split(f"episode {index}", DEFAULT, seed=0) for index in range(12)] == [
        *("test", "train", "train", "train", "train", "train", "train", "test", "train", "test", "train", "validation")
    ]


@settings(max_examples=40)
@given(SHARES, st.integers(0, 2**31 - 1), st.sets(st.text(max_size=20), min_size=1, max_size=50))
def test_adding_episodes_moves_none(fractions, seed, groups):
    before = {group: assign_split(group, fractions, seed) for group in groups}
    after = {group: assign_split(group, fractions, seed) for group in [f"new {g}" for g in groups] + sorted(groups, reverse=True)}
    assert before.items() <= after.items()
    assert set(before.values()) <= set(fractions.positive())


@settings(max_examples=25)
@given(SHARES, st.integers(0, 100))
def test_shares_are_approached(fractions, seed):
    found = [assign_split(str(index), fractions, seed) for index in range(5000)]
    for name, fraction in fractions.positive().items():
        deviation = 5 * np.sqrt(fraction * (1 - fraction) / 5000)  # five standard errors
        assert abs(found.count(name) / 5000 - fraction) <= deviation + 1e-12


def test_another_seed_gives_another_division():
    divisions = [tuple(assign_split(str(index), DEFAULT, seed) for index in range(100)) for seed in range(5)]
    assert len(set(divisions)) == 5


def test_a_larger_test_share_takes_episodes_and_gives_none_away():
    """The splits divide the range of the hash in a fixed order, so moving one border moves no episode across another."""
    small, large = Fractions(train=0.8, validation=0.1, test=0.1), Fractions(train=0.7, validation=0.2, test=0.1)
    for index in range(1000):
        before, after = assign_split(str(index), small, 0), assign_split(str(index), large, 0)
        assert before == after or (before, after) == ("train", "validation")


@pytest.mark.parametrize(("shares", "needed"), [((1, 0, 0), 1), ((0.5, 0.5, 0), 11), ((0.8, 0.1, 0.1), 76), ((0.98, 0.01, 0.01), 797)])
def test_number_of_episodes_needed(shares, needed):
    """Smallest n with (1 - smallest share)**n <= 0.001 / splits; by hand: ln(0.001 / 3) / ln(0.9) = 75.99, and so on."""
    fractions = Fractions(**dict(zip(("train", "validation", "test"), shares, strict=True)))
    assert episodes_needed(fractions) == needed


def test_the_advised_number_leaves_no_split_empty():
    fractions, missed = Fractions(train=0.9, validation=0.05, test=0.05), 0
    for seed in range(300):
        found = {assign_split(str(index), fractions, seed) for index in range(episodes_needed(fractions))}
        missed += len(found) < 3
    assert missed <= 3  # 0.3 are expected


@pytest.mark.parametrize(
    ("groups", "fractions", "words"),
    [
        ({"train": 2}, DEFAULT, "'validation' and 'test' would be empty: 2 different episodes"),
        ({"train": 20}, Fractions(train=0.99, validation=0.01, test=0), r"'validation' would be empty: 20 .* About 757 different episodes"),
        ({}, DEFAULT, "'train' and 'validation' and 'test' would be empty: 0 different"),
    ],
)
def test_an_empty_split_says_how_many_episodes_are_needed(groups, fractions, words):
    with pytest.raises(HindcastError, match=words):
        require_episodes(groups, fractions)


def test_splits_of_fraction_zero_may_be_empty():
    require_episodes({"train": 1}, Fractions(train=1, validation=0, test=0))


@pytest.mark.parametrize(
    "shares", [{"train": 0.9}, {"train": 0.0, "validation": 0.9}, {"train": 1.2, "validation": -0.3}, {"holdout": 0.1}]
)
def test_fractions_must_divide_the_whole(shares):
    with pytest.raises(ValueError, match="Fractions"):
        Fractions.model_validate(shares)


def test_parameters_can_be_keys():
    assert hash(SplitParams()) == hash(SplitParams.model_validate({"fractions": {"train": 0.8, "validation": 0.1, "test": 0.1}, "seed": 0}))
