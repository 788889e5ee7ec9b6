"""Counts read as a person would write them."""

import pytest

from rl_datasets.words import count


@pytest.mark.parametrize(
    ("number", "one", "many", "told"),
    [
        (0, "episode", "", "0 episodes"),
        (1, "episode", "", "1 episode"),
        (2000, "episode", "", "2,000 episodes"),
        (1, "episode was", "episodes were", "1 episode was"),
        (3, "episode was", "episodes were", "3 episodes were"),
    ],
)
def test_one_is_singular(number: int, one: str, many: str, told: str) -> None:
    assert count(number, one, many) == told
