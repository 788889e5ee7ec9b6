"""All checks, in the order in which a report lists them. To add one: declare it in the file of its theme, and list it here."""

from typing import Any

from rl_datasets.checks import population, replay, structure, values
from rl_datasets.checks.check import Check

CATALOGUE: tuple[Check[Any], ...] = (
    structure.FILES,
    structure.EPISODE_IDS,
    structure.FLAGS,
    structure.LENGTHS,
    structure.SPEC,
    structure.DISCOUNT,
    structure.LAST_STEP,
    values.FINITE,
    values.ACTION_BOUNDS,
    values.OBSERVATION_BOUNDS,
    values.REWARD_RANGE,
    population.DUPLICATES,
    replay.REPLAY,
)
