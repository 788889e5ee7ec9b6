"""Many episodes as a few arrays, to hand them from process to process: to pickle each array of each short episode costs far more."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import tree

from rl_datasets.schema import Episode, Tree


class Packed(NamedTuple):
    """E episodes, their N steps end to end. All observations are nested alike."""

    edges: np.ndarray  # [E + 1], where each episode begins and ends
    observation: Tree  # [N, ...]
    action: np.ndarray  # [N, ...]
    reward: np.ndarray  # [N]
    discount: np.ndarray  # [N]
    labels: Sequence[tuple[str, bool, Mapping[str, str | int | float]]]  # [E] id, is_terminal, metadata


def pack(episodes: Sequence[Episode]) -> Packed | None:
    """Returns None where there is no episode."""
    if not episodes:
        return None
    return Packed(
        edges=np.cumsum([0, *(len(episode.reward) for episode in episodes)]),
        observation=tree.map_structure(lambda *leaves: np.concatenate(leaves), *(episode.observation for episode in episodes)),
        action=np.concatenate([episode.action for episode in episodes]),
        reward=np.concatenate([episode.reward for episode in episodes]),
        discount=np.concatenate([episode.discount for episode in episodes]),
        labels=[(episode.episode_id, episode.is_terminal, episode.metadata) for episode in episodes],
    )


def unpack(packed: Packed | None) -> Iterator[Episode]:
    """Yields the episodes that were packed; their arrays are parts of the packed ones."""
    if packed is None:
        return
    observation, action, reward, discount = packed.observation, packed.action, packed.reward, packed.discount
    lone = isinstance(observation, np.ndarray)
    for (start, end), (episode_id, is_terminal, metadata) in zip(pairwise(packed.edges.tolist()), packed.labels, strict=True):
        rows = slice(start, end)
        observed = observation[rows] if lone else tree.map_structure(lambda leaf, rows=rows: leaf[rows], observation)
        yield Episode(episode_id, observed, action[rows], reward[rows], discount[rows], is_terminal, metadata)
