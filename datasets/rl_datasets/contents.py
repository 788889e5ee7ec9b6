"""What any RLDS directory holds, in short, for `leakage` to look at."""

from collections.abc import Sequence
from pathlib import Path

from rl_datasets.leakage import Contents, episode_entry
from rl_datasets.rlds import RldsReader
from rl_datasets.similarity import Sketcher


def contents_of(data: Path | RldsReader, splits: Sequence[str] = ()) -> Contents:
    """Reads some splits of an RLDS directory, anybody's; all of them where none is named."""
    reader = data if isinstance(data, RldsReader) else RldsReader(data)
    entries, sketcher = [], Sketcher(reader.spec)
    for split in splits or reader.splits:
        for episode in reader.episodes_of(reader.shards(split)):
            entries.append(episode_entry(episode, split))
            sketcher.add(episode)
    return Contents(entries, sketcher.result())
