"""The episodes of a data set as one revision's run made them, for as long as their bytes are here; and what two of these have in common."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines import paths
from pipelines.lineage.stages import Project
from pipelines.lineage.store import Store
from rl_datasets.checks.drift import Drift, Sample, compare, sample
from rl_datasets.derived import find_parent
from rl_datasets.digest import episode_digest
from rl_datasets.errors import HindcastError
from rl_datasets.rlds import RldsReader
from rl_datasets.schema import Episode


@dataclass(frozen=True)
class ContentDifference:
    """Two contents of one data set: the episodes of the same id that differ inside, and the drift of every column."""

    changed: tuple[str, ...]
    drift: Drift


@contextmanager
def data_at(dataset: str, project: Project, where: str) -> Iterator[Path]:
    """Yields a folder with the files of a data set as a project's lock names them.

    Raises HindcastError where the project has no run of it, or its files are neither on disk nor in DVC's cache.
    """
    root = paths.RAW / dataset
    store = Store(project)
    files = [Path(file) for file in store.files(root.as_posix())]
    found = {file: store.find(file.as_posix()) for file in files if file != root}
    if not found or None in found.values():
        what = "is in no run of the revision" if store.output_of(root.as_posix()) is None else "is not in DVC's cache"
        raise HindcastError(
            f"The data set '{dataset}' of revision {where} {what}. 'hindcast history {dataset}' lists the revisions that have it; "
            "'dvc fetch --all-commits' brings their data from a remote."
        )
    with tempfile.TemporaryDirectory(prefix="hindcast-") as temporary:
        for file, place in found.items():
            link = Path(temporary) / file.relative_to(root)
            link.parent.mkdir(parents=True, exist_ok=True)
            assert place is not None, "the error above is for these"
            link.symlink_to(place.absolute())
        yield find_parent(Path(temporary)).folder


def content_difference(dataset: str, before: Project, after: Project) -> ContentDifference:
    """Reads all episodes of both. Raises HindcastError where either cannot be read."""
    sides = []
    for project in (before, after):
        with data_at(dataset, project, project.tree.revision[:12] or "on disk") as folder:
            sides.append(_read(folder))
    (old, old_sample), (new, new_sample) = sides
    return ContentDifference(tuple(sorted(name for name in old if new.get(name, old[name]) != old[name])), compare(old_sample, new_sample))


def read_sample(folder: Path) -> Sample:
    """Returns a sample of all splits of an RLDS directory together."""
    reader = RldsReader(folder)
    return sample(_episodes(reader), reader.spec)


def _read(folder: Path) -> tuple[dict[str, str], Sample]:
    """Returns the digest of each episode by its id, and a sample of all of them, from one reading."""
    reader, digests = RldsReader(folder), dict[str, str]()

    def passed() -> Iterator[Episode]:
        for episode in _episodes(reader):
            digests[episode.episode_id] = episode_digest(episode)
            yield episode

    return digests, sample(passed(), reader.spec)


def _episodes(reader: RldsReader) -> Iterator[Episode]:
    return (episode for split in reader.splits for episode in reader.episodes_of(reader.shards(split)))
