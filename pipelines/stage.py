"""The frame that every stage runs in: reads the parameters, runs it, turns errors into one message, and leaves a record."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines import paths
from pipelines.lineage.record import recording
from pipelines.params import Params, load_params
from rl_datasets.errors import HindcastError
from rl_datasets.files import remove_stale

if TYPE_CHECKING:
    from trainer import loop  # with JAX, which only some stages need

console = Console(stderr=True)

Run = Callable[[str, Params], Path]  # (key of the data set or experiment, all parameters) -> the folder or file that it wrote


def main(stage: str, run: Run, keyed: bool = True) -> None:
    """Runs `python -m pipelines.<stage> <key>` and exits: 0 when it is done, 1 with one message on what a user can mend."""
    parser = argparse.ArgumentParser(prog=f"python -m pipelines.{stage}", description=sys.modules["__main__"].__doc__)
    if keyed:
        parser.add_argument("key", help="name of the data set or experiment in params.yaml")
    key = parser.parse_args().key if keyed else ""
    job = f"{stage}@{key}" if keyed else stage
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a terminated run cleans up as an interrupted one does
    try:
        with recording(job) as outcome:
            for folder in paths.written_for(key):
                remove_stale(folder)
            outcome.written.append(run(key, load_params()))
    except KeyboardInterrupt:
        console.print(f"[bold red]{job} was interrupted.[/] Nothing that was there before was changed; run the same command again.")
        sys.exit(130)
    except HindcastError as error:
        console.print(f"[bold red]{job} failed.[/]", end=" ")
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


@contextmanager
def reporting(title: str) -> Iterator[Callable[["loop.Progress"], None]]:
    """Shows a bar with updates a second (of all seeds at once), the share of time spent waiting for data, and the time left.

    It stays when training is done, and goes when an error ends it.
    """
    columns = (TextColumn(title), BarColumn(bar_width=12), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        shown = bar.add_task(title, total=None, speed="compiling")

        def report(progress: "loop.Progress") -> None:
            speed = f"{progress.rate:,.0f} updates/s, {progress.waiting:.0%} waiting, {progress.remaining:,.0f} s left"
            bar.update(shown, total=progress.updates, completed=progress.step, speed=speed)

        try:
            yield report
        except BaseException:  # whatever it is, its message is to stand alone
            bar.update(shown, visible=False)
            raise
