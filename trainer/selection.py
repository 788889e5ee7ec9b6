"""Which update's policy a run hands on: the final one, or each seed's best by a metric of its curves.

A choice is a function of the curves, so a run that was killed and started again chooses alike. Returns in the environment are
data that offline learning does not have: they choose only where they are asked for by name, and the run says so.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from rl_datasets.errors import HindcastError
from trainer.points import ENVIRONMENT, VALIDATION, Row

ENVIRONMENT_RETURN = "environment_return"


class SelectParams(BaseModel):
    """The best point of the curves by `metric`: one of the validation split, or `environment_return`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    metric: str
    mode: Literal["min", "max"] = "min"
    patience: int | None = Field(None, gt=0)  # points without a better one after which a seed stops; the run ends with its last seed

    @property
    def split(self) -> str:
        return ENVIRONMENT if self.metric == ENVIRONMENT_RETURN else VALIDATION


class Choice(NamedTuple):
    """What the points so far say, one entry a seed."""

    step: np.ndarray  # [S] int64: the updates of the best point; -1 before the first finite one
    value: np.ndarray  # [S] of the metric there
    stopped: np.ndarray  # [S] bool: out of patience; later points count no more


def choose(rows: Sequence[Row], select: SelectParams, seeds: int) -> Choice:
    """The first of equal points is the best one; a value that is not finite is never better."""
    step, value = np.full(seeds, -1), np.full(seeds, np.nan)
    since, stopped = np.zeros(seeds, int), np.zeros(seeds, bool)
    sign = 1 if select.mode == "min" else -1
    for row in rows:
        if row.split != select.split or select.metric not in row.metrics:
            continue
        found = np.asarray(row.metrics[select.metric], np.float64)
        better = ~stopped & np.isfinite(found) & ((step < 0) | (sign * found < sign * value))
        step, value = np.where(better, row.step, step), np.where(better, found, value)
        since = np.where(better, 0, since + 1)
        if select.patience is not None:
            stopped = stopped | (since >= select.patience)
    return Choice(step, value, stopped)


def require_metric(select: SelectParams, validation: Sequence[str], evaluates: bool) -> None:
    """Raises HindcastError where the curves will not hold the metric."""
    known = [*sorted(validation), *([ENVIRONMENT_RETURN] if evaluates else [])]
    if select.metric not in known:
        hint = " environment_return needs evaluate_every." if select.split == ENVIRONMENT else ""
        raise HindcastError(
            f"select.metric is '{select.metric}', but the curves of this run will hold: {', '.join(known) or 'none'} "
            f"(of the validation split, where there is one).{hint}"
        )


def selection_note(select: SelectParams, choice: Choice, seeds: Sequence[int], last: int) -> str:
    """One sentence for the manifest and the report; `last` is the update that the run ended with."""
    entries = zip(seeds, choice.step, choice.value, strict=True)
    points = ", ".join(
        f"seed {seed} update {step:,} ({value:.6g})" if step >= 0 else f"seed {seed} the final one" for seed, step, value in entries
    )
    source = "returns in the environment, which offline data do not have" if select.split == ENVIRONMENT else "the validation split"
    return f"Policies were chosen by the {select.mode}imum of {select.metric} ({source}), of a run of {last:,} updates: {points}."
