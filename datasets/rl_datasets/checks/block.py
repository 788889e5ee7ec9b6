"""`Block`: many episodes end to end, so that checks are array operations also where episodes are short.

Axes: E episodes, N steps in all (the last steps, which hold only an observation, included), D elements of an array's row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
import tree

from rl_datasets.checks.fingerprint import episode_hashes, row_hashes
from rl_datasets.checks.folding import as_columns, extremes_of
from rl_datasets.recorded import Damage, EndToEnd, Recorded
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves

BYTES = 1 << 22  # of the arrays that are gathered; at least one episode
EPISODES = 1 << 10  # more would wait so long that Python looks through them for garbage
SCALAR = ArraySpec((), "float32")


class Misfit(NamedTuple):
    """An episode whose arrays do not meet the spec, or that has no transition: its rows cannot stand beside others'."""

    number: int  # of the episode in the data
    episode: Episode
    flags: np.ndarray | None
    faults: tuple[tuple[str, str], ...]  # (found, expected) where it does not meet the spec


@dataclass(frozen=True)
class Block(EndToEnd):
    """Episodes that meet the spec, in the order of the data, and what several checks ask of them."""

    number: np.ndarray  # [E] int64: of each episode in the data

    @cached_property
    def steps(self) -> np.ndarray:
        """The step of each row within its episode, [N] int64."""
        steps: np.ndarray = np.arange(len(self.reward)) - np.repeat(self.starts[:-1], np.diff(self.starts))
        return steps

    def observation_rows(self, leaf: int) -> np.ndarray:
        """Returns one leaf of the observation as rows of its elements, [N, D]."""
        return self.observation[leaf].reshape(len(self.reward), -1)

    @cached_property
    def action_rows(self) -> np.ndarray:
        """The action's elements, [N, D]; the last rows repeat the action before them."""
        return self._without_last(self.action)

    @cached_property
    def reward_rows(self) -> np.ndarray:
        """The reward, [N, 1]; the last rows repeat the reward before them."""
        return self._without_last(self.reward)

    def _without_last(self, array: np.ndarray) -> np.ndarray:
        rows = array.reshape(len(array), -1).copy()
        rows[self.lasts] = rows[self.lasts - 1]
        return rows

    def observation_extremes(self, leaf: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the least and the greatest value of each column, each [D]; NaN where a column holds one."""
        if leaf not in self._extremes:
            self._extremes[leaf] = extremes_of(self.observation_rows(leaf))
        return self._extremes[leaf]

    @cached_property
    def action_extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest action of each column, each [D]."""
        return extremes_of(self.action_rows)

    @cached_property
    def reward_extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest reward, each [1]."""
        return extremes_of(self.reward_rows)

    @cached_property
    def _extremes(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        return {}

    @cached_property
    def leaf_hashes(self) -> tuple[np.ndarray, ...]:
        """A hash of each row of each leaf of the observation, each [N] uint64."""
        return tuple(row_hashes(leaf, stream) for stream, leaf in enumerate(self.observation))

    @cached_property
    def content(self) -> np.ndarray:
        """A fingerprint of each episode: of all its arrays and of is_terminal, [E] uint64."""
        arrays = enumerate((self.action, self.reward, self.discount), start=len(self.observation))
        rows = sum((row_hashes(array, stream) for stream, array in arrays), start=np.zeros(len(self.reward), np.uint64))
        for leaf in self.leaf_hashes:
            rows = rows + leaf
        return episode_hashes(rows, self.steps, self.starts, self.is_terminal)

    @cached_property
    def is_inner(self) -> np.ndarray:
        """Whether row t and row t + 1 are of one episode, [N - 1] bool."""
        return ~self.is_last[:-1]

    @cached_property
    def is_action_changed(self) -> np.ndarray:
        """Whether the action of row t + 1 is another than that of row t, [N - 1] bool; so it is not where row t + 1 is a last one."""
        is_changed: np.ndarray = np.logical_or.reduce(as_columns(self.action_rows[1:] != self.action_rows[:-1]), axis=0)
        return is_changed

    def observation_changes(self, leaf: int) -> np.ndarray:
        """Returns row t + 1 less row t of a leaf of floats, [N - 1, D]; 0 where episodes meet."""
        if leaf not in self._changes:
            rows = self.observation_rows(leaf)
            with np.errstate(invalid="ignore", over="ignore"):
                changes = self._changes[leaf] = rows[1:] - rows[:-1]
            changes[self.lasts[:-1]] = 0
        return self._changes[leaf]

    @cached_property
    def _changes(self) -> dict[int, np.ndarray]:
        return {}

    def place(self, index: int, row: int) -> tuple[int, int]:
        """Returns (number of the episode in the data, step) of a row of the episode of this index."""
        return int(self.number[index]), int(row - self.starts[index])

    def locate(self, row: int) -> tuple[int, int]:
        """Returns (index of the episode in the block, step) of a row."""
        index = int(np.searchsorted(self.starts, row, side="right")) - 1
        return index, int(row - self.starts[index])

    def first_wrong(self, wrong: np.ndarray) -> Iterator[tuple[int, int, int]]:
        """Yields (index of the episode, its first wrong row, how many rows are wrong) for each with any. wrong: [N] bool."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            owners = np.searchsorted(self.starts, rows, side="right") - 1
            indices, firsts, counts = np.unique(owners, return_index=True, return_counts=True)
            yield from zip(indices.tolist(), rows[firsts].tolist(), counts.tolist(), strict=True)


def blocks(items: Iterable[Episode | Recorded | EndToEnd | Damage], spec: EnvSpec) -> Iterator[Block | Misfit | Damage]:
    """Yields episodes as blocks, those that come one by one as blocks of about BYTES; misfits and damage as they come.

    So a misfit may come before a block of earlier episodes.
    """
    waiting: list[tuple[int, list[np.ndarray], Recorded]] = []
    size = number = 0
    divided = _Divider(spec)
    for item in _apart(items, divided):
        if isinstance(item, Damage):
            yield item
            continue
        if isinstance(item, EndToEnd):
            if waiting:
                yield _joined(waiting, spec)
                waiting, size = [], 0
            count = len(item.episode_id)
            yield Block(**{field.name: getattr(item, field.name) for field in fields(EndToEnd)}, number=np.arange(number, number + count))
            number += count
            continue
        recorded = item if isinstance(item, Recorded) else Recorded(item, None)
        arrays = divided(recorded)
        if arrays is None:
            yield Misfit(number, *recorded, tuple(spec_faults(recorded.episode, spec)))
        else:
            waiting.append((number, arrays, recorded))
            size += sum([array.nbytes for array in arrays])
        number += 1
        if size >= BYTES or len(waiting) >= EPISODES:
            yield _joined(waiting, spec)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting, spec)


