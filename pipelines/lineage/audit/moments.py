"""What cannot be so of a record, whoever wrote it: an outcome that its own words deny, and times that git or the clock denies."""

import time
from collections.abc import Iterable
from datetime import UTC, datetime

from pipelines.lineage.audit.scene import COMPLETE, Scene
from pipelines.lineage.records import Record
from pipelines.lineage.tree import git_or_none

OUTCOMES = (COMPLETE, "FAIL", "ABORT")
APART = 86_400  # seconds by which the clocks of two machines may differ, and more
Contradiction = tuple[str, str]  # expected, found


def said_of_itself(record: Record) -> Contradiction | None:
    """That it ends as a run can end, and names an error where it did not complete and only there."""
    if record.outcome not in OUTCOMES:
        return f"one of {', '.join(OUTCOMES)}", record.outcome
    if (record.outcome == COMPLETE) == bool(record.error):
        return (
            ("no error of a run that completed", record.error)
            if record.error
            else (f"the error of a run that ended in {record.outcome}", "none")
        )
    return None


def timeless(scene: Scene, record: Record) -> Contradiction | None:
    """That it began after the commit that it names, ended after that, and before the commit that brought it, and not in the future.

    No clock is taken to be right to less than a day.
    """
    try:
        started, ended = _seconds(record.started), _seconds(record.ended)
    except ValueError:
        return "two times with a zone", f"{record.started} and {record.ended}"
    if started > ended:
        return f"an end after {record.started}", record.ended
    times = scene.once("times of commits", lambda: _times(scene))
    brought = scene.first_commits.get(record.path, "")
    if started < times.get(record.commit, started) - APART:
        return f"a start after commit {record.commit[:10]}, which was made {_words(times[record.commit])}", record.started
    if ended > times.get(brought, ended) + APART:
        return f"an end before commit {brought[:10]}, which brought it {_words(times[brought])}", record.ended
    latest = max(time.time(), *times.values(), 0)
    return (f"an end before now, {_words(latest)}", record.ended) if ended > latest + APART else None


def _times(scene: Scene) -> dict[str, float]:
    """When each commit was made that a record names or that brought one, and the last one."""
    records = (record for stage in scene.graph.stages for record in scene.records(stage))
    names = {*(record.commit for record in records), *scene.first_commits.values()} - {""}
    return _made([*sorted(names), scene.project.tree.revision or "HEAD"])


def _made(commits: Iterable[str]) -> dict[str, float]:
    """Of those that git has."""
    listing = git_or_none("log", "--no-walk=unsorted", "--ignore-missing", "--format=%H %ct", *commits, "--")
    return {name: float(seconds) for name, seconds in (line.split() for line in (listing or b"").decode().splitlines())}


def _seconds(moment: str) -> float:
    """Raises ValueError where it is no ISO 8601 with a zone."""
    found = datetime.fromisoformat(moment)
    if found.tzinfo is None:
        raise ValueError(moment)
    return found.timestamp()


def _words(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
