"""The identity of episodes and data sets: SHA-256 of content, independent of file format, shards and order of writing.

Content is hashed field by field: name, dtype, shape, then the bytes in C order, little-endian.
"""

import hashlib
import json
import numbers
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Episode, named_leaves

_to_json = json.JSONEncoder(sort_keys=True).encode


def content_key(episode: Episode) -> str:
    """Returns the hash of what happened: steps and ending, without id, metadata and step metadata. Equal for repeated episodes."""
    parts: list[bytes | memoryview] = []
    leaves = named_leaves(episode.observation, "observation")
    for name, array in (*leaves, ("action", episode.action), ("reward", episode.reward), ("discount", episode.discount)):
        parts += _header(name, array.dtype, array.shape), _bytes(array)
    parts.append(b"terminal" if episode.is_terminal else b"truncated")
    return hashlib.sha256(b"".join(parts)).hexdigest()  # one call, for each costs as much as a kilobyte


def episode_digest(episode: Episode) -> str:
    """Returns the hash of content, id, metadata and step metadata. Raises HindcastError where metadata is no string and no number."""
    label = [content_key(episode), episode.episode_id, plain_metadata(episode)]
    if episode.step_metadata:
        label.append(_step_metadata_key(episode))
    return hashlib.sha256(_to_json(label).encode()).hexdigest()


def plain_metadata(episode: Episode) -> dict[str, str | int | float]:
    """Returns the metadata as plain Python str, int and float; True counts as 1."""
    return {key: _plain(value, key, episode) for key, value in episode.metadata.items()}


class DatasetDigest:
    """The digest of a set of episodes: add them in any order, and it is taken in the order of ids."""

    def __init__(self) -> None:
        self.episodes: dict[str, str] = {}  # id to digest

    def add(self, episode: Episode) -> str:
        """Returns the episode's digest. Raises HindcastError where its id was added before."""
        if episode.episode_id in self.episodes:
            raise HindcastError(f"Episode id '{episode.episode_id}' occurs twice, but ids are unique. Fix the builder's episodes().")
        digest = self.episodes[episode.episode_id] = episode_digest(episode)
        return digest

    def hexdigest(self) -> str:
        return hashlib.sha256("".join(self.episodes[key] for key in sorted(self.episodes)).encode()).hexdigest()


def combined_digest(splits: Mapping[str, str]) -> str:
    """Returns the digest of a whole data set from the digests of its splits by name."""
    return hashlib.sha256(_to_json(dict(splits)).encode()).hexdigest()


def _step_metadata_key(episode: Episode) -> str:
    """Returns the hash of arrays by name, whatever their order; a list of texts counts as JSON writes it."""
    parts: list[bytes | memoryview] = []
    for name, array in sorted(episode.step_metadata.items()):
        content = _to_json(array.tolist()).encode() if array.dtype == object else _bytes(array)
        parts += _header(name, array.dtype, array.shape), content
    return hashlib.sha256(b"".join(parts)).hexdigest()


@lru_cache(maxsize=2**14)
def _header(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    return f"{name}|{dtype.str}|{shape}|".replace(">", "<").encode()


def _bytes(array: np.ndarray) -> memoryview | bytes:
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.data if array.flags.c_contiguous else array.tobytes()


def _plain(value: object, key: str, episode: Episode) -> str | int | float:
    if type(value) in (str, int, float):  # the usual case, for the checks below are slow
        return value  # type: ignore[return-value]
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_, numbers.Integral)):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise HindcastError(
        f"Episode '{episode.episode_id}': metadata '{key}' is a {type(value).__name__} ({value!r}), but only strings and numbers are kept. "
        "Convert it in the builder."
    )
