"""Sources that give one episode after another: their arrays, joined a block at a time, become parts of which each episode is a group."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.parts import ArrayPart

BLOCK_BYTES = 32 * 2**20

Arrays = Mapping[str, np.ndarray]  # by name; a scalar is one value of the episode


def parts_of(episodes: Iterable[tuple[str, Arrays]], name: str) -> Iterator[ArrayPart]:
    """Yields parts of some megabytes from (id, arrays) of one episode after another. Raises HindcastError where they are not alike."""
    waiting: list[tuple[str, Arrays]] = []
    first: Arrays | None = None
    held = 0
    for episode_id, arrays in episodes:
        first = first or {key: array[:1] if array.ndim else array for key, array in arrays.items()}
        _require_alike(episode_id, arrays, first, name)
        waiting.append((episode_id, arrays))
        held += sum(array.nbytes for array in arrays.values())
        if held >= BLOCK_BYTES:
            yield _joined(waiting, name)
            waiting, held = [], 0
    if waiting:
        yield _joined(waiting, name)


def flat(nest: Any, prefix: str = "") -> dict[str, Any]:
    """Returns the leaves of nested dicts and tuples of arrays by their path, such as "observation/camera"."""
    if isinstance(nest, Mapping):
        items: Iterable[tuple[Any, Any]] = nest.items()
    elif isinstance(nest, tuple):
        items = enumerate(nest)
    else:
        return {prefix: nest}
    return {path: leaf for key, part in items for path, leaf in flat(part, f"{prefix}/{key}" if prefix else str(key)).items()}


def _joined(episodes: list[tuple[str, Arrays]], name: str) -> ArrayPart:
    arrays, lengths = {}, {}
    for key in episodes[0][1]:
        pieces = [values[key].reshape(1) if values[key].ndim == 0 else values[key] for _, values in episodes]
        arrays[key] = np.concatenate(pieces)
        lengths[key] = np.array([len(piece) for piece in pieces], np.int64)
    return ArrayPart(name, "", arrays, [episode_id for episode_id, _ in episodes], lengths)


def _require_alike(episode_id: str, arrays: Arrays, first: Arrays, name: str) -> None:
    if arrays.keys() != first.keys():
        odd = ", ".join(sorted(arrays.keys() ^ first.keys()))
        raise HindcastError(
            f"{name}, episode '{episode_id}': its arrays differ from the first episode's in {odd}. All have the same arrays."
        )
    for key, array in arrays.items():
        if array.dtype.kind == "O":
            raise HindcastError(
                f"{name}, episode '{episode_id}': '{key}' is an array of objects (as rows of different shapes make it), but numbers or "
                "text of one shape are expected. Give plain arrays."
            )
        if array.shape[1:] != first[key].shape[1:] or array.ndim != first[key].ndim:
            raise HindcastError(
                f"{name}, episode '{episode_id}': '{key}' has the shape {list(array.shape)}, but rows of the first episode have "
                f"{list(first[key].shape[1:])}. All episodes have rows of one shape."
            )
