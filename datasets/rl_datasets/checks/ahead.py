"""Work on two threads whose results do not depend on which of them does what: most of it is NumPy, which lets others run."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
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


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Returns what some calls return, in their order. This thread makes the last ones, a second thread the first ones, until they meet.

    What a call raises is raised here.
    """
    waiting, found = deque(enumerate(calls)), dict[int, T]()

    def work(take: Callable[[], tuple[int, Callable[[], T]]]) -> None:
        while True:
            try:
                place, call = take()
            except IndexError:  # none is waiting
                return
            found[place] = call()

    with ThreadPoolExecutor(1, "side_by_side") as thread:
        other = thread.submit(work, waiting.popleft)
        work(waiting.pop)
        other.result()
    return [found[place] for place in range(len(calls))]
