"""What reading data of unknown quality gives: episodes with their flags as they are stored, and what could not be read."""

from typing import NamedTuple

import numpy as np

from rl_datasets.schema import Episode

FLAGS = ("is_first", "is_last", "is_terminal")


class Recorded(NamedTuple):
    """An episode, and the three flags of each step as they are stored, which an Episode no longer shows."""

    episode: Episode
    flags: np.ndarray | None  # bool [T+1, 3] in the order of FLAGS; None where the episode comes from no file


class Damage(NamedTuple):
    """A file of episodes that is not what the description says. What is in it beyond the damage is not read."""

    file: str  # name in the data set's folder
    found: str
    expected: str
