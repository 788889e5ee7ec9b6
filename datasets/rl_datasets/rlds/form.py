"""How the arrays that RLDS steps are stored as make episodes, ours and foreign: one episode's, or those of many end to end.

Our own data come back as they were written. Foreign ones are brought to our alignment: the last action, reward and discount are zero,
and the discount into a terminal state is zero, whichever of the two public conventions they follow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tree

from rl_datasets.recorded import FLAGS, EndToEnd
from rl_datasets.rlds.decoding import SHORT
from rl_datasets.schema import Episode, Tree

Arrays = dict[str, np.ndarray]
Metadata = dict[str, str | int | float]
Columns = Mapping[str, Sequence[str | int | float]]
Rows = int | np.ndarray


class StoredEpisode(NamedTuple):
    """What one record holds: T+1 steps."""

    observation: list[np.ndarray]  # leaves [T+1, ...] in the order of the spec
    action: np.ndarray  # [T+1, ...]
    reward: np.ndarray  # [T+1] float32
    discount: np.ndarray  # [T+1] float32; 1 where the data store none
    is_terminal: np.ndarray  # [T+1] bool; False where the data store none
    metadata: Metadata
    step_metadata: Arrays  # by name, [T+1, ...]
    flags: np.ndarray | None = None  # [T+1, 3] bool in the order of recorded.FLAGS, where asked for; as RLDS defines what is not stored


@dataclass(frozen=True)
class EpisodeForm:
    """What of a step is what."""

    nest: Tree  # of the observation
    observed: tuple[str, ...]  # the keys of its leaves, in their order
    action_keys: tuple[str, ...]  # of the action; of its parts where it is a nest
    step_metadata: Mapping[str, str]  # the key of each, by name
    environment: str | None  # of foreign data; None of our own

    def keys(self, with_flags: bool, with_step_metadata: bool) -> tuple[str, ...]:
        """The arrays of a step that `stored` takes, with all flags or is_terminal alone."""
        beside = self.step_metadata.values() if with_step_metadata else ()
        return (*self.observed, *self.action_keys, "reward", "discount", *(FLAGS if with_flags else ["is_terminal"]), *beside)

    def stored(self, arrays: Arrays, metadata: Metadata, flags: np.ndarray | None) -> StoredEpisode:
        """Returns the arrays of an episode by key as they are stored, or those of several end to end."""
        steps = len(arrays["reward"])
        return StoredEpisode(
            [arrays[key] for key in self.observed],
            arrays["action"] if "action" in arrays else _side_by_side([arrays[key] for key in self.action_keys]),
            arrays["reward"].astype(np.float32, copy=False).reshape(steps),
            arrays["discount"].astype(np.float32, copy=False).reshape(steps) if "discount" in arrays else np.ones(steps, np.float32),
            arrays["is_terminal"].astype(bool, copy=False).reshape(steps) if "is_terminal" in arrays else np.zeros(steps, bool),
            metadata,
            {name: arrays[key] for name, key in self.step_metadata.items() if key in arrays} if self.step_metadata else {},
            flags,
        )

    def episode(self, split: str, number: int, stored: StoredEpisode) -> Episode:
        """Returns an episode that has this number in its split."""
        if self.environment is not None:
            stored = _aligned(stored)
        metadata = {**self._unknown(), **stored.metadata}
        return Episode(
            str(metadata.pop("episode_id", f"{split}-{number:08d}")),
            tree.unflatten_as(self.nest, stored.observation),
            stored.action,
            stored.reward,
            stored.discount,
            bool(stored.is_terminal[-1]),
            metadata,
            stored.step_metadata,
        )

    def episodes(self, split: str, first: int, arrays: Arrays, columns: Columns, starts: np.ndarray, with_flags: bool) -> EndToEnd:
        """Returns episodes of which the first has this number in its split, from their arrays end to end. starts: as of an EndToEnd."""
        count, lasts = len(starts) - 1, starts[1:] - 1
        stored = self.stored(arrays, {}, _flags_of_many(arrays, starts) if with_flags else None)
        if self.environment is not None:
            stored = _aligned(stored, lasts)
        metadata: dict[str, Any] = {**{key: [value] * count for key, value in self._unknown().items()}, **columns}
        ids = metadata.pop("episode_id", None) or [f"{split}-{number:08d}" for number in range(first, first + count)]
        return EndToEnd(
            self.nest,
            tuple(stored.observation),
            stored.action,
            stored.reward,
            stored.discount,
            stored.flags,
            starts,
            ids if isinstance(ids[0], str) else [*map(str, ids)],
            stored.is_terminal[lasts],
            metadata,
            stored.step_metadata,
        )

    def _unknown(self) -> Metadata:
        """What every episode's metadata has, where foreign data do not say."""
        return {} if self.environment is None else {"seed": -1, "policy": "unknown", "environment": self.environment}


def true_discount(stored: StoredEpisode, lasts: Rows = -1) -> np.ndarray:
    """Returns discount[t] * (1 - is_terminal[t+1]), and zero at the last step, or each of several: [T+1] float32."""
    discount = np.zeros_like(stored.discount)
    discount[:-1] = stored.discount[:-1] * ~stored.is_terminal[1:]
    discount[lasts] = 0
    return discount


def flags_of_one(arrays: Arrays) -> np.ndarray:
    """Returns what `StoredEpisode.flags` says of an episode; of a few steps read-only."""
    steps = len(arrays["reward"])
    columns = [arrays[flag].astype(bool, copy=False).tobytes() if flag in arrays else None for flag in FLAGS]
    return _short_flags(steps, *columns) if steps <= SHORT else _joined_flags(steps, *columns)


def _joined_flags(steps: int, *columns: bytes | None) -> np.ndarray:
    stored = {flag: np.frombuffer(column, bool, steps) for flag, column in zip(FLAGS, columns, strict=True) if column is not None}
    flags = _flags_of_many(stored, np.array([0, steps]))
    flags.setflags(write=False)
    return flags


_short_flags = lru_cache(maxsize=1024)(_joined_flags)  # most episodes of one length have the same


def _flags_of_many(arrays: Arrays, starts: np.ndarray) -> np.ndarray:
    """Returns the flags of episodes end to end, as they are stored; as RLDS defines what is not. [N, 3] bool."""
    flags = np.zeros((starts[-1], len(FLAGS)), bool)
    flags[starts[:-1], 0] = flags[starts[1:] - 1, 1] = True
    for place, flag in enumerate(FLAGS):
        if flag in arrays:
            flags[:, place] = arrays[flag].reshape(-1)
    return flags


def _aligned(stored: StoredEpisode, lasts: Rows = -1) -> StoredEpisode:
    """Foreign steps in our alignment; those of several episodes where several last steps are named."""
    stored.action[lasts] = 0
    stored.reward[lasts] = 0
    return stored._replace(discount=true_discount(stored, lasts))


def _side_by_side(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """One vector a step, float32."""
    return np.concatenate([array.reshape(len(array), -1).astype(np.float32) for array in arrays], axis=1)
