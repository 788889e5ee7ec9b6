"""`Steps`: the sampled steps of a report as columns, for what is drawn of their values."""

from dataclasses import dataclass, field

import numpy as np

from rl_datasets.checks.expected import Expected
from rl_datasets.checks.report import Report

COLUMNS = 64  # of an array; of a wider one, the first


@dataclass(frozen=True)
class Steps:
    """S steps that hold a transition. `is_whole` where these are all of them."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # [S, up to COLUMNS] by name; none of a wide array
    episode: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # [S] int64, the number of each step's episode
    is_whole: bool = True


def steps_of(report: Report, expected: Expected) -> Steps:
    """Returns the steps that the report's sample holds."""
    sample = report.sample
    if sample is None:
        return Steps()
    moves = ~sample.is_last
    named = {leaf.name: array for leaf, array in zip(expected.observation, sample.observation, strict=True) if array is not None}
    arrays = {name: array[moves, :COLUMNS] for name, array in {**named, "action": sample.action, "reward": sample.reward}.items()}
    return Steps(arrays, sample.number[sample.owner][moves], len(arrays["reward"]) == report.summary["transitions"])
