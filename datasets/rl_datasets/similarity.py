"""Which episodes are nearly the same: copies with noise or rounding, with steps cut off, with other rewards.

An episode becomes a small sketch: the smallest hashes of its runs of RUN steps, of observations and actions rounded to an eighth of
their size. The share of hashes that two sketches have in common estimates the share of runs that two episodes do (bottom-k min-hash;
Broder 1997). A sketch is a function of its episode alone, and the same on every machine. Runs that hardly move count for nothing, for
all episodes of a good controller come to rest alike. Episodes that are shorter than SHORTEST, too monotonous, or without a float or an
image in their observation have an empty sketch and are near none: there, chance makes much alike.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import tree

from rl_datasets.schema import EnvSpec, Episode, named_leaves

RUN = 4  # steps hashed together
KEPT = 16  # hashes kept of an episode
SHORTEST = 8  # transitions of an episode that can be near another
FEWEST = 4  # different runs of an episode that can be near another
STILL = 0.25  # of the mean movement of an episode's runs, below which a run hardly moves
SHARE = 0.5  # of the runs of two episodes together, that makes them near
WIDE, PARTS = 32, 8  # an array of more values than this is told by the means of so many parts of it
NEIGHBOURS = 8  # earlier episodes with a common hash that an episode is compared with, beside the first
EMPTY = np.uint64(2**64 - 1)

_DROPPED_BITS = 20  # of a float32's 23 bits of mantissa
_CHUNK = 1 << 16  # pairs compared at once
_BLOCK = 1 << 15  # steps gathered before they are hashed


def can_be_near(spec: EnvSpec) -> bool:
    """Whether episodes of this spec have sketches at all."""
    return any(np.dtype(leaf.dtype).kind == "f" or leaf.is_image for _, leaf in named_leaves(spec.observation, ""))


def sketch(observation: Sequence[np.ndarray], action: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Returns the sketches [E, KEPT] uint64, ascending, EMPTY where there is no more, of E episodes whose N steps lie end to end.

    observation: the leaves, each [N, ...]. action: [N, ...]. starts: [E + 1], where each episode begins, and N.
    """
    steps = np.diff(starts)
    observation, action = [_few(array) for array in observation], _few(action)
    hashes = _step_hashes([*observation, action])
    runs = hashes[: max(len(hashes) - RUN + 1, 0)].copy()
    for place in range(1, RUN):
        runs = _mixed(runs ^ hashes[place : len(runs) + place])
    counts = np.where(steps > SHORTEST, steps - RUN, 0)  # the last step has no action
    episode = np.repeat(np.arange(len(steps)), counts)
    rows = np.arange(len(episode)) + np.repeat(starts[:-1] - (np.cumsum(counts) - counts), counts)
    moving = _moving(observation, starts, rows, episode)
    return _smallest(runs[rows[moving]], np.bincount(episode[moving], minlength=len(steps)))


