"""What is written is what was meant, in two steps: each record decodes to its episode, and each record is on the disk as it was made.

The first step is done as records are made, and the second once all are written; so no episode is kept, and none decoded twice.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from rl_datasets.digest import episode_digest
from rl_datasets.errors import HindcastError
from rl_datasets.rlds.decoding import Layout, LayoutReader, NotCanonical
from rl_datasets.rlds.features import STEP_METADATA, dataset_features, flat_features, is_metadata, stored_column, stored_steps
from rl_datasets.rlds.reader import RldsReader, records
from rl_datasets.schema import EnvSpec, Episode, named_leaves

_FAULTY = "The disk or memory may be faulty; run the command again."


class RecordCheck:
    """Decodes records as a reader of the data set will."""

    def __init__(self, spec: EnvSpec, columns: Mapping[str, type]) -> None:
        features = flat_features(dataset_features(spec, columns))
        steps = flat_features(features["steps"].feature, "steps")
        self._arrays = {name: stored_steps(feature, name) for name, feature in steps.items() if not name.startswith("steps/is_")}
        self._columns = {key: stored_column(feature, key) for key, feature in features.items() if is_metadata(feature)}
        self._layouts = LayoutReader()

    def digest(self, record: bytes, episode: Episode, metadata: Mapping[str, str | int | float]) -> bytes:
        """Returns a record's own digest. Raises HindcastError where the record does not hold the episode."""
        try:
            same = self._holds(record, self._layouts.read(record), episode, metadata)
        except (ValueError, KeyError, NotCanonical):
            same = False
        if not same:
            raise HindcastError(f"Episode '{episode.episode_id}' was encoded as something else than it is. {_FAULTY}")
        return _digest(record)

    def _holds(self, record: bytes, layout: Layout, episode: Episode, metadata: Mapping[str, str | int | float]) -> bool:
        arrays = [*named_leaves(episode.observation, "steps/observation"), *_own_arrays(episode)]
        if episode.step_metadata:
            arrays += [(f"steps/{STEP_METADATA}/{name}", array) for name, array in episode.step_metadata.items()]
        flags = _flags(episode.length, episode.is_terminal)
        if len(layout) != len(arrays) + len(flags) + 1 + len(metadata):
            return False
        for name, array in arrays:
            stored = self._arrays[name]
            if not stored.holds(record, layout[stored.key], array):
                return False
        for key, expected in flags:
            if record[layout[key].start : layout[key].end] != expected:
                return False
        for name, value in (("episode_id", episode.episode_id), *metadata.items()):
            column = self._columns[name]
            if not column.holds(record, layout[column.key], value):
                return False
        return True


def verify(path: Path, split: str, digests: Mapping[str, str], record_digests: Sequence[bytes]) -> None:
    """Reads a split back. Raises HindcastError where a record is not the one that was made, or a shard does not read as a data set."""
    reader = RldsReader(path)
    found: list[bytes] = []
    for shard in reader.shards(split):
        found += map(_digest, records(shard))
        first = next(reader.episodes_of([shard]))  # through the description that any reader goes by
        if digests.get(first.episode_id) != episode_digest(first):
            raise HindcastError(f"{shard.path}, read back after writing, is described as something else than it is. {_FAULTY}")
    wrong = [key for key, made, read in zip(digests, record_digests, found, strict=True) if made != read]
    if wrong:
        raise HindcastError(
            f"{path}, split '{split}': read back after writing, {len(wrong)} episodes differ from what was written, first '{wrong[0]}'. "
            f"{_FAULTY}"
        )


def _digest(record: bytes) -> bytes:
    return hashlib.sha256(record).digest()


def _own_arrays(episode: Episode) -> tuple[tuple[str, np.ndarray], ...]:
    return ("steps/action", episode.action), ("steps/reward", episode.reward), ("steps/discount", episode.discount)


@lru_cache(maxsize=128)
def _flags(length: int, is_terminal: bool) -> tuple[tuple[bytes, bytes], ...]:
    """The flags of all steps: one byte each, as the varint of 0 or 1."""
    zeros = bytes(length)
    return (b"steps/is_first", b"\1" + zeros), (b"steps/is_last", zeros + b"\1"), (b"steps/is_terminal", zeros + bytes([is_terminal]))
