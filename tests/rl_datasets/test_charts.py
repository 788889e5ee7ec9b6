"""Charts: what is drawn stands where the numbers say."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_datasets.page.charts import (
    BOTTOM,
    EDGE,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDE,
    WIDTH,
    Distribution,
    Line,
    distribution_chart,
    line_chart,
    short,
    ticks,
)


def points(svg: str) -> list[list[tuple[float, float]]]:
    return [[tuple(map(float, point.split(","))) for point in line.split()] for line in re.findall(r'points="([^"]*)"', svg)]  # type: ignore[misc]


def test_line_spans_its_axes() -> None:
    line = Line(np.array([0.0, 50.0, 100.0]), np.array([0.0, 5.0, 10.0]), "one", "a line")
    middle = ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2)
    assert points(line_chart([line], "d", "x")) == [[(LEFT, HEIGHT - BOTTOM), middle, (WIDTH - RIGHT, TOP)]]


def test_line_breaks_where_there_is_no_number() -> None:
    line = Line(np.arange(6.0), np.array([1.0, 2.0, np.nan, 4.0, np.inf, 6.0]), "one", "a line")
    assert [len(run) for run in points(line_chart([line], "d", "x"))] == [2, 2, 2]  # a single point stands twice, and so is a dot


def test_nothing_to_draw_is_an_empty_chart() -> None:
    assert points(line_chart([], "d", "x")) == []
    assert points(line_chart([Line(np.array([1.0]), np.array([np.nan]), "one", "l")], "d", "x")) == []


def test_distribution_counts_every_value_once_and_marks_interval_and_mean() -> None:
    values = np.array([0.0, 0.0, 0.0, 40.0, 100.0])
    svg = distribution_chart([Distribution("row", values, "policy", (25.0, 75.0))], 50.0, "d", "x")
    counts = [int(count) for count in re.findall(r": (\d+) episodes<", svg)]
    heights = [float(height) for height in re.findall(r'<rect .*height="([^"]*)"', svg)]
    assert counts == [3, 1, 1]
    assert heights[0] == pytest.approx(3 * heights[1], abs=0.2)
    span = WIDE - 2 * EDGE
    assert f'class="interval" x1="{EDGE + span / 4:.1f}" x2="{EDGE + 3 * span / 4:.1f}"' in svg
    assert f'class="mark" x1="{EDGE + span / 2:.1f}"' in svg


def test_text_is_escaped() -> None:
    svg = distribution_chart([Distribution("a<b & c", np.array([1.0]), "policy")], 1.0, 'say "a<b"', "x")
    assert "a&lt;b &amp; c" in svg
    assert 'aria-label="say &quot;a&lt;b&quot;"' in svg


def test_ticks_are_round_and_cover_the_range() -> None:
    assert ticks(0, 10, 6) == [0, 2, 4, 6, 8, 10]
    assert ticks(-1746.9, -2.5, 5) == [-2000, -1500, -1000, -500, 0]
    assert ticks(0.13, 0.29, 5) == [0.1, 0.15, 0.2, 0.25, 0.3]


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 10))
def test_ticks_cover_any_range_with_few(low: float, width: float, count: int) -> None:
    high = low + width
    if high - low < 1e-9 * max(abs(low), abs(high)):
        return
    found = ticks(low, high, count)
    slack = 1e-6 * (high - low) + 1e-9 * max(abs(low), abs(high))
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert 2 <= len(found) <= count + 2
    assert all(np.diff(found) > 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-500, "\u2212500"), (12500, "12.5k"), (2_500_000, "2.5M"), (0.25, "0.25"), (3e12, "3e+12")],
)
def test_short_numbers(value: float, text: str) -> None:
    assert short(value) == text
