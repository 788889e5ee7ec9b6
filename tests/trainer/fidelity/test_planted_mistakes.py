"""The comparison with NumPy notices a slip in any equation."""

from dataclasses import replace

import pytest

from tests.trainer.fidelity.comparison import Case, compare
from tests.trainer.fidelity.mistakes import MISTAKES, Mistake
from tests.trainer.fidelity.planting import planted, with_mistake
from tests.trainer.fidelity.references import CASES, reference_of
from trainer.learner import known_learners, load_learner

NAMES = [name for name, mistake in MISTAKES.items() if mistake.algorithm in known_learners()]


def setting_of(mistake: Mistake) -> Case:
    """With one hidden layer where it does not say how many: most of the time goes into compiling them."""
    case = CASES[mistake.algorithm][mistake.case]
    return replace(case, own_weights=False, params={"hidden_sizes": (5,), **case.params})


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_are_made_in_what_the_code_says_now(name: str) -> None:
    assert with_mistake(MISTAKES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_mistake_is_noticed(name: str) -> None:
    mistake = MISTAKES[name]
    case = setting_of(mistake)
    with planted(mistake) as module, pytest.raises(AssertionError, match=r"update|drew|drawn"):
        compare(module, reference_of(mistake.algorithm, case), case)


@pytest.mark.slow
def test_code_imported_beside_is_as_good_without_a_mistake() -> None:
    none = MISTAKES["log-deviation's sign"]
    before = load_learner("bc")
    with planted(none._replace(wrong=none.right)) as module:
        assert module is not before
        compare(module, reference_of("bc", setting_of(none)), setting_of(none))
    assert load_learner("bc") is before
