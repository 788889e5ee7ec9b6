"""The numbers of episodes that were played, computed again from their table: a row an episode of a training seed."""

import csv
import io
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rl_datasets.errors import HindcastError


class Played(NamedTuple):
    """What episodes.csv says."""

    returns: Mapping[str, list[float]]  # of each training seed, in the order of episodes; none where nothing was played
    environment_seeds: Mapping[str, list[int]]
    lengths: Sequence[int]
    successes: Sequence[bool]  # of the episodes whose environment tells
    discounted: Sequence[float]  # returns, where they were asked for

    @property
    def counts(self) -> dict[str, int]:
        """What a manifest says of them."""
        return {"episodes": len(self.lengths), "steps": sum(self.lengths)} if self.lengths else {}


def played_of(table: bytes, where: str) -> Played:
    """Raises HindcastError where it is no such table."""
    returns: dict[str, list[float]] = defaultdict(list)
    seeds: dict[str, list[int]] = defaultdict(list)
    try:
        rows = list(csv.DictReader(io.StringIO(table.decode("utf-8"))))
        for row in rows:
            returns[row["training_seed"]].append(float(row["episode_return"]))
            seeds[row["training_seed"]].append(int(row["environment_seed"]))
        lengths = [int(row["length"]) for row in rows]
        successes = [{"True": True, "False": False}[told] for row in rows if (told := row.get("success"))]
        discounted = [float(told) for row in rows if (told := row.get("discounted_return"))]
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise HindcastError(f"{where} is no table of episodes ({type(error).__name__}: {error})") from error
    return Played(returns, seeds, lengths, successes, discounted)


def expected_metrics(played: Played) -> dict[str, Any]:
    """What metrics.json must say."""
    every = [value for values in played.returns.values() for value in values]
    means = [statistics.fmean(values) for values in played.returns.values()]
    told = len(played.successes) == len(every)
    return {
        "return_mean": statistics.fmean(every),
        "return_std": statistics.pstdev(every),
        "return_median": statistics.median(every),
        "seed_means": means,
        "seed_std": statistics.stdev(means) if len(means) > 1 else None,
        "worst_seed_mean": min(means),
        "length_mean": statistics.fmean(played.lengths),
        "success_rate": statistics.fmean(played.successes) if told else None,
        **({"discounted_return_mean": statistics.fmean(played.discounted)} if played.discounted else {}),
    }


def drawn_metrics(played: Played, seed: int) -> dict[str, Any]:
    """Those that are drawn by chance, by the same draw from the seed of the evaluation."""
    import numpy as np

    from trainer.metrics import summarize_returns  # SciPy, most of a second

    if len({len(values) for values in played.returns.values()}) != 1:
        return {}
    summary = summarize_returns(np.array(list(played.returns.values())), np.random.default_rng(seed))
    return {"iqm": summary.iqm, "iqm_low": summary.iqm_low, "iqm_high": summary.iqm_high}


def score(episode_return: float, references: Mapping[str, Any] | None) -> float | None:
    """The normalised score, by reference returns as a policy's description has them."""
    from rl_datasets.schema import ReferenceReturns
    from trainer.metrics import normalized_score

    return normalized_score(episode_return, ReferenceReturns(**references) if references else None)


def expected_seeds(seed: int, episodes: int) -> list[int]:
    """The seeds of the environments that an evaluation plays, the same for every policy."""
    from trainer.evaluation import environment_seeds  # Gymnasium, half a second

    return environment_seeds(seed, episodes)
