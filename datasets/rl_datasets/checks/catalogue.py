"""All checks, in the order in which a report lists them. To add one: declare it in the file of its theme, and list it here."""

from typing import Any

from rl_datasets.checks import actions, alignment, extremes, population, repeats, replay, structure, timing, units, values
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
    extremes.OUTLIERS,
    extremes.JUMPS,
    extremes.CONSTANT,
    units.UNITS,
    timing.TIMESTAMPS,
    timing.TIME_LIMITS,
    timing.EARLY_CUTS,
    alignment.REWARD_SHIFT,
    alignment.ACTION_SHIFT,
    repeats.FROZEN_SENSORS,
    repeats.IDLE_ACTIONS,
    repeats.IMAGES,
    actions.SATURATED_ACTIONS,
    actions.ACTION_RANGE,
    actions.COVERAGE,
    population.DUPLICATES,
    population.NEAR_DUPLICATES,
    population.RETURN_OUTLIERS,
    population.LENGTH_OUTLIERS,
    population.MIXTURE,
    population.IMBALANCE,
    population.SEEDS,
    replay.REPLAY,
)
