"""Every learner against its equations in NumPy, written from the papers: losses, gradients and three whole updates."""

from dataclasses import replace

import pytest

from tests.trainer.fidelity.cases import CQL_EDGE
from tests.trainer.fidelity.comparison import Case, compare
from tests.trainer.fidelity.cql import ContinuousCQL
from tests.trainer.fidelity.references import CASES, reference_of
from trainer.learner import known_learners, load_learner

pytestmark = pytest.mark.slow
ALL = [
    pytest.param(algorithm, case, id=f"{algorithm}-{name}")
    for algorithm in known_learners()
    for name, case in CASES.get(algorithm, {}).items()
]


@pytest.mark.parametrize(("algorithm", "case"), ALL)
def test_losses_gradients_and_three_updates(algorithm: str, case: Case) -> None:
    compare(load_learner(algorithm), reference_of(algorithm, case), case)


@pytest.mark.parametrize(("algorithm", "case"), [one for one in ALL if one.values[1].single])
def test_in_float32_to_its_digits(algorithm: str, case: Case) -> None:
    """Of every learner, and of every group of options, one setting: the equations are those above."""
    compare(load_learner(algorithm), reference_of(algorithm, case), replace(case, own_weights=False), "float32")


@pytest.mark.parametrize("algorithm", known_learners())
def test_a_learner_is_compared_in_float32(algorithm: str) -> None:
    assert any(case.single for case in CASES.get(algorithm, {}).values()) or algorithm not in CASES


def test_actions_on_their_bounds_are_cloned_from_inside_them() -> None:
    compare(load_learner("cql"), ContinuousCQL, CQL_EDGE)


@pytest.mark.parametrize("algorithm", known_learners())
def test_a_learner_has_a_reference(algorithm: str) -> None:
    if algorithm not in CASES:
        pytest.skip(f"{algorithm} has no version in NumPy in tests/trainer/fidelity/")