def near_pairs(sketches: np.ndarray) -> np.ndarray:
    """Returns [P, 2] int64: pairs (earlier, later) of rows that are near, sorted by the later, then the earlier.

    Of many episodes that are all near, each is paired with the first and with some before it.
    """
    row, column = np.nonzero(_occurs_twice(sketches) & (sketches != EMPTY))
    order = np.lexsort((row, sketches[row, column]))
    row, value = row[order], sketches[row, column][order]
    begins = np.flatnonzero(np.concatenate([[True], value[1:] != value[:-1]])) if len(value) else np.zeros(0, np.int64)
    first = np.repeat(row[begins], np.diff([*begins, len(row)]))
    pairs = [np.stack([first, row], 1)]
    for lag in range(1, NEIGHBOURS + 1):
        common = value[lag:] == value[:-lag]
        pairs.append(np.stack([row[:-lag][common], row[lag:][common]], 1))
    earlier, later = np.concatenate(pairs).T
    codes = np.unique((later * len(sketches) + earlier)[earlier != later])  # sorting numbers takes a tenth of sorting rows
    candidates = np.stack([codes % max(len(sketches), 1), codes // max(len(sketches), 1)], axis=1)
    parts = [candidates[start : start + _CHUNK] for start in range(0, len(candidates), _CHUNK)]
    return np.concatenate([np.zeros((0, 2), np.int64), *(part[_similarity(*sketches[part.T]) >= SHARE] for part in parts)])


class Sketcher:
    """The sketches of all episodes added so far, in their order; memory is theirs and that of a block of steps."""

    def __init__(self, spec: EnvSpec) -> None:
        self._can = can_be_near(spec)
        self._waiting: list[tuple[list[np.ndarray], np.ndarray, np.ndarray]] = []  # observation, action, steps of each episode
        self._steps, self._count = 0, 0
        self._done: list[np.ndarray] = []

    def add(self, episode: Episode) -> None:
        self.add_all(tree.flatten(episode.observation), episode.action, np.array([len(episode.reward)]))

    def add_all(self, observation: Sequence[np.ndarray], action: np.ndarray, steps: np.ndarray) -> None:
        """Adds E episodes end to end: arrays as `sketch` takes them, and how many steps each has, [E]."""
        self._count += len(steps)
        if not self._can:
            return
        self._waiting.append((list(observation), action, steps))
        self._steps += len(action)
        if self._steps >= _BLOCK:
            self._reduce()

    def result(self) -> np.ndarray:
        """Returns [E, KEPT] uint64, as `sketch` does."""
        if not self._can:
            return np.full((self._count, KEPT), EMPTY)
        self._reduce()
        return np.concatenate([np.full((0, KEPT), EMPTY), *self._done])

    def _reduce(self) -> None:
        if self._waiting:
            observations, actions, steps = zip(*self._waiting, strict=True)
            observation = [_concatenated(leaf) for leaf in zip(*observations, strict=True)]
            self._done.append(sketch(observation, _concatenated(actions), np.cumsum([0, *np.concatenate(steps)])))
        self._waiting, self._steps = [], 0


def _concatenated(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _step_hashes(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Returns [N] uint64, a hash of the coarse values of each step."""
    edges = np.cumsum([1, *(array.shape[1] for array in arrays)])
    weights = [_mixed(np.arange(start, end, dtype=np.uint64)) | np.uint64(1) for start, end in pairwise(edges)]
    parts = [np.einsum("nd,d->n", _coarse(array), weight) for array, weight in zip(arrays, weights, strict=True)]
    hashes: np.ndarray = sum(parts, start=np.zeros(len(arrays[0]), np.uint64))
    return _mixed(hashes)  # products and sums wrap around


def _moving(observation: Sequence[np.ndarray], starts: np.ndarray, rows: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Returns whether the runs that start at `rows` move, [R] bool; `episode` is each one's.

    Movement is what a run changes in the columns of an observation, each as a part of its range in the episode, summed.
    """
    steps = np.diff(starts)
    movement = np.zeros(max(starts[-1] - RUN, 0))
    with np.errstate(invalid="ignore", over="ignore"):
        for column in (column for array in observation for column in array.T):
            values = column.astype(np.float64)
            widths = np.maximum.reduceat(values, starts[:-1]) - np.minimum.reduceat(values, starts[:-1])
            parts = np.abs(values[RUN:] - values[:-RUN]) / np.repeat(np.where(widths > 0, widths, 1), steps)[:-RUN]
            movement += parts if np.isfinite(parts).all() else np.nan_to_num(parts)
    movement = movement[rows]
    count = len(steps)
    means = np.bincount(episode, movement, count) / np.bincount(episode, minlength=count).clip(1)
    moving: np.ndarray = movement >= STILL * means[episode]
    return moving


def _few(array: np.ndarray) -> np.ndarray:
    """Returns the columns [N, D] that tell an array [N, ...]: its own, or the means of PARTS of them where they are many."""
    rows = array.reshape(len(array), -1)
    if rows.shape[1] <= WIDE:
        return rows
    edges = np.arange(PARTS) * rows.shape[1] // PARTS
    means: np.ndarray = np.add.reduceat(rows, edges, axis=1, dtype=np.float64) / np.diff([*edges, rows.shape[1]])
    return means


def _coarse(rows: np.ndarray) -> np.ndarray:
    """Returns an array as uint64: integers as they are, floats rounded to an eighth of their power of two."""
    if rows.dtype.kind != "f":
        return rows.astype(np.int64).view(np.uint64)
    with np.errstate(over="ignore", invalid="ignore"):
        bits = (rows.astype(np.float32) + np.float32(0)).view(np.uint32).astype(np.uint64)  # -0 + 0 is 0
    return (bits + np.uint64(1 << (_DROPPED_BITS - 1))) >> np.uint64(_DROPPED_BITS)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every bit of the result depends on every bit of the value."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _smallest(hashes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Returns [E, KEPT]: the smallest different hashes of each episode, none where there are fewer than FEWEST.

    hashes: those of one episode after another. counts: [E], how many are of each.
    """
    sketches = np.full((len(counts), KEPT), EMPTY)
    firsts, sizes = np.cumsum(counts) - counts, np.frexp(counts - 0.5)[1]  # 2**size is the next power of two
    for size in np.unique(sizes[counts >= FEWEST]).tolist():
        members = np.flatnonzero((sizes == size) & (counts >= FEWEST))
        place = np.arange(2**size)
        row = np.minimum(firsts[members, None] + place, len(hashes) - 1)
        table = np.sort(np.where(place < counts[members, None], hashes[row], EMPTY), axis=1)
        again = table[:, 1:] == table[:, :-1]
        table[:, 1:][again] = EMPTY
        smallest = np.sort(table, axis=1)[:, :KEPT] if again.any() else table[:, :KEPT]
        enough = smallest[:, FEWEST - 1] != EMPTY
        sketches[members[enough], : smallest.shape[1]] = smallest[enough]
    return sketches


def _occurs_twice(values: np.ndarray) -> np.ndarray:
    """Returns whether each value is in the array again, of the shape of values. Of most data, only a few are."""
    ordered = np.sort(values, axis=None)
    again = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    place = np.searchsorted(again, values).clip(max=max(len(again) - 1, 0))
    is_again: np.ndarray = again[place] == values if len(again) else np.zeros(values.shape, bool)
    return is_again


def _similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns [P] float64: of the KEPT smallest hashes that two sketches have together, the share that both have. a, b: [P, KEPT]."""
    both = np.sort(np.concatenate([a, b], axis=1), axis=1)
    again = np.zeros(both.shape, bool)
    again[:, 1:] = (both[:, 1:] == both[:, :-1]) & (both[:, 1:] != EMPTY)
    rank = np.cumsum(~again & (both != EMPTY), axis=1)  # of each hash among the different ones, from 1
    shares: np.ndarray = (again & (rank <= KEPT)).sum(axis=1) / np.minimum(rank[:, -1], KEPT).clip(1)
    return shares
