"""How far the actions of a policy are from those that the data hold: a measure that needs no model.

At a held-out state, what the data show is what was done in the ten most similar states of the train split (by standardised
observations). An action's distance from the data is that from the nearest of those: in [-1, 1] by the bounds of the action, or 0 and 1
for a category that is or is not among them. How far held-out actions of the data are by this measure is the yardstick: a policy's
action is far where it is farther than 95 % of those. Of the data's own, at most 5 % are.
"""

import numpy as np
from scipy.spatial import cKDTree

NEIGHBOURS = 10
QUANTILE = 0.95
TRAIN_STATES, HELD_OUT_STATES = 20_000, 1_000  # at most
ELEMENTS = 20_000_000  # of all train states together: fewer states of wide observations


def states_for(width: int) -> int:
    """How many train states to compare with, of observations of so many elements."""
    return max(NEIGHBOURS, min(TRAIN_STATES, ELEMENTS // max(1, width)))


def far_share(train: np.ndarray, taken: np.ndarray, held_out: np.ndarray, logged: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The share [P] of held-out states at which the action of each of P policies is far from the data's.

    `train` [N, D] and `held_out` [M, D] are states; `taken` [N, ...], `logged` [M, ...] and `actions` [P, M, ...] encoded actions:
    integers, or [..., A] floats.
    """
    _, near = cKDTree(train).query(held_out, k=min(NEIGHBOURS, len(train)))
    shown = taken[near.reshape(len(held_out), -1)]  # [M, k, ...]
    limit = np.quantile(distances(shown, logged), QUANTILE, method="higher")
    return np.array([np.mean(distances(shown, own) > limit) for own in actions])


def distances(shown: np.ndarray, action: np.ndarray) -> np.ndarray:
    """[M]: from each action [M, ...] to the nearest of those shown, [M, k, ...]."""
    apart = shown != action[:, None] if action.ndim == 1 else np.linalg.norm(shown - action[:, None], axis=-1)
    nearest: np.ndarray = np.min(apart, axis=1).astype(np.float64)
    return nearest
