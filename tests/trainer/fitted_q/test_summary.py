"""What is reported: numbers that can be worked out by hand, and each warning by a case that has it and one that has not."""

from typing import Any

import numpy as np
import pytest

from trainer.fitted_q.estimate import _moved
from trainer.fitted_q.params import BEYOND, FittedQParams, gamma_within
from trainer.fitted_q.summary import Estimate, Limits, limits_of, notes
from trainer.points import VALIDATION, Row

E = 40


def estimate(**changes: Any) -> Estimate:
    """Two policies worth 5 and 7 from every state, a behaviour that earned 3 and is told to earn 3.5; nothing to warn of."""
    values: dict[str, Any] = {
        "params": FittedQParams(),
        "seed": 0,
        "episodes": tuple(map(str, range(E))),
        "policies": ("nurse",),
        "length": np.full(E, 9),
        "is_terminal": np.ones(E, bool),
        "values": np.outer([5.0, 7.0], np.ones(E)),
        "behaviour_value": np.full(E, 3.5),
        "behaviour_return": np.full(E, 3.0),
        "behaviour_rest": np.zeros(E),
        "rest": np.zeros(E),
        "moved": np.zeros(3),
        "far": np.array([0.1, 0.2]),
        "limits": Limits(-10.0, 10.0),
    }
    return Estimate(**{**values, **changes})


def kinds(found: Estimate) -> list[str]:
    return [flag.kind for flag in found.flags()]


def test_numbers_by_hand() -> None:
    found = estimate().metrics()
    assert found["fitted_q_value"] == 6
    assert (found["fitted_q_value_low"], found["fitted_q_value_high"]) == (5, 7)  # of two seeds, both, or one of them twice
    assert found["fitted_q_seed_values"] == [5, 7]
    assert found["fitted_q_seed_std"] == pytest.approx(2**0.5)
    assert (found["fitted_q_behaviour"], found["fitted_q_behaviour_value"], found["fitted_q_calibration"]) == (3, 3.5, 0.5)
    assert (found["fitted_q_difference"], found["fitted_q_far_share"], found["fitted_q_cut_share"]) == (3, pytest.approx(0.15), 0)
    assert (found["fitted_q_episodes"], found["fitted_q_flags"]) == (E, 0)
    assert estimate(values=np.ones((1, E)), moved=np.zeros(2), far=np.zeros(1)).metrics()["fitted_q_seed_std"] is None


def test_what_came_after_a_cut_is_the_behaviours_too() -> None:
    found = estimate(behaviour_rest=np.full(E, 2.0), is_terminal=np.zeros(E, bool), rest=np.full(E, 0.3))
    assert found.behaviour.mean == 5
    assert found.calibration.mean == -1.5
    assert found.metrics()["fitted_q_behaviour_return"] == 3


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("impossible", {"limits": Limits(-10.0, 6.9)}, "7 is no discounted return of these rewards, which lie between -10 and 6.9"),
        ("not converged", {"moved": np.array([0.0, -0.08, 0.0])}, "policy's estimate fell by 0.08 to 7 in the last half of 10,000 "),
        ("not converged", {"moved": np.array([0.06, 0.0, 0.0])}, "a policy's estimate rose by 0.06 to 5 .* Raise updates, to 40,000"),
        ("not converged", {"moved": np.array([0.0, 0.0, 0.08])}, "the behaviour's estimate rose by 0.08 to 3.5"),
        ("not converged", {"moved": np.array([0.0, np.nan, 0.0])}, "Raise updates"),
        ("calibration", {"behaviour_value": np.full(E, -0.5)}, "off by -3.5: more than the 3 by which the policy is said to differ"),
        ("support", {"far": np.array([0.2, 0.4])}, "at 30% of held-out states the policy acts farther"),
        ("cut episodes", {"is_terminal": np.arange(E) >= 10, "rest": np.where(np.arange(E) < 10, 0.2, 0)}, "10 of 40 .* where 20% of the"),
        ("mixed behaviour", {"policies": ("a", "b", "c", "d")}, r"4 policies collected the held-out episodes \(a, b, c \.\.\.\)"),
        ("few episodes", {"episodes": ("a",), "values": np.array([[5.0], [7.0]])}, "the mean is over 1 initial states"),
    ],
)
def test_a_sign_of_trouble_is_told(kind: str, changes: dict[str, Any], words: str) -> None:
    if "episodes" in changes:
        one = {name: getattr(estimate(), name)[:1] for name in ("length", "is_terminal", "behaviour_value", "behaviour_return", "rest")}
        changes = {**changes, **one, "behaviour_rest": np.zeros(1)}
    found = estimate(**changes)
    assert kinds(found) == [kind]
    with pytest.raises(ValueError, match=words):
        raise ValueError(found.flags()[0].text)
    assert notes(found)[1] == f"Fitted Q evaluation, {kind}: {found.flags()[0].text}"


