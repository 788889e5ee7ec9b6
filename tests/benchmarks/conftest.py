"""Measures alternatives in turns, so that what else the machine does falls on all of them alike, and prints one table."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping

import pytest

Compare = Callable[..., dict[str, float]]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    def run(title: str, unit: str, subjects: Mapping[str, Callable[[], int]], rounds: int = 5) -> dict[str, float]:
        """Runs each subject once a round; a subject returns how many units it did. The last subject is the baseline.

        Returns the median, over rounds, of each subject's speed as a multiple of the baseline's in the same round.
        """
        speeds: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, subject in subjects.items():
                start = time.perf_counter()
                done = subject()
                speeds[name].append(done / (time.perf_counter() - start))
        baseline = list(speeds.values())[-1]
        ratios = {name: statistics.median(a / b for a, b in zip(values, baseline, strict=True)) for name, values in speeds.items()}
        with capsys.disabled():
            print(f"\n{title} ({platform.machine()}, {os.cpu_count()} cores, median of {rounds} rounds taken in turns)")
            print(f"  {'':44}{unit + '/s':>16}{'ratio':>9}")
            for name, values in speeds.items():
                print(f"  {name:44}{statistics.median(values):16,.0f}{ratios[name]:9.1f}")
        return ratios

    return run
