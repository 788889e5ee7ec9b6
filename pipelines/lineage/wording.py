"""Changes, runs and revisions as lines of text, for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipelines.lineage.changes import ABSENT, Change, Kind
from pipelines.lineage.code import FileChange
from pipelines.lineage.difference import Cause
from pipelines.lineage.outcomes import DataDifference, EpisodeDifference, MetricDifference
from pipelines.lineage.revisions import NO_HISTORY, Commit
from pipelines.lineage.why import LastRun, Why

_SHOWN = 8  # lines of a kind, and names in a line; more are counted
_ORDER = (Kind.COMMAND, Kind.PARAMETER, Kind.SOURCE, Kind.PACKAGES, Kind.CODE, Kind.UPSTREAM, Kind.OUTPUT)


def why_lines(why: Why, verbose: bool = False) -> Iterator[str]:
    """Yields why one stage would run, or that it would not, and why it ran the last time."""
    if why.last is None:
        yield f"{why.stage} would run, for dvc.lock has no run of it."
    elif why.would_run:
        yield f"{why.stage} would run again, because of what has changed since its last run:"
        yield from _indented(change_lines(why.changes, why.files, why.since, verbose))
    else:
        yield f"{why.stage} would not run: nothing that it depends on has changed since its last run."
    for name, changes in why.above.items():
        yield f"  {name} would run first" + (":" if changes else ", for it never ran, or for what stands above it.")
        yield from _indented(change_lines(changes, verbose=verbose), 4)
    if why.absent:
        yield f"  Not compared, for it is not here ('dvc pull' or 'dvc checkout' brings it): {listed(why.absent)}"
    if why.last is not None:
        yield from last_run_lines(why.last, verbose)


def last_run_lines(last: LastRun, verbose: bool = False) -> Iterator[str]:
    """Yields what made the run that dvc.lock describes."""
    if not last.has_history:
        yield f"Why the last run was made: {NO_HISTORY[0].lower()}{NO_HISTORY[1:]}"
        return
    where = f"first stands in {last.commit}" if last.commit else "is not committed yet"
    if last.before is None:
        ending = (
            "this clone lacks the commits before it ('git fetch --unshallow' brings them)" if last.is_cut else "there was none before it"
        )
        yield f"The last run {where}; {ending}."
        return
    if last.other:
        yield f"The last run {where}. It was run for the first time on its data; the one in {last.before} was of {listed(last.other)}."
        return
    if last.changes:
        yield f"The last run {where}. It ran because of what was different from the one in {last.before}:"
        yield from _indented(change_lines(last.changes, verbose=verbose))
    elif last.outputs:
        yield f"The last run {where}. It was given the same as the one in {last.before}, and made other bytes:"
        yield from _indented(change_lines(last.outputs, verbose=verbose))
    else:
        yield f"The last run {where}. It was given the same as the one in {last.before}, and made the same."


def change_lines(
    changes: Iterable[Change],
    files: Mapping[str, Sequence[FileChange]] | None = None,
    since: Mapping[str, Commit] | None = None,
    verbose: bool = False,
) -> Iterator[str]:
    """Yields a line a change, values before paths; of many of one kind the first ones and how many there are."""
    for kind in _ORDER:
        some = [change for change in changes if change.kind is kind]
        shown = some if verbose or len(some) <= _SHOWN + 1 else some[:_SHOWN]
        for change in shown:
            yield str(change) + _places(change, files or {}, since or {})
        if len(shown) < len(some):
            yield f"{kind}: {len(some) - len(shown)} more (--verbose shows them)"


def cause_line(cause: Cause) -> str:
    return f"{cause.change}  ({listed(cause.stages)})"


def data_lines(found: DataDifference, verbose: bool = False) -> Iterator[str]:
    """Yields what happened to one data set."""
    version = found.version[0] if found.version[0] == found.version[1] else f"{found.version[0] or ABSENT} -> {found.version[1] or ABSENT}"
    digest = (
        f", content {found.digest[0][:8] or 'unknown'} -> {found.digest[1][:8] or 'unknown'}" if found.digest[0] != found.digest[1] else ""
    )
    yield f"{found.name} {version}{digest}"
    if found.is_version_kept:
        yield f"  The content is other, but the version still is {found.version[0]}: raise datasets.{found.name}.version."
    if found.episodes is None:
        yield "  Its episodes are not here on both sides; 'dvc fetch --all-commits' brings what the remote has."
    else:
        yield from _indented(episode_lines(found.episodes, found.digest, verbose))


def episode_lines(found: EpisodeDifference, digest: tuple[str, str], verbose: bool = False) -> Iterator[str]:
    """Yields how many episodes came, went and changed, and which."""
    moved = found.moved()
    changed = [name for name in found.changed if name not in moved]
    for word, names in (("added", found.added), ("removed", found.removed), ("changed", changed), ("moved to another split", moved)):
        if names:
            shown = names if verbose else names[:_SHOWN]
            count = f"{len(names):,} {'episode' if len(names) == 1 else 'episodes'}"
            yield f"{count} {word}: {', '.join(shown)}{' ...' if len(shown) < len(names) else ''}"
    for name in changed if verbose else changed[:_SHOWN]:
        yield f"  {name}: " + ", ".join(f"{entry.name} {entry.before} -> {entry.after}" for entry in found.changed[name])
    if not (found.added or found.removed or found.changed) and digest[0] != digest[1]:
        yield "Ids, lengths, returns and splits are the same: what changed is inside of steps, or in metadata (--deep names the episodes)."


def metric_line(found: MetricDifference) -> str:
    if found.before is None or found.after is None:
        sides = [interval(values) if values else "not here, or not run" for values in (found.before, found.after)]
        return f"{found.experiment}: {sides[0]} -> {sides[1]}"
    told = f"{found.experiment}: {interval(found.before)} -> {interval(found.after)}"
    if found.headline is None:
        return f"{told}: evaluated in another way"
    verdict = "the intervals are apart" if found.are_apart else "the intervals overlap"
    change = found.after[found.headline[0]] - found.before[found.headline[0]]
    return f"{told}: {change:+.1f}, {verdict}"


def interval(values: Mapping[str, float]) -> str:
    """The numbers of an evaluation in a few words: as played, as the data tell them, or both."""
    told = []
    if "iqm" in values:
        told.append(f"IQM {values['iqm']:.1f} [{values['iqm_low']:.1f}, {values['iqm_high']:.1f}], mean {values['return_mean']:.1f}")
    if "fitted_q_value" in values:
        low, high = values["fitted_q_value_low"], values["fitted_q_value_high"]
        told.append(f"fitted Q {values['fitted_q_value']:.4g} [{low:.4g}, {high:.4g}]")
    return "; ".join(told) or "no numbers"


def listed(names: Iterable[str], limit: int = _SHOWN) -> str:
    """Returns the first names, and how many more there are."""
    every = list(names)
    return ", ".join(every[:limit]) + (f" and {len(every) - limit:,} more" if len(every) > limit else "")


def _places(change: Change, files: Mapping[str, Sequence[FileChange]], since: Mapping[str, Commit]) -> str:
    inside = ", ".join(map(str, files.get(change.name, ())))
    return (f": {inside}" if inside else "") + (f"; as it was run in {since[change.name]}" if change.name in since else "")


def _indented(lines: Iterable[str], spaces: int = 2) -> Iterator[str]:
    yield from (" " * spaces + line for line in lines)
