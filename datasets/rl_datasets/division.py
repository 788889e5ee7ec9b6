"""`divide`: one raw data set into splits on disk, with the statistics of train and a table of all episodes.

The raw data are read once to see which episodes share their content and where each belongs, and once more for each split
that is written. Memory is that of a block of episodes and a row for each.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rl_datasets.builder import RAW_SPLIT
from rl_datasets.digest import DatasetDigest, combined_digest, content_key
from rl_datasets.errors import HindcastError
from rl_datasets.files import replacing, write_json
from rl_datasets.manifest import Input, Manifest, package_versions, read_manifest, write_manifest
from rl_datasets.rlds import Written, read_episodes, read_spec, write_rlds
from rl_datasets.schema import Episode
from rl_datasets.splits import Fractions, SplitParams, assign_split, require_episodes
from rl_datasets.stats import FILE_NAME as STATISTICS
from rl_datasets.stats import RunningStatistics

TRAIN = "train"
EPISODES = "episodes.csv"


class EpisodeEntry(NamedTuple):
    """A row of episodes.csv, in the order of the raw data."""

    episode_id: str
    split: str
    length: int
    episode_return: float
    is_terminal: bool
    policy: str
    seed: int


def divide(
    raw: Path,
    folder: Path,
    name: str,
    version: str,
    params: SplitParams,
    inputs: Sequence[Input],
    advance: Callable[[int], None] = lambda _: None,
) -> Manifest:
    """Replaces `folder` by the splits of the data set in `raw`, and returns its manifest. Same data and parameters, same bytes.

    `advance` is told of each episode that is read, 2 for every raw one. Raises HindcastError where a split would be empty or
    the data in `raw` are not those that its manifest names; `folder` is then as it was.
    """
    source, spec, fractions = read_manifest(raw), read_spec(raw), params.fractions
    entries, copies = _assign(raw, source.digest, params, advance)
    running = RunningStatistics(spec)

    def members(split: str) -> Iterator[Episode]:
        for episode, entry in zip(read_episodes(raw, RAW_SPLIT), entries, strict=True):
            if entry.split == split:
                if split == TRAIN:
                    running.add(episode)
                advance(1)
                yield episode

    with replacing(folder) as part:
        splits = {split: members(split) for split in fractions.positive()}
        written = write_rlds(part, name, version, spec, splits, versions=source.packages)
        _require_all(entries, written)
        statistics = running.result()
        assert statistics is not None, "train has a positive fraction, and no split is empty"
        write_json(part / STATISTICS, statistics.to_json())
        _write_entries(part / EPISODES, entries)
        manifest = Manifest(
            job=f"split@{name}",
            digest=written.digest,
            parameters=params.model_dump(),
            inputs=tuple(inputs),
            counts=_counts(written, fractions),
            notes=(*source.notes, *([f"{copies} episodes repeat another's content and share its split."] if copies else [])),
            packages=package_versions("numpy", "tensorflow-datasets"),
        )
        write_manifest(part, manifest)
    return manifest


def _assign(raw: Path, digest: str, params: SplitParams, advance: Callable[[int], None]) -> tuple[list[EpisodeEntry], int]:
    """Returns a row for each raw episode, and how many repeat the content of an earlier one."""
    groups: dict[str, str] = {}  # content to split
    entries, content = [], DatasetDigest()
    for episode in read_episodes(raw, RAW_SPLIT):
        content.add(episode)
        group = content_key(episode)
        split = groups[group] = groups.get(group) or assign_split(group, params.fractions, params.seed)
        known = episode.metadata
        ending = (episode.is_terminal, str(known.get("policy", "")), int(known.get("seed", -1)))
        entries.append(EpisodeEntry(episode.episode_id, split, episode.length, episode.episode_return, *ending))
        advance(1)
    found = combined_digest({RAW_SPLIT: content.hexdigest()})
    if found != digest:
        raise HindcastError(
            f"{raw} holds content of digest {found[:12]}, but its manifest names {digest[:12]}: the files were changed after they "
            "were made. Restore them with 'dvc checkout --force' or rebuild them with 'dvc repro'."
        )
    require_episodes(Counter(groups.values()), params.fractions)
    return entries, len(entries) - len(groups)


def _require_all(entries: Sequence[EpisodeEntry], written: Written) -> None:
    """The splits together are the data set."""
    expected, found = (len(entries), sum(e.length for e in entries)), (sum(written.episodes.values()), sum(written.transitions.values()))
    if expected != found:
        raise HindcastError(f"The splits hold {found} episodes and transitions, but the data set {expected}. Run the stage again.")


def _counts(written: Written, fractions: Fractions) -> dict[str, int]:
    episodes = {f"{split}_episodes": written.episodes[split] for split in fractions.positive()}
    return episodes | {f"{split}_transitions": written.transitions[split] for split in fractions.positive()}


def _write_entries(path: Path, entries: Sequence[EpisodeEntry]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(EpisodeEntry._fields)
        writer.writerows(entries)
