"""Reductions over the rows of an array. NumPy takes a long row in one go, so many short ones are laid side by side."""

import numpy as np

WIDTH = 1 << 12  # elements side by side


def folded(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows [N, D] as K of them side by side, [N // K, K * D], and those that remain, [N % K, D]."""
    width = rows.shape[1]
    beside = max(WIDTH // max(width, 1), 1)
    whole = len(rows) // beside
    return rows[: whole * beside].reshape(whole, beside * width), rows[whole * beside :]


def reduced(operation: np.ufunc, rows: np.ndarray) -> np.ndarray:
    """Returns operation.reduce(rows, axis=0), [D], of rows [N, D], N >= 1, for an operation whose order is of no matter."""
    beside, rest = folded(rows)
    first = [operation.reduce(beside, axis=0).reshape(-1, rows.shape[1])] if len(beside) else []
    whole: np.ndarray = operation.reduce(np.concatenate([*first, rest]), axis=0)
    return whole


def extremes_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the least and the greatest value of each column of rows [N, D], N >= 1, each [D]; NaN where a column holds one."""
    return reduced(np.minimum, rows), reduced(np.maximum, rows)


def as_columns(rows: np.ndarray) -> np.ndarray:
    """Returns rows [N, D] as columns [D, N], each contiguous in memory."""
    return np.ascontiguousarray(rows.T)
