"""A value that stands for a missing one, too frequent to be an outlier, is found; what is merely rare or skewed is not."""

from dataclasses import replace

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, Report, run_checks
from rl_datasets.checks.extremes import sentinels
from rl_datasets.schema import EnvSpec, Episode
from tests.rl_datasets.checks.clean_data import swing
from tests.rl_datasets.checks.faults import put


def checked(spec: EnvSpec, episodes: list[Episode]) -> Report:
    return run_checks(episodes, Expected.of(spec), CheckParams())


@pytest.mark.parametrize("share", [0.005, 0.02, 0.05])
@pytest.mark.parametrize("value", [-999.0, 9999.0])
def test_a_value_far_from_all_others_is_named_where_it_first_is(share: float, value: float) -> None:
    step = round(1 / share)
    episodes = list(swing().episodes)
    planted = [
        put("observation", (slice(3, None, step), 0), value)(episode) if index % 2 else episode for index, episode in enumerate(episodes)
    ]
    result = checked(swing().spec, planted).results["outliers"]
    assert [(finding.episode_id, finding.step) for finding in result.findings] == [
        (episode.episode_id, 3) for index, episode in enumerate(episodes) if index % 2
    ]
    assert all(f" = {value:.9g}" in finding.found for finding in result.findings)


def test_of_actions_the_last_step_which_has_none_is_left_out() -> None:
    far = [
        replace(episode, action=np.where(np.arange(len(episode.action))[:, None] < len(episode.action) - 1, 50 + episode.action, 0))
        for episode in swing().episodes
    ]
    far = [replace(episode, action=episode.action.astype(np.float32)) for episode in far]
    assert checked(swing().spec, far).results["outliers"].faults == 0


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.r_[np.linspace(0, 1, 200), [-999.0] * 5], -999.0),
        (np.r_[np.linspace(0, 1, 200), [9999.0] * 5, [np.nan] * 3], 9999.0),
        (np.r_[np.linspace(0, 1, 200), [-999.0] * 5, [1e6] * 5], (-999.0, 1e6)),  # neither hides the other
        (np.r_[np.linspace(0, 1, 200), [-999.0] * 5, [-9999.0] * 4, [1e6] * 3, [1e30]], (-9999.0, -999.0, 1e6)),
        (np.r_[np.linspace(0, 1, 200), [-999.0] * 5, [1e30]], -999.0),  # nor does a single one
        (np.r_[np.linspace(0, 1, 200), [-999.0] * 2], None),  # too few to be a habit
        (np.r_[np.linspace(0, 1, 200), [5.0] * 5], None),  # not far enough
        (np.r_[np.linspace(0, 1, 200), [-999.0] * 50], None),  # a value like others
        (np.r_[np.zeros(200), [1.0] * 5], None),  # an event that is rare
        (np.geomspace(1, 1e9, 200), None),
        (np.r_[np.linspace(0, 1, 50), [-999.0] * 5], None),  # too few rows
    ],
)
def test_what_a_sentinel_is(values: np.ndarray, found: float | tuple[float, ...] | None) -> None:
    assert sentinels(values) == (() if found is None else found if isinstance(found, tuple) else (found,))
