"""The share of far actions, on data of which one knows what was done where."""

import numpy as np

from trainer.fitted_q.support import NEIGHBOURS, distances, far_share, states_for


def states(low: float, high: float, count: int) -> np.ndarray:
    return np.linspace(low, high, count)[:, None]


def test_a_category_is_far_where_it_was_not_taken_in_similar_states() -> None:
    """Left of zero the data always take 0, right of it 1 or 2 by turns."""
    train, held_out = states(-1, 1, 2000), states(-0.9, 0.9, 100)
    taken = np.where(train[:, 0] < 0, 0, 1 + np.arange(2000) % 2)
    logged = np.where(held_out[:, 0] < 0, 0, 1)
    always = [np.zeros(100, int), np.full(100, 2), logged, np.where(held_out[:, 0] < 0, 0, 2)]
    assert far_share(train, taken, held_out, logged, np.stack(always)).tolist() == [0.5, 0.5, 0, 0]


def test_a_number_is_far_where_it_is_farther_than_the_datas_own() -> None:
    """The data act as the state is, give or take 0.1."""
    rng = np.random.default_rng(0)
    train, held_out = states(-1, 1, 2000), states(-0.9, 0.9, 200)
    taken, logged = (x + rng.uniform(-0.1, 0.1, x.shape) for x in (train, held_out))
    policies = np.stack([held_out, held_out + 0.05, held_out + 0.5, np.zeros((200, 1))])
    like, near, far, still = far_share(train, taken, held_out, logged, policies)
    assert like <= 0.05
    assert near <= 0.1
    assert far == 1
    assert 0.7 < still < 0.95  # all but those near zero


def test_distances_are_to_the_nearest() -> None:
    assert distances(np.array([[0, 1], [2, 2]]), np.array([1, 1])).tolist() == [0, 1]
    assert distances(np.array([[[0.0, 0], [3, 4]]]), np.array([[3.0, 0]])).tolist() == [3]


def test_wide_observations_are_compared_with_fewer_states() -> None:
    assert states_for(4) == 20_000
    assert states_for(84 * 84 * 4) == 708
    assert states_for(10**9) == NEIGHBOURS
