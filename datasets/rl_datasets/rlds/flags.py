"""`read_flags`: the three flags of each step as they are stored, for the quality gate. An Episode no longer shows them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rl_datasets.rlds.reader import RldsReader

FLAGS = ("is_first", "is_last", "is_terminal")


def read_flags(path: Path, split: str) -> Iterator[np.ndarray]:
    """Yields bool [T+1, 3], in the order of FLAGS, for each episode in the order of `read_episodes`.

    A flag that the data don't store is as RLDS defines it, and never terminal. Raises HindcastError on missing or damaged files.
    """
    reader = RldsReader(path)
    for arrays, _ in reader.arrays(reader.shards(split), ["reward", *FLAGS]):
        flags = np.zeros((len(arrays["reward"]), len(FLAGS)), bool)
        flags[:1, 0] = flags[-1:, 1] = True
        for column, flag in enumerate(FLAGS):
            if flag in arrays:
                flags[:, column] = arrays[flag].reshape(len(flags))
        yield flags
