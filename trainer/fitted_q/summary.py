"""What is reported of a fitted Q evaluation: numbers with their intervals, and the signs that one should not trust them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trainer.fitted_q.params import BEYOND, FittedQParams, gamma_within
from trainer.metrics import bootstrap_interval

PREFIX = "fitted_q_"  # of the keys in metrics.json
FLAG = "Fitted Q evaluation, "  # how the sentence of a flag begins
INTERVAL = "Intervals leave out the estimator's own error."
FEW_EPISODES = 30  # under which an interval over initial states says little
MOVED = 0.01  # of a value's size, over the last half of the updates: 0.05 at the full rate, of which the cosine leaves 0.18 there
FAR = 0.25  # of the policy's actions; of the data's own at most 0.05 are that far
LONG = 0.01  # weight of what came after a cut, under which nobody need hear of it


class Interval(NamedTuple):
    """A mean, and the bootstrap's interval of it."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Flag(NamedTuple):
    """A sign that the estimate may be wrong."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{FLAG}{self.kind}: {self.text}"


class Limits(NamedTuple):
    """Between which every discounted return of the train split's rewards lies."""

    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values of S policies at the initial states of E held-out episodes, all in the unit of the logged rewards, float64."""

    params: FittedQParams
    seed: int  # of the bootstrap
    episodes: tuple[str, ...]  # E ids
    policies: tuple[str, ...]  # that collected them
    length: np.ndarray  # [E]
    is_terminal: np.ndarray  # [E] bool
    values: np.ndarray  # [S, E]: of the policies
    behaviour_value: np.ndarray  # [E]: what the same estimator gives for the data's own actions
    behaviour_return: np.ndarray  # [E]: the discounted return as logged, as far as the data go
    behaviour_rest: np.ndarray  # [E]: what the estimator adds for what came after an episode that was cut; zero for one that ended
    rest: np.ndarray  # [E]: the weight of that, gamma^(T-1)
    moved: np.ndarray  # [S + 1]: how far the estimates, and last the behaviour's, came at most in the last half of the updates
    far: np.ndarray  # [S]: the share of the policy's actions that are far from the data's (support.py)
    limits: Limits

    @property
    def known(self) -> np.ndarray:
        """[E]: the behaviour's discounted return, with the rest where an episode was cut."""
        total: np.ndarray = self.behaviour_return + self.behaviour_rest
        return total

    @property
    def value(self) -> Interval:
        return self._interval(self.values)

    @property
    def behaviour(self) -> Interval:
        return self._interval(self.known[None])

    @property
    def calibration(self) -> Interval:
        """How far the estimator is off for the behaviour."""
        return self._interval((self.behaviour_value - self.known)[None])

    @property
    def difference(self) -> Interval:
        """What the policies are said to earn beyond the behaviour, from the same initial states."""
        return self._interval(self.values - self.known[None])

    @property
    def seed_values(self) -> np.ndarray:
        """[S]"""
        means: np.ndarray = self.values.mean(axis=1)
        return means

    def metrics(self) -> dict[str, Any]:
        """Plain numbers and one list, by the keys of metrics.json."""
        intervals = {
            "value": self.value,
            "behaviour": self.behaviour,
            "difference": self.difference,
            "calibration": self.calibration,
        }
        numbers: dict[str, Any] = {}
        for name, found in intervals.items():
            numbers |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
        numbers |= {
            "seed_values": self.seed_values.tolist(),
            "seed_std": float(self.seed_values.std(ddof=1)) if len(self.values) > 1 else None,
            "behaviour_return": float(self.behaviour_return.mean()),
            "behaviour_value": float(self.behaviour_value.mean()),
            "far_share": float(self.far.mean()),
            "cut_share": float(1 - self.is_terminal.mean()),
            "episodes": len(self.episodes),
            "flags": len(self.flags()),
        }
        return {PREFIX + name: value for name, value in numbers.items()}

    def __str__(self) -> str:
        """The estimate in a line, and one for each flag."""
        line = (
            f"Fitted Q evaluation (gamma {self.params.gamma:g}): {self.value}, behaviour {self.behaviour}, difference {self.difference}, "
            f"calibration {self.calibration}. {INTERVAL}"
        )
        return "\n".join([line, *map(str, self.flags())])

    def flags(self) -> list[Flag]:
        """The signs of trouble, each with its reason; none where all is well."""
        return [flag for check in CHECKS for flag in check(self)]

    def _interval(self, matrix: np.ndarray) -> Interval:
        """Of the mean of [S, E]; each by draws of its own from the seed, so that each can be computed again alone."""
        return Interval(float(matrix.mean()), *bootstrap_interval(matrix, np.random.default_rng(self.seed), trim=0.0))


def limits_of(reward_minimum: float, reward_maximum: float, gamma: float, ends: bool) -> Limits:
    """The discounted returns of the least and the greatest reward for ever, and where episodes end, of one of them."""
    low, high = reward_minimum / (1 - gamma), reward_maximum / (1 - gamma)
    return Limits(min(low, reward_minimum), max(high, reward_maximum)) if ends else Limits(low, high)