def _apart(
    items: Iterable[Episode | Recorded | EndToEnd | Damage], divided: "_Divider"
) -> Iterator[Episode | Recorded | EndToEnd | Damage]:
    """Yields episodes that lie end to end one by one where not all of them meet the spec."""
    for item in items:
        if isinstance(item, EndToEnd) and not divided.all_meet(item):
            yield from (item.recorded(index) for index in range(len(item.episode_id)))
        else:
            yield item


def spec_faults(episode: Episode, spec: EnvSpec) -> Iterator[tuple[str, str]]:
    """Yields (found, expected) for what does not meet the spec: nesting, shapes, dtypes, one row a step."""
    wanted = named_leaves(spec.observation, "observation")
    try:
        tree.assert_same_structure(spec.observation, episode.observation)
    except (TypeError, ValueError):
        yield f"observation with {_names(named_leaves(episode.observation, 'observation'))}", _names(wanted)
        return
    arrays = [*tree.flatten(episode.observation), episode.action, episode.reward, episode.discount]
    steps = len(episode.reward)
    for (name, leaf), array in zip([*wanted, ("action", spec.action), ("reward", SCALAR), ("discount", SCALAR)], arrays, strict=True):
        if array.shape != (steps, *leaf.shape) or array.dtype != leaf.dtype:
            yield f"{name} {_describe(array.dtype, array.shape)}", _describe(leaf.dtype, (steps, *leaf.shape))


class _Divider:
    """Gives the arrays of an episode, observations first; None where it is a misfit."""

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._is_lone = isinstance(spec.observation, ArraySpec)
        leaves = [*(leaf for _, leaf in named_leaves(spec.observation, "")), spec.action, SCALAR, SCALAR]
        self._dtypes = [np.dtype(leaf.dtype) for leaf in leaves]
        self._rows = [tuple(leaf.shape) for leaf in leaves]
        self._steps, self._shapes = 0, self._rows  # of the last episode

    def __call__(self, recorded: Recorded) -> list[np.ndarray] | None:
        episode, flags = recorded
        if self._is_lone and isinstance(episode.observation, np.ndarray):
            observed = [episode.observation]
        else:
            try:
                tree.assert_same_structure(self._spec.observation, episode.observation)
            except (TypeError, ValueError):
                return None
            observed = tree.flatten(episode.observation)
        arrays = [*observed, episode.action, episode.reward, episode.discount]
        steps = len(episode.reward)
        if steps != self._steps:
            self._steps, self._shapes = steps, [(steps, *row) for row in self._rows]
        if [array.shape for array in arrays] != self._shapes or [array.dtype for array in arrays] != self._dtypes:
            return None
        return arrays if steps > 1 and (flags is None or flags.shape == (steps, 3)) else None

    def all_meet(self, item: EndToEnd) -> bool:
        """Whether all of some episodes meet the spec and have a transition."""
        try:
            tree.assert_same_structure(self._spec.observation, item.nest)
        except (TypeError, ValueError):
            return False
        arrays = [*item.observation, item.action, item.reward, item.discount]
        alike = all(
            array.shape[1:] == row and array.dtype == dtype for array, row, dtype in zip(arrays, self._rows, self._dtypes, strict=True)
        )
        return alike and bool((np.diff(item.starts) > 1).all())


def _joined(waiting: list[tuple[int, list[np.ndarray], Recorded]], spec: EnvSpec) -> Block:
    *observation, action, reward, discount = [_concatenated(arrays) for arrays in zip(*(arrays for _, arrays, _ in waiting), strict=True)]
    flags = [recorded.flags for _, _, recorded in waiting if recorded.flags is not None]
    episodes = [recorded.episode for _, _, recorded in waiting]
    names = dict.fromkeys(name for episode in episodes for name in episode.metadata)
    return Block(
        spec.observation,
        tuple(observation),
        action,
        reward,
        discount,
        _concatenated(flags) if len(flags) == len(waiting) else None,
        np.cumsum([0, *(len(episode.reward) for episode in episodes)]),
        [episode.episode_id for episode in episodes],
        np.array([episode.is_terminal for episode in episodes], bool),
        {name: [episode.metadata.get(name) for episode in episodes] for name in names},
        {},
        np.array([number for number, _, _ in waiting]),
    )


def _concatenated(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _describe(dtype: object, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}"


def _names(leaves: list[tuple[str, object]]) -> str:
    return "leaves " + ", ".join(name for name, _ in leaves) if leaves else "no leaves"
