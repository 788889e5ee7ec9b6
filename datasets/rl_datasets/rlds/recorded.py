"""`read_recorded`: episodes of data of unknown quality, for the gate; what cannot be read is told, and passed over.

Where the episodes of a file are stored in the usual way, many are decoded at once, for one at a time costs more than all that is asked
of them; their step metadata, which are not checked, stay where they are. From the first place on where they are not, they are read one
at a time.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.manifest import SHARD
from rl_datasets.recorded import FLAGS, Damage, EndToEnd, Recorded
from rl_datasets.rlds.decoding import LayoutReader
from rl_datasets.rlds.features import StoredTexts
from rl_datasets.rlds.reader import STEPS_KEY, RldsReader, Shard, aligned, records

BYTES = 1 << 23  # of the records that are decoded at once; at least one
EPISODES = 1 << 12


def read_recorded(reader: RldsReader, splits: Sequence[str]) -> Iterator[Recorded | EndToEnd | Damage]:
    """Yields the episodes of some splits in order with their flags as they are stored, and Damage where a file is not what it should be.

    What a damaged file holds before the damage is yielded. Raises HindcastError where there is no such split.
    """
    for split in splits:
        steps = reader.metadata.get(STEPS_KEY, {}).get(split)
        for number, shard in enumerate(reader.described_shards(split)):
            yield from _recorded(reader, shard, None if steps is None else steps[number])
    known = {shard.path.name for each in reader.splits for shard in reader.described_shards(each)}
    for file in sorted(file.name for file in reader.path.iterdir() if SHARD in file.name and file.name not in known):
        yield Damage(file, "a file of episodes that the description does not name", "the files that dataset_info.json names, and no other")


def _recorded(reader: RldsReader, shard: Shard, steps: int | None) -> Iterator[Recorded | EndToEnd | Damage]:
    if not shard.path.is_file():
        yield Damage(shard.path.name, "missing", f"a file of {shard.episodes} episodes")
        return
    found = 0
    try:
        for recorded in _many_at_once(reader, shard):
            found += len((recorded.episode if isinstance(recorded, Recorded) else recorded).reward)
            yield recorded
    except HindcastError as error:
        yield Damage(shard.path.name, str(error), f"{shard.episodes} episodes that can be read")
        return
    if steps is not None and found != steps:
        yield Damage(shard.path.name, f"{found} steps", f"{steps} steps, as metadata.json says")


def _many_at_once(reader: RldsReader, shard: Shard) -> Iterator[Recorded | EndToEnd]:
    """Yields the episodes of a file as its reader does one at a time, which it does where they cannot be taken together."""
    joined = _Joiner(reader, shard)
    number = shard.first
    for group in _groups(records(shard)):
        try:
            episodes = joined(group, number)
        except (ValueError, KeyError):
            yield from islice(reader.recorded_of(shard), number - shard.first, None)
            return
        yield episodes
        number += len(group)


def _groups(each: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Yields records in groups of about BYTES; where reading them fails, those before it first."""
    group: list[bytes] = []
    size = 0
    try:
        for record in each:
            group.append(record)
            size += len(record)
            if size >= BYTES or len(group) >= EPISODES:
                yield group
                group, size = [], 0
    except HindcastError:
        if group:
            yield group
        raise
    if group:
        yield group


class _Joiner:
    """Decodes records of one file end to end. Raises ValueError or KeyError where that is not possible."""

    def __init__(self, reader: RldsReader, shard: Shard) -> None:
        self._reader, self._split = reader, shard.split
        self._arrays, self._columns = reader.stored_arrays(reader.keys(with_flags=True)), reader.stored_columns(tuple(reader.columns))
        self._layouts = LayoutReader()

    def __call__(self, group: list[bytes], first: int) -> EndToEnd:
        """first: the number of the first of them in the split."""
        layouts = [self._layouts.read(record) for record in group]
        arrays, counts = {}, None
        for key, stored in self._arrays.items():
            if isinstance(stored, StoredTexts):
                raise ValueError(f"{key} is text")
            arrays[key], own = stored.decode_all(group, [layout[stored.key] for layout in layouts])
            if counts is not None and (own != counts).any():
                raise ValueError(f"{key} has other numbers of steps")
            counts = own
        starts = np.cumsum([0, *(counts if counts is not None else [])])
        lasts = starts[1:] - 1
        stored_steps = self._reader.stored(arrays, {}, {}, _flags(arrays, starts))
        if not self._reader.is_own:
            stored_steps = aligned(stored_steps._replace(action=stored_steps.action.copy(), reward=stored_steps.reward.copy()), lasts)
        known = {key: [value] * len(group) for key, value in self._reader.unknown.items()}
        columns = {key: stored.decode_all(group, [layout[stored.key] for layout in layouts]) for key, stored in self._columns.items()}
        metadata = {**known, **columns}
        ids = metadata.pop("episode_id", [f"{self._split}-{number:08d}" for number in range(first, first + len(group))])
        return EndToEnd(
            self._reader.spec.observation,
            tuple(stored_steps.observation),
            stored_steps.action,
            stored_steps.reward,
            stored_steps.discount,
            stored_steps.flags,
            starts,
            [str(value) for value in ids],
            stored_steps.is_terminal[lasts],
            metadata,
        )


def _flags(arrays: dict[str, np.ndarray], starts: np.ndarray) -> np.ndarray:
    """Returns the flags as they are stored; as RLDS defines what is not. starts: [E + 1]; [N, 3] bool."""
    flags = np.zeros((starts[-1], len(FLAGS)), bool)
    flags[starts[:-1], 0] = flags[starts[1:] - 1, 1] = True
    for place, flag in enumerate(FLAGS):
        if flag in arrays:
            flags[:, place] = arrays[flag].reshape(-1)
    return flags
