"""Choices on curves that are written down here."""

import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from trainer.points import ENVIRONMENT, TRAIN, VALIDATION, Row
from trainer.selection import SelectParams, choose, require_metric, selection_note


def rows(split: str, name: str, *values: tuple[float, float]) -> list[Row]:
    """Points at 10, 20, ... of two seeds, each beside one of the training split that says the opposite."""
    points = []
    for number, value in enumerate(values, 1):
        points += [Row(10 * number, TRAIN, {name: -np.float32(value)}), Row(10 * number, split, {name: np.float32(value)})]
    return points


LOSSES = rows(VALIDATION, "loss", (5, 1), (3, np.nan), (4, 2), (3, 3), (2, 0))


def test_the_first_best_point_of_each_seed() -> None:
    choice = choose(LOSSES, SelectParams(metric="loss"), 2)
    assert (choice.step.tolist(), choice.value.tolist(), choice.stopped.tolist()) == ([50, 50], [2, 0], [False, False])
    choice = choose(LOSSES[:8], SelectParams(metric="loss"), 2)
    assert choice.step.tolist() == [20, 10]  # 3 comes twice, and the first counts
    choice = choose(LOSSES, SelectParams(metric="loss", mode="max"), 2)
    assert (choice.step.tolist(), choice.value.tolist()) == ([10, 40], [5, 3])


def test_patience_ends_each_seed_by_itself() -> None:
    """Seed 1 has its best at the first point, and three points later it is out of patience: that it gets better then comes too late."""
    select = SelectParams(metric="loss", patience=3)
    assert choose(LOSSES[:6], select, 2).stopped.tolist() == [False, False]
    assert choose(LOSSES[:8], select, 2).stopped.tolist() == [False, True]
    choice = choose(LOSSES, select, 2)
    assert (choice.step.tolist(), choice.stopped.tolist()) == ([50, 10], [False, True])


def test_returns_choose_only_by_their_name() -> None:
    curves = LOSSES + rows(ENVIRONMENT, "environment_return", (1, 9), (7, 8))
    choice = choose(curves, SelectParams(metric="environment_return", mode="max"), 2)
    assert choice.step.tolist() == [20, 10]
    assert choose(curves, SelectParams(metric="loss"), 2).step.tolist() == [50, 50]


def test_nothing_finite_chooses_nothing() -> None:
    choice = choose(rows(VALIDATION, "loss", (np.nan, 1), (np.inf, 2)), SelectParams(metric="loss"), 2)
    assert choice.step.tolist() == [-1, 10]
    note = selection_note(SelectParams(metric="loss"), choice, (4, 7), 1234)
    assert note == (
        "Policies were chosen by the minimum of loss (the validation split), of a run of 1,234 updates: "
        "seed 4 the final one, seed 7 update 10 (1)."
    )


def test_a_choice_by_returns_says_so() -> None:
    select = SelectParams(metric="environment_return", mode="max")
    note = selection_note(select, choose(rows(ENVIRONMENT, "environment_return", (1, 9)), select, 2), (0, 1), 10)
    assert "by the maximum of environment_return (returns in the environment, which offline data do not have)" in note


def test_a_metric_that_will_not_be_there() -> None:
    require_metric(SelectParams(metric="loss"), ("loss", "q_mean"), False)
    require_metric(SelectParams(metric="environment_return"), (), True)
    with pytest.raises(HindcastError, match=r"metric is 'los', but the curves of this run will hold: loss, q_mean \(of the validation"):
        require_metric(SelectParams(metric="los"), ("q_mean", "loss"), False)
    with pytest.raises(HindcastError, match="environment_return needs evaluate_every"):
        require_metric(SelectParams(metric="environment_return"), ("loss",), False)
