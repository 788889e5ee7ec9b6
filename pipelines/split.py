"""Divides one checked data set into train, validation and test by episode, and describes train."""

from pathlib import Path

from rich.progress import Progress

from pipelines import paths
from pipelines.inputs import read_input
from pipelines.params import Params
from pipelines.stage import console, main
from rl_datasets.builder import RAW_SPLIT
from rl_datasets.division import divide, read_quarantine
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json
from rl_datasets.manifest import Input, require_files
from rl_datasets.rlds import DESCRIPTION, read_splits

REPORT, QUARANTINE = "report.json", "quarantine.csv"


def run(key: str, params: Params) -> Path:
    """Writes artifacts/splits/<key>/<version>/. Raises HindcastError where the gate has not passed these very data."""
    version = params.dataset(key).version
    raw, checks, folder = paths.RAW / key / version, paths.CHECKS / key, paths.SPLITS / key / version
    data = read_input(raw, f"collect@{key}", params, *DESCRIPTION)
    verdict = read_input(checks, f"check@{key}", params, REPORT)
    require_passed(key, raw, checks, data.digest)
    quarantine = {}
    if QUARANTINE in verdict.files:  # a gate that knows of none leaves no list
        require_files(checks, verdict, QUARANTINE)
        quarantine = read_quarantine(checks / QUARANTINE)
    inputs = (Input(key, raw.as_posix(), data.digest), Input(f"check of {key}", checks.as_posix(), verdict.digest))
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"split {key}", total=2 * read_splits(raw)[RAW_SPLIT].episodes)
        manifest = divide(
            raw,
            folder,
            key,
            version,
            params.split_of(key),
            inputs,
            lambda count: progress.advance(task, count),
            quarantine=quarantine,
            key_of=lambda field: params.split.key_of(key, field),
        )
    console.print(
        ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in manifest.counts.items()), highlight=False, soft_wrap=True
    )
    for note in manifest.notes[len(data.notes) :]:  # those of this stage
        console.print(f"  {note}", markup=False, highlight=False, soft_wrap=True)
    return folder


def require_passed(key: str, raw: Path, checks: Path, digest: str) -> None:
    """Raises HindcastError where the report says "fail" or is about other data than those in `raw`, whose digest is given."""
    report = read_json(checks / REPORT, "verdict", "digest")
    if report["digest"] != digest:
        raise HindcastError(
            f"{checks / REPORT} is about data of digest {report['digest'][:12]}, but {raw} now holds {digest[:12]}. "
            f"Run 'dvc repro check@{key}' first."
        )
    if report["verdict"] == "fail":
        raise HindcastError(
            f"The quality gate did not pass '{key}'; {checks / 'card.html'} says why. Mend the data, then run 'dvc repro check@{key}'."
        )


if __name__ == "__main__":
    main("split", run)
