"""What any RLDS directory holds, in short, for `leakage` to look at."""

from pathlib import Path

from rl_datasets.leakage import Contents, episode_entry
from rl_datasets.rlds import RldsReader
from rl_datasets.similarity import Sketcher


def contents_of(path: Path) -> Contents:
    """Reads all splits of an RLDS directory, anybody's."""
    reader = RldsReader(path)
    entries, sketcher = [], Sketcher(reader.spec)
    for split in reader.splits:
        for episode in reader.episodes_of(reader.shards(split)):
            entries.append(episode_entry(episode, split))
            sketcher.add(episode)
    return Contents(entries, sketcher.result())
