"""Signs in the learning curves that a run diverges or collapses: rules that are functions of the points alone.

A warning changes nothing of a run. Each says where and by which numbers it fired, and what to try; a rule warns once a seed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trainer.points import TRAIN, Row

SPIKE = 10.0  # a loss this many spreads above the median of the points before
SPIKE_POINTS = 5  # before the rule says anything, and then over so many points
SPREAD_FLOOR = 0.25  # of the median's size: a loss that hardly moves has no spread to measure by
Q_MARGIN = 1.25  # times the largest possible discounted return; networks overshoot a little
ENTROPY_FLOOR = 0.005  # nats of a discrete policy: its likeliest action has 99.95 % or so
LOG_STD_FLOOR = -4.9  # of a continuous policy, in half widths of the bounds: at -5, where learners clip by default


class Symptom(NamedTuple):
    rule: str
    seed: int
    step: int
    text: str

    def __str__(self) -> str:
        return f"Seed {self.seed}, update {self.step:,}, {self.rule}: {self.text}"


class Series(NamedTuple):
    """A metric of one seed over the points of a split."""

    steps: list[int]
    values: np.ndarray


Rule = Callable[[dict[str, Series], float], Iterator[tuple[str, int, str]]]  # (metrics, largest return) -> (rule, step, text)


def diagnose(rows: Sequence[Row], seeds: Sequence[int], largest_return: float) -> list[Symptom]:
    """Returns what the rules find, by seed and then update; `largest_return` bounds |q|, infinity where nothing does."""
    found: list[Symptom] = []
    for position, seed in enumerate(seeds):
        metrics = _series(rows, position)
        own = [Symptom(rule, seed, step, text) for check in RULES for rule, step, text in check(metrics, largest_return)]
        own += [Symptom(rule, seed, step, text) for rule, step, text in non_finite(rows, position)]
        found += sorted(own, key=lambda warning: (warning.step, warning.rule))
    return found


def largest_discounted_return(reward_minimum: float, reward_maximum: float, scale: float, shift: float, gamma: float) -> float:
    """The size of the sum of the largest reward, as a learner sees it, for ever."""
    seen = [scale * reward + shift for reward in (reward_minimum, reward_maximum)]
    return max(abs(reward) for reward in seen) / (1 - gamma)


def loss_spike(metrics: dict[str, Series], _: float) -> Iterator[tuple[str, int, str]]:
    series = metrics.get("loss", Series([], np.zeros(0)))
    for i in range(SPIKE_POINTS, len(series.steps)):
        before, value = series.values[i - SPIKE_POINTS : i], series.values[i]
        median = float(np.median(before))
        spread = max(float(np.median(np.abs(before - median))), SPREAD_FLOOR * abs(median), 1e-6)
        if value > median + SPIKE * spread:
            yield (
                "loss spike",
                series.steps[i],
                f"the loss is {value:.4g}, after a median of {median:.4g} over the {SPIKE_POINTS} points before. "
                "Try max_grad_norm (10, say) or a lower learning_rate; look for extreme rewards or observations in the data.",
            )
            return


def unbounded_q(metrics: dict[str, Series], largest_return: float) -> Iterator[tuple[str, int, str]]:
    series = metrics.get("q_mean", Series([], np.zeros(0)))
    for step, value in zip(*series, strict=True):
        if abs(value) > Q_MARGIN * largest_return:
            yield (
                "q without bound",
                step,
                f"q is {value:.4g} on average, but no discounted return of these rewards is above {largest_return:.4g} in size. "
                "Critics feed on their own errors: try a lower tau or learning_rate, a lower gamma, or a more conservative "
                "learner (CQL's min_q_weight, IQL's expectile nearer to 0.5).",
            )
            return


def entropy_gone(metrics: dict[str, Series], _: float) -> Iterator[tuple[str, int, str]]:
    name, floor = ("log_std", LOG_STD_FLOOR) if "log_std" in metrics else ("entropy", ENTROPY_FLOOR)
    series = metrics.get(name, Series([], np.zeros(0)))
    for step, value in zip(*series, strict=True):
        if value < floor:
            yield (
                "entropy gone",
                step,
                f"the policy's {name} is {value:.4g}, below {floor:g}: it takes one action for sure and learns from others no more. "
                "Right where the data always act alike; else try a lower temperature (IQL), more data, or a lower learning_rate.",
            )
            return


def non_finite(rows: Sequence[Row], position: int) -> Iterator[tuple[str, int, str]]:
    for row in rows:
        spoilt = sorted(name for name, values in row.metrics.items() if not math.isfinite(values[position]))
        if spoilt:
            yield (
                "non-finite",
                row.step,
                f"{', '.join(spoilt)} on the split '{row.split}' is not a finite number. "
                "Try max_grad_norm (10, say) or a lower learning_rate; look for values out of proportion in that split.",
            )
            return


RULES: tuple[Rule, ...] = (loss_spike, unbounded_q, entropy_gone)


def _series(rows: Sequence[Row], position: int) -> dict[str, Series]:
    """The metrics of the training points of one seed."""
    points = [row for row in rows if row.split == TRAIN]
    names = sorted({name for row in points for name in row.metrics})
    held = {name: [row for row in points if name in row.metrics] for name in names}
    return {
        name: Series([row.step for row in own], np.array([row.metrics[name][position] for row in own], np.float64))
        for name, own in held.items()
    }
