"""Checks one raw data set, writes the report and the data card, and fails where a fault must not pass."""

from functools import partial
from pathlib import Path

from rich.progress import Progress

from pipelines import paths
from pipelines.inputs import read_input
from pipelines.params import Params
from pipelines.stage import console, main
from rl_datasets.builder import RAW_SPLIT
from rl_datasets.checks import Expected, Report
from rl_datasets.checks.card import PAGE
from rl_datasets.checks.directory import described_episodes
from rl_datasets.checks.gate import run_gate
from rl_datasets.checks.output import failure, write_report
from rl_datasets.environments import make_env
from rl_datasets.errors import HindcastError
from rl_datasets.rlds import DESCRIPTION, RldsReader
from rl_datasets.words import count


def run(key: str, params: Params) -> Path:
    """Writes artifacts/checks/<key>/ whatever is found, then raises HindcastError where the verdict is "fail"."""
    raw, folder, checks = paths.RAW / key / params.dataset(key).version, paths.CHECKS / key, params.checks_of(key)
    manifest = read_input(raw, f"collect@{key}", params, *DESCRIPTION)
    reader = RldsReader(raw)
    spec = reader.spec
    expected = Expected.of(spec, manifest, partial(make_env, spec.env_id, spec.env_kwargs, spec.max_episode_steps))
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"check {key}", total=described_episodes(reader, [RAW_SPLIT]))
        report, shown = run_gate(reader, [RAW_SPLIT], expected, checks, lambda count: progress.advance(task, count))
    write_report(folder, key, raw, expected, checks, report, shown)
    if report.verdict == "fail":
        raise HindcastError(failure(report, folder, key))
    console.print(f"{outcome(report)}: {folder / PAGE}", highlight=False, soft_wrap=True)
    return folder


def outcome(report: Report) -> str:
    """Says in one line what came of the checks."""
    warned = f", {count(report.faults('warn'), 'warning')}" if report.faults("warn") else ""
    aside = len({entry.episode_id for entry in report.quarantine})
    return f"{count(report.summary['episodes'], 'episode')} checked{warned}" + (f", {aside:,} of them set aside" if aside else "")


if __name__ == "__main__":
    main("check", run)
