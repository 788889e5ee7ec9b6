"""`hindcast drift`: how two data sets, or two versions of one, differ in what they hold."""

import json as text
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from pipelines import paths
from pipelines.commands.telling import tell
from pipelines.lineage.data import data_at, read_sample
from pipelines.lineage.lockfile import LOCK, read_lock
from pipelines.lineage.revisions import Stages, commits_changing, run_project, stages_here, steps
from pipelines.lineage.tree import GitTree
from rl_datasets.checks.drift import Drift, compare
from rl_datasets.derived import find_parent
from rl_datasets.errors import HindcastError


def run(first: str, second: str, revision: str, json: bool, console: Console) -> int:
    """Compares the first, at the revision where one is given, with the second, or else with itself as it is on disk.

    Without a second and a revision, the first is taken from the newest commit whose run made other data. Returns 1 where they differ,
    else 0. Raises HindcastError where either cannot be read.
    """
    other = second or first
    with _folder(first, revision or ("" if second else _before(first))) as (folder, name):
        before = read_sample(folder)
    with _folder(other, "") as (folder, other_name):
        drift = compare(before, read_sample(folder))
    if json:
        console.print_json(text.dumps({"before": name, "after": other_name, **drift.to_json()}))
    else:
        tell(console, [f"{name} and {other_name}:", *drift.summary()])
    return int(differs(drift))


def differs(drift: Drift) -> bool:
    return bool(drift.drifted or drift.only_before or drift.only_after)


@contextmanager
def _folder(dataset: str, revision: str) -> Iterator[tuple[Path, str]]:
    """Yields the RLDS directory of a data set, by its name or path, and what a reader calls it."""
    if revision:
        with GitTree(revision) as tree, data_at(dataset, run_project(read_lock(tree)), tree.revision[:12]) as folder:
            yield folder, f"'{dataset}' of {tree.revision[:12]}"
    elif (Path(dataset) / "dataset_info.json").is_file():
        yield Path(dataset), dataset
    else:
        parent = find_parent(paths.RAW / dataset if not Path(dataset).is_dir() else Path(dataset))
        yield parent.folder, f"'{parent.name}' {parent.folder.name}"


def _before(dataset: str) -> str:
    """Returns the newest commit whose dvc.lock has other data of this name than are here now."""
    now = _md5(dataset, stages_here() or {})
    if now is None:
        raise HindcastError(
            f"{LOCK} has no run of the data set '{dataset}', so there is no earlier version of it. Name what to compare with: "
            f"'hindcast drift {dataset} OTHER', by another data set or the path of an RLDS directory."
        )
    for step in steps(commits_changing(LOCK)):
        if _md5(dataset, step.stages) not in (None, now):
            return step.commit.name
    raise HindcastError(
        f"No commit has another version of the data set '{dataset}' than the one that is here. Name what to compare with: "
        f"'hindcast drift {dataset} OTHER', by another data set or the path of an RLDS directory."
    )


def _md5(dataset: str, stages: Stages) -> str | None:
    path = (paths.RAW / dataset).as_posix()
    return next((out["md5"] for stage in stages.values() for out in stage.get("outs", ()) if out["path"] == path), None)
