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
from itertools import cycle, islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from rl_datasets.errors import HindcastError

Job = TypeVar("Job")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

AHEAD = 3  # chunks that a worker has before it


def in_processes(function: Callable[[Job, Chunk], Result], job: Job, chunks: Iterable[Chunk], workers: int) -> Iterator[Result]:
    """Yields function(job, chunk) of one chunk after another, computed by so many processes; with 0, in this one.

    `function` is a plain one of a module; job, chunks and results pickle. A few chunks a worker are under way at a time, so `chunks`
    may be endless; what is still to do when the caller stops is dropped. What `function` raises is raised here.
    """
    if workers == 0:
        yield from (function(job, chunk) for chunk in chunks)
        return
    todo = iter(chunks)
    started: list[tuple[subprocess.Popen[bytes], Connection[Any, Any]]] = []
    try:
        for _ in range(workers):
            started.append(_start())
            started[-1][1].send((function, job))
        under_way: deque[Connection[Any, Any]] = deque()  # who computes the next chunk, and the one after it, ...
        turns = cycle([connection for _, connection in started])
        for chunk in islice(todo, AHEAD * workers):
            _give(next(turns), chunk, under_way)
        while under_way:
            worker = under_way.popleft()
            result, error = worker.recv()
            if error is not None:
                raise error
            for chunk in islice(todo, 1):
                _give(worker, chunk, under_way)
            yield result
    except (EOFError, ConnectionError) as error:
        raise HindcastError(
            "A worker process ended without a word, as it does when the system kills it for its memory. "
            "Use fewer workers (runtime.workers in params.yaml) and run the same command again."
        ) from error
    finally:
        for process, connection in started:
            connection.close()
            process.kill()
            process.wait()


def _give(worker: "Connection[Any, Any]", chunk: Any, under_way: "deque[Connection[Any, Any]]") -> None:
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
    try:
        function, job = connection.recv()
        while True:
            connection.send(_answer(function, job, connection.recv()))
    except (EOFError, ConnectionError):
        return


def _answer(function: Callable[[Any, Any], Any], job: Any, chunk: Any) -> tuple[Any, Exception | None]:
    try:
        return function(job, chunk), None
    except Exception as error:
        error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301
        except Exception:  # some exceptions cannot cross
            return None, RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")
        return None, error


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
