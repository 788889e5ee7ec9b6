"""Items made ahead come in their order, errors in their turn, and no more than one before it is asked for."""

from collections.abc import Iterator

import pytest

from rl_datasets.checks.ahead import ahead


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
