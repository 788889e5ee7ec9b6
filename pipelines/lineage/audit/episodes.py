"""What the shards of a data set hold: every episode read, and its digest, content, length and return computed from its bytes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.lineage.audit.findings import listed
from rl_datasets.digest import DatasetDigest, combined_digest
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import SHARD
from rl_datasets.rlds import DESCRIPTION, RldsReader
from rl_datasets.rlds.shards import Shard
from rl_datasets.rlds.summary import Wanted, summaries
from rl_datasets.stats import RunningStatistics

TRAIN = "train"


@dataclass
class Read:
    """What the shards of one data set hold."""

    digest: str = ""
    episodes: dict[str, dict[str, str]] = field(default_factory=dict)  # by split: id -> digest, as they are stored
    contents: dict[str, dict[str, str]] = field(default_factory=dict)  # by split, of divided data: id -> hash of what happened
    rows: dict[str, tuple[int, float]] = field(default_factory=dict)  # of divided data: id -> length, return
    transitions: dict[str, int] = field(default_factory=dict)  # by split
    statistics: dict[str, Any] | None = None  # of train

    @cached_property
    def all_episodes(self) -> dict[str, str]:
        return {name: digest for episodes in self.episodes.values() for name, digest in episodes.items()}


def read_directory(path: Path) -> Read:
    """Reads every episode. Raises HindcastError where a file is missing or damaged, or is one that the description does not name."""
    reader, read, digests = RldsReader(path), Read(), {}
    shards = {split: reader.shards(split) for split in reader.splits}
    described = {shard.path.name for of_split in shards.values() for shard in of_split}
    strangers = sorted(file.name for file in path.iterdir() if SHARD in file.name and file.name not in described)
    if strangers:
        raise HindcastError(f"{path.name} has files of episodes that {DESCRIPTION[0]} does not name: {listed(strangers)}")
    for split, of_split in shards.items():
        digests[split] = _read_split(reader, of_split, read)
    read.digest = combined_digest(digests)
    return read


def _read_split(reader: RldsReader, shards: Sequence[Shard], read: Read) -> str:
    """Adds the episodes of a split to what was read, in order, and returns its digest."""
    split, digest, contents, transitions = shards[0].split, DatasetDigest(), dict[str, str](), 0
    running = RunningStatistics(reader.spec) if split == TRAIN else None
    wanted = Wanted(rows=TRAIN in reader.splits, spec=reader.spec if split == TRAIN else None)
    for summary in summaries(reader, shards, wanted):
        digest.add_all(summary.episode_id, summary.digests)
        if wanted.rows:
            contents.update(zip(summary.episode_id, summary.content_keys, strict=True))
            read.rows.update(zip(summary.episode_id, zip(summary.lengths, summary.returns, strict=True), strict=True))
        if running is not None and summary.statistics is not None:
            running.join(summary.statistics)
        transitions += sum(summary.lengths)
    if running is not None and (result := running.result()) is not None:
        read.statistics = result.to_json()
    read.episodes[split], read.contents[split], read.transitions[split] = digest.episodes, contents, transitions
    return digest.hexdigest()
