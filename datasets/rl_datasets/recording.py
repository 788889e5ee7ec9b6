"""What an environment gave, row by row, to episodes: the only place that aligns observations, actions and rewards.

Rows are kept as they come and become arrays for many episodes at once, because that costs far less than array by array; such a
pack is also what travels from process to process.
"""

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, Tree

_REWARD = ArraySpec((), "float32")


class Recording:
    """One episode as it runs. Arrays are copied as they come, actions before the environment sees them, for it may change its own."""

    __slots__ = ("actions", "copy", "index", "is_terminal", "keep", "metadata", "observations", "rewards")

    def __init__(self, spec: EnvSpec, index: int, observation: Tree) -> None:
        self.index = index
        seen, action = spec.observation, spec.action
        self.copy: Callable[[Tree], Any] = _copier(seen.dtype, seen.shape) if isinstance(seen, ArraySpec) else copy_nest
        self.keep: Callable[[Any], Any] = operator.index if action.is_discrete else _copier(action.dtype, action.shape)
        self.observations = [self.copy(observation)]
        self.actions: list[Any] = []
        self.rewards: list[Any] = []
        self.is_terminal = False
        self.metadata: Mapping[str, str | int | float] = {}

    def act(self, action: Any) -> None:
        self.actions.append(self.keep(action))

    def step(self, observation: Tree, reward: Any) -> None:
        self.observations.append(self.copy(observation))
        self.rewards.append(reward)

    def end(self, is_terminal: bool, metadata: Mapping[str, str | int | float]) -> None:
        self.is_terminal, self.metadata = is_terminal, metadata


class Packed(NamedTuple):
    """E episodes, their N steps end to end. All observations are nested alike."""

    edges: np.ndarray  # [E + 1], where each episode begins and ends
    observation: Tree  # [N, ...]
    action: np.ndarray  # [N, ...]
    reward: np.ndarray  # [N]
    discount: np.ndarray  # [N]
    labels: Sequence[tuple[str, bool, Mapping[str, str | int | float]]]  # [E] id, is_terminal, metadata
    step_metadata: Mapping[str, np.ndarray] = {}  # by name, [N, ...]; collected episodes have none


def aligned(spec: EnvSpec, recordings: Sequence[Recording]) -> Packed | None:
    """Returns the episodes with their rows aligned; None where there is none. Raises HindcastError where a row differs from the spec."""
    if not recordings:
        return None
    edges = np.cumsum([0, *(len(recording.observations) for recording in recordings)])
    no_action = recordings[0].keep(spec.action.zeros())
    last = edges[1:] - 1
    discount = np.ones(edges[-1], np.float32)
    discount[last] = 0
    discount[last - 1] = [not recording.is_terminal for recording in recordings]
    return Packed(
        edges=edges,
        observation=_stack(spec.observation, _joined(recording.observations for recording in recordings), "observation"),
        action=_array(spec.action, _joined((*recording.actions, no_action) for recording in recordings), "action"),
        reward=_array(_REWARD, _joined((*recording.rewards, 0.0) for recording in recordings), "reward"),
        discount=discount,
        labels=[(f"{recording.index:08d}", recording.is_terminal, recording.metadata) for recording in recordings],
    )


def unpack(packed: Packed | None) -> Iterator[Episode]:
    """Yields the episodes that were packed; their arrays are parts of the packed ones."""
    if packed is None:
        return
    observation, action, reward, discount, kept = packed.observation, packed.action, packed.reward, packed.discount, packed.step_metadata
    lone = isinstance(observation, np.ndarray)
    for (start, end), (episode_id, is_terminal, metadata) in zip(pairwise(packed.edges.tolist()), packed.labels, strict=True):
        rows = slice(start, end)
        observed = observation[rows] if lone else tree.map_structure(lambda leaf, rows=rows: leaf[rows], observation)
        beside = {name: array[rows] for name, array in kept.items()} if kept else kept
        yield Episode(episode_id, observed, action[rows], reward[rows], discount[rows], is_terminal, metadata, beside)


def truncate(episode: Episode, length: int) -> Episode:
    """Returns the first `length` transitions as a truncated episode; one that is no longer than that comes back unchanged."""
    if length >= episode.length:
        return episode
    action, reward, discount = (array[: length + 1].copy() for array in (episode.action, episode.reward, episode.discount))
    action[-1] = reward[-1] = discount[-1] = 0
    observation = tree.map_structure(lambda leaf: leaf[: length + 1], episode.observation)
    kept = {name: array[: length + 1] for name, array in episode.step_metadata.items()}
    return replace(episode, observation=observation, action=action, reward=reward, discount=discount, is_terminal=False, step_metadata=kept)


def copy_nest(observation: Tree) -> Tree:
    return tree.map_structure(np.array, observation)


def describe_error(error: Exception) -> str:
    """Type and text on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _joined(parts: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(parts))


@functools.cache
def _copier(name: str, shape: tuple[int, ...]) -> Callable[[Any], bytes | np.ndarray]:
    """Copies an array of this dtype and shape to its bytes, which cost half of what an array does, and any other to an array."""
    dtype, array = np.dtype(name), np.ndarray

    def copy(row: Any) -> bytes | np.ndarray:
        return row.tobytes() if type(row) is array and row.dtype is dtype and row.shape == shape else np.array(row)

    return copy


def _stack(spec: Tree, rows: Sequence[Tree], name: str) -> Tree:
    """Rows of one nest to one nest of arrays, as the spec nests them. Raises HindcastError where they differ from it."""
    if isinstance(spec, ArraySpec):
        return _array(spec, rows, name)
    keys = spec.keys() if isinstance(spec, Mapping) else range(len(spec))
    try:
        parts = {key: _stack(spec[key], [row[key] for row in rows], f"{name}/{key}") for key in keys}
    except (KeyError, IndexError, TypeError) as error:
        raise HindcastError(f"{name} is nested otherwise than its space says ({describe_error(error)}). Mend the environment.") from error
    return parts if isinstance(spec, Mapping) else tuple(parts.values())


def _array(spec: ArraySpec, rows: Sequence[Any], name: str) -> np.ndarray:
    """Rows to one array [len(rows), ...] of the spec's dtype: floats are rounded, integers must keep their values."""
    kinds = set(map(type, rows))
    if kinds == {bytes}:
        return np.ndarray((len(rows), *spec.shape), spec.dtype, bytearray().join(rows))
    if bytes in kinds:
        rows = [np.ndarray(spec.shape, spec.dtype, row) if type(row) is bytes else row for row in rows]
    try:
        found = np.array(rows)
    except ValueError as error:
        raise HindcastError(
            f"{name} changes its shape within an episode; expected {list(spec.shape)} throughout. Mend the environment."
        ) from error
    if found.shape != (len(rows), *spec.shape):
        raise HindcastError(f"{name} has shape {list(found.shape[1:])}, but its space says {list(spec.shape)}. Mend the environment.")
    array = found.astype(spec.dtype, copy=False)
    if array.dtype.kind != "f" and array.dtype != found.dtype and not np.array_equal(array, found):
        raise HindcastError(f"{name} has values of {found.dtype} that do not fit its space's {spec.dtype}. Mend the environment.")
    return array