def outside(estimate: Estimate) -> Iterator[Flag]:
    low, high = estimate.limits
    worst = [value for value in estimate.seed_values if not low <= value <= high]
    if worst:
        yield Flag(
            "impossible",
            f"{worst[0]:.4g} is no discounted return of these rewards, which lie between {low:.4g} and {high:.4g}. The critics were "
            "fitted too briefly, or learnt from their own errors; do not use the estimate.",
        )


def still_moving(estimate: Estimate) -> Iterator[Flag]:
    """Beside the size of each value, and beside the difference that a policy is said to make where calibration leaves one."""
    values, known = np.append(estimate.seed_values, estimate.behaviour_value.mean()), float(estimate.known.mean())
    size = np.maximum(np.abs(values), abs(known))
    size[-1] = size.max()  # the behaviour's value is there to be compared with the policies'
    claimed = np.append(np.maximum(np.abs(values[:-1] - known), abs(estimate.calibration.mean)), np.inf)
    limit = np.minimum(MOVED * size, claimed)
    excess = np.where(np.isfinite(estimate.moved), np.abs(estimate.moved) - limit, np.inf)
    worst, updates = int(excess.argmax()), estimate.params.updates
    if excess[worst] > 0:
        moved = float(estimate.moved[worst])
        whose = "the behaviour's" if worst == len(estimate.values) else "a policy's"
        yield Flag(
            "not converged",
            f"{whose} estimate {'fell' if moved < 0 else 'rose'} by {abs(moved):.4g} to {values[worst]:.4g} in the last half of "
            f"{updates:,} updates, and may go on. Raise updates, to {4 * updates:,} for example, until it stands still; where it keeps "
            "growing the critics diverge, and a lower gamma, learning_rate or tau may help.",
        )


def badly_calibrated(estimate: Estimate) -> Iterator[Flag]:
    off, claimed = estimate.calibration.mean, estimate.difference.mean
    if abs(off) > abs(claimed):
        yield Flag(
            "calibration",
            f"where the truth is known, for the behaviour, the estimator is off by {off:.4g}: more than the {claimed:.4g} by which the "
            "policy is said to differ from it. It does not tell which of them is better.",
        )


def far_from_data(estimate: Estimate) -> Iterator[Flag]:
    share = float(estimate.far.mean())
    if share > FAR:
        yield Flag(
            "support",
            f"at {share:.0%} of held-out states the policy acts farther from what the data show there than 95 % of the data's own "
            "actions do. What follows such actions was hardly ever logged, so their values are extrapolated.",
        )


def cut_off(estimate: Estimate) -> Iterator[Flag]:
    cut = ~estimate.is_terminal
    weight = float(estimate.rest[cut].mean()) if cut.any() else 0.0
    if cut.mean() * weight > LONG:
        rest, gamma = float(estimate.behaviour_rest[cut].mean()), gamma_within(float(estimate.length[cut].mean()))
        lower = f"A gamma of {gamma:g} leaves {BEYOND:.0%} of it."
        advice = lower if gamma < estimate.params.gamma else f"The gamma of {estimate.params.gamma:g} is low enough for their length."
        yield Flag(
            "cut episodes",
            f"{int(cut.sum()):,} of {len(cut):,} held-out episodes were cut where {weight:.0%} of the weight was still to come. The "
            f"behaviour's logged return lacks it ({rest:.4g} of such an episode, by the estimator), and calibration cannot tell how far "
            f"that is off. {advice}",
        )


def mixed_behaviour(estimate: Estimate) -> Iterator[Flag]:
    several = estimate.policies
    if len(several) > 1:
        shown = ", ".join(several[:3]) + (" ..." if len(several) > 3 else "")
        yield Flag(
            "mixed behaviour",
            f"{len(several)} policies collected the held-out episodes ({shown}). No single policy of the state acts as they did in turn, "
            "so that the calibration holds this difference beside the estimator's error.",
        )


def few_episodes(estimate: Estimate) -> Iterator[Flag]:
    if len(estimate.episodes) < FEW_EPISODES:
        yield Flag(
            "few episodes",
            f"the mean is over {len(estimate.episodes)} initial states. Give the split test a larger fraction, or take the interval as "
            "a guess.",
        )


CHECKS = (outside, still_moving, badly_calibrated, far_from_data, cut_off, mixed_behaviour, few_episodes)


def notes(estimate: Estimate) -> list[str]:
    """What was assumed, in sentences for a manifest, and then the flags."""
    params, count = estimate.params, len(estimate.episodes)
    assumed = (
        f"Fitted Q evaluation: the discounted return (gamma {params.gamma:g}) of the deterministic policy from the initial states of "
        f"{count:,} held-out {'episode' if count == 1 else 'episodes'}, rewards as logged, without a time limit."
    )
    return [assumed, *map(str, estimate.flags())]
