"""Of a shift, the right one of rewards and actions is named, with the column or the range of episodes that shows it."""

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, Report, run_checks
from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.checks.odd_parts import _best_run, _medians
from tests.rl_datasets.checks.clean_data import CLEAN
from tests.rl_datasets.checks.faults import between, shifted

BOTH = ("reward_shift", "action_shift")
ONLY = CheckParams.model_validate({check.name: "warn" if check.name in BOTH else "off" for check in CATALOGUE})


def checked(kind: str, field: str, rows: int, first: int = 0, end: int = 99) -> Report:
    clean = CLEAN[kind]()
    return run_checks(between(shifted(field, rows), first, end)(list(clean.episodes)), Expected.of(clean.spec), ONLY)


@pytest.mark.parametrize("kind", ["continuous", "crowded", "betting"])
@pytest.mark.parametrize(("field", "rows"), [("reward", 1), ("action", 1), ("action", -1)])
def test_the_one_that_is_shifted_is_named_and_not_the_other(kind, field, rows):
    results = checked(kind, field, rows).results
    assert [name for name in BOTH if results[name].faults] == [f"{field}_shift"]


def test_the_column_that_moves_is_named_among_those_that_do_not():
    (finding,) = checked("crowded", "action", 1).results["action_shift"].findings
    assert finding.found.startswith("observation[7], which changes by the action of the row after (100% of the error) and not their own")
    assert finding.evidence is not None
    assert finding.evidence["columns"] == ["observation[7]"]
    assert finding.evidence["own_row"] > 100 * finding.evidence["action_of_row_after"]


def test_where_only_rewards_tell_the_evidence_for_both_is_told():
    (finding,) = checked("betting", "action", 1).results["action_shift"].findings
    assert "with the action of the row after (error " in finding.found
    assert "as if rewards were shifted, the error is " in finding.found


@pytest.mark.parametrize(("first", "end"), [(8, 14), (0, 12), (12, 24), (18, 24)])
@pytest.mark.parametrize("field", ["reward", "action"])
def test_a_range_is_named_from_its_first_episode_to_its_last(field, first, end):
    (finding,) = checked("continuous", field, 1, first, end).results[f"{field}_shift"].findings
    assert finding.episode_id == f"toy-{first:03d}"
    assert finding.found.endswith(f"in episodes from 'toy-{first:03d}' to 'toy-{end - 1:03d}', unlike in the others")


def test_the_best_run_is_that_of_the_greatest_sum():
    assert _best_run(np.array([-1.0, 2.0, -0.5, 1.0, -3.0, 1.0])) == (1, 4, 2.5)
    assert _best_run(np.array([-1.0, -2.0]))[2] == 0


def test_medians_are_the_lower_ones_of_each_part():
    values, starts = np.array([3.0, 1.0, 2.0, 9.0, 7.0]), np.array([0, 3])
    assert _medians(values, starts, np.array([3, 2])).tolist() == [2.0, 7.0]
