"""Checks one raw data set, writes the report and the data card, and fails where a fault must not pass."""

from pathlib import Path

from rich.progress import Progress

from pipelines import paths
from pipelines.inputs import read_input
from pipelines.params import Params
from pipelines.stage import console, main
from rl_datasets.builder import RAW_SPLIT
from rl_datasets.checks import run_checks
from rl_datasets.checks.output import failure, write_report
from rl_datasets.errors import HindcastError
from rl_datasets.rlds import DESCRIPTION, read_episodes, read_spec, read_splits
from rl_datasets.rlds.flags import read_flags


def run(key: str, params: Params) -> Path:
    """Writes artifacts/checks/<key>/ whatever is found, then raises HindcastError where the verdict is "fail"."""
    raw, folder, checks = paths.RAW / key / params.dataset(key).version, paths.CHECKS / key, params.checks_of(key)
    manifest = read_input(raw, f"collect@{key}", params, *DESCRIPTION)
    spec = read_spec(raw)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"check {key}", total=read_splits(raw)[RAW_SPLIT].episodes)
        report = run_checks(
            read_episodes(raw, RAW_SPLIT), spec, checks, read_flags(raw, RAW_SPLIT), lambda count: progress.advance(task, count)
        )
    write_report(folder, key, raw, spec, manifest, checks, report)
    if report.verdict == "fail":
        raise HindcastError(failure(report, folder, key))
    warned = f", {report.faults('warn'):,} warnings" if report.verdict == "warn" else ""
    console.print(f"{report.summary['episodes']:,} episodes checked{warned}: {folder / 'card.md'}", highlight=False, soft_wrap=True)
    return folder


if __name__ == "__main__":
    main("check", run)
