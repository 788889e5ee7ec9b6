"""Work shared out to processes: results come in the order of the work, whatever the number of processes.

A worker is a fresh interpreter that imports what the work needs and no more. `multiprocessing` would fork one that inherits
threads in any state (TensorFlow's, a progress bar's), or spawn one that imports the main module first, which takes seconds.
"""

import os
import pickle
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from rl_datasets.errors import HindcastError

Job = TypeVar("Job")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
Work = Callable[[Job, Iterable[Chunk]], Iterator[Result]]  # one result for each chunk, in their order

AHEAD = 3  # chunks that a worker has before it


def in_processes(work: Work[Job, Chunk, Result], job: Job, chunks: Iterable[Chunk], workers: int) -> Iterator[Result]:
    """Yields what work(job, chunks) yields, computed by so many processes, each with a part of the chunks; with 0, in this one.

    `work` is a plain function of a module; job, chunks and results pickle. A few chunks a worker are under way at a time, so `chunks`
    may be endless; what is still to do when the caller stops is dropped. What `work` raises is raised here.
    """
    if workers == 0:
        yield from work(job, chunks)
        return
    todo = iter(chunks)
    started: list[tuple[subprocess.Popen[bytes], Connection[Any, Any]]] = []
    try:
        for _ in range(workers):
            started.append(_start())
            with _alive():
                started[-1][1].send((work, job))
        under_way: deque[Connection[Any, Any]] = deque()  # who computes the next chunk, and the one after it, ...
        turns = cycle([connection for _, connection in started])
        for chunk in islice(todo, AHEAD * workers):
            _give(next(turns), chunk, under_way)
        while under_way:
            worker = under_way.popleft()
            with _alive():
                result, error = worker.recv()
            if error is not None:
                raise error
            for chunk in islice(todo, 1):
                _give(worker, chunk, under_way)
            yield result
    finally:
        for process, connection in started:
            connection.close()
            process.kill()
            process.wait()


@contextmanager
def _alive() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise HindcastError(
            "A worker process ended without a word, as it does when the system kills it for its memory. "
            "Use fewer workers (runtime.workers in params.yaml) and run the same command again."
        ) from error


def _give(worker: "Connection[Any, Any]", chunk: Any, under_way: "deque[Connection[Any, Any]]") -> None:
    with _alive():
        worker.send(chunk)
    under_way.append(worker)


def _start() -> tuple["subprocess.Popen[bytes]", "Connection[Any, Any]"]:
    ours, theirs = Pipe()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", __name__, str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    theirs.close()
    return process, ours


def _serve(connection: "Connection[Any, Any]") -> None:
    """Answers each chunk with (result, None) or (None, exception), until the other side closes."""
    with suppress(EOFError, ConnectionError):
        work, job = connection.recv()
        for answer in _answers(work, job, _received(connection)):
            connection.send(answer)


def _received(connection: "Connection[Any, Any]") -> Iterator[Any]:
    with suppress(EOFError, ConnectionError):
        while True:
            yield connection.recv()


def _answers(work: Work[Any, Any, Any], job: Any, chunks: Iterator[Any]) -> Iterator[tuple[Any, Exception | None]]:
    """Once `work` has raised, that is the answer to every chunk."""
    try:
        for result in work(job, chunks):
            yield result, None
    except Exception as error:
        raised = _portable(error)
        yield None, raised
        yield from ((None, raised) for _ in chunks)


def _portable(error: Exception) -> Exception:
    """The exception with the place where it was raised; one that cannot cross between processes becomes a RuntimeError of its text."""
    error.add_note(f"In a worker process:\n{traceback.format_exc()}")
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
    return error


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
