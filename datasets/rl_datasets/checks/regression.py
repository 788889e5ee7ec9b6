"""Ridge regression on random features: how well one thing follows from another, without knowing how.

A plain one, on the columns and their squares, is the better one where many columns are of no use.
"""

from collections.abc import Iterator, Sequence

import numpy as np

FEATURES = 64  # random ones, of tanh
STEEPNESS = 0.7  # of their weights
RIDGE = 1e-6
PRODUCTS = 66  # of two columns, that are features too; more are left out
LIMIT = 1e6
BLOCK = 16  # rows of a system that are solved at once
SMALL = 1 << 18  # multiplications of one product: one so small runs in this thread, where starting others would cost more


class Regression:
    """Fitted on rows (input [N, D], output [N, K]); predicts in units of the output's deviation. Deterministic."""

    def __init__(self, inputs: np.ndarray, outputs: np.ndarray, is_plain: bool = False) -> None:
        self._is_plain = is_plain
        self._mean, self._scale = inputs.mean(axis=0), _deviation(inputs)
        self.center, self.scale = outputs.mean(axis=0), _deviation(outputs)
        random = np.random.default_rng(0x51D1)
        self._weights = random.normal(0, STEEPNESS, (inputs.shape[1], FEATURES)) / np.sqrt(max(inputs.shape[1], 1)) * 2
        self._offsets = random.uniform(-1, 1, FEATURES)
        features = self._features(inputs)
        wanted = (outputs - self.center) / self.scale
        sums = _summed(features, np.concatenate([features, wanted], axis=1))
        sums[:, : len(sums)] += RIDGE * len(features) * np.eye(len(sums))
        self._coefficients = _solved(sums)

    def errors(self, inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Returns the squared errors, in squared deviations of the outputs that it was fitted on, [N, K]."""
        wanted = (outputs - self.center) / self.scale
        found = _times(self._features(inputs), self._coefficients)
        errors: np.ndarray = (found - wanted) ** 2
        return errors

    def _features(self, inputs: np.ndarray) -> np.ndarray:
        rows = np.clip((inputs - self._mean) / self._scale, -LIMIT, LIMIT)
        if self._is_plain:
            return np.concatenate([np.ones((len(rows), 1)), rows, rows**2], axis=1)
        parts = [np.ones((len(rows), 1)), rows, np.tanh(_times(rows, self._weights) + self._offsets)]
        if rows.shape[1] * (rows.shape[1] + 1) // 2 <= PRODUCTS:
            left, right = np.triu_indices(rows.shape[1])
            parts.append(rows[:, left] * rows[:, right])
        return np.concatenate(parts, axis=1)


def cross_errors(inputs: np.ndarray, outputs: np.ndarray, groups: np.ndarray, is_plain: bool) -> np.ndarray:
    """Returns the errors by a regression on the groups of the other half, [N, K]. groups: [N] int64, such as episodes."""
    errors = np.zeros(outputs.shape)
    for half in range(2):
        own = groups % 2 == half
        if own.any() and not own.all():
            errors[own] = Regression(inputs[~own], outputs[~own], is_plain).errors(inputs[own], outputs[own])
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
    """Returns x [F, K] of A x = b for a system [F, F + K], A beside b, by blocks. A is positive definite: no pivot is looked for."""
    size, inverses = len(system), []
    values = system[:, size:]  # a view, eliminated in place
    for first in range(0, size, BLOCK):
        own, below = slice(first, min(first + BLOCK, size)), slice(first + BLOCK, None)
        inverses.append((own, np.linalg.inv(system[own, own])))
        if first + BLOCK < size:
            system[below, below] -= _times(system[below, own] @ inverses[-1][1], system[own, below])
    for own, inverse in reversed(inverses):
        values[own] = inverse @ (values[own] - system[own, own.stop : size] @ values[own.stop :])
    return values


def _deviation(rows: np.ndarray) -> np.ndarray:
    deviation = rows.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)
