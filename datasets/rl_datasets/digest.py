"""The identity of episodes and data sets: SHA-256 of content, independent of file format, shards and order of writing.

Content is hashed field by field: name, dtype, shape, then the bytes in C order, little-endian.
"""

import hashlib
import json
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from json.encoder import encode_basestring_ascii

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.parts import alike, each_row, parts, side_by_side
from rl_datasets.recorded import EndToEnd
from rl_datasets.schema import Episode, named_leaves

_to_json = json.JSONEncoder(sort_keys=True).encode


def content_key(episode: Episode) -> str:
    """Returns the hash of what happened: steps and ending, without id, metadata and step metadata. Equal for repeated episodes."""
    return _content_key([*named_leaves(episode.observation, "observation"), *_own_arrays(episode)], episode.is_terminal)


def content_keys(episodes: EndToEnd) -> list[str]:
    """Returns the `content_key` of each of many episodes."""
    keys = np.empty(len(episodes.episode_id), object)
    names = [name for name, _ in named_leaves(episodes.nest, "observation")]
    arrays = [*zip(names, episodes.observation, strict=True), *_own_arrays(episodes)]
    starts, steps = episodes.starts[:-1], np.diff(episodes.starts)
    contents = [_bytes_of_rows(array) for _, array in arrays]
    which = alike(2 * steps + episodes.is_terminal)
    for group in which.groups:
        count, pieces = int(steps[group[0]]), list[bytes | np.ndarray]()
        for (name, array), (content, size) in zip(arrays, contents, strict=True):
            pieces += _header(name, array.dtype, (count, *array.shape[1:])), parts(content, starts[group] * size, count * size)
        rows = side_by_side([*pieces, _ending(episodes.is_terminal[group[0]])], len(group))
        keys[group] = [hashlib.sha256(content).hexdigest() for content in each_row(rows)]
    for one in which.others:
        some = slice(*episodes.starts[one : one + 2].tolist())
        keys[one] = _content_key([(name, array[some]) for name, array in arrays], episodes.is_terminal[one])
    return list(keys)


def episode_digest(episode: Episode) -> str:
    """Returns the hash of content, id, metadata and step metadata. Raises HindcastError where metadata is no string and no number."""
    label = [content_key(episode), episode.episode_id, plain_metadata(episode)]
    if episode.step_metadata:
        label.append(_step_metadata_key(episode.step_metadata))
    return hashlib.sha256(_to_json(label).encode()).hexdigest()


def episode_digests(episodes: EndToEnd, keys: Sequence[str]) -> list[str]:
    """Returns the `episode_digest` of each of many episodes, whose content keys are given and whose metadata are plain."""
    columns = {name: _all_to_json(episodes.metadata[name]) for name in sorted(episodes.metadata)}
    same = {name: texts[0] for name, texts in columns.items() if texts.count(texts[0]) == len(texts)}
    members = (f"{_literal(_to_json(name))}: {_literal(same[name]) if name in same else '%s'}" for name in columns)
    label = f'["%s", %s, {{{", ".join(members)}}}'  # as `_to_json` writes that of `episode_digest`
    values = [keys, _all_to_json(episodes.episode_id)]
    values += [texts for name, texts in columns.items() if name not in same]
    if episodes.step_metadata:
        label += ', "%s"'
        rows = [slice(*edges) for edges in pairwise(episodes.starts.tolist())]
        values.append([_step_metadata_key({name: array[some] for name, array in episodes.step_metadata.items()}) for some in rows])
    label += "]"
    return [hashlib.sha256((label % row).encode()).hexdigest() for row in zip(*values, strict=True)]


def plain_metadata(episode: Episode) -> dict[str, str | int | float]:
    """Returns the metadata as plain Python str, int and float; True counts as 1."""
    return {key: _plain(value, key, episode) for key, value in episode.metadata.items()}


class DatasetDigest:
    """The digest of a set of episodes: add them in any order, and it is taken in the order of ids."""

    def __init__(self) -> None:
        self.episodes: dict[str, str] = {}  # id to digest

    def add(self, episode: Episode) -> str:
        """Returns the episode's digest. Raises HindcastError where its id was added before."""
        digest = episode_digest(episode)
        self.add_digest(episode.episode_id, digest)
        return digest

    def add_digest(self, episode_id: str, digest: str) -> None:
        """Adds an episode whose digest is known. Raises HindcastError where its id was added before."""
        if episode_id in self.episodes:
            raise _twice(episode_id)
        self.episodes[episode_id] = digest

    def add_all(self, ids: Sequence[str], digests: Sequence[str]) -> None:
        """Adds episodes whose digests are known, as `add_digest` does one."""
        before = len(self.episodes)
        self.episodes.update(zip(ids, digests, strict=True))
        if len(self.episodes) < before + len(ids):
            counts = Counter([*islice(self.episodes, before), *ids])
            raise _twice(next(episode_id for episode_id in ids if counts[episode_id] > 1))

    def hexdigest(self) -> str:
        return hashlib.sha256("".join(map(self.episodes.__getitem__, sorted(self.episodes))).encode()).hexdigest()


def _twice(episode_id: str) -> HindcastError:
    return HindcastError(f"Episode id '{episode_id}' occurs twice, but ids are unique. Fix the builder's episodes().")


def combined_digest(splits: Mapping[str, str]) -> str:
    """Returns the digest of a whole data set from the digests of its splits by name."""
    return hashlib.sha256(_to_json(dict(splits)).encode()).hexdigest()


def _step_metadata_key(step_metadata: Mapping[str, np.ndarray]) -> str:
    """Returns the hash of arrays by name, whatever their order; a list of texts counts as JSON writes it."""
    parts: list[bytes | memoryview] = []
    for name, array in sorted(step_metadata.items()):
        content = _to_json(array.tolist()).encode() if array.dtype == object else _bytes(array)
        parts += _header(name, array.dtype, array.shape), content
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _content_key(arrays: Iterable[tuple[str, np.ndarray]], is_terminal: bool) -> str:
    pieces: list[bytes | memoryview] = []
    for name, array in arrays:
        pieces += _header(name, array.dtype, array.shape), _bytes(array)
    pieces.append(_ending(is_terminal))
    return hashlib.sha256(b"".join(pieces)).hexdigest()  # one call, for each costs as much as a kilobyte


def _own_arrays(episodes: Episode | EndToEnd) -> tuple[tuple[str, np.ndarray], ...]:
    """What is hashed behind the observation."""
    return ("action", episodes.action), ("reward", episodes.reward), ("discount", episodes.discount)


def _ending(is_terminal: bool) -> bytes:
    return b"terminal" if is_terminal else b"truncated"


def _bytes_of_rows(array: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns the bytes of an array, [L] uint8, and how many there are to a row."""
    content = np.frombuffer(_bytes(array), np.uint8) if array.size else np.zeros(0, np.uint8)
    return content, len(content) // max(len(array), 1)


def _literal(text: str) -> str:
    """For the left side of `%`."""
    return text.replace("%", "%%")


def _all_to_json(values: Sequence[str | int | float | None]) -> list[str]:
    """What `_to_json` makes of each."""
    kinds = set(map(type, values))
    if kinds not in ({str}, {int}):
        return [*map(_to_json, values)]
    encode: Callable[..., str] = encode_basestring_ascii if kinds == {str} else int.__repr__
    is_constant = values.count(values[0]) == len(values)  # as in most columns
    return [encode(values[0])] * len(values) if is_constant else [*map(encode, values)]


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
