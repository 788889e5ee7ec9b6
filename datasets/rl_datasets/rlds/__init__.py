"""RLDS on disk, as any user of TFDS can read it: the only place that knows the format.

`write_rlds` writes a data set, `read_episodes`, `read_spec` and `read_splits` read one, ours or anybody's.
"""

from rl_datasets.rlds.features import STEP_METADATA
from rl_datasets.rlds.reader import DESCRIPTION, RldsReader, SplitCounts, read_episodes, read_spec, read_splits
from rl_datasets.rlds.writer import Written, write_rlds

__all__ = [
    "DESCRIPTION",
    "STEP_METADATA",
    "RldsReader",
    "SplitCounts",
    "Written",
    "read_episodes",
    "read_spec",
    "read_splits",
    "write_rlds",
]
