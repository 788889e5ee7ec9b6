"""Environment and policy to recorded episodes, which `recording.aligned` makes arrays of.

An episode is a function of the environment, the seed that it was reset with, and the actions. A plain loop over one
environment (`record_episode`) and a vector environment in any of Gymnasium's three autoreset modes (`record_episodes`) give
the same rows: no reset's observation passes for a step's, no action that the environment ignored is stored, and the last
observation is that of the episode's end, not of the next one's start.
"""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import tree
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from rl_datasets.recording import Recording, aligned, copy_nest, describe_error, unpack
from rl_datasets.schema import EnvSpec, Episode, Tree

MakeEnv = Callable[[], gym.Env[Any, Any]]
Act = Callable[[Tree], Any]  # one observation to one action
BatchAct = Callable[[Tree, np.ndarray], np.ndarray]  # (observation [N, ...], episode [N] int64) to actions [N, ...]

_LOST = "hindcast_lost"  # the key in `info` of the text of an exception


@dataclass(frozen=True)
class Lost:
    """An episode that is not in the data because the environment raised."""

    index: int
    seed: int
    error: str


def episode_seed(seed: int, index: int) -> int:
    """Returns the seed, in [0, 2**31), of one episode of a data set. No two episodes of a data set share one."""
    return (_first_seed(seed) + index) % 2**31


@functools.cache
def _first_seed(seed: int) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1)[0])


def run_episode(env: gym.Env[Any, Any], act: Act, spec: EnvSpec, *, index: int, seed: int, policy: str) -> Episode:
    """Runs one episode, from reset(seed) to its end. Its id is its index, so that ids sort as indices do.

    What the environment raises passes through. Raises HindcastError where an array differs from the spec.
    """
    (episode,) = unpack(aligned(spec, [record_episode(env, act, spec, index=index, seed=seed, policy=policy)]))
    return episode


def record_episode(env: gym.Env[Any, Any], act: Act, spec: EnvSpec, *, index: int, seed: int, policy: str) -> Recording:
    """Runs one episode and leaves its rows as they came; `aligned` makes arrays of those of many episodes at once."""
    core, limit = _unguarded(env)
    observation, info = core.reset(seed=seed)
    recording = Recording(spec, index, observation)
    copy, keep, step = recording.copy, recording.keep, core.step
    observations, actions, rewards = recording.observations, recording.actions, recording.rewards
    terminated = False
    for _ in itertools.repeat(None) if limit is None else itertools.repeat(None, limit):
        action = act(observation)
        actions.append(keep(action))
        observation, reward, terminated, truncated, info = step(action)
        observations.append(copy(observation))
        rewards.append(reward)
        if terminated or truncated:
            break
    recording.end(bool(terminated), _metadata(spec, seed, policy, info))
    return recording


def record_episodes(
    make_env: MakeEnv,
    act: BatchAct,
    spec: EnvSpec,
    *,
    seeds: Sequence[int],
    num_envs: int,
    first_index: int = 0,
    policy: Callable[[int], str] = lambda _: "",
    autoreset: AutoresetMode | str = AutoresetMode.DISABLED,
    on_lost: Callable[[Lost], None] | None = None,
) -> Iterator[Recording]:
    """Runs a vector environment and yields episodes as they end: exactly one for each seed, whatever their lengths.

    Episode `first_index + i` starts from seeds[i] and has the rows and metadata that `record_episode` would give. A free
    environment takes the next episode (with autoreset, the next of those dealt to it beforehand). `act` gets N observations
    and the index of the episode that each row belongs to, -1 where the row is of none and its action is ignored.
    N = min(num_envs, len(seeds)) never changes. `policy` names the policy of an episode for its metadata.

    With `on_lost`, an environment that raises loses its episode only: that is reported there, and the environment made anew.
    Without, the exception passes through. The environments are closed in the end.
    """
    mode = AutoresetMode(autoreset)
    count = min(num_envs, len(seeds))
    episodes = list(enumerate(seeds, first_index))
    shared = iter(episodes)
    queues = [shared if mode == AutoresetMode.DISABLED else iter(episodes[i::count]) for i in range(count)]
    envs = SyncVectorEnv([_maker(make_env, spec, queue, on_lost is not None) for queue in queues], autoreset_mode=mode)
    try:
        for ((index, seed), recording), terminated, info in _play(envs, act, spec):
            if _LOST not in info:
                recording.end(terminated, _metadata(spec, seed, policy(index), info))
                yield recording
            elif on_lost is not None:
                on_lost(Lost(index, seed, str(info[_LOST])))
    finally:
        envs.close()


def _unguarded(env: gym.Env[Any, Any]) -> tuple[gym.Env[Any, Any], int | None]:
    """Returns what is below the outer TimeLimit and OrderEnforcing, and the limit: they cost a tenth of a cheap environment's step."""
    limit = None
    while type(env) in (TimeLimit, OrderEnforcing):
        if isinstance(env, TimeLimit):
            limit = min(env._max_episode_steps, limit or env._max_episode_steps)
        env = env.env  # type: ignore[attr-defined]
    return env, limit


class _Running(NamedTuple):
    assigned: tuple[int, int]  # (index, seed)
    recording: Recording


