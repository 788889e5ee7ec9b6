"""Where in the space of observations the data lie: a plane of it, all together and policy by policy."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rl_datasets.checks.card.steps import Steps
from rl_datasets.page.charts import is_drawable, value_range
from rl_datasets.page.html import figure
from rl_datasets.page.plots import density_chart
from rl_datasets.schema import EnvSpec, named_leaves
from rl_datasets.words import count

CELLS = (40, 56)  # rows and columns of a plane
POLICIES = 6  # that have a plane each, those of the most steps
FEWEST = 30  # steps that make a plane
OUTER = 0.002  # share of the values of a column at either end that are drawn at the edge


class Plane(NamedTuple):
    """Two coordinates of each step, what they are, and which share of the variance they hold (1 where there are but two)."""

    x: np.ndarray  # [S]
    y: np.ndarray  # [S]
    labels: tuple[str, str]
    share: float


def coverage(spec: EnvSpec, steps: Steps, policies: np.ndarray) -> tuple[str, str]:
    """Returns (a sentence on the plane, its figures), both empty where observations span none. policies: [E], by number of episode."""
    columns = {
        f"{name}{leaf.subscript(index)}": column
        for name, leaf in named_leaves(spec.observation, "observation")
        if name in steps.arrays and not (leaf.is_discrete or leaf.is_image)
        for index, column in enumerate(steps.arrays[name].T.astype(np.float64))
    }
    plane = _plane(columns)
    if plane is None:
        return "", ""
    x, y = value_range([plane.x]), value_range([plane.y])
    policy = policies[steps.episode][_complete(columns)]
    names, counts = np.unique(policy, return_counts=True)
    chosen = [str(name) for name in names[np.argsort(-counts, kind="stable")][:POLICIES]]
    groups = {"all steps": np.ones(len(policy), bool)}
    if len(names) > 1:
        groups |= {name: policy == name for name in chosen}
    figures = "".join(_figure(name, plane, rows, x, y) for name, rows in groups.items())
    components = f"The first two principal components of the {len(columns)} standardised columns of the observation"
    words = "The two coordinates of the observation." if plane.share == 1 else f"{components}, {plane.share:.0%} of their variance."
    return f"{words} Darker is more often, by the logarithm.", f'<div class="grid">{figures}</div>'


def _plane(columns: Mapping[str, np.ndarray]) -> Plane | None:
    complete = _complete(columns)
    rows = np.stack(list(columns.values()), 1)[complete] if columns else np.zeros((0, 0))
    if len(rows) < FEWEST:
        return None
    rows = np.clip(rows, *np.quantile(rows, [OUTER, 1 - OUTER], axis=0))  # one number far out would leave no room for the others
    spread = rows.std(axis=0)
    varies = spread > 0
    names = [name for name, each in zip(columns, varies, strict=True) if each]
    if len(names) < 2:
        return None
    rows = rows[:, varies]
    if len(names) == 2:
        return Plane(rows[:, 0], rows[:, 1], (names[0], names[1]), 1.0)
    standard = (rows - rows.mean(axis=0)) / spread[varies]
    variances, axes = np.linalg.eigh(standard.T @ standard / len(standard))
    first, second = axes[:, -1], axes[:, -2]
    first, second = (axis * np.sign(axis[np.argmax(np.abs(axis))]) for axis in (first, second))  # an axis has no direction of its own
    share = float(variances[-2:].sum() / variances.sum())
    return Plane(standard @ first, standard @ second, (_axis_name(first, names), _axis_name(second, names)), share)


def _complete(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which steps have a place: all of their numbers are drawable. [S] bool."""
    return np.all([is_drawable(column) for column in columns.values()], axis=0) if columns else np.zeros(0, bool)


def _axis_name(axis: np.ndarray, names: list[str]) -> str:
    """The columns that weigh most on an axis, as in "observation[1] - observation[0]"."""
    order = np.argsort(-np.abs(axis), kind="stable")[:2]
    return (
        "".join(
            ("" if place == order[0] else " + " if axis[place] > 0 else " \u2212 ") + names[place].replace("observation", "o")
            for place in order
        )
        + ", \u2026"
    )


def _figure(name: str, plane: Plane, rows: np.ndarray, x: tuple[float, float], y: tuple[float, float]) -> str:
    counts, _, _ = np.histogram2d(plane.y[rows], plane.x[rows], CELLS, (y, x))
    visited = int((counts > 0).sum())
    cells = f"{visited:,} of {counts.size:,} cells hold one of {count(int(rows.sum()), 'step')}"
    description = f"Where observations lie, {name}: {cells}."
    chart = density_chart(counts.astype(np.int64), x, y, plane.labels, description)
    return figure(f"{name or 'unknown policy'}: {visited / counts.size:.0%} of the cells", chart)
