"""`hindcast history`: the runs of a target over git."""

import json as text
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby

from rich.console import Console

from pipelines.commands.telling import tell
from pipelines.lineage.history import Run, history
from pipelines.lineage.revisions import is_shallow
from pipelines.lineage.wording import change_lines, interval, listed


def run(target: str, everywhere: bool, verbose: bool, json: bool, console: Console) -> None:
    """Shows the newest first. Raises HindcastError where no commit has a run of the target."""
    runs = history(target, everywhere)
    if json:
        console.print_json(text.dumps([asdict(entry) for entry in runs]))
        return
    for commit, some in groupby(runs, lambda entry: entry.commit):
        author = f", {commit.author}" if commit.author else ""
        tell(console, [f"{commit}{author}", *(f"  {line}" for entry in some for line in lines(entry, verbose))])
    if is_shallow():
        tell(console, ["This clone lacks older commits: 'git fetch --unshallow' brings them."])


def lines(entry: Run, verbose: bool) -> Iterator[str]:
    """Yields one run: what was different, and what came of it."""
    version = f" {entry.version}" if entry.version else ""
    outcome = f": {interval(entry.metrics)}" if entry.metrics else ""
    if entry.is_last:
        yield f"{entry.stage} was taken away"
    elif entry.is_first:
        other = f" on its data (before, it was of {listed(entry.other)})" if entry.other else ""
        yield f"{entry.stage}{version} was run for the first time{other}{outcome}"
    else:
        same = "" if entry.outputs else ", and made the same bytes"
        yield f"{entry.stage}{version} was run again{same}{outcome}"
        yield from (f"  {line}" for line in change_lines(entry.changes, verbose=verbose))
        if not entry.changes and entry.outputs:
            yield "  It was given the same and made other bytes."
    if entry.record is not None:
        yield f"  {entry.record}"
