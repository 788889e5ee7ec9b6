"""The numbers of a fitted Q evaluation, computed again from its table: a row a held-out episode, a column of values a training seed."""

import csv
import io
import statistics
from typing import Any

from rl_datasets.errors import HindcastError

SEED = "seed_"  # begins the name of a training seed's column
Columns = dict[str, list[float]]


def columns_of(table: bytes, where: str) -> Columns:
    """The numbers of each column, none of a table without rows. Raises HindcastError where it is no such table."""
    try:
        rows = list(csv.DictReader(io.StringIO(table.decode("utf-8"))))
        names = [name for name in rows[0] if name.startswith(("behaviour_", SEED))] if rows else []
        columns = {name: [float(row[name]) for row in rows] for name in names}
        if rows:
            columns["is_terminal"] = [{"True": 1.0, "False": 0.0}[row["is_terminal"]] for row in rows]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise HindcastError(f"{where} is no table of held-out episodes ({type(error).__name__}: {error})") from error
    return columns


def expected_metrics(columns: Columns, seed: int | None) -> dict[str, Any]:
    """What metrics.json must say; with the seed of the evaluation, the intervals too, by the same draws."""
    values = [column for name, column in columns.items() if name.startswith(SEED)]
    known = [a + b for a, b in zip(columns["behaviour_return"], columns["behaviour_rest"], strict=True)]
    means = [statistics.fmean(column) for column in values]
    of_behaviour = columns["behaviour_value"]
    numbers: dict[str, Any] = {
        "value": statistics.fmean(means),
        "seed_values": means,
        "seed_std": statistics.stdev(means) if len(means) > 1 else None,
        "behaviour": statistics.fmean(known),
        "behaviour_return": statistics.fmean(columns["behaviour_return"]),
        "behaviour_value": statistics.fmean(of_behaviour),
        "difference": statistics.fmean(means) - statistics.fmean(known),
        "calibration": statistics.fmean(of_behaviour) - statistics.fmean(known),
        "cut_share": 1 - statistics.fmean(columns["is_terminal"]),
        "episodes": len(known),
    }
    if seed is not None:
        apart = {"value": values, "behaviour": [known], "difference": _less(values, known), "calibration": _less([of_behaviour], known)}
        for name, matrix in apart.items():
            numbers |= dict(zip((f"{name}_low", f"{name}_high"), _drawn(matrix, seed), strict=True))
    return {f"fitted_q_{name}": value for name, value in numbers.items()}


def _less(values: list[list[float]], known: list[float]) -> list[list[float]]:
    return [[value - one for value, one in zip(column, known, strict=True)] for column in values]


def _drawn(matrix: list[list[float]], seed: int) -> tuple[float, float]:
    import numpy as np

    from trainer.metrics import bootstrap_interval  # SciPy, most of a second

    return bootstrap_interval(np.array(matrix), np.random.default_rng(seed), trim=0.0)
