"""Ridge regression on random features: how well one thing follows from another, without knowing how.

Features are computed once and serve all that is fitted on them. Plain ones, the columns and their squares, are the better ones where
many columns are of no use.
"""

from collections.abc import Iterator, Sequence

import numpy as np

FEATURES = 64  # random ones, of tanh
STEEPNESS = 0.7  # of their weights
RIDGE = 1e-6
PRODUCTS = 66  # of two columns, that are features too; more are left out
LIMIT = 1e6
SMALL = 1 << 18  # multiplications of one product: one so small runs in this thread, where starting others would cost more
BLOCK = 48  # rows of a system that are solved at once, in this thread for the same reason


class Features:
    """Gives the features [N, F] of inputs [N, D] in units of the deviation of those that it was made of. Deterministic."""

    def __init__(self, inputs: np.ndarray, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._mean, self._scale = inputs.mean(axis=0), _deviation(inputs)
        random = np.random.default_rng(0x51D1)
        self._weights = random.normal(0, STEEPNESS, (inputs.shape[1], FEATURES)) / np.sqrt(max(inputs.shape[1], 1)) * 2
        self._offsets = random.uniform(-1, 1, FEATURES)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        rows = np.clip((inputs - self._mean) / self._scale, -LIMIT, LIMIT)
        if self._is_plain:
            return np.concatenate([np.ones((len(rows), 1)), rows, rows**2], axis=1)
        parts = [np.ones((len(rows), 1)), rows, np.tanh(_times(rows, self._weights) + self._offsets)]
        if rows.shape[1] * (rows.shape[1] + 1) // 2 <= PRODUCTS:
            left, right = np.triu_indices(rows.shape[1])
            parts.append(rows[:, left] * rows[:, right])
        return np.concatenate(parts, axis=1)


class Regression:
    """Fitted on rows (features [N, F], output [N, K]); predicts in units of the output's deviation."""

    def __init__(self, features: np.ndarray, outputs: np.ndarray) -> None:
        self._center, self._scale = outputs.mean(axis=0), _deviation(outputs)
        sums = _summed(features, np.concatenate([features, self._in_units(outputs)], axis=1))
        sums[:, : len(sums)] += RIDGE * len(features) * np.eye(len(sums))
        self._coefficients = _solved(sums)

    def errors(self, features: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Returns the squared errors, in squared deviations of the outputs that it was fitted on, [N, K]."""
        errors: np.ndarray = (_times(features, self._coefficients) - self._in_units(outputs)) ** 2
        return errors

    def _in_units(self, outputs: np.ndarray) -> np.ndarray:
        wanted: np.ndarray = (outputs - self._center) / self._scale
        return wanted


def cross_errors(inputs: np.ndarray, outputs: np.ndarray, groups: np.ndarray, is_plain: bool) -> np.ndarray:
    """Returns the errors by a regression on the groups of the other half, [N, K]. groups: [N] int64, such as episodes."""
    features, errors = Features(inputs, is_plain)(inputs), np.zeros(outputs.shape)
    for half in range(2):
        own = groups % 2 == half
        if own.any() and not own.all():
            errors[own] = Regression(features[~own], outputs[~own]).errors(features[own], outputs[own])
    return errors


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Returns arrays [N, ...] side by side as float64 [N, D]."""
    return np.concatenate([array.reshape(len(array), -1).astype(np.float64) for array in arrays], axis=1)


def _parts(rows: int, width: int) -> Iterator[slice]:
    """Yields parts of some rows; width: multiplications a row."""
    size = max(SMALL // max(width, 1), 1)
    return (slice(start, start + size) for start in range(0, rows, size))


def _times(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Returns the product of rows [N, D], N >= 1, and a matrix [D, K]."""
    return np.concatenate([rows[part] @ matrix for part in _parts(len(rows), matrix.size)])


def _summed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the sum of the outer products of the rows of left [N, F] and right [N, K], [F, K]."""
    sums: np.ndarray = sum(
        (left[part].T @ right[part] for part in _parts(len(left), left.shape[1] * right.shape[1])),
        start=np.zeros((left.shape[1], right.shape[1])),
    )
    return sums


def _solved(system: np.ndarray) -> np.ndarray:
    """Returns x [F, K] of A x = b for a system [F, F + K], A beside b, eliminated in place by blocks. A is positive definite."""
    size = len(system)
    values, blocks = system[:, size:], [slice(first, min(first + BLOCK, size)) for first in range(0, size, BLOCK)]
    for own in blocks:
        after = slice(own.stop, None)
        system[own, after] = np.linalg.solve(system[own, own], system[own, after])
        if own.stop < size:
            system[after, after] -= _times(system[after, own], system[own, after])
    for own in reversed(blocks):
        values[own] -= system[own, own.stop : size] @ values[own.stop :]
    return values


def _deviation(rows: np.ndarray) -> np.ndarray:
    deviation = rows.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)
