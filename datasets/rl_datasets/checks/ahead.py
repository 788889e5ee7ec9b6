"""`ahead`: makes the next item while the present one is looked at."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yields the items in their order, none of which is None; a second thread makes one at a time, at most one ahead.

    What making one raises is raised here in its turn.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, "ahead") as thread:
        coming = thread.submit(next, iterator, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, iterator, None)
            yield item
