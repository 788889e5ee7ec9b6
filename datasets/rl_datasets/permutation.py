"""A permutation that is computed place by place: no table, no sequence of draws, the same on every machine and version."""

from collections.abc import Sequence

import numpy as np

_ROUNDS = 6  # even, so that the halves end where they began


def permuted(places: np.ndarray, size: int, key: Sequence[int]) -> np.ndarray:
    """Returns where a permutation of range(size), chosen by the key, sends some of its elements: int64.

    A Feistel network over the next power of two whose strays are sent on until they are inside, which keeps it one to one
    (cycle walking; Black and Rogaway 2002). Twice the work at most, on average. `size` is below 2**32.
    """
    bits = max((size - 1).bit_length(), 2)
    round_keys = np.random.SeedSequence(list(key)).generate_state(_ROUNDS)
    values = _feistel(places.astype(np.uint32), bits, round_keys)
    while (stray := np.flatnonzero(values >= size)).size:
        values[stray] = _feistel(values[stray], bits, round_keys)
    return values.astype(np.int64)


def _feistel(values: np.ndarray, bits: int, round_keys: np.ndarray) -> np.ndarray:
    """One to one on range(2**bits): each round, the halves change places and one is xored with a hash of the other."""
    low, high = bits // 2, bits - bits // 2
    left, right = values >> np.uint32(low), values & np.uint32(2**low - 1)
    for number, key in enumerate(round_keys):
        width = high if number % 2 == 0 else low  # of the half that is about to become the right one
        left, right = right, left ^ (_hash(right, key) >> np.uint32(32 - width))
    return (left << np.uint32(low)) | right


def _hash(values: np.ndarray, key: np.uint32) -> np.ndarray:
    """Mixes 32 bits; the multipliers are those of xxHash and MurmurHash3."""
    mixed = values * np.uint32(0x9E3779B1) + key
    mixed ^= mixed >> np.uint32(15)
    mixed *= np.uint32(0x85EBCA77)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE3D)
    mixed ^= mixed >> np.uint32(16)
    return mixed
