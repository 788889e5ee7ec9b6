"""Items made ahead come in their order, errors in their turn, and no more than one before it is asked for; calls made side by side, too."""

import threading
from collections.abc import Iterator

import pytest

from rl_datasets.checks.ahead import ahead, side_by_side


def counted(made: list[int], until: int) -> Iterator[int]:
    for number in range(until):
        made.append(number)
        yield number
    raise ValueError("no more")


def test_items_come_in_order_and_an_error_in_its_turn():
    found: list[int] = []
    with pytest.raises(ValueError, match="no more"):
        found.extend(ahead(counted([], 5)))
    assert list(ahead(iter([]))) == []
    assert list(ahead([3, 1, 2])) == [3, 1, 2]
    assert found == [0, 1, 2, 3, 4]


def test_who_stops_early_has_one_item_more_made():
    made: list[int] = []
    items = ahead(counted(made, 100))
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert made == [0, 1, 2]


def test_calls_are_made_by_two_threads_and_their_results_come_in_order():
    meeting = threading.Barrier(2, timeout=10)  # passed only where two wait at once
    calls = [lambda place=place: (place, meeting.wait() >= 0, threading.get_ident()) for place in range(6)]
    found = side_by_side(calls)
    assert [place for place, _, _ in found] == list(range(6))
    assert found[-1][2] == threading.get_ident() != found[0][2]
    assert side_by_side([]) == []


@pytest.mark.parametrize("at", [0, 5])
def test_what_a_call_raises_is_raised(at):
    def call(place: int) -> int:
        if place == at:
            raise IndexError(f"call {place}")
        return place

    with pytest.raises(IndexError, match=f"call {at}"):
        side_by_side([lambda place=place: call(place) for place in range(6)])
