"""What is reported: numbers that can be worked out by hand, and each warning by a case that has it and one that has not."""

from typing import Any

import numpy as np
import pytest

from trainer.fitted_q.params import FittedQParams
from trainer.fitted_q.summary import Estimate, Limits, limits_of, notes

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
    assert estimate(values=np.ones((1, E)), far=np.zeros(1)).metrics()["fitted_q_seed_std"] is None


def test_what_came_after_a_cut_is_the_behaviours_too() -> None:
    found = estimate(behaviour_rest=np.full(E, 2.0), is_terminal=np.zeros(E, bool), rest=np.full(E, 0.3))
    assert found.behaviour.mean == 5
    assert found.calibration.mean == -1.5
    assert found.metrics()["fitted_q_behaviour_return"] == 3


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("impossible", {"limits": Limits(-10.0, 6.9)}, "7 is no discounted return of these rewards, which lie between -10 and 6.9"),
        ("not converged", {"moved": np.array([0.0, -0.36, 0.0])}, "an estimate changed by 0.36 in the last fifth of 10,000 updates"),
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


def test_without_such_signs_nothing_is_told() -> None:
    assert kinds(estimate()) == []
    assert kinds(estimate(moved=np.array([0.34, 0, 0]), far=np.array([0.25, 0.25]), limits=Limits(5, 7))) == []
    assert kinds(estimate(is_terminal=np.zeros(E, bool), rest=np.full(E, 0.009))) == []


def test_limits_of_returns() -> None:
    assert limits_of(-1, 2, 0.75, ends=True) == Limits(-4, 8)
    assert limits_of(1, 1, 0.75, ends=False) == Limits(4, 4)
    assert limits_of(1, 1, 0.75, ends=True) == Limits(1, 4)  # an episode may end after its first step
    assert limits_of(-3, -2, 0.5, ends=True) == Limits(-6, -2)