def _begun(assigned: tuple[int, int] | None, spec: EnvSpec, observation: Tree) -> _Running | None:
    return _Running(assigned, Recording(spec, assigned[0], observation)) if assigned else None


def _play(envs: SyncVectorEnv, act: BatchAct, spec: EnvSpec) -> Iterator[tuple[_Running, bool, Mapping[str, Any]]]:
    """Steps until every queue is empty; yields (episode, terminated, last info) of each episode as it ends."""
    mode = envs.metadata["autoreset_mode"]
    running: list[_Running | None] = [None] * envs.num_envs
    observation, _ = envs.reset()
    first = np.ones(envs.num_envs, bool)  # rows of `observation` that begin an episode
    ended = np.zeros(envs.num_envs, bool)  # environments that the next step resets, instead of taking an action
    while True:
        for i in np.flatnonzero(first).tolist():
            running[i] = _begun(envs.envs[i].get_wrapper_attr("assigned"), spec, _row(observation, i))
        busy = [(i, episode) for i, episode in enumerate(running) if episode]
        if not busy and not ended.any():
            return
        action = act(observation, np.array([episode.assigned[0] if episode else -1 for episode in running]))
        for i, episode in busy:
            episode.recording.act(action[i])
        first = ended
        observation, reward, terminated, truncated, infos = envs.step(action)
        ended = terminated | truncated
        for i, episode in busy:
            final, info = _last(mode, observation, infos, i) if ended[i] else (_row(observation, i), {})
            episode.recording.step(final, reward[i])
            if ended[i]:
                running[i] = None
                yield episode, bool(terminated[i]), info
        if mode == AutoresetMode.DISABLED and ended.any():
            observation, _ = envs.reset(options={"reset_mask": ended})
        if mode != AutoresetMode.NEXT_STEP:
            first, ended = ended, np.zeros_like(ended)


def _last(mode: AutoresetMode, observation: Tree, infos: Mapping[str, Any], i: int) -> tuple[Tree, Mapping[str, Any]]:
    """Returns environment i's last observation and info; with SAME_STEP, its row already begins the next episode."""
    if mode == AutoresetMode.SAME_STEP:
        return infos["final_obs"][i], _row_info(infos["final_info"], i)
    return _row(observation, i), _row_info(infos, i)


class _Assigned(gym.Wrapper[Any, Any, Any, Any]):
    """Starts the next episode of its queue at every reset, with that episode's seed; stands still once the queue is empty.

    With `guarded`, an exception ends the episode (truncated, its text in info) and the environment is made anew.
    """

    def __init__(self, make_env: MakeEnv, spec: EnvSpec, queue: Iterator[tuple[int, int]], guarded: bool) -> None:
        super().__init__(make_env())
        self.assigned: tuple[int, int] | None = None  # (index, seed) of the episode that runs
        self._make_env, self._queue, self._guarded = make_env, queue, guarded
        self._nothing = tree.map_structure(lambda leaf: leaf.zeros(), spec.observation)
        self._error: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        del seed, options  # the seed is the queue's
        self._error, self.assigned = None, next(self._queue, None)
        if self.assigned is None:
            return self._nothing, {}
        try:
            return self.env.reset(seed=self.assigned[1])
        except Exception as error:
            self._remake(error)
            return self._nothing, {}  # and the first step ends it

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self.assigned is None:
            return self._nothing, 0.0, False, False, {}
        if self._error is None:
            try:
                observation, reward, terminated, truncated, info = self.env.step(action)
                if terminated or truncated:  # with SAME_STEP the reset comes before anyone sees it, and may reuse the array
                    observation = copy_nest(observation)
                return observation, reward, terminated, truncated, info
            except Exception as error:
                self._remake(error)
        return self._nothing, 0.0, False, True, {_LOST: self._error}

    def _remake(self, error: Exception) -> None:
        if not self._guarded:
            raise error
        self._error = describe_error(error)
        self.env = remade(self.env, self._make_env)


def remade(env: gym.Env[Any, Any], make_env: MakeEnv) -> gym.Env[Any, Any]:
    """Returns a new environment in place of one that raised, whose state is unknown; even closing that one may fail."""
    with contextlib.suppress(Exception):
        env.close()
    return make_env()


def _maker(make_env: MakeEnv, spec: EnvSpec, queue: Iterator[tuple[int, int]], guarded: bool) -> MakeEnv:
    return lambda: _Assigned(make_env, spec, queue, guarded)


def _metadata(spec: EnvSpec, seed: int, policy: str, info: Mapping[str, Any]) -> dict[str, str | int | float]:
    """`success` is there where the environment reports it in the last step's info."""
    success = info.get("is_success", info.get("success"))
    known: dict[str, str | int | float] = {"seed": seed, "policy": policy, "environment": spec.env_id}
    return known if success is None else {**known, "success": int(bool(success))}


def _row(batch: Tree, i: int) -> Tree:
    return tree.map_structure(lambda leaf: leaf[i], batch)


def _row_info(infos: Mapping[str, Any], i: int) -> dict[str, Any]:
    """What environment i itself put in `info`; the key "_name" masks the environments that have "name"."""
    return {key: values[i] for key, values in infos.items() if f"_{key}" in infos and infos[f"_{key}"][i] and not isinstance(values, dict)}
