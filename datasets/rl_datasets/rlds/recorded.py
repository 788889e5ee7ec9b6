"""`read_recorded`: episodes of data of unknown quality, for the gate; what cannot be read is told, and passed over."""

from collections.abc import Iterator, Sequence

from rl_datasets.errors import HindcastError
from rl_datasets.manifest import SHARD
from rl_datasets.recorded import Damage, Recorded
from rl_datasets.rlds.reader import STEPS_KEY, RldsReader, Shard


def read_recorded(reader: RldsReader, splits: Sequence[str]) -> Iterator[Recorded | Damage]:
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


def _recorded(reader: RldsReader, shard: Shard, steps: int | None) -> Iterator[Recorded | Damage]:
    if not shard.path.is_file():
        yield Damage(shard.path.name, "missing", f"a file of {shard.episodes} episodes")
        return
    found = 0
    try:
        for recorded in reader.recorded_of(shard):
            found += len(recorded.episode.reward)
            yield recorded
    except HindcastError as error:
        yield Damage(shard.path.name, str(error), f"{shard.episodes} episodes that can be read")
        return
    if steps is not None and found != steps:
        yield Damage(shard.path.name, f"{found} steps", f"{steps} steps, as metadata.json says")
