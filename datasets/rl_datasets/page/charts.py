"""Charts as inline SVG: text stays text, colours are classes of style.css (so they follow the reader's light or dark mode), and
equal data give equal bytes. Kinds differ by dash or position as well as by colour.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

WIDTH, HEIGHT = 360, 210  # of a line chart, in SVG units; about as many pixels, on a phone too
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 34
ROW, LABEL, WIDE = 84, 28, 540  # height of a row of distributions, the part of it above the bars, and a chart's width
EDGE, AXIS = 12, 40  # room at either side of the rows, and under them
BINS = 54
LARGEST = 1e100


@dataclass(frozen=True)
class Line:
    """One line: x and y of equal length. Where y is not finite the line is broken. `kind` is its class in style.css."""

    x: np.ndarray
    y: np.ndarray
    kind: str
    label: str


@dataclass(frozen=True)
class Distribution:
    """One row: all values, and an interval to mark where there is one."""

    label: str
    values: np.ndarray
    kind: str
    interval: tuple[float, float] | None = None


def line_chart(lines: Sequence[Line], description: str, x_label: str, height: int = HEIGHT) -> str:
    """Draws lines over one pair of linear axes. `description` is what a screen reader says in place of the picture."""
    x_low, x_high = 0.0, value_range([line.x for line in lines])[1]
    y_low, y_high = value_range([line.y for line in lines])
    y_ticks = ticks(y_low, y_high, 5 if height >= HEIGHT else 3)
    x_ticks = [x for x in ticks(x_low, x_high, 7) if x <= x_high]
    y_low, y_high = min(y_low, y_ticks[0]), max(y_high, y_ticks[-1])
    parts = []
    for y in y_ticks:
        level = place(y, y_low, y_high, height - BOTTOM, TOP)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{level}" y2="{level}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{level}" dy="0.35em" text-anchor="end">{short(y)}</text>')
    for x in x_ticks:
        across = place(x, x_low, x_high, LEFT, WIDTH - RIGHT)
        parts.append(f'<text x="{across}" y="{height - BOTTOM + 14}" text-anchor="middle">{short(x)}</text>')
    parts.append(f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{height - 4}" text-anchor="middle">{escape(x_label)}</text>')
    for line in lines:
        for run in finite_runs(line.y):
            points = [
                f"{place(x, x_low, x_high, LEFT, WIDTH - RIGHT)},{place(y, y_low, y_high, height - BOTTOM, TOP)}"
                for x, y in zip(line.x[run], line.y[run], strict=True)
            ]
            points = points * 2 if len(points) == 1 else points  # a single point shows as a dot, by its round caps
            parts.append(f'<polyline class="{line.kind}" points="{" ".join(points)}"><title>{escape(line.label)}</title></polyline>')
    return svg(WIDTH, height, "chart", description, parts)


def distribution_chart(rows: Sequence[Distribution], mark: float | None, description: str, x_label: str) -> str:
    """Draws a histogram a row over one shared axis, each scaled to its own highest bar, and a dashed line at `mark` through all.

    A row's interval is a thick stroke on its base line.
    """
    low, high = value_range([row.values for row in rows])
    x_ticks = ticks(low, high, 6)
    low, high = min(low, x_ticks[0]), max(high, x_ticks[-1])
    height = ROW * len(rows) + AXIS
    parts = []
    for x in x_ticks:
        across = _across(x, low, high)
        parts.append(f'<line class="rule" x1="{across}" x2="{across}" y1="{LABEL}" y2="{height - AXIS}"/>')
        parts.append(f'<text x="{across}" y="{height - AXIS + 16}" text-anchor="middle">{short(x)}</text>')
    parts.append(f'<text class="axis" x="{WIDE / 2:g}" y="{height - 5}" text-anchor="middle">{escape(x_label)}</text>')
    for number, row in enumerate(rows):
        parts.extend(_histogram(row, low, high, base=ROW * (number + 1) - 4))
    if mark is not None:
        across = _across(mark, low, high)
        parts.append(f'<line class="mark" x1="{across}" x2="{across}" y1="{LABEL}" y2="{height - AXIS}"/>')
    for number, row in enumerate(rows):  # last, for their halo covers what lies under them
        parts.append(f'<text class="row" x="{EDGE}" y="{ROW * number + LABEL - 8}">{escape(row.label)}</text>')
    return svg(WIDE, height, "chart wide", description, parts)


def ticks(low: float, high: float, count: int) -> list[float]:
    """Returns at most about `count` round values (1, 2 or 5 times a power of ten apart) that lie in or just around [low, high]."""
    raw = (high - low) / max(count - 1, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def short(value: float) -> str:
    """A number for an axis: 12500 is 12.5k, and a minus is a minus sign."""
    magnitude = abs(value)
    unit, divisor = ("M", 1e6) if 1e6 <= magnitude < 1e9 else ("k", 1e3) if 1e4 <= magnitude < 1e6 else ("", 1)
    return f"{value / divisor:.4g}{unit}".replace("-", "\u2212")


def _histogram(row: Distribution, low: float, high: float, base: int) -> list[str]:
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(row.values[is_drawable(row.values)], edges)
    parts = []
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        if count:
            x, end = _across(left, low, high), _across(right, low, high)
            bar = max((ROW - LABEL - 4) * count / counts.max(), 1)  # one episode among thousands still shows
            parts.append(
                f'<rect class="{row.kind}" x="{x}" y="{base - bar:.1f}" width="{max(end - x - 1, 1):.1f}" height="{bar:.1f}">'
                f"<title>{short(left)} to {short(right)}: {count} episodes</title></rect>"
            )
    parts.append(f'<line class="base" x1="{EDGE}" x2="{WIDE - EDGE}" y1="{base}" y2="{base}"/>')
    if row.interval:
        start, stop = (_across(value, low, high) for value in row.interval)
        parts.append(f'<line class="interval" x1="{start}" x2="{stop}" y1="{base}" y2="{base}"/>')
    return parts


def _across(value: float, low: float, high: float) -> float:
    return place(value, low, high, EDGE, WIDE - EDGE)


def svg(width: int, height: int, kind: str, description: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(description)}">\n{body}\n</svg>'


def value_range(arrays: Sequence[np.ndarray]) -> tuple[float, float]:
    """The drawable values' range, widened where it is a single value; [0, 1] where there are none."""
    values = np.concatenate([np.ravel(array) for array in arrays]) if arrays else np.zeros(0)
    values = values[is_drawable(values)]
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    spread = max(abs(low), 1.0) * 0.05
    return (low, high) if high - low > 1e-9 * max(abs(low), abs(high), 1e-30) else (low - spread, high + spread)


def is_drawable(values: np.ndarray) -> np.ndarray:
    """Whether a value has a place on an axis: it is finite, and differences between such values are too."""
    with np.errstate(invalid="ignore"):
        drawable: np.ndarray = np.abs(values) < LARGEST
        return drawable


def place(value: float, low: float, high: float, start: float, end: float) -> float:
    return round(start + (float(value) - low) / (high - low) * (end - start), 1)


def finite_runs(values: np.ndarray) -> list[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_drawable(values), [False]]).astype(np.int8)))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
