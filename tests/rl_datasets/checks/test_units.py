"""A range of episodes of another unit is found and named as one; what differs by policy, seldom, or little by little is not."""

from dataclasses import replace

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, Finding, run_checks
from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from tests.rl_datasets.checks.clean_data import recorded
from tests.rl_datasets.checks.faults import between, put, scaled, with_metadata

ONLY = CheckParams.model_validate({check.name: "warn" if check.name == "units" else "off" for check in CATALOGUE})
SPEC = EnvSpec("Walk", ArraySpec((2,), "float32"), ArraySpec((1,), "float32"))


def walks(count: int = 60, scale=lambda index: 1.0, place=lambda index: 0.0, policy=lambda index: "one") -> list[Episode]:
    episodes = []
    for index in range(count):
        rng = np.random.default_rng(index)
        steps = rng.normal(0, 1, (31, 2)).cumsum(axis=0) * scale(index) + place(index)
        action = rng.normal(0, 1, (30, 1)).astype(np.float32)
        episodes.append(recorded(index, steps.astype(np.float32), action, steps[1:, 0], False, policy=policy(index)))
    return episodes


def findings(episodes: list[Episode]) -> list[Finding]:
    return list(run_checks(episodes, Expected.of(SPEC), ONLY).results["units"].findings)


def test_the_range_is_named_with_both_scales():
    (finding,) = findings(between(scaled("observation", 57.3), 20, 30)(walks()))
    assert (finding.episode_id, finding.step) == ("toy-020", None)
    assert finding.found.startswith("observation[1] varies by ")
    assert finding.found.endswith(" times what it does in the others, in 10 episodes from 'toy-020' to 'toy-029'")
    assert finding.evidence is not None
    assert finding.evidence["episodes"] == 10
    assert 30 < finding.evidence["here"] / finding.evidence["elsewhere"] < 100


def test_a_column_that_stands_still_and_one_of_another_zero_are_told_as_such():
    (still,) = findings(between(put("observation", (slice(None), 0), 4), 20, 30)(walks()))
    assert "observation[0] stands still at 4, in 10 episodes from 'toy-020'" in still.found
    (moved,) = findings(walks(place=lambda index: np.array([0, 200 * (index >= 45)])))
    assert moved.episode_id == "toy-045"
    assert moved.found.startswith("observation[1] is around ")


def test_rewards_that_are_one_and_the_same_are_compared_by_their_size():
    alike = [
        replace(episode, reward=np.r_[np.full(30, 1 if index < 40 else 100), 0].astype(np.float32)) for index, episode in enumerate(walks())
    ]
    (finding,) = findings(alike)
    assert (
        finding.found == "reward is 100 within an episode, 100 times what it does in the others, in 20 episodes from 'toy-040' to 'toy-059'"
    )


def test_a_range_is_named_once_for_all_policies_that_share_it():
    (finding,) = findings(between(scaled("observation", 1000), 20, 30)(walks(policy=lambda index: f"p{index % 3}")))
    assert "in 10 episodes from 'toy-020' to 'toy-029'" in finding.found


@pytest.mark.parametrize(
    "episodes",
    [
        pytest.param(
            walks(scale=lambda index: 20.0 if index < 30 else 1.0, policy=lambda index: "a" if index < 30 else "b"), id="policies"
        ),
        pytest.param(walks(scale=lambda index: 1.1**index), id="little by little"),
        pytest.param(walks(place=lambda index: 5.0 * index), id="a clock"),
        pytest.param(walks(scale=lambda index: 50.0 if index % 7 == 3 else 1.0), id="now and then"),
        pytest.param(walks(scale=lambda index: 50.0 if index in (20, 21) else 1.0), id="two of them"),
        pytest.param(walks(scale=lambda index: np.random.default_rng(index).lognormal(0, 2)), id="heavy tails"),
        pytest.param([put("observation", (slice(None), 1), index % 5)(e) for index, e in enumerate(walks())], id="goals"),
        pytest.param([put("reward", slice(None), 0)(e) if index % 9 else e for index, e in enumerate(walks())], id="seldom a reward"),
    ],
)
def test_what_is_no_change_of_units_is_left_in_peace(episodes):
    assert [finding.found for finding in findings(episodes)] == []


def test_labels_do_not_hide_a_range_within_one_of_them():
    labelled = [with_metadata(policy="a" if index < 30 else "b")(episode) for index, episode in enumerate(walks())]
    (finding,) = findings(between(scaled("observation", 57.3), 40, 50)(labelled))
    assert "from 'toy-040' to 'toy-049'" in finding.found
