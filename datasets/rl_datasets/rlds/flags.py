"""`read_flags`: the three flags of each step as they are stored, for the quality gate. An Episode no longer shows them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rl_datasets.rlds import features as codec
from rl_datasets.rlds.reader import RldsReader

FLAGS = ("is_first", "is_last", "is_terminal")


def read_flags(path: Path, split: str) -> Iterator[np.ndarray]:
    """Yields bool [T+1, 3], in the order of FLAGS, for each episode in the order of `read_episodes`.

    A flag that the data don't store is as RLDS defines it, and never terminal. Raises HindcastError on missing or damaged files.
    """
    reader = RldsReader(path)
    stored = [flag for flag in FLAGS if flag in reader._steps]
    for shard in reader.shards(split):
        for lengths, values in reader._parsed(shard, ["reward", *stored], []):
            ends = np.cumsum(lengths)
            flags = np.zeros((int(lengths.sum()), len(FLAGS)), bool)
            flags[(ends - lengths)[lengths > 0], 0] = flags[ends[lengths > 0] - 1, 1] = True
            for flag in stored:
                flags[:, FLAGS.index(flag)] = codec.decode_array(reader._steps[flag], values[f"steps/{flag}"].values, len(flags))
            yield from np.split(flags, ends[:-1])
