"""Histograms of a data card as PNG files. Equal values give equal bytes: no date, no version, no settings of the user's."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

BINS = 40
GROUPS = 8  # told apart by colour; the rest are drawn as one


def draw_histogram(path: Path, groups: Mapping[str, np.ndarray], label: str) -> None:
    """Draws how many episodes fall in each of up to BINS bins, stacked by group. Values that are not finite are left out."""
    finite = {name: values[np.isfinite(values)] for name, values in _largest(groups).items()}
    with mpl.rc_context():
        mpl.rcdefaults()
        figure = Figure(figsize=(6, 3), dpi=100)
        axes = figure.add_axes((0.14, 0.17, 0.83, 0.78))
        axes.hist(list(finite.values()), bins=_edges(np.concatenate(list(finite.values()))).tolist(), stacked=True, label=list(finite))
        axes.set_xlabel(label)
        axes.set_ylabel("episodes")
        if len(finite) > 1:
            axes.legend(title="policy", fontsize="small")
        FigureCanvasAgg(figure)
        figure.savefig(path, format="png", metadata={"Software": None})


def _largest(groups: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns at most GROUPS groups, the largest first by number of values; the smallest are joined as 'other'."""
    ordered = sorted(groups, key=lambda name: (-len(groups[name]), name))
    if len(ordered) <= GROUPS:
        return {name: groups[name] for name in ordered} or {"": np.zeros(0)}
    shown = {name: groups[name] for name in ordered[: GROUPS - 1]}
    return {**shown, "other": np.concatenate([groups[name] for name in ordered[GROUPS - 1 :]])}


def _edges(values: np.ndarray) -> np.ndarray:
    """Returns the edges of bins: one for each whole number where values are few whole numbers, else BINS of equal width."""
    if not len(values):
        return np.array([0.0, 1.0])
    low, high = float(values.min()), float(values.max())
    if high - low < BINS and (values == np.round(values)).all():
        return np.arange(low, high + 2) - 0.5
    return np.linspace(low, high, BINS + 1)
