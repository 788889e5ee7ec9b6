"""Episodes of any Gymnasium environment with Box or Discrete actions, under a behaviour policy.

Episode i is a function of the options, the data set's seed and i alone: it starts from `episode_seed(seed, i)`, and its policy
draws from the i-th of the generators of that seed. So neither workers nor vector environments change a byte, and `Builder.episode` makes
any one of them again.
"""

import functools
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from gymnasium.vector import AutoresetMode
from pydantic import Field, model_validator

from rl_datasets.builder import BuilderBase, BuilderOptions, Context, References
from rl_datasets.collection import Job, collect, finished
from rl_datasets.environments import cast_notes, env_spec, make_env
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import Input
from rl_datasets.policies import Policy, bundle_paths
from rl_datasets.recording import truncate, unpack
from rl_datasets.rollout import Lost
from rl_datasets.schema import EnvSpec, Episode, named_leaves
from rl_datasets.workers import in_processes

CHUNK, CHUNK_BYTES = 64, 32 * 2**20  # episodes that a worker takes at once, and bytes of their observations, at most
FIRST_CHUNK, PART = 8, 64  # with a budget of steps: episodes at first, and the part of all before it that a chunk may be
TOO_MANY_LOST = 50  # episodes in a row, after which the environment counts as broken


class Vector(BuilderOptions):
    """Run `num_envs` environments as one vector environment, in one of Gymnasium's autoreset modes."""

    num_envs: int = Field(gt=0)
    autoreset: Literal["next_step", "same_step", "disabled"] = "next_step"


class Options(BuilderOptions):
    """`env_id` may be "module:EnvId-v0". The budget is `episodes`, or `steps` (transitions): the last episode is cut there."""

    env_id: str
    env_kwargs: Mapping[str, Any] = Field(default_factory=dict)
    max_episode_steps: int | None = Field(None, gt=0)  # instead of the environment's own time limit
    policy: Policy
    episodes: int | None = Field(None, gt=0)
    steps: int | None = Field(None, gt=0)
    reference_returns: References | None = None
    vector: Vector | None = None  # a plain loop is faster for most environments

    @model_validator(mode="after")
    def _one_budget(self) -> "Options":
        if (self.episodes is None) == (self.steps is None):
            raise ValueError("give either 'episodes' or 'steps'")
        return self


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    del folder  # it needs no file
    return {"env_id": "CartPole-v1", "episodes": 9, "policy": {"kind": "epsilon", "epsilon": 0.5, "base": {"kind": "random"}}}


