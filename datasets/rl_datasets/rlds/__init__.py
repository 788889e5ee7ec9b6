"""RLDS on disk, as any user of TFDS can read it: the only place that knows the format.

`write_rlds` writes a data set, `read_episodes`, `read_spec` and `read_splits` read one, ours or anybody's.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_PLACES = {"STEP_METADATA": "features", "Written": "writer", "write_rlds": "writer"}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, and TFDS with it, which a process that only decodes records does without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES.get(name, 'reader')}"), name)
