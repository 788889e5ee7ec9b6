"""Small charts of many numbers: histograms, counts of categories, rasters over time, densities. As inline SVG, like those of `charts`."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from rl_datasets.page.charts import LEFT, RIGHT, TOP, WIDTH, place, short, svg, ticks
from rl_datasets.page.pictures import heat, picture

SMALL, TALL = 240, 84  # width and height of a histogram, in SVG units
ROOM = 16  # under it, for its labels
ROW, ROWS = 14, 16  # height of a row of a raster, and how many have as much; more share what these have
SIDE = 210  # of a density


class Histogram(NamedTuple):
    """How many values lie in each bin."""

    edges: np.ndarray  # [B+1]
    counts: np.ndarray  # [B]


def histogram_chart(histogram: Histogram, description: str, marks: Sequence[float] = ()) -> str:
    """Draws bars over one axis, scaled to the highest, and a dashed line at each mark that lies within it, such as a bound."""
    low, high = float(histogram.edges[0]), float(histogram.edges[-1])
    base, highest, parts = TALL - ROOM, max(int(histogram.counts.max()), 1), []
    for left, right, count in zip(histogram.edges[:-1], histogram.edges[1:], histogram.counts, strict=True):
        if count:
            x, end = (place(edge, low, high, 0, SMALL) for edge in (left, right))
            bar = max((base - 4) * count / highest, 1)  # one value among thousands still shows
            title = f"<title>{short(left)} to {short(right)}: {count:,}</title>"
            parts.append(
                f'<rect class="policy" x="{x}" y="{base - bar:.1f}" width="{max(end - x - 0.8, 0.8):.1f}" height="{bar:.1f}">{title}</rect>'
            )
    parts.append(f'<line class="base" x1="0" x2="{SMALL}" y1="{base}" y2="{base}"/>')
    for mark in marks:
        if low <= mark <= high:
            x = place(mark, low, high, 0, SMALL)
            parts.append(f'<line class="mark" x1="{x}" x2="{x}" y1="0" y2="{base}"/>')
    parts.append(f'<text x="0" y="{TALL - 3}">{short(low)}</text><text x="{SMALL}" y="{TALL - 3}" text-anchor="end">{short(high)}</text>')
    return svg(SMALL, TALL, "chart", description, parts)


def category_chart(counts: Mapping[str, int], description: str) -> str:
    """Draws a bar for each category, with its name under it while there is room for names."""
    base, highest, width, parts = TALL - ROOM, max([*counts.values(), 1]), SMALL / max(len(counts), 1), []
    for number, (name, count) in enumerate(counts.items()):
        bar = max((base - 4) * count / highest, 1 if count else 0)
        title = f"<title>{escape(name)}: {count:,}</title>"
        parts.append(
            f'<rect class="policy" x="{number * width + 1:.1f}" y="{base - bar:.1f}" width="{max(width - 2, 1):.1f}" '
            f'height="{bar:.1f}">{title}</rect>'
        )
        if len(counts) <= 12:
            parts.append(f'<text x="{(number + 0.5) * width:.1f}" y="{TALL - 3}" text-anchor="middle">{escape(name)}</text>')
    parts.append(f'<line class="base" x1="0" x2="{SMALL}" y1="{base}" y2="{base}"/>')
    return svg(SMALL, TALL, "chart", description, parts)


def raster_chart(pixels: np.ndarray, rows: Sequence[str], steps: int, description: str) -> str:
    """Draws RGBA pixels [R, C, 4] as rows over time, each row with its name, and an axis of steps under them."""
    each = ROW * min(len(rows), ROWS) / max(len(rows), 1)
    height = ROW * min(len(rows), ROWS)
    image = picture(pixels, "").partition('src="')[2].partition('"')[0]
    parts = [
        f'<image class="raster" href="{image}" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{height}" '
        'preserveAspectRatio="none"/>',
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{height}"/>',
    ]
    every = -(-len(rows) // ROWS)
    for number, name in enumerate(rows):
        if number % every == 0:
            parts.append(f'<text x="{LEFT - 6}" y="{TOP + each * (number + 0.5):.1f}" dy="0.35em" text-anchor="end">{escape(name)}</text>')
    for tick in ticks(0, max(steps, 1), 7):
        if tick <= max(steps, 1):
            x = place(tick, 0, max(steps, 1), LEFT, WIDTH - RIGHT)
            parts.append(f'<text x="{x}" y="{TOP + height + 14}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{TOP + height + 30}" text-anchor="middle">step</text>')
    return svg(WIDTH, TOP + height + 34, "chart", description, parts)


def density_chart(counts: np.ndarray, x: tuple[float, float], y: tuple[float, float], labels: tuple[str, str], description: str) -> str:
    """Draws how many values lie in each cell of a plane, by the logarithm. counts: [rows, columns], the first row the lowest."""
    pixels = heat(np.log1p(counts[::-1].astype(np.float64)), 0.0, float(np.log1p(max(int(counts.max()), 1))))
    image = picture(pixels, "").partition('src="')[2].partition('"')[0]
    left, top, bottom = LEFT, TOP, TOP + SIDE
    parts = [
        f'<image class="raster" href="{image}" x="{left}" y="{top}" width="{WIDTH - left - RIGHT}" height="{SIDE}" '
        'preserveAspectRatio="none"/>',
        f'<rect class="frame" x="{left}" y="{top}" width="{WIDTH - left - RIGHT}" height="{SIDE}"/>',
    ]
    for tick in ticks(*y, 5):
        if y[0] <= tick <= y[1]:
            level = place(tick, *y, bottom, top)
            parts.append(f'<text x="{left - 6}" y="{level}" dy="0.35em" text-anchor="end">{short(tick)}</text>')
    for tick in ticks(*x, 7):
        if x[0] <= tick <= x[1]:
            parts.append(f'<text x="{place(tick, *x, left, WIDTH - RIGHT)}" y="{bottom + 14}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<text class="axis" x="{(left + WIDTH - RIGHT) / 2:g}" y="{bottom + 30}" text-anchor="middle">{escape(labels[0])}</text>')
    parts.append(
        f'<text class="axis" transform="translate(11 {(top + bottom) / 2:g}) rotate(-90)" text-anchor="middle">{escape(labels[1])}</text>'
    )
    return svg(WIDTH, bottom + 34, "chart", description, parts)
