"""Which episodes a card shows: the first, and one each of a high, the median and a low return, none of them too short to show anything."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rl_datasets.schema import Episode

REASONS = ("first", "high return", "median return", "low return")  # in the order of the card
LEVELS = (0.95, 0.5, 0.05)  # quantiles of the returns
LEAST = 10  # transitions, where as many episodes as are shown have them


@dataclass(frozen=True)
class Sample:
    """An episode, and why it is shown: one or several of REASONS."""

    reasons: tuple[str, ...]
    episode: Episode

    def order(self) -> int:
        """Its place on the card."""
        return REASONS.index(self.reasons[0])


def choose(table: pd.DataFrame) -> dict[int, tuple[str, ...]]:
    """Returns the reasons by row number, rows ascending; each episode once. Returns that are not finite are no return.

    A quantile is that of the nearest episode, the lower one of two; of equal returns the first counts. Episodes of fewer than
    LEAST transitions are not chosen where there are enough longer ones. table: columns of EpisodeRow.
    """
    if table.empty:
        return {}
    lengths = table["length"].to_numpy(np.float64)
    enough = np.sort(lengths)[-len(REASONS) :][0]
    long_enough = np.flatnonzero(lengths >= min(LEAST, enough))
    reasons: dict[int, list[str]] = {int(long_enough[0]): [REASONS[0]]}
    returns = table["episode_return"].to_numpy(np.float64)
    finite = long_enough[np.isfinite(returns[long_enough])]
    if len(finite) > 1:
        ordered = np.sort(returns[finite])
        for level, reason in zip(LEVELS, REASONS[1:], strict=True):
            row = finite[np.argmax(returns[finite] == ordered[math.ceil(level * (len(finite) - 1) - 0.5)])]
            reasons.setdefault(int(row), []).append(reason)
    return {row: tuple(reasons[row]) for row in sorted(reasons)}
