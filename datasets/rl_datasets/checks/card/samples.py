"""Which episodes a card shows: the first, and the best, the median and the worst by return."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rl_datasets.schema import Episode

REASONS = ("first", "best return", "median return", "worst return")  # in the order of the card


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

    Of equal returns the first counts; the median is the lower of the two in the middle. table: columns of EpisodeRow.
    """
    if table.empty:
        return {}
    reasons: dict[int, list[str]] = {0: [REASONS[0]]}
    returns = table["episode_return"].to_numpy(np.float64)
    finite = np.flatnonzero(np.isfinite(returns))
    if len(finite) > 1:
        order = finite[np.argsort(returns[finite], kind="stable")]
        best = finite[np.argmax(returns[finite])]
        for row, reason in zip((best, order[(len(order) - 1) // 2], order[0]), REASONS[1:], strict=True):
            reasons.setdefault(int(row), []).append(reason)
    return {row: tuple(reasons[row]) for row in sorted(reasons)}
