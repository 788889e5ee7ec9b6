"""What the files of a data set hold in few words: digests, lengths and returns of their episodes. Large data are read by all cores.

A process of its own decodes and hashes without TFDS; what it cannot decode, as where there is damage, is read here again, and told.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from rl_datasets.digest import content_keys, episode_digests
from rl_datasets.recorded import EndToEnd
from rl_datasets.rlds.shards import Shard
from rl_datasets.rlds.together import Together, are_long, read_end_to_end
from rl_datasets.schema import EnvSpec
from rl_datasets.stats import RunningStatistics
from rl_datasets.workers import in_processes

if TYPE_CHECKING:
    from rl_datasets.rlds.reader import RldsReader  # with TFDS, which a worker does without

SHARE = 1 << 26  # bytes for each process: they take about three times as long to read as a process takes to start


class Wanted(NamedTuple):
    """What is wanted of each file beside ids, digests and lengths. spec: for statistics."""

    rows: bool = False  # what a table of the episodes says
    spec: EnvSpec | None = None


@dataclass
class Summary:
    """Of one file, its episodes in order."""

    episode_id: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    content_keys: list[str] = field(default_factory=list)  # as wanted
    returns: list[float] = field(default_factory=list)  # as wanted
    statistics: RunningStatistics | None = None  # as wanted


def summaries(reader: "RldsReader", shards: Sequence[Shard], wanted: Wanted) -> Iterator[Summary]:
    """Yields the summary of each file in order. Raises HindcastError on any damage."""

    def read_here(shard: Shard) -> Summary:
        return _summary(read_end_to_end(reader, shard, with_step_metadata=True), wanted)

    workers = _workers(shards)
    own = -(-len(shards) // (workers + 1))  # this process takes its part
    with ThreadPoolExecutor(1) as aside:
        others = aside.submit(_read_elsewhere, reader, shards[own:], wanted, workers)
        yield from map(read_here, shards[:own])
        for shard, summary in zip(shards[own:], others.result(), strict=True):
            yield summary or read_here(shard)


def summarise(job: tuple[Together, Wanted], shards: Iterable[Shard]) -> Iterator[Summary | None]:
    """The work of a process: yields the summary of each file; None where its episodes cannot be decoded together."""
    together, wanted = job
    for shard in shards:
        try:
            summary = _summary(together.episodes(shard), wanted)
        except (ValueError, KeyError, OSError):
            yield None
        else:
            yield summary


def _workers(shards: Sequence[Shard]) -> int:
    """How many processes are worth their start, beside this one."""
    size = sum(0 if are_long(shard) else shard.path.stat().st_size for shard in shards)
    return max(min(os.cpu_count() or 1, len(shards), size // SHARE) - 1, 0)


def _read_elsewhere(reader: "RldsReader", shards: Sequence[Shard], wanted: Wanted, workers: int) -> list[Summary | None]:
    """Returns the summary of each file that other processes could read."""
    try:
        together = Together(reader, with_flags=False, with_step_metadata=True)
        return list(in_processes(summarise, (together, wanted), shards, workers))
    except Exception:  # whatever keeps them from it: what is wrong with the data is met again here, and told
        return [None] * len(shards)


def _summary(parts: Iterable[EndToEnd], wanted: Wanted) -> Summary:
    summary = Summary(statistics=None if wanted.spec is None else RunningStatistics(wanted.spec))
    for some in parts:
        keys = content_keys(some)
        summary.episode_id += some.episode_id
        summary.digests += episode_digests(some, keys)
        summary.lengths += some.lengths.tolist()
        if wanted.rows:
            summary.content_keys += keys
            summary.returns += some.returns.tolist()
        if summary.statistics is not None:
            summary.statistics.add_all(some)
    return summary
