"""The work of collection: episodes by their indices, as a worker process makes them.

A worker imports this module and what it names, and no more: what reads parameters stays outside, for it would double a worker's start.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import tree
from gymnasium.vector import AutoresetMode

from rl_datasets.behaviour import Bundles, bind
from rl_datasets.environments import make_env
from rl_datasets.errors import HindcastError
from rl_datasets.recording import Packed, Recording, aligned, describe_error, unpack
from rl_datasets.rollout import Lost, episode_seed, record_episode, record_episodes, remade
from rl_datasets.schema import EnvSpec, Episode, Tree

_POLICY_STREAM = 1  # sets the policies' generators apart from those of the environments

Play = Callable[[int], Recording | Lost]  # the episode of an index


@dataclass(frozen=True)
class Job:
    """All that the episodes of one data set depend on, as plain data: what a worker is sent."""

    spec: EnvSpec
    seed: int
    policy: Mapping[str, Any]  # as in the parameters
    bundles: Bundles
    max_episode_steps: int | None = None  # instead of the environment's own limit
    num_envs: int | None = None  # so many side by side, as one vector environment; None for a plain loop over one
    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP

    def make_env(self) -> gym.Env[Any, Any]:
        return make_env(self.spec.env_id, self.spec.env_kwargs, self.max_episode_steps)


def collect(job: Job, chunks: Iterable[range]) -> Iterator[tuple[Packed | None, list[Lost]]]:
    """Yields, for one range of indices after another, its episodes in their order. Each is a function of the job and its index alone."""
    if job.num_envs is not None:
        yield from (_packed(job, _play_vector(job, indices, job.num_envs)) for indices in chunks)
        return
    with _playing(job) as play:
        yield from (_packed(job, [play(index) for index in indices]) for indices in chunks)


def finished(job: Job, indices: Iterable[int]) -> Iterator[Episode | Lost]:
    """Yields episodes one by one, each as soon as it has ended."""
    with _playing(job) as play:
        for outcome in map(play, indices):
            if isinstance(outcome, Lost):
                yield outcome
            else:
                yield from unpack(aligned(job.spec, [outcome]))


def generators(seed: int) -> Callable[[int], np.random.Generator]:
    """Returns a function from an episode's index to its policy's generator, whose stream is independent of all others.

    It moves one counter-based generator to and fro, which takes a fifth of the time of making one: each call ends the one before.
    """
    philox = np.random.Philox(np.random.SeedSequence((seed, _POLICY_STREAM)))
    generator, state = np.random.Generator(philox), philox.state

    def at(index: int) -> np.random.Generator:
        state["state"]["counter"][3] = index  # of 2**64 streams, each 2**192 numbers long
        philox.state = state
        return generator

    return at


def _packed(job: Job, outcomes: Sequence[Recording | Lost]) -> tuple[Packed | None, list[Lost]]:
    lost = [outcome for outcome in outcomes if isinstance(outcome, Lost)]
    return aligned(job.spec, [outcome for outcome in outcomes if isinstance(outcome, Recording)]), lost


@contextmanager
def _playing(job: Job) -> Iterator[Play]:
    """Yields what plays episodes in one environment, which is made anew where it raises."""
    start = bind(job.policy, job.spec, job.bundles)
    env, policy_generator = job.make_env(), generators(job.seed)

    def play(index: int) -> Recording | Lost:
        nonlocal env
        seed = episode_seed(job.seed, index)
        try:
            policy, act = start(policy_generator(index))
            return record_episode(env, act, job.spec, index=index, seed=seed, policy=policy)
        except HindcastError:
            raise
        except Exception as error:
            env = remade(env, job.make_env)
            return Lost(index, seed, describe_error(error))

    try:
        yield play
    finally:
        env.close()


def _play_vector(job: Job, indices: range, num_envs: int) -> Sequence[Recording | Lost]:
    start = bind(job.policy, job.spec, job.bundles)
    seeds = [episode_seed(job.seed, index) for index in indices]
    started = {index: start(generators(job.seed)(index)) for index in indices}  # one each, for they run side by side

    def act(observation: Tree, episode: np.ndarray) -> np.ndarray:
        actions = job.spec.action.zeros(len(episode))
        for row, index in enumerate(episode.tolist()):
            if index >= 0:
                actions[row] = started[index][1](tree.map_structure(lambda leaf, row=row: leaf[row], observation))
        return actions

    lost: list[Lost] = []
    recordings = record_episodes(
        job.make_env,
        act,
        job.spec,
        seeds=seeds,
        num_envs=num_envs,
        first_index=indices[0],
        policy=lambda index: started[index][0],
        autoreset=job.autoreset,
        on_lost=lost.append,
    )
    outcomes: list[Recording | Lost] = [*recordings, *lost]  # in this order: `lost` is complete when the recordings are
    return sorted(outcomes, key=lambda outcome: outcome.index)
