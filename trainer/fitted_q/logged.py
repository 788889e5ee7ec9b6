"""What held-out episodes show: where they begin, what their actions earned, and where the data stop."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tree

from rl_datasets.schema import Episode, Tree


@dataclass(frozen=True)
class Logged:
    """E episodes. `rest` weighs what came after the last action of an episode that was cut; it is zero for one that ended."""

    ids: tuple[str, ...]
    length: np.ndarray  # [E]
    is_terminal: np.ndarray  # [E] bool
    first_observation: Tree  # [E, ...]
    first_action: np.ndarray  # [E, ...]
    last_observation: Tree  # [E, ...], the one at which the last action was taken
    last_action: np.ndarray  # [E, ...]
    last_reward: np.ndarray  # [E] float64
    episode_return: np.ndarray  # [E] float64, discounted
    policies: tuple[str, ...]  # that collected them, as their metadata name these, each once and sorted
    rest: np.ndarray  # [E] float64: gamma^(T-1) where an episode was cut after T transitions

    @property
    def episodes(self) -> int:
        return len(self.ids)


def read_logged(episodes: Iterable[Episode], gamma: float) -> Logged:
    """Returns what the episodes, at least one, show of the discounted return sum_t gamma^t d_0 ... d_(t-1) r_t."""
    rows = [_row(episode, gamma) for episode in episodes]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    nested = {name: _stacked(columns.pop(name)) for name in ("first_observation", "last_observation")}
    policies = tuple(sorted(set(columns.pop("policies"))))
    return Logged(
        ids=tuple(columns.pop("ids")), policies=policies, **nested, **{name: np.stack(values) for name, values in columns.items()}
    )


def _row(episode: Episode, gamma: float) -> dict[str, Any]:
    """The fields of `Logged` for one episode."""
    last = episode.length - 1
    total, rest = discounted(episode, gamma)
    return {
        "ids": episode.episode_id,
        "policies": str(episode.metadata.get("policy", "unknown")),
        "length": np.int64(episode.length),
        "is_terminal": np.bool_(is_over(episode)),
        "first_observation": _at(episode.observation, 0),
        "first_action": episode.action[0],
        "last_observation": _at(episode.observation, last),
        "last_action": episode.action[last],
        "last_reward": np.float64(episode.reward[last]),
        "episode_return": np.float64(total),
        "rest": np.float64(rest),
    }


def discounted(episode: Episode, gamma: float) -> tuple[float, float]:
    """The discounted return of an episode, and the weight of its last transition where it was cut (else zero)."""
    weights = np.concatenate([[1.0], np.cumprod(gamma * np.asarray(episode.discount[:-2], np.float64))])
    total = float(weights @ np.asarray(episode.reward[:-1], np.float64))
    return total, 0.0 if is_over(episode) else float(weights[-1])


def is_over(episode: Episode) -> bool:
    """Whether nothing comes after the last transition."""
    return episode.is_terminal or float(episode.discount[-2]) == 0


def every_nth(episodes: Iterable[Episode], transitions: int, limit: int) -> tuple[Tree, np.ndarray]:
    """Observations and actions, [n, ...] each with n <= `limit`, of transitions evenly apart among all of the episodes."""
    stride, begin = -(-transitions // limit), 0
    observations, actions = [], []
    for episode in episodes:
        rows = np.arange(-begin % stride, episode.length, stride)
        observations.append(_at(episode.observation, rows))
        actions.append(episode.action[rows])
        begin += episode.length
    return tree.map_structure(lambda *leaves: np.concatenate(leaves), *observations), np.concatenate(actions)


def _at(observation: Tree, step: int | np.ndarray) -> Tree:
    return tree.map_structure(lambda leaf: np.array(leaf[step]), observation)


def _stacked(observations: list[Tree]) -> Tree:
    return tree.map_structure(lambda *leaves: np.stack(leaves), *observations)
