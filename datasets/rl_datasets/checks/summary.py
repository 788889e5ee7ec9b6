"""The numbers of a data card: returns and lengths by policy, and the range of every array."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from rl_datasets.checks.block import Block
from rl_datasets.checks.folding import folded
from rl_datasets.schema import ArraySpec, EnvSpec, named_leaves
from rl_datasets.stats import Moments, merge

COLUMNS = 32  # of an array that are described one by one; a larger array is described as a whole
CATEGORIES = 32  # values of a category that are counted one by one
DEPTH = 32
LARGE = 1e15  # range of a column whose squares float32 may not hold


class RunningSummary:
    """Describes the observations (o_T included), actions and rewards of all blocks added so far."""

    def __init__(self, spec: EnvSpec) -> None:
        leaves = [*named_leaves(spec.observation, "observation"), ("action", spec.action), ("reward", ArraySpec((), "float32"))]
        self._names = [name for name, _ in leaves]
        self._arrays = {name: _describer(leaf) for name, leaf in leaves}

    def add(self, block: Block) -> None:
        moves, lasts = ~block.is_last, block.lasts
        for place, leaf in enumerate(block.observation):
            describer = self._arrays[self._names[place]]
            if isinstance(describer, _Floats):
                describer.add(block.observation_rows(place), block.observation_extremes(place), lasts[:0])
            else:
                describer.add(leaf)
        action = self._arrays["action"]
        if isinstance(action, _Floats):
            action.add(block.action_rows, block.action_extremes, lasts)
        else:
            action.add(block.action[moves])
        reward = self._arrays["reward"]
        assert isinstance(reward, _Floats), "its spec says so"
        reward.add(block.reward_rows, block.reward_extremes, lasts)

    def to_json(self, table: pd.DataFrame) -> dict[str, Any]:
        """Returns plain JSON; a number that is not finite becomes null. table: columns of EpisodeRow, one row an episode."""
        terminals = int(table["is_terminal"].sum())
        return {
            "episodes": len(table),
            "transitions": int(table["length"].sum()),
            "terminals": terminals,
            "truncations": len(table) - terminals,
            "episode_return": describe(table["episode_return"].to_numpy(np.float64)),
            "length": describe(table["length"].to_numpy(np.float64)),
            "policies": {
                str(policy): {"episodes": len(rows), "episode_return": describe(rows["episode_return"].to_numpy(np.float64))}
                for policy, rows in table.groupby("policy")
            },
            "arrays": {name: described for name, describer in self._arrays.items() if (described := describer.to_json())},
        }


def describe(values: np.ndarray) -> dict[str, float | int | None]:
    """Returns mean, std, quartiles and range of the finite values, and how many are not finite. values: [N] float64."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return {"not_finite": len(values)}
    quantiles = dict(
        zip(("minimum", "q25", "median", "q75", "maximum"), np.quantile(finite, [0, 0.25, 0.5, 0.75, 1]).tolist(), strict=True)
    )
    return {"mean": float(finite.mean()), "std": float(finite.std()), **quantiles, "not_finite": len(values) - len(finite)}


class _Floats:
    """Moments of each column."""

    def __init__(self) -> None:
        self._moments: Moments | None = None

    def add(self, rows: np.ndarray, extremes: tuple[np.ndarray, np.ndarray], left_out: np.ndarray) -> None:
        """rows: [N, D]. extremes: the least and the greatest value of each column, each [D].

        left_out: rows that do not count; their values are in others too, so that the extremes stay.
        """
        own = _moments(rows, extremes, left_out)
        self._moments = own if self._moments is None else merge(self._moments, own)

    def to_json(self) -> dict[str, Any]:
        result = self._moments
        if result is None or not result.mean.size:
            return {}
        return {"columns": _columns(result if result.mean.size <= COLUMNS else _pooled(result))}


