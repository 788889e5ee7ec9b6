"""What reading data of unknown quality gives: episodes with their flags as they are stored, and what could not be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import tree

from rl_datasets.parts import alike, parts
from rl_datasets.schema import Episode, Tree

FLAGS = ("is_first", "is_last", "is_terminal")
T = TypeVar("T")


class Recorded(NamedTuple):
    """An episode, and the three flags of each step as they are stored, which an Episode no longer shows."""

    episode: Episode
    flags: np.ndarray | None  # bool [T+1, 3] in the order of FLAGS; None where the episode comes from no file


@dataclass(frozen=True)
class EndToEnd:
    """E episodes of one nesting, their N steps end to end: what is done to all at once takes no Python for each.

    Arrays may be read-only.
    """

    nest: Tree  # of the observation; what its leaves are is of no matter
    observation: tuple[np.ndarray, ...]  # leaves [N, ...] in the order of the nest
    action: np.ndarray  # [N, ...]
    reward: np.ndarray  # [N] float32
    discount: np.ndarray  # [N] float32
    flags: np.ndarray | None  # [N, 3] bool, in the order of FLAGS; None where they are not known
    starts: np.ndarray  # [E + 1] int64: episode e has the rows starts[e] to starts[e + 1], of which the last holds only o_T
    episode_id: Sequence[str]  # [E]
    is_terminal: np.ndarray  # [E] bool
    metadata: Mapping[str, Sequence[str | int | float | None]]  # by name, each [E]; None where an episode has none of that name
    step_metadata: Mapping[str, np.ndarray]  # by name, [N, ...]; empty where they were not asked for

    @cached_property
    def lasts(self) -> np.ndarray:
        """The row of each episode's last step, [E]."""
        lasts: np.ndarray = self.starts[1:] - 1
        return lasts

    @cached_property
    def lengths(self) -> np.ndarray:
        """Transitions of each episode, [E]."""
        lengths: np.ndarray = np.diff(self.starts) - 1
        return lengths

    @cached_property
    def is_last(self) -> np.ndarray:
        """[N] bool."""
        is_last = np.zeros(len(self.reward), bool)
        is_last[self.lasts] = True
        return is_last

    @cached_property
    def returns(self) -> np.ndarray:
        """The `episode_return` of each episode, to the last bit, [E] float64."""
        returns = np.empty(len(self.episode_id))
        content, (starts, lengths) = np.ascontiguousarray(self.reward).view(np.uint8), (self.starts[:-1], self.lengths)
        which = alike(np.where(lengths > np.getbufsize(), -np.arange(len(lengths)), lengths))  # NumPy sums longer ones buffer by buffer
        for group in which.groups:
            rewards = parts(content, starts[group] * self.reward.itemsize, int(lengths[group[0]]) * self.reward.itemsize)
            returns[group] = rewards.view(self.reward.dtype).astype(np.float64).sum(axis=1)
        for one in which.others:
            returns[one] = self.reward[starts[one] : starts[one] + lengths[one]].sum(dtype=np.float64)
        return returns

    def label(self, name: str, otherwise: T) -> Sequence[str | int | float | T]:
        """Returns the metadata of this name of each episode, [E]; `otherwise` where it has none."""
        values = self.metadata.get(name, [None] * len(self.episode_id))
        return [otherwise if value is None else value for value in values]

    def part(self, start: int, stop: int) -> "EndToEnd":
        """Returns some of the episodes, their arrays as views."""
        some, edges = slice(start, stop), self.starts[start : stop + 1]
        rows = slice(edges[0], edges[-1])
        return EndToEnd(
            self.nest,
            tuple(leaf[rows] for leaf in self.observation),
            self.action[rows],
            self.reward[rows],
            self.discount[rows],
            None if self.flags is None else self.flags[rows],
            edges - edges[0],
            self.episode_id[some],
            self.is_terminal[some],
            {name: values[some] for name, values in self.metadata.items()},
            {name: array[rows] for name, array in self.step_metadata.items()},
        )

    def recorded(self, index: int) -> Recorded:
        """Returns one episode, its arrays as views."""
        rows = slice(self.starts[index], self.starts[index + 1])
        observation = tree.unflatten_as(self.nest, [leaf[rows] for leaf in self.observation])
        arrays = (self.action[rows], self.reward[rows], self.discount[rows])
        metadata = {name: value for name, values in self.metadata.items() if (value := values[index]) is not None}
        beside = {name: array[rows] for name, array in self.step_metadata.items()}
        episode = Episode(self.episode_id[index], observation, *arrays, bool(self.is_terminal[index]), metadata, beside)
        return Recorded(episode, None if self.flags is None else self.flags[rows])


def end_to_end(episodes: Sequence[Episode], metadata: Sequence[Mapping[str, str | int | float]] | None = None) -> EndToEnd:
    """Returns episodes of one nesting together, one alone without a copy. metadata: of each, instead of its own."""
    first, labels = episodes[0], metadata or [episode.metadata for episode in episodes]
    leaves = [tree.flatten(episode.observation) for episode in episodes]
    return EndToEnd(
        first.observation,
        tuple(map(_joined, zip(*leaves, strict=True))),
        _joined([episode.action for episode in episodes]),
        _joined([episode.reward for episode in episodes]),
        _joined([episode.discount for episode in episodes]),
        None,
        np.cumsum([0, *(len(episode.reward) for episode in episodes)]),
        [episode.episode_id for episode in episodes],
        np.array([episode.is_terminal for episode in episodes]),
        {name: [label.get(name) for label in labels] for name in dict.fromkeys(name for label in labels for name in label)},
        {name: _joined([episode.step_metadata[name] for episode in episodes]) for name in first.step_metadata},
    )


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


class Damage(NamedTuple):
    """A file of episodes that is not what the description says. What is in it beyond the damage is not read."""

    file: str  # name in the data set's folder
    found: str
    expected: str
