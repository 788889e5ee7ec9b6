"""The learning curves of the page: splits of their own, and what is to be known of a run."""

from typing import Any

import numpy as np
import pandas as pd

from pipelines.reporting.page import _curve_block, _curve_figure
from pipelines.reporting.results import ExperimentResult

CURVES = pd.DataFrame(
    {
        "step": [10, 10, 20, 20],
        "seed": [3, 3, 3, 3],
        "split": ["train", "environment", "train", "environment"],
        "environment_return": [np.nan, 7.0, np.nan, 9.5],
        "loss": [2.0, np.nan, 1.0, np.nan],
    }
)


def experiment(notes: list[str]) -> ExperimentResult:
    params: Any = None
    return ExperimentResult("pole", params, {}, np.zeros((1, 1)), CURVES, 5, ["of the evaluation"], notes, [])


def test_what_training_noted_stands_under_its_curves() -> None:
    block = _curve_block(experiment(["Seed 3, update 20, loss spike: <look>"]))
    assert '<p class="quiet">Seed 3, update 20, loss spike: &lt;look&gt;</p>' in block
    assert "of the evaluation" not in block
    assert '<p class="quiet">' not in _curve_block(experiment([]))


def test_returns_while_training_have_a_curve() -> None:
    figure = _curve_figure("pole", CURVES, "environment_return")
    assert "environment ends at a mean of 9.5" in figure
    assert figure.count("<polyline") == 1
    assert "train ends at a mean of 1" in _curve_figure("pole", CURVES, "loss")
