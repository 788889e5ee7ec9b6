"""`hindcast check`: the quality gate on any RLDS directory, ours or another program's, without a pipeline."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from pipelines.params import checks_in
from rl_datasets.checks import CheckParams, Expected, Report
from rl_datasets.checks.card import PAGE, Shown
from rl_datasets.checks.card.page import VERDICTS
from rl_datasets.checks.crossing import CROSSING, Crossing, crossing_result
from rl_datasets.checks.directory import described_episodes
from rl_datasets.checks.gate import run_gate
from rl_datasets.checks.output import FILE_NAME as REPORT
from rl_datasets.checks.output import write_outputs
from rl_datasets.checks.report import SEVERITIES
from rl_datasets.contents import contents_of
from rl_datasets.environments import make_env
from rl_datasets.errors import HindcastError
from rl_datasets.files import replacing
from rl_datasets.leakage import leaks
from rl_datasets.manifest import FILE_NAME as MANIFEST
from rl_datasets.manifest import read_manifest, require_files
from rl_datasets.rlds import DESCRIPTION, RldsReader
from rl_datasets.words import count

INFO = DESCRIPTION[0]
SHOWN = 3  # findings of each check in the terminal
STYLES = {"pass": "green", "warn": "yellow", "fail": "red", "quarantine": "yellow"}


def run(path: Path, out: Path | None, params: Path | None, splits: Sequence[str], console: Console) -> int:
    """Prints the verdict and the findings, writes the card, and returns the exit code: 1 where data must not pass, else 0.

    Raises HindcastError where the data cannot be read at all, or the card cannot be written.
    """
    try:
        folder = find_data(path)
        reader = RldsReader(folder, lenient=True)
        name = reader.dataset_name
        target = _target(out or Path(f"{name}-{folder.name}-check"))
        report, shown, expected = _checked(reader, checks_in(params, name), list(splits) or list(reader.splits), console)
    except OSError as error:
        reason = error.strerror or str(error)
        raise HindcastError(f"{error.filename or path} cannot be read: {reason}. Look at it with 'ls -ld', and mend that.") from error
    with replacing(target) as part:
        write_outputs(part, target, name, reader, expected, report, shown)
    _tell(report, reader, target, console)
    return int(report.verdict == "fail")


def find_data(path: Path) -> Path:
    """Returns the folder of the RLDS data set at a path or up to two levels below. Raises HindcastError where there is not just one."""
    if not path.exists():
        raise HindcastError(f"{path} does not exist. Give the folder of an RLDS data set, such as artifacts/raw/NAME/1.0.0.")
    if not path.is_dir():
        raise HindcastError(f"{path} is a file, but the folder of an RLDS data set is expected: the one that holds {INFO}.")
    if (path / INFO).is_file():
        return path
    found = sorted(info.parent for pattern in ("*", "*/*") for info in path.glob(f"{pattern}/{INFO}"))
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(folder.relative_to(path).as_posix() for folder in found[:8])
        raise HindcastError(f"{path} holds {len(found)} RLDS data sets: {listed}. Name one of them.")
    files = len(list(path.iterdir()))
    held = "is empty" if not files else f"holds {files} files and folders, but no {INFO}, which is looked for two levels deep"
    raise HindcastError(f"{path} is no RLDS data set: it {held}. Other logs are imported: see 'hindcast inspect {path}'.")


def _checked(reader: RldsReader, params: CheckParams, splits: list[str], console: Console) -> tuple[Report, Shown, Expected]:
    if not splits:
        raise HindcastError(f"{reader.path}: {INFO} names no split, so there is no episode to check. Write the data again.")
    manifest = None
    if (reader.path / MANIFEST).is_file():
        manifest = read_manifest(reader.path)
        require_files(reader.path, manifest, *DESCRIPTION)
    spec = reader.spec
    expected = Expected.of(spec, manifest, partial(make_env, spec.env_id, spec.env_kwargs, spec.max_episode_steps))
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"check {reader.path}", total=described_episodes(reader, splits))
        report, shown = run_gate(reader, splits, expected, params, lambda count: progress.advance(task, count))
    if len(splits) > 1 and not report.results["files"].faults and len(report.table):
        found = [Crossing(leak.second.episode_id, str(leak), leak.equal) for leak in leaks(contents_of(reader, splits))]
        report = replace(report, results={**report.results, CROSSING: crossing_result(found, params.max_findings)})
    return report, shown, expected


def _target(out: Path) -> Path:
    """Raises HindcastError where the folder holds something else than a card, which would be lost."""
    if out.exists() and not (out.is_dir() and ((out / REPORT).is_file() or not any(out.iterdir()))):
        raise HindcastError(f"{out} exists, and is no card of an earlier check. Name another folder with --out, or remove it.")
    return out


def _tell(report: Report, reader: RldsReader, target: Path, console: Console) -> None:
    title, words = VERDICTS[report.verdict]
    console.print(f"[bold {STYLES[report.verdict]}]{title}.[/] {words}", highlight=False)
    console.print(f"{count(report.summary['episodes'], 'episode')}, {count(report.summary['transitions'], 'transition')}.", highlight=False)
    if reader.left_out:
        console.print(f"Not looked at, for it is no array: {', '.join(reader.left_out)}.", markup=False, highlight=False, soft_wrap=True)
    for severity in SEVERITIES:
        for name, result in report.results.items():
            if result.verdict == severity:
                console.print(f"[bold {STYLES[severity]}]{severity}[/] {name}: {result.faults:,}", highlight=False)
                for finding in result.findings[:SHOWN]:
                    text = f"  {finding.where}: found {finding.found}; expected {finding.expected}"
                    console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(f"Card: {target / PAGE}", markup=False, highlight=False, soft_wrap=True)
