"""Fingerprints of steps and episodes: equal for equal bytes, and for others as good as never. Array operations on a whole block.

A step is hashed by multilinear hashing modulo 2**64 of its 32-bit words (Lemire and Kaser 2014): two given rows that differ collide
with a probability of about 2**-33 at most over the choice of multipliers, which are fixed here. SHA-256 takes as long as reading does.
"""

from functools import lru_cache

import numpy as np

WORDS = 1 << 16  # hashed at once


def row_hashes(array: np.ndarray, stream: int) -> np.ndarray:
    """Returns a hash of each row of an array [N, ...], [N] uint64. Arrays of the same step have streams of their own; hashes add up."""
    words = _words(array)
    multipliers = _multipliers(words.shape[1], stream)
    hashes = np.zeros(len(array), np.uint64)
    size = max(WORDS // max(words.shape[1], 1), 1)  # rows of a part that stays in the processor's cache
    for start in range(0, len(array), size):
        part = slice(start, start + size)
        np.einsum("nd,d->n", words[part].astype(np.uint64), multipliers, out=hashes[part])
    return hashes


def episode_hashes(rows: np.ndarray, steps: np.ndarray, starts: np.ndarray, is_terminal: np.ndarray) -> np.ndarray:
    """Returns a hash of each episode, of its rows in their order and its end, [E] uint64. rows: hashes [N]; steps: [N]; starts: [E + 1]."""
    places = mixed(np.arange(steps.max() + 1, dtype=np.uint64))
    placed = mixed(rows + places[steps])
    return mixed(np.add.reduceat(placed, starts[:-1]) + is_terminal)


def mixed(values: np.ndarray) -> np.ndarray:
    """Returns a permutation of 64-bit numbers that leaves no trace of their order (the finaliser of SplitMix64). [N] uint64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    last: np.ndarray = values ^ (values >> np.uint64(31))
    return last


def _words(array: np.ndarray) -> np.ndarray:
    """Returns the rows of an array as integers of 32 bits, [N, D] uint32; bytes are taken four at a time."""
    rows = np.ascontiguousarray(array).reshape(len(array), -1)
    if not rows.shape[1]:
        return np.zeros((len(array), 0), np.uint32)
    if rows.dtype.itemsize < 4:
        raw = rows.view(np.uint8)
        rows = np.pad(raw, ((0, 0), (0, -raw.shape[1] % 4))) if raw.shape[1] % 4 else raw
    return rows.view(np.uint32)


@lru_cache(maxsize=64)
def _multipliers(count: int, stream: int) -> np.ndarray:
    """Odd, so that one word alone never vanishes."""
    return np.random.default_rng((0x51D1, stream)).integers(0, 2**63, count, np.uint64) * np.uint64(2) + np.uint64(1)
