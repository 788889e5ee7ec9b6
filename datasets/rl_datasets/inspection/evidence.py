"""Numbers on which an oddity rests: plain functions of arrays, [n] rows of one or more episodes end to end."""

from typing import NamedTuple

import numpy as np

_MOST_ROWS = 5000  # that a regression uses
_MOST_SQUARED = 24  # elements of observation and action, up to which their products are features too
_RIDGE = 1e-9


class Explained(NamedTuple):
    """The part of the variance of the reward of row t and of row t + 1 that observation and action of row t explain (R squared)."""

    same: float
    late: float


def explained_reward(observation: np.ndarray, action: np.ndarray, reward: np.ndarray, inner: np.ndarray) -> Explained | None:
    """Regresses rewards on observation and action, and on their products where these are few.

    observation [n, d], action [n, k], reward [n]; `inner` are rows whose next row is of the same episode. None where there is
    nothing to explain: too few rows, or a reward that hardly varies.
    """
    finite = np.isfinite(observation).all(axis=1) & np.isfinite(action).all(axis=1) & np.isfinite(reward)
    rows = inner[finite[inner] & finite[inner + 1]]
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(np.int64)] if len(rows) else rows
    if len(rows) < 2:
        return None
    features = _features(np.concatenate([observation[rows], action[rows]], axis=1))
    if len(rows) < 4 * features.shape[1]:
        return None
    targets = np.stack([reward[rows], reward[rows + 1]], axis=1)
    spread = targets.var(axis=0)
    if (spread <= 1e-12 * np.maximum(np.abs(targets).max(), 1e-12) ** 2).any():
        return None
    gram = features.T @ features
    weights = np.linalg.solve(gram + _RIDGE * np.trace(gram) * np.eye(len(gram)), features.T @ targets)
    left = ((targets - features @ weights) ** 2).mean(axis=0)
    same, late = (1 - left / spread).tolist()
    return Explained(same, late)


def zero_first(reward: np.ndarray, start: np.ndarray) -> tuple[int, float]:
    """Returns how many episodes begin with a reward of 0, and which part of all other rows has a reward of 0."""
    first = np.zeros(len(reward), bool)
    first[start] = True
    rest = reward[~first]
    return int((reward[start] == 0).sum()), float((rest == 0).mean()) if len(rest) else 1.0


def missing_first(reward: np.ndarray, start: np.ndarray) -> bool:
    """Whether the rewards [n] of the first rows of episodes are missing, and no others."""
    return bool(np.array_equal(np.flatnonzero(np.isnan(reward)), np.sort(start)))


def repeated_rows(*columns: np.ndarray) -> int:
    """Returns how many rows [n, ...] have the content of an earlier one in all columns."""
    parts = [np.ascontiguousarray(column.reshape(len(column), -1)).view(np.uint8).reshape(len(column), -1) for column in columns]
    joined = np.ascontiguousarray(np.concatenate(parts, axis=1))
    rows = joined.view(np.dtype((np.void, joined.shape[1]))).reshape(-1)
    return len(rows) - len(np.unique(rows))


def on_longest(length: np.ndarray, is_terminal: np.ndarray) -> tuple[int, int, int]:
    """Returns (the greatest length, how many terminal episodes have it, how many terminal ones are at most a tenth shorter)."""
    longest = int(length.max())
    at = int((is_terminal & (length == longest)).sum())
    near = int((is_terminal & (length < longest) & (length >= 0.9 * longest)).sum())
    return longest, at, near


def _features(values: np.ndarray) -> np.ndarray:
    spread = values.std(axis=0)
    scaled = (values - values.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    if scaled.shape[1] <= _MOST_SQUARED:
        upper = np.triu_indices(scaled.shape[1])
        scaled = np.concatenate([scaled, scaled[:, upper[0]] * scaled[:, upper[1]]], axis=1)
    return np.concatenate([scaled, np.ones((len(scaled), 1))], axis=1)
