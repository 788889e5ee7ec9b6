"""The comparison with NumPy notices a slip in any equation."""

from dataclasses import replace

import pytest

from tests.trainer.fidelity.comparison import compare
from tests.trainer.fidelity.mistakes import MISTAKES
from tests.trainer.fidelity.planting import planted, with_mistake
from tests.trainer.fidelity.references import CASES, reference_of
from trainer.learner import known_learners, load_learner

NAMES = [name for name, mistake in MISTAKES.items() if mistake.algorithm in known_learners()]


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_are_made_in_what_the_code_says_now(name: str) -> None:
    assert with_mistake(MISTAKES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_mistake_is_noticed(name: str) -> None:
    mistake = MISTAKES[name]
    case = replace(CASES[mistake.algorithm][mistake.case], own_weights=False)
    with planted(mistake) as module, pytest.raises(AssertionError, match=r"update|drew|drawn"):
        compare(module, reference_of(mistake.algorithm, case), case)


@pytest.mark.slow
def test_code_imported_beside_is_as_good_without_a_mistake() -> None:
    none = MISTAKES["log-deviation's sign"]
    before = load_learner("bc")
    with planted(none._replace(wrong=none.right)) as module:
        assert module is not before
        compare(module, reference_of("bc", CASES["bc"]["default"]), CASES["bc"]["default"])
    assert load_learner("bc") is before
