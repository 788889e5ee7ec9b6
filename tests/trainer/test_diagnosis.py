"""Curves made by hand: those that are ill, and healthy ones that look a little like them."""

import numpy as np
import pytest

from trainer.diagnosis import Symptom, diagnose, largest_discounted_return
from trainer.points import TRAIN, VALIDATION, Row

SEEDS = (4, 7)


def curves(name: str, *values: float) -> list[Row]:
    """Points at 100, 200, ...; seed 4 stays at the first value, seed 7 takes them all."""
    return [Row(100 * i, TRAIN, {name: np.float32([values[0], value])}) for i, value in enumerate(values, 1)]


def found(rows: list[Row], largest_return: float = 100.0) -> list[tuple[str, int, int]]:
    return [(symptom.rule, symptom.seed, symptom.step) for symptom in diagnose(rows, SEEDS, largest_return)]


def test_a_loss_that_jumps() -> None:
    assert found(curves("loss", 2, 2.1, 1.9, 2, 2.05, 8, 90)) == [("loss spike", 7, 600)]  # once a seed
    assert found(curves("loss", 2, 2.1, 1.9, 2, 2.05, 3)) == []  # within 10 spreads of a quarter of the median
    assert found(curves("loss", 50, 20, 9, 5, 3, 2)) == []  # falls
    assert found(curves("loss", 2, 90, 2)) == []  # too soon to tell
    assert found(curves("loss", 1, 30, -20, 25, 5, 60)) == []  # always noisy
    assert found(curves("policy_loss", 2, 2, 2, 2, 2, 90)) == []  # another metric


def test_q_above_any_return() -> None:
    assert found(curves("q_mean", 50, 99, 120, 126, 500)) == [("q without bound", 7, 400)]
    assert found(curves("q_mean", 0, -50, -130)) == [("q without bound", 7, 300)]
    assert found(curves("q_mean", 50, 99, 120)) == []
    assert found(curves("q_mean", 5e9), float("inf")) == []
    symptom = diagnose(curves("q_mean", 50, 400), SEEDS, 100)[0]
    assert str(symptom).startswith("Seed 7, update 200, q without bound: q is 400 on average, but no discounted return of these")
    assert "above 100 in size" in symptom.text
    assert "tau" in symptom.text


@pytest.mark.parametrize(
    ("reward", "scale", "shift", "gamma", "expected"),
    [((0, 1), 1, 0, 0.99, 100), ((-16, 0), 0.1, 0, 0.98, 80), ((-1, 0), 1, 1, 0.5, 2), ((0, 1), -2, 0.5, 0.0, 1.5)],
)
def test_the_largest_return(reward: tuple[float, float], scale: float, shift: float, gamma: float, expected: float) -> None:
    assert largest_discounted_return(*reward, scale, shift, gamma) == pytest.approx(expected)


def test_a_policy_that_is_sure_of_everything() -> None:
    assert found(curves("entropy", 0.6, 0.1, 0.004, 0.0)) == [("entropy gone", 7, 300)]
    assert found(curves("entropy", 0.6, 0.1, 0.01)) == []
    gaussian = [Row(100, TRAIN, {"entropy": np.float32([-9, -30]), "log_std": np.float32([-2, -4.95])})]  # an entropy may be negative
    assert found(gaussian) == [("entropy gone", 7, 100)]


def test_numbers_that_are_none() -> None:
    rows = [
        Row(100, TRAIN, {"loss": np.float32([1, 1])}),
        Row(100, VALIDATION, {"loss": np.float32([1, np.inf]), "v": np.float32([1, np.nan])}),
    ]
    symptoms = diagnose(rows, SEEDS, 100)
    assert [(s.rule, s.seed, s.step) for s in symptoms] == [("non-finite", 7, 100)]
    assert symptoms[0].text.startswith("loss, v on the split 'validation' is not a finite number.")


def test_several_in_the_order_of_seeds_and_updates() -> None:
    rows = [Row(100 * i, TRAIN, {"q_mean": np.float32([0, 1e6]), "entropy": np.float32([0.0, 0.5 if i < 2 else 0.0])}) for i in (1, 2)]
    assert found(rows) == [("entropy gone", 4, 100), ("q without bound", 7, 100), ("entropy gone", 7, 200)]
    assert all(isinstance(symptom, Symptom) for symptom in diagnose(rows, SEEDS, 100))
    assert diagnose([], SEEDS, 100) == []