@pytest.mark.parametrize(("steps", "gamma"), [(1, 0.05), (5, 0.54), (23, 0.87), (300, 0.99), (1000, 0.997)])
def test_of_episodes_that_are_cut_a_gamma_leaves_little_beyond_them_and_is_not_told_to_be_too_high(steps: int, gamma: float) -> None:
    assert gamma_within(steps) == gamma
    assert 0.6 * BEYOND < gamma**steps <= BEYOND * (1 + 1e-9)
    cut = {"length": np.full(E, steps), "is_terminal": np.zeros(E, bool), "rest": np.full(E, 0.04)}
    higher, same = (estimate(params=FittedQParams(gamma=value), **cut).flags()[0].text for value in ((1 + gamma) / 2, gamma))
    assert f"A gamma of {gamma} leaves 5% of it." in higher
    assert f"The gamma of {gamma} is low enough for their length." in same


def test_without_such_signs_nothing_is_told() -> None:
    assert kinds(estimate()) == []
    assert kinds(estimate(moved=np.array([0.04, -0.06, 0.06]), far=np.array([0.25, 0.25]), limits=Limits(5, 7))) == []
    assert kinds(estimate(is_terminal=np.zeros(E, bool), rest=np.full(E, 0.009))) == []


def test_a_movement_is_seen_beside_the_difference_that_it_would_make() -> None:
    """Of 100.5 beside 100, a movement of 0.8 takes all of the difference; where the calibration doubts it, that is told in its place."""
    known, values = np.full(E, 100.0), np.full((1, E), 100.5)
    given = {"values": values, "behaviour_return": known, "far": np.zeros(1), "limits": Limits(0.0, 200.0)}
    assert kinds(estimate(**given, behaviour_value=known + 0.1, moved=np.array([0.8, 0.0]))) == ["not converged"]
    assert kinds(estimate(**given, behaviour_value=known + 0.1, moved=np.array([0.4, 0.0]))) == []
    assert kinds(estimate(**given, behaviour_value=known + 0.9, moved=np.array([0.8, 0.0]))) == ["calibration"]


def test_the_movement_is_that_of_the_last_half_wherever_it_was_greatest() -> None:
    """Two policies and the behaviour: one still rising, one that came back, and one that stands still after an early rise."""
    points = [[0, 9, 0], [1, 9, 5], [2, 5, 6], [3, 9, 6], [4, 6, 6], [5, 5, 6]]
    rows = [Row(step, VALIDATION, {"value": np.array(point)}) for step, point in enumerate(points)]
    assert _moved(rows).tolist() == [3, -4, 0]
    assert _moved(rows[-1:]).tolist() == [0, 0, 0]


def test_printed_it_is_a_line_and_its_flags() -> None:
    line, flag = str(estimate(far=np.ones(2))).splitlines()
    intervals = "6 [5, 7], behaviour 3 [3, 3], difference 3 [2, 4], calibration 0.5 [0.5, 0.5]"
    assert line == f"Fitted Q evaluation (gamma 0.99): {intervals}. Intervals leave out the estimator's own error."
    assert flag.startswith("Fitted Q evaluation, support: at 100%")


def test_limits_of_returns() -> None:
    assert limits_of(-1, 2, 0.75, ends=True) == Limits(-4, 8)
    assert limits_of(1, 1, 0.75, ends=False) == Limits(4, 4)
    assert limits_of(1, 1, 0.75, ends=True) == Limits(1, 4)  # an episode may end after its first step
    assert limits_of(-3, -2, 0.5, ends=True) == Limits(-6, -2)
