"""`run_gate`: the checks on an RLDS directory in one pass, and what its data card shows, for which a few episodes are read again."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pandas as pd

from rl_datasets.checks.card import Shown
from rl_datasets.checks.card.samples import Sample, choose
from rl_datasets.checks.card.steps import steps_of
from rl_datasets.checks.directory import check_directory
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.report import Report
from rl_datasets.errors import HindcastError
from rl_datasets.rlds.reader import RldsReader
from rl_datasets.schema import Episode


def run_gate(
    reader: RldsReader, splits: Sequence[str], expected: Expected, params: CheckParams, advance: Callable[[int], None] = lambda _: None
) -> tuple[Report, Shown]:
    """Checks the episodes of some splits together. Files that cannot be read are findings."""
    report = check_directory(reader, splits, expected, params, advance)
    return report, Shown(steps_of(report, expected), sample_episodes(reader, splits, report.table))


def sample_episodes(reader: RldsReader, splits: Sequence[str], table: pd.DataFrame) -> tuple[Sample, ...]:
    """Returns the first episode, and those of a high, the median and a low return. table: columns of EpisodeRow.

    Only their files are read. Where files are damaged, one that is not found in its place is left out.
    """
    chosen = choose(table)
    samples = [
        Sample(chosen[number], episode)
        for number, episode in _episodes(reader, splits, list(chosen))
        if (episode.episode_id, episode.length) == tuple(table[["episode_id", "length"]].iloc[number])
    ]
    return tuple(sorted(samples, key=Sample.order))


def _episodes(reader: RldsReader, splits: Sequence[str], numbers: Sequence[int]) -> Iterator[tuple[int, Episode]]:
    """Yields (number, episode) of some episodes by their number in the data, ascending."""
    shards = [shard for split in splits for shard in reader.described_shards(split)]
    first = 0
    for shard in shards:
        wanted = [number for number in numbers if first <= number < first + shard.episodes]
        if wanted:
            with suppress(HindcastError):
                for number, recorded in zip(range(first, wanted[-1] + 1), reader.recorded_of(shard), strict=False):
                    if number in wanted:
                        yield number, recorded.episode
        first += shard.episodes
