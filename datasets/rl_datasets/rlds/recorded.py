"""`read_recorded`: episodes of data of unknown quality, for the gate; what cannot be read is told, and passed over.

Step metadata, which are not checked, stay where they are.
"""

from collections.abc import Iterator, Sequence

from rl_datasets.errors import HindcastError
from rl_datasets.manifest import SHARD
from rl_datasets.recorded import Damage, EndToEnd, Recorded
from rl_datasets.rlds.reader import STEPS_KEY, RldsReader
from rl_datasets.rlds.shards import Shard
from rl_datasets.rlds.together import read_together

BYTES = 1 << 23  # of the arrays of episodes that are given together; at least one
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
        for item in read_together(reader, shard, with_flags=True):
            found += len((item.episode if isinstance(item, Recorded) else item).reward)
            yield from _pieces(item)
    except HindcastError as error:
        yield Damage(shard.path.name, str(error), f"{shard.episodes} episodes that can be read")
        return
    if steps is not None and found != steps:
        yield Damage(shard.path.name, f"{found} steps", f"{steps} steps, as metadata.json says")


def _pieces(item: EndToEnd | Recorded) -> Iterator[EndToEnd | Recorded]:
    """Yields what is checked together: no more than EPISODES, and about BYTES."""
    if isinstance(item, Recorded):
        yield item
        return
    arrays = (*item.observation, item.action, item.reward, item.discount)
    most = BYTES * len(item.episode_id) // max(sum(array.nbytes for array in arrays), 1)
    step = min(max(most, 1), EPISODES)
    for start in range(0, len(item.episode_id), step):
        yield item.part(start, start + step)