class _Categories:
    """How often each value of a category occurs."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, array: np.ndarray) -> None:
        values, counts = np.unique(array, return_counts=True)
        self._counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def to_json(self) -> dict[str, Any]:
        if len(self._counts) > CATEGORIES:
            return {"distinct": len(self._counts), "minimum": min(self._counts), "maximum": max(self._counts)}
        return {"counts": {str(value): self._counts[value] for value in sorted(self._counts)}} if self._counts else {}


class _Integers:
    """The range of all elements, as of images."""

    def __init__(self) -> None:
        self._minimum, self._maximum = math.inf, -math.inf

    def add(self, array: np.ndarray) -> None:
        if array.size:
            self._minimum = min(self._minimum, int(array.min()))
            self._maximum = max(self._maximum, int(array.max()))

    def to_json(self) -> dict[str, Any]:
        return {} if self._minimum > self._maximum else {"minimum": self._minimum, "maximum": self._maximum}


def _moments(rows: np.ndarray, extremes: tuple[np.ndarray, np.ndarray], left_out: np.ndarray) -> Moments:
    """Returns the moments of rows [N, D], N > len(left_out), in one pass.

    Sums are of what lies beyond the first row, so that a large mean beside a small deviation costs no digits: DEPTH rows at a time
    in the columns' own precision, and in float64 beyond that and where a square would not fit.
    """
    low, high = (extreme.astype(np.float64) for extreme in extremes)
    count = len(rows) - len(left_out)
    with np.errstate(invalid="ignore", over="ignore"):
        exact = rows.astype(np.result_type(rows, np.float32) if (high - low).max(initial=0) < LARGE else np.float64, copy=False)
        first = exact[:1]
        beside, rest = folded(exact)
        sums, squares = _sums(rest.astype(np.float64) - first)
        left_sums, left_squares = _sums(exact[left_out].astype(np.float64) - first)
        wide = _sums_beyond(beside, np.tile(first[0], beside.shape[1] // max(len(low), 1)))
        wide_sums, wide_squares = (each.reshape(-1, len(low)).sum(axis=0) if len(low) else 0.0 for each in wide)
        sums, squares = sums + wide_sums - left_sums, squares + wide_squares - left_squares
        return Moments(count, first[0] + sums / count, np.maximum(squares - sums**2 / count, 0), low, high)


def _sums_beyond(rows: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what `_sums` does of rows [N, D] less the row `first`, in their own precision for DEPTH rows at a time."""
    sums, squares = np.zeros(len(first)), np.zeros(len(first))
    for start in range(0, len(rows), DEPTH):
        more, more_squares = _sums(rows[start : start + DEPTH] - first)
        sums += more
        squares += more_squares
    return sums, squares


def _sums(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sums of the columns of rows [N, D] and of their squares, each [D]. The rows are of no use afterwards."""
    return rows.sum(axis=0), np.square(rows, out=rows).sum(axis=0)


def _describer(leaf: ArraySpec) -> _Floats | _Categories | _Integers:
    if np.issubdtype(leaf.dtype, np.floating):
        return _Floats()
    return _Categories() if leaf.is_discrete else _Integers()


def _pooled(m: Moments) -> Moments:
    """Returns the moments of all elements, columns not told apart."""
    with np.errstate(invalid="ignore", over="ignore"):
        mean = m.mean.mean(keepdims=True)
        squares = m.squares.sum(keepdims=True) + m.rows * ((m.mean - mean) ** 2).sum(keepdims=True)
    return Moments(m.rows * m.mean.size, mean, squares, m.minimum.min(keepdims=True), m.maximum.max(keepdims=True))


def _columns(m: Moments) -> list[dict[str, float | None]]:
    rows = zip(m.mean.tolist(), m.std.tolist(), m.minimum.tolist(), m.maximum.tolist(), strict=True)
    return [
        {name: value if math.isfinite(value) else None for name, value in zip(("mean", "std", "minimum", "maximum"), row, strict=True)}
        for row in rows
    ]
