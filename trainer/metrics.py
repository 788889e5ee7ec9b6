"""What is reported of a set of evaluation episodes. Returns are a matrix [S, E]: S training seeds, E episodes each.

Column e is the same environment seed in every row, for evaluation is paired: differences between training seeds are then
differences between policies, not between starting states. The interval has to follow that design (see `iqm_interval`).
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ReferenceReturns

TRIM = 0.25  # cut from either end by the interquartile mean
CONFIDENCE = 0.95
RESAMPLES = 5000
_VALUES_AT_ONCE = 4_000_000  # of resampled returns in memory


@dataclass(frozen=True)
class ReturnSummary:
    """Undiscounted returns over S seeds and E episodes. `std` is over all S*E episodes; `seed_std` over the seeds' means."""

    mean: float
    std: float  # population standard deviation (ddof 0)
    median: float
    iqm: float
    iqm_low: float
    iqm_high: float
    seed_means: tuple[float, ...]  # [S], in the order of the rows
    seed_std: float | None  # sample standard deviation (ddof 1); None for a single seed
    worst_seed_mean: float


def summarize_returns(returns: np.ndarray, rng: np.random.Generator) -> ReturnSummary:
    """Summarises returns [S, E]. Only the interval draws from `rng`. Raises HindcastError where there are none or one is not finite."""
    returns = _checked(returns)
    seed_means = returns.mean(axis=1)
    low, high = iqm_interval(returns, rng)
    return ReturnSummary(
        mean=float(returns.mean()),
        std=float(returns.std()),
        median=float(np.median(returns)),
        iqm=interquartile_mean(returns),
        iqm_low=low,
        iqm_high=high,
        seed_means=tuple(seed_means.tolist()),
        seed_std=float(seed_means.std(ddof=1)) if len(seed_means) > 1 else None,
        worst_seed_mean=float(seed_means.min()),
    )


def interquartile_mean(returns: np.ndarray) -> float:
    """The mean of the middle half of all values; a quarter, rounded down, is cut from either end (Agarwal et al. 2021)."""
    return float(stats.trim_mean(np.ravel(returns), TRIM))


def iqm_interval(
    returns: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The interval of `bootstrap_interval` for the interquartile mean."""
    return bootstrap_interval(returns, rng, TRIM, resamples, confidence)


def bootstrap_interval(
    returns: np.ndarray, rng: np.random.Generator, trim: float, resamples: int = RESAMPLES, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of returns [S, E], stratified over seeds and episodes; `trim` is cut from either end.

    A resample draws S seeds with replacement and, within them, E episodes with replacement; one draw of episodes serves all
    its seeds, because an episode is the same environment seed in each (Owen 2007, the pigeonhole bootstrap). Drawing the
    episodes anew in every seed would treat shared starting states as independent, and the interval would come out far too
    narrow wherever returns depend on them. What it cannot mend: with few seeds that differ much, a percentile interval is
    too short (five seeds: about 86 % covered where 95 % are meant). One seed gives an interval over its episodes alone.
    """
    returns = _checked(returns)
    seeds, episodes = returns.shape
    rows = rng.integers(seeds, size=(resamples, seeds, 1))
    columns = rng.integers(episodes, size=(resamples, 1, episodes))
    pieces = np.array_split(np.arange(resamples), -(-resamples * returns.size // _VALUES_AT_ONCE))
    means = np.concatenate([stats.trim_mean(returns[rows[p], columns[p]].reshape(len(p), -1), trim, axis=1) for p in pieces])
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def normalized_score(episode_return: float, references: ReferenceReturns | None) -> float | None:
    """100 * (return - random) / (expert - random); None where no references are known: a score is never made up."""
    if references is None:
        return None
    if references.expert == references.random:
        raise HindcastError(
            f"Reference returns for random and expert are both {references.expert:g} ({references.source}), so no score can be "
            "computed. Correct them in the builder's spec() or leave them out."
        )
    return 100 * (episode_return - references.random) / (references.expert - references.random)


def score_note(env_id: str, references: ReferenceReturns | None) -> str:
    """One sentence on where the normalised score comes from, or why there is none."""
    if references is None:
        return f"No normalised score: no reference returns are known for {env_id}."
    return f"Score 0 is a return of {references.random:g} (random), 100 is {references.expert:g} (expert); source: {references.source}."


def _checked(returns: np.ndarray) -> np.ndarray:
    returns = np.asarray(returns, np.float64)
    if returns.ndim != 2 or returns.size == 0:
        raise HindcastError(f"Returns have shape {list(returns.shape)}, but [seeds, episodes] with at least one of each is expected.")
    if not np.isfinite(returns).all():
        row, column = np.argwhere(~np.isfinite(returns))[0]
        raise HindcastError(
            f"The return of seed number {row}, episode {column} is {returns[row, column]}, but a finite number is expected. "
            "Look at the environment's reward and the policy's actions in that episode."
        )
    return returns
