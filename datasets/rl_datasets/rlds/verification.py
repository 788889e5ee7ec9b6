"""What is written is what was meant: it is read back as any reader will, and the digests of its episodes are those that were handed in."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from rl_datasets.digest import content_keys, episode_digests
from rl_datasets.errors import HindcastError
from rl_datasets.recorded import EndToEnd
from rl_datasets.rlds.reader import RldsReader
from rl_datasets.rlds.shards import Shard
from rl_datasets.rlds.together import read_end_to_end

_FAULTY = "The disk or memory may be faulty; run the command again."


def verify(path: Path, split: str, digests: Mapping[str, str]) -> None:
    """Reads a split back. digests: of its episodes by id, in the order in which they were written.

    Raises HindcastError where an episode or a flag of a step is another one, or a file does not read as one of the data set.
    """
    reader, expected = RldsReader(path), list(digests.items())
    for shard in reader.shards(split):
        found = _digests(reader, shard)
        meant = expected[shard.first : shard.first + shard.episodes]
        wrong = [episode_id for (episode_id, digest), read in zip(meant, found, strict=True) if read != (episode_id, digest)]
        if wrong:
            raise HindcastError(
                f"{shard.path}: read back after writing, {len(wrong)} of {len(meant)} episodes differ from what was written, first "
                f"'{wrong[0]}'. {_FAULTY}"
            )


def _digests(reader: RldsReader, shard: Shard) -> list[tuple[str, str]]:
    """Returns (id, digest) of the episodes of a file; the digest is none where a flag of a step is not what the episode says."""
    found: list[tuple[str, str]] = []
    try:
        for episodes in read_end_to_end(reader, shard, with_flags=True, with_step_metadata=True):
            digests = episode_digests(episodes, content_keys(episodes))
            for number in np.flatnonzero(_with_other_flags(episodes)):
                digests[number] = ""
            found += zip(episodes.episode_id, digests, strict=True)
    except HindcastError as error:
        raise HindcastError(f"{error} It was read back after writing. {_FAULTY}") from error
    return found


def _with_other_flags(episodes: EndToEnd) -> np.ndarray:
    """Returns [E] bool: which episodes have a step whose flags are not those of its place."""
    expected = np.zeros((len(episodes.reward), 3), bool)
    expected[episodes.starts[:-1], 0] = expected[episodes.lasts, 1] = True
    expected[episodes.lasts, 2] = episodes.is_terminal
    return np.logical_or.reduceat((expected != episodes.flags).any(axis=1), episodes.starts[:-1])
