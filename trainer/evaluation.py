"""Returns of policies in fresh environments, with every episode assigned before the first is played.

An environment that is free takes the next of its own episodes, never the next of all: the set of episodes that are counted is
fixed, so short ones do not count more. All policies play the same environment seeds: a difference between two of them is then
one between policies, not between starting states (the interval of metrics.py follows this design).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import tree
from gymnasium.vector.utils import concatenate, create_empty_array

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Tree

Act = Callable[[Tree], Any]
MakeEnv = Callable[[], gym.Env[Any, Any]]

ENVIRONMENTS = 128  # alive at once, all policies together; it fixes the shape that the policies are compiled for
STEP_LIMIT = 1_000_000  # of an episode; one that is longer never ends
SUCCESS_KEYS = ("is_success", "success")  # of the last step's info: Gymnasium-Robotics, Meta-World and AntMaze
_STREAM = 0x6576616C  # sets these seeds apart from those that data were collected with


class EvaluationEpisode(NamedTuple):
    """One episode. `policy` counts from 0 in the order of the policies; `episode_return` is undiscounted and unscaled."""

    policy: int
    episode: int
    environment_seed: int
    episode_return: float
    length: int
    is_terminal: bool
    success: bool | None  # None where the environment does not report it
    discounted_return: float | None = None  # where a gamma is given


def environment_seeds(seed: int, episodes: int) -> list[int]:
    """Returns the seed of each episode's environment, distinct and in [0, 2**31). More episodes leave the first ones as they are."""
    first = int(np.random.SeedSequence([seed, _STREAM]).generate_state(1)[0])
    return [(first + index) % 2**31 for index in range(episodes)]


def evaluate_policy(policy: Act, make_env: MakeEnv, *, episodes: int, seed: int) -> list[EvaluationEpisode]:
    """Plays one policy (raw observations [N, ...] -> actions [N, ...]) for exactly `episodes` episodes, in order of episode."""

    def act(observation: Tree) -> np.ndarray:
        return np.asarray(policy(tree.map_structure(lambda leaf: leaf[0], observation)))[None]

    return evaluate_policies(act, make_env, policies=1, episodes=episodes, seed=seed)


def evaluate_policies(
    act: Act,
    make_env: MakeEnv,
    *,
    policies: int,
    episodes: int,
    seed: int,
    gamma: float | None = None,
    advance: Callable[[int], None] = lambda count: None,  # noqa: ARG005
) -> list[EvaluationEpisode]:
    """Plays S policies for exactly `episodes` episodes each; returns policies * episodes rows, by policy and then episode.

    `act` maps raw observations [S, N, ...] to actions [S, N, ...], row s by policy s; N never changes, and rows of environments
    that have finished are repeated. Equal arguments give equal rows, and with a `gamma` they hold discounted returns too. `advance`
    is called with 1 as each episode ends.
    Raises HindcastError where an environment raises or an episode does not end: one episode less would be another average.
    """
    count = min(episodes, max(ENVIRONMENTS // policies, 1))
    seeds = environment_seeds(seed, episodes)
    slots = [_Slot(make_env, policy, range(first, episodes, count), seeds, gamma) for policy in range(policies) for first in range(count)]
    try:
        return sorted(_play(slots, act, (policies, count), advance), key=lambda row: (row.policy, row.episode))
    finally:
        for slot in slots:
            slot.env.close()


def _play(slots: Sequence["_Slot"], act: Act, shape: tuple[int, int], advance: Callable[[int], None]) -> list[EvaluationEpisode]:
    """Steps all slots until each has played its episodes. Slots stand in the order of act's first two axes, `shape`."""
    space = slots[0].env.observation_space
    batch: Any = create_empty_array(space, n=len(slots), fn=np.zeros)
    done: list[EvaluationEpisode] = []
    running = list(enumerate(slots))
    while running:
        observation = concatenate(space, [slot.observation for slot in slots], batch)
        actions = np.asarray(act(tree.map_structure(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), observation)))
        actions = actions.reshape(len(slots), *actions.shape[2:])
        finished = [row for index, slot in running if (row := slot.step(actions[index])) is not None]
        if finished:
            done += finished
            advance(len(finished))
            running = [(index, slot) for index, slot in running if not slot.is_idle]
    return done


class _Slot:
    """One environment, and the episodes that it plays one after the other."""

    def __init__(self, make_env: MakeEnv, policy: int, episodes: Sequence[int], seeds: Sequence[int], gamma: float | None) -> None:
        self.env = make_env()
        self.observation: Any = None
        self.is_idle = False
        self._action = _action_converter(self.env)
        self._policy, self._seeds, self._gamma = policy, seeds, gamma
        self._episodes = iter(episodes)
        self._start()

    def step(self, action: np.ndarray) -> EvaluationEpisode | None:
        """Returns the episode that this step ended, if it did; then the next one has begun, or the slot is idle."""
        try:
            self.observation, reward, terminated, truncated, info = self.env.step(self._action(action))
        except Exception as error:
            raise self._error(f"raised {type(error).__name__} at step {self._length}: {error}") from error
        self._return += float(reward)
        if self._gamma is not None:
            self._discounted += self._gamma**self._length * float(reward)
        self._length += 1
        if not (terminated or truncated):
            if self._length >= STEP_LIMIT:
                raise self._error(f"has not ended after {STEP_LIMIT:,} steps. Give it a time limit (max_episode_steps)")
            return None
        success = next((bool(info[key]) for key in SUCCESS_KEYS if key in info), None)
        seed = self._seeds[self._episode]
        discounted = None if self._gamma is None else self._discounted
        row = EvaluationEpisode(self._policy, self._episode, seed, self._return, self._length, bool(terminated), success, discounted)
        self._start()
        return row

    def _start(self) -> None:
        """Begins the next episode. Once there is none, the last observation stays, for `act` takes a full batch."""
        self._return, self._discounted, self._length = 0.0, 0.0, 0
        self._episode = next(self._episodes, -1)
        if self._episode < 0:
            self.is_idle = True
            return
        try:
            self.observation, _ = self.env.reset(seed=self._seeds[self._episode])
        except Exception as error:
            raise self._error(f"raised {type(error).__name__} when reset: {error}") from error

    def _error(self, what: str) -> HindcastError:
        name = self.env.spec.id if self.env.spec else type(self.env.unwrapped).__name__
        return HindcastError(
            f"Evaluation of policy number {self._policy}: environment '{name}', episode {self._episode} "
            f"(environment seed {self._seeds[self._episode]}), {what}. No result was written, since the average would lack this episode."
        )


def _action_converter(env: gym.Env[Any, Any]) -> Callable[[np.ndarray], Any]:
    """A policy's action as the environment takes it: an int for Discrete, else an array of its own in the space's dtype."""
    if isinstance(env.action_space, gym.spaces.Discrete):
        return int
    dtype = env.action_space.dtype
    return lambda action: np.array(action, dtype)
