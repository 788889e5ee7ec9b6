"""The figures of a card that show all of the data: returns and lengths, columns, coverage."""

import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from rl_datasets.checks.card.sections import COLUMN_STATISTICS, all_leaves, column_name, value_text
from rl_datasets.checks.card.steps import Steps
from rl_datasets.page.charts import Distribution, distribution_chart, is_drawable, value_range
from rl_datasets.page.html import figure, number
from rl_datasets.page.plots import Histogram, category_chart, histogram_chart
from rl_datasets.schema import ArraySpec, EnvSpec
from rl_datasets.words import count

POLICIES = 8  # rows of a chart; of more policies the largest have one each, and the others one together
BINS = 40
OUTER = 0.002  # share of the values at either end that may lie outside of a histogram, where they are far out


def distributions(table: pd.DataFrame) -> str:
    """Histograms of returns and lengths, a row a policy. table: columns of EpisodeRow."""
    groups = _by_policy(table)
    figures = [_distribution(groups, column, label) for column, label in (("episode_return", "return"), ("length", "length (transitions)"))]
    return f'<div class="grid pair">{"".join(figures)}</div>'


def columns(spec: EnvSpec, arrays: Mapping[str, Any], steps: Steps) -> str:
    """A small histogram of every column of every array, with its mean, deviation and range. `arrays` is the summary's."""
    leaves = all_leaves(spec)
    figures = (
        part for name, leaf in leaves.items() if name in arrays for part in _columns(name, arrays[name], leaf, steps.arrays.get(name))
    )
    some = f" of a sample of {count(len(steps.episode), 'step')}" if not steps.is_whole else ""
    words = f"Histograms{some}; a dashed line is a bound. Under each: mean \u00b1 standard deviation, least to greatest, of all steps."
    return f'<p class="quiet">{words}</p><div class="grid small">{"".join(figures)}</div>'


def _by_policy(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Rows by policy, most episodes first; the smallest policies together as "others" where there are many."""
    groups = {str(policy) or "unknown policy": rows for policy, rows in table.groupby("policy")}
    ordered = sorted(groups, key=lambda name: (-len(groups[name]), name))
    if len(ordered) <= POLICIES:
        return {name: groups[name] for name in ordered}
    rest = pd.concat([groups[name] for name in ordered[POLICIES - 1 :]])
    return {**{name: groups[name] for name in ordered[: POLICIES - 1]}, f"{len(ordered) - POLICIES + 1} other policies": rest}


def _distribution(groups: Mapping[str, pd.DataFrame], column: str, label: str) -> str:
    rows, every = [], []
    for name, members in groups.items():
        values = members[column].to_numpy(np.float64)
        values = values[is_drawable(values)]
        every.append(values)
        mean = f"mean {number(float(values.mean()))}" if len(values) else "no number"
        rows.append(Distribution(f"{_shortened(name)}: {mean}", values, "policy"))
    together = np.concatenate(every) if every else np.zeros(0)
    title = label.partition(" ")[0].capitalize() + " of an episode"
    if not len(together):
        return figure(title, '<p class="quiet">Nothing to draw.</p>')
    description = f"Histograms of the {label} of episodes. " + ". ".join(row.label for row in rows) + "."
    return figure(title, distribution_chart(rows, float(together.mean()) if len(rows) > 1 else None, description, label))


def _shortened(name: str, length: int = 30) -> str:
    return name if len(name) <= length else name[: length - 1] + "\u2026"


def _columns(name: str, described: Mapping[str, Any], leaf: ArraySpec, sample: np.ndarray | None) -> Iterator[str]:
    if "counts" in described:
        counts = described["counts"]
        largest = max(counts, key=lambda value: counts[value])
        share = counts[largest] / sum(counts.values())
        words = f"{count(len(counts), 'value')}; {largest} in {share:.1%} of steps"
        yield _small(name, category_chart(counts, f"How often each value of {name} occurs: {words}."), words)
        return
    if "columns" not in described:
        words = f"{value_text(described['minimum'])} to {value_text(described['maximum'])}"
        histogram = binned(_values(sample, None), described["minimum"], described["maximum"])
        if histogram is not None:
            yield _small(name, histogram_chart(histogram, f"Histogram of {name}: {words}."), words)
        return
    together = len(described["columns"]) == 1
    bounds = [] if together and math.prod(leaf.shape) > 1 else list(zip(*(bound.ravel().tolist() for bound in leaf.bounds()), strict=True))
    for index, column in enumerate(described["columns"]):
        title = column_name(name, leaf, described, index)
        mean, std, least, greatest = (value_text(column[key], 4) for key in COLUMN_STATISTICS)
        words = "some values are not finite" if column["mean"] is None else f"{mean} \u00b1 {std}, {least} to {greatest}"
        values = _values(sample, None if together else index)
        histogram = binned(values, column["minimum"], column["maximum"])
        marks = bounds[index] if bounds else ()
        yield _small(title, histogram_chart(histogram, f"Histogram of {title}: {words}.", marks) if histogram else "", words)


def _values(sample: np.ndarray | None, index: int | None) -> np.ndarray:
    """A column of a sample [S, D], or all of it: float64, empty where it is not in the sample."""
    if sample is None or (index is not None and index >= sample.shape[1]):
        return np.zeros(0)
    return (sample.ravel() if index is None else sample[:, index]).astype(np.float64)


def binned(values: np.ndarray, minimum: float | None, maximum: float | None) -> Histogram | None:
    """Returns a histogram from the least to the greatest value, or where a few lie far out, of all but these. None where there is nothing.

    `minimum` and `maximum` are those of all of the data, of which `values` [N] is a sample.
    """
    values = values[is_drawable(values)]
    if not len(values):
        return None
    low, high = (float(value) for value in np.quantile(values, [OUTER, 1 - OUTER]))
    room = max(high - low, 1e-12) / 2
    least, greatest = (float(values.min()) if minimum is None else minimum), (float(values.max()) if maximum is None else maximum)
    low, high = value_range([np.array([max(least, low - room), min(greatest, high + room)])])
    counts, edges = np.histogram(values, BINS, (low, high))
    return Histogram(edges, counts)


def _small(title: str, chart: str, words: str) -> str:
    return figure(title, f'{chart}<p class="quiet">{escape(words)}</p>')
