"""Ridge regression on random features: how well one thing follows from another, without knowing how."""

from collections.abc import Sequence

import numpy as np

FEATURES = 64  # random ones, of tanh
STEEPNESS = 0.7  # of their weights
RIDGE = 1e-6
PRODUCTS = 66  # of two columns, that are features too; more are left out
LIMIT = 1e6
ROWS = 64  # multiplied at once: products so small run in this thread, where starting others would cost more


class Regression:
    """Fitted on rows (input [N, D], output [N, K]); predicts in units of the output's deviation. Deterministic."""

    def __init__(self, inputs: np.ndarray, outputs: np.ndarray) -> None:
        self._mean, self._scale = inputs.mean(axis=0), _deviation(inputs)
        self.center, self.scale = outputs.mean(axis=0), _deviation(outputs)
        random = np.random.default_rng(0x51D1)
        self._weights = random.normal(0, STEEPNESS, (inputs.shape[1], FEATURES)) / np.sqrt(max(inputs.shape[1], 1)) * 2
        self._offsets = random.uniform(-1, 1, FEATURES)
        features = self._features(inputs)
        wanted = (outputs - self.center) / self.scale
        parts = [slice(start, start + ROWS) for start in range(0, len(features), ROWS)]
        gram = np.sum([features[part].T @ features[part] for part in parts], axis=0)
        moments = np.sum([features[part].T @ wanted[part] for part in parts], axis=0)
        self._coefficients = np.linalg.solve(gram + RIDGE * len(features) * np.eye(features.shape[1]), moments)

    def errors(self, inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Returns the mean squared error of each row, in squared deviations of the outputs that it was fitted on, [N]."""
        wanted = (outputs - self.center) / self.scale
        features = self._features(inputs)
        found = np.concatenate([features[start : start + ROWS] @ self._coefficients for start in range(0, len(features), ROWS)])
        errors: np.ndarray = ((found - wanted) ** 2).mean(axis=1)
        return errors

    def _features(self, inputs: np.ndarray) -> np.ndarray:
        rows = np.clip((inputs - self._mean) / self._scale, -LIMIT, LIMIT)
        random = np.concatenate([rows[start : start + ROWS] @ self._weights for start in range(0, len(rows), ROWS)])
        parts = [np.ones((len(rows), 1)), rows, np.tanh(random + self._offsets)]
        if rows.shape[1] * (rows.shape[1] + 1) // 2 <= PRODUCTS:
            left, right = np.triu_indices(rows.shape[1])
            parts.append(rows[:, left] * rows[:, right])
        return np.concatenate(parts, axis=1)


def cross_errors(inputs: np.ndarray, outputs: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Returns each row's error by a regression on the groups of the other half, [N]. groups: [N] int64, such as episodes."""
    errors = np.zeros(len(inputs))
    for half in range(2):
        own = groups % 2 == half
        if own.any() and not own.all():
            errors[own] = Regression(inputs[~own], outputs[~own]).errors(inputs[own], outputs[own])
    return errors


def joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Returns arrays [N, ...] side by side as float64 [N, D]."""
    return np.concatenate([array.reshape(len(array), -1).astype(np.float64) for array in arrays], axis=1)


def _deviation(rows: np.ndarray) -> np.ndarray:
    deviation = rows.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)
