"""Episodes whose fields hold their own place, and sums that can be worked out by hand."""

import numpy as np
import pytest

from rl_datasets.schema import Episode
from trainer.fitted_q.logged import every_nth, read_logged


def episode(index: int, rewards: list[float], discounts: list[float], is_terminal: bool) -> Episode:
    """Observation t is 100 * index + t, and the action its negative."""
    place = np.arange(len(rewards) + 1, dtype=np.float32) + 100 * index
    arrays = (np.float32([*rewards, 0]), np.float32([*discounts, 0]))
    return Episode(f"e{index}", {"place": place[:, None]}, -place[:, None], *arrays, is_terminal, {"policy": f"p{index % 2}"})


ENDED = episode(1, [4, 2, 8], [1, 1, 0], is_terminal=True)
CUT = episode(2, [4, 2, 8], [1, 1, 1], is_terminal=False)
SHORT = episode(3, [6], [1], is_terminal=False)
FADING = episode(4, [4, 2, 8], [0.5, 1, 0], is_terminal=True)
CLOSED = episode(5, [4, 2], [1, 0], is_terminal=False)  # nothing is counted after it, whatever its last state is called


def test_returns_and_what_is_missing_of_them() -> None:
    logged = read_logged([ENDED, CUT, SHORT, FADING, CLOSED], gamma=0.5)
    assert logged.ids == ("e1", "e2", "e3", "e4", "e5")
    assert logged.policies == ("p0", "p1")
    assert logged.length.tolist() == [3, 3, 1, 3, 2]
    assert logged.episode_return.tolist() == [4 + 1 + 2, 7, 6, 4 + 0.5 + 1, 5]
    assert logged.rest.tolist() == [0, 0.25, 1, 0, 0]
    assert logged.is_terminal.tolist() == [True, False, False, True, True]
    assert logged.first_observation["place"][:, 0].tolist() == [100, 200, 300, 400, 500]
    assert logged.first_action[:, 0].tolist() == [-100, -200, -300, -400, -500]
    assert logged.last_observation["place"][:, 0].tolist() == [102, 202, 300, 402, 501]
    assert logged.last_action[:, 0].tolist() == [-102, -202, -300, -402, -501]
    assert logged.last_reward.tolist() == [8, 8, 6, 8, 2]


@pytest.mark.parametrize(("limit", "expected"), [(100, [100, 101, 102, 200, 201, 202, 300]), (4, [100, 102, 201, 300]), (1, [100])])
def test_transitions_are_taken_evenly_and_none_after_the_last(limit: int, expected: list[int]) -> None:
    observation, action = every_nth([ENDED, CUT, SHORT], 7, limit)
    assert observation["place"][:, 0].tolist() == expected
    assert (-action[:, 0]).tolist() == expected
