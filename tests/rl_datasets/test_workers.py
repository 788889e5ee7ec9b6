"""Work in processes: the order of results, errors, death, and what a worker imports."""

import itertools
import os
import subprocess
import sys

import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.workers import in_processes

WORK = '''
import os, sys
from rl_datasets.errors import HindcastError

def square(job, chunks):
    for chunk in chunks:
        yield [job * number * number for number in chunk]

def fail(job, chunks):
    for chunk in chunks:
        if chunk == 3:
            raise HindcastError("chunk 3 is bad")
        yield [chunk]

class Odd(Exception):
    """It does not unpickle, for it takes two arguments."""
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

def fail_oddly(job, chunks):
    raise Odd("this", "that")

def lose_connection(job, chunks):
    yield next(iter(chunks))
    raise ConnectionError("the simulator hung up")

def die(job, chunks):
    os._exit(9)

def modules(job, chunks):
    for chunk in chunks:
        yield [sorted(sys.modules), os.getpid()]
'''


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """A module that workers can import."""
    (tmp_path / "work_of_workers.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    import work_of_workers

    yield work_of_workers
    del sys.modules["work_of_workers"]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_come_in_the_order_of_the_work(work, workers) -> None:
    chunks = [range(start, start + 3) for start in range(0, 30, 3)]
    found = list(in_processes(work.square, 2, chunks, workers))
    assert found == [[2 * number**2 for number in chunk] for chunk in chunks]
    assert list(in_processes(work.square, 2, [], workers)) == []


def test_work_without_end_is_dropped_when_the_caller_stops(work) -> None:
    results = in_processes(work.square, 1, ([number] for number in itertools.count()), 2)
    assert list(itertools.islice(results, 5)) == [[0], [1], [4], [9], [16]]
    results.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_comes_through_after_the_results_before_it(work, workers) -> None:
    results = in_processes(work.fail, None, range(6), workers)
    assert [next(results) for _ in range(3)] == [[0], [1], [2]]
    with pytest.raises(HindcastError, match="chunk 3 is bad"):
        next(results)


def test_an_error_that_cannot_be_pickled_keeps_its_text(work) -> None:
    with pytest.raises(RuntimeError, match="Odd: this and that"):
        list(in_processes(work.fail_oddly, None, [1], 2))


def test_a_connection_that_fails_within_the_work_is_the_error_of_the_work(work) -> None:
    with pytest.raises(ConnectionError, match="the simulator hung up"):
        list(in_processes(work.lose_connection, None, range(9), 2))


def test_a_worker_that_dies_is_told_of(work) -> None:
    with pytest.raises(HindcastError, match=r"ended without a word.*runtime\.workers"):
        list(in_processes(work.die, None, range(4), 2))


def test_a_worker_is_another_process_that_imports_no_more_than_its_work(work) -> None:
    ((modules, pid),) = in_processes(work.modules, None, [0], 1)
    assert pid != os.getpid()
    assert not {"tensorflow", "jax", "pandas", "pytest", "pipelines"} & set(modules)


def test_what_reads_parameters_stays_out_of_a_worker_that_collects() -> None:
    script = "import sys, rl_datasets.collection; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert "gymnasium" in modules
    assert not {"pydantic", "tensorflow", "rl_datasets.builder"} & set(modules)