class Builder(BuilderBase):
    options: Options

    def __init__(self, options: Options, context: Context) -> None:
        """Makes one environment to learn its spaces, and loads the policy bundles."""
        super().__init__(options, context)
        self.expected_episodes = options.episodes
        self._bundles = {path: _load_bundle(path, context) for path in bundle_paths(options.policy)}
        self.inputs = [Input(name=path, path=path, digest=bundle.digest) for path, bundle in self._bundles.items()]
        env = make_env(options.env_id, options.env_kwargs, options.max_episode_steps)
        try:
            self._spec = env_spec(
                env, options.env_id, options.env_kwargs, options.reference_returns.value() if options.reference_returns else None
            )
            self._casts = cast_notes(env)
            self.packages = _packages(env.unwrapped, *self._bundles.values())
        finally:
            env.close()
        options.policy.bind(self._spec, self._bundles)  # a policy that does not fit is an error now

    def spec(self) -> EnvSpec:
        return self._spec

    def episode(self, seed: int, index: int) -> Episode | Lost:
        """Returns one episode of the data set, alone; uncut where a budget of steps ends in it."""
        return next(finished(self._job(seed), [index]))

    def episodes(self, seed: int) -> Iterator[Episode]:
        self.notes, self.counts = list(self._casts), {"lost_episodes": 0}
        return self._within_steps(self._kept(self._all_outcomes(self._job(seed))))

    def _job(self, seed: int) -> Job:
        """With a budget of steps, an episode that would never end does end, one step beyond it."""
        options = self.options
        budget = options.steps and options.steps + 1
        limit = min((limit for limit in (self._spec.max_episode_steps, budget) if limit), default=None)
        job = Job(self._spec, seed, options.policy.model_dump(), self._bundles, limit)
        if options.vector is None:
            return job
        return replace(job, num_envs=options.vector.num_envs, autoreset=AutoresetMode[options.vector.autoreset.upper()])

    def _all_outcomes(self, job: Job) -> Iterator[Episode | Lost]:
        """In the order of indices, without end where the budget is in steps."""
        episodes, workers = self.options.episodes, self.context.workers
        if workers == 0 and self.options.vector is None:
            yield from finished(job, itertools.count() if episodes is None else range(episodes))
            return
        for packed, lost in in_processes(collect, job, _chunks(self.options, self._spec, workers), workers):
            outcomes: list[Episode | Lost] = [*unpack(packed), *lost]
            yield from sorted(outcomes, key=_index) if lost else outcomes

    def _kept(self, outcomes: Iterable[Episode | Lost]) -> Iterator[Episode]:
        """Notes what was lost, and yields the rest. Raises HindcastError where nothing is left or the environment is broken."""
        in_a_row, kept = 0, 0
        reports_success: bool | None = None  # as the first episode says
        for outcome in outcomes:
            if isinstance(outcome, Episode):
                reports_success = "success" in outcome.metadata if reports_success is None else reports_success
                in_a_row, kept = 0, kept + 1
                yield _with_columns(outcome, reports_success)
                continue
            in_a_row += 1
            self.counts["lost_episodes"] += 1
            self.notes.append(f"Episode {outcome.index} (seed {outcome.seed}) was lost: the environment raised {outcome.error}")
            if in_a_row == TOO_MANY_LOST:
                break
        if in_a_row == TOO_MANY_LOST or not kept:
            raise HindcastError(
                f"Environment '{self.options.env_id}' raised in {in_a_row} episodes in a row, after {kept} good ones. {self.notes[-1]}. "
                "Mend the environment, its env_kwargs or the policy."
            )

    def _within_steps(self, episodes: Iterator[Episode]) -> Iterator[Episode]:
        """Ends with the budget of steps, where there is one."""
        left = self.options.steps
        for episode in episodes:
            if left is None:
                yield episode
                continue
            if episode.length > left:
                self.notes.append(f"Episode {episode.episode_id} was cut after {left} of its steps, where the budget ended.")
            yield truncate(episode, left)
            left -= min(left, episode.length)
            if left == 0:
                return


def _index(outcome: Episode | Lost) -> int:
    return outcome.index if isinstance(outcome, Lost) else int(outcome.episode_id)


def _with_columns(episode: Episode, success: bool) -> Episode:
    """All episodes of a data set have the same columns: one without a report of success had none."""
    if success == ("success" in episode.metadata):
        return episode
    metadata = {**episode.metadata, "success": 0} if success else {k: v for k, v in episode.metadata.items() if k != "success"}
    return replace(episode, metadata=metadata)


def _chunks(options: Options, spec: EnvSpec, workers: int) -> Iterator[range]:
    """Ranges of indices, without end where the budget is in steps: small enough for memory and to keep all workers busy to the end.

    What lies beyond a budget of steps is lost work, so there a chunk is a small part of all before it.
    """
    row = sum(leaf.zeros().nbytes for _, leaf in named_leaves(spec.observation, ""))
    most = min(max(CHUNK_BYTES // (row * (spec.max_episode_steps or 1000) or 1), 1), CHUNK)
    least = 4 * options.vector.num_envs if options.vector else 1
    first, end = 0, options.episodes or sys.maxsize
    while first < end:
        part = max(first // PART, FIRST_CHUNK) if options.episodes is None else -(-end // (4 * max(workers, 1)))
        chunk = range(first, min(first + max(min(part, most), least), end))
        yield chunk
        first = chunk.stop


def _load_bundle(path: str, context: Context) -> Any:
    if context.load_policy is None:
        raise HindcastError(f"Policy bundle {path}: a trained policy can be loaded by the collect stage only. Use 'dvc repro'.")
    return context.load_policy(Path(path))


def _packages(*objects: Any) -> list[str]:
    """Distributions of the modules that define the classes of these objects, and of those that they import."""
    modules = [sys.modules[cls.__module__] for thing in objects for cls in type(thing).__mro__ if cls is not object]
    imported = [value for module in modules for value in vars(module).values() if isinstance(value, ModuleType)]
    known = _distributions()
    roots = {"gymnasium", "numpy", *(module.__name__.split(".")[0] for module in (*modules, *imported))}
    return sorted({name for root in roots for name in known.get(root, ())})


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()  # it reads the file list of every installed package
