"""What `hindcast inspect` and `new-dataset` propose and write: a builder to start from, entries for params.yaml, and a first test."""

from collections.abc import Mapping

from ruamel.yaml import YAML

from trainer.fitted_q.params import gamma_within

BUILDER = '''"""Say here what the data are, and the unit of each number. Observation: position, metres. Action: speed, metres a second."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from rl_datasets.builder import BuilderBase, BuilderOptions
from rl_datasets.rollout import episode_seed
from rl_datasets.schema import ArraySpec, EnvSpec, Episode


class Options(BuilderOptions):
    """What the entry in params.yaml may say."""

    episodes: int = Field(gt=0)
    steps: int = Field(20, gt=0)  # transitions an episode


def example(_folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests; write the files that it needs into the folder."""
    return {{"episodes": 3, "steps": 4}}


class Builder(BuilderBase):
    options: Options

    def spec(self) -> EnvSpec:
        observation = ArraySpec((1,), "float32")
        return EnvSpec("{env_id}", observation, ArraySpec((1,), "float32", -1.0, 1.0), max_episode_steps=self.options.steps)

    def episodes(self, seed: int) -> Iterator[Episode]:
        """Same options and seed, same episodes. T transitions are T+1 steps, and the last holds only its observation."""
        steps = self.options.steps
        for index in range(self.options.episodes):
            rng = np.random.default_rng(episode_seed(seed, index))
            action = np.zeros((steps + 1, 1), np.float32)
            action[:-1] = rng.uniform(-1, 1, (steps, 1))
            observation = np.concatenate([np.zeros((1, 1), np.float32), np.cumsum(action[:-1], axis=0)])
            reward, discount = np.zeros(steps + 1, np.float32), np.ones(steps + 1, np.float32)
            reward[:-1] = -np.abs(observation[1:, 0])
            discount[-1] = 0  # and discount[-2] too, where the episode ends in a terminal state
            metadata = {{"seed": episode_seed(seed, index), "policy": "random", "environment": "{env_id}"}}
            yield Episode(f"{{index:08d}}", observation, action, reward, discount, is_terminal=False, metadata=metadata)
'''

BUILDER_ENTRY = """  {name}:
    builder: {name}
    version: 1.0.0  # raise it when the meaning of the data changes
    seed: 0
    source: requirements.lock  # the path that it is made from; when it changes, the data set is built again
    options: {{episodes: 100}}
"""

ENVIRONMENT_ENTRY = """  {name}:
    builder: gymnasium
    version: 1.0.0
    seed: 0
    source: requirements.lock  # what it is made from beside code: here the simulator's version
    options:
      env_id: {env_id}
      episodes: 200  # or steps
      policy: {{kind: random}}  # or scripted, bundle, epsilon, noise, mixture: datasets/README.md
"""

EXPERIMENT_ENTRY = """  {experiment}:
    dataset: {name}
    algorithm: iql
    preset: {preset}  # {why}
    train: {{seeds: [0, 1, 2], updates: {updates}, batch_size: {batch_size}}}  # {passes} times over the data
    evaluate: {evaluate}
"""
CATEGORY = {"num_values", "one_hot", "categories"}  # options of an action that is one of several
PASSES, UPDATES = 100, (2_000, 10_000)  # over the data, within these updates
LONG = 300  # steps, from which on no more of the weight lies beyond an episode with the default gamma of 0.99
SMALL = 1000  # transitions, of which the training split may not fill a batch of 256


def experiment_name(dataset: str) -> str:
    return f"{dataset}_iql"


def experiment_entry(name: str, entry: str, counts: Mapping[str, int]) -> str:
    """Returns an experiment on an imported data set, by its entry; "" where that does not say what its actions are.

    `counts` are of its episodes, transitions and terminals. Estimates of episodes that are all cut discount what lies beyond their length.
    """
    transitions, episodes = max(counts["transitions"], 1), max(counts["episodes"], 1)
    options = YAML(typ="safe", pure=True).load(entry)[name]["options"]
    action, env_id = options.get("action"), options.get("env_id")
    if action is None:
        return ""
    is_category = isinstance(action, dict) and bool(CATEGORY & set(action))
    is_played = is_environment(str(env_id))
    length = transitions / episodes
    is_cut = not counts.get("terminals", 0) and 2 < length < LONG
    horizon = f"gamma: {gamma_within(length):g}" if is_cut else ""
    why = f"; episodes are cut after about {length:.0f} steps" if is_cut else ""
    told = f"{{seed: 0, fitted_q: {{{horizon}}}}}  # by the data alone: Gymnasium has no environment of this name{why}"
    batch_size = 256 if transitions >= SMALL else 32
    updates = round(min(max(PASSES * transitions / batch_size, UPDATES[0]), UPDATES[1]), -3)
    return EXPERIMENT_ENTRY.format(
        experiment=experiment_name(name),
        name=name,
        preset="cartpole" if is_category else "pendulum",
        why="for an action that is one of several" if is_category else "for actions that are numbers",
        batch_size=batch_size,
        updates=f"{updates:.0f}",
        passes=f"about {updates * batch_size / transitions:,.0f}",
        evaluate="{episodes: 20, seed: 0}" if is_played else told,
    )


def is_environment(env_id: str) -> bool:
    """Whether Gymnasium knows an environment of this name, or it is one that a module registers ("module:Name-v0")."""
    import gymnasium as gym

    return ":" in env_id or env_id in gym.registry


TEST = '''"""The data set {name}, as its entry in params.yaml makes it."""

from pathlib import Path

import pytest

from pipelines.params import load_params
from rl_datasets.builder import Context, load_builder
from rl_datasets.schema import validate_episode


@pytest.fixture(scope="module")
def built():
    params = load_params(Path("params.yaml"))
    entry = params.dataset("{name}")
    if not Path(entry.source).exists():
        pytest.skip(f"{{entry.source}} is not here")
    builder = load_builder(entry.builder).Builder(params.builder_options("{name}"), Context("{name}", source=Path(entry.source)))
    return builder.spec(), list(builder.episodes(entry.seed))


def test_every_episode_meets_the_spec(built):
    spec, episodes = built
    for episode in episodes:
        validate_episode(episode, spec)


def test_nothing_was_lost(built):
    _, episodes = built
    assert len(episodes) == {episodes}
    assert sum(episode.length for episode in episodes) == {transitions}
    assert sum(episode.is_terminal for episode in episodes) == {terminals}
'''
