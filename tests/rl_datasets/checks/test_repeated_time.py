"""A last observation that repeats the one before it repeats its time, which is no fault where it is never read."""

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, Report, run_checks
from rl_datasets.schema import ArraySpec, EnvSpec
from tests.rl_datasets.checks.clean_data import recorded


def clock_of(last: float, is_terminal: bool, repeats: bool) -> Report:
    spec = EnvSpec("Clock", {"time": ArraySpec((1,), "float32"), "level": ArraySpec((1,), "float32")}, ArraySpec((1,), "float32"))
    rng = np.random.default_rng(0)
    episodes = []
    for index in range(3):
        time, level = np.arange(12.0)[:, None], rng.normal(size=(12, 1))
        time[-1] = last
        if repeats:
            level[-1] = level[-2]
        observation = {"time": time.astype(np.float32), "level": level.astype(np.float32)}
        action = rng.normal(size=(11, 1)).astype(np.float32)
        episodes.append(recorded(index, observation, action, rng.normal(size=11).astype(np.float32), is_terminal))
    return run_checks(episodes, Expected.of(spec), CheckParams())


@pytest.mark.parametrize(
    ("last", "is_terminal", "repeats", "faults"),
    [(10, True, True, 0), (10, True, False, 3), (10, False, True, 3), (9, True, True, 3), (11, True, False, 0)],
)
def test_no_time_passes_where_a_terminal_observation_repeats_the_one_before(
    last: float, is_terminal: bool, repeats: bool, faults: int
) -> None:
    assert clock_of(last, is_terminal, repeats).results["timestamps"].faults == faults
