"""Measures alternatives in turns, so that what else the machine does falls on all of them alike, and prints one table."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping

import pytest

Compare = Callable[..., dict[str, float]]
TakeTurns = Callable[..., dict[str, list[float]]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write", action="store_true", help="write the table of learning's speed into README.md")
    parser.addoption("--updates", type=int, help="of a run whose returns are compared; by default those of params.yaml's experiments")
    parser.addoption("--seeds", type=int, default=3, help="of a learner whose returns are compared")


@pytest.fixture(scope="session")
def take_turns() -> TakeTurns:
    def run(subjects: Mapping[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
        """Runs each subject once a round; a subject returns how many units it did. Returns units a second, one number a round."""
        speeds: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, subject in subjects.items():
                start = time.perf_counter()
                done = subject()
                speeds[name].append(done / (time.perf_counter() - start))
        return speeds

    return run


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str], take_turns: TakeTurns) -> Compare:
    def run(title: str, unit: str, subjects: Mapping[str, Callable[[], int]], rounds: int = 5) -> dict[str, float]:
        """Takes the subjects in turns; the last one is the baseline.

        Returns the median, over rounds, of each subject's speed as a multiple of the baseline's in the same round.
        """
        speeds = take_turns(subjects, rounds)
        baseline = list(speeds.values())[-1]
        ratios = {name: statistics.median(a / b for a, b in zip(values, baseline, strict=True)) for name, values in speeds.items()}
        with capsys.disabled():
            print(f"\n{title} ({platform.machine()}, {os.cpu_count()} cores, median of {rounds} rounds taken in turns)")
            print(f"  {'':44}{unit + '/s':>16}{'ratio':>9}")
            for name, values in speeds.items():
                print(f"  {name:44}{statistics.median(values):16,.0f}{ratios[name]:9.1f}")
        return ratios

    return run
