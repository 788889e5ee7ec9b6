"""Small files of every kind, and what a user does with the entry that is printed: pastes it and builds the data set."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from pipelines.params import Params, validate_all
from rl_datasets.builder import Context, load_builder
from rl_datasets.inspection.inspect import Inspection, inspect
from rl_datasets.schema import Episode, validate_episode

REST = {"checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}


class Pasted:
    """The episodes that a printed entry gives."""

    def __init__(self, found: Inspection) -> None:
        entries = YAML(typ="safe", pure=True).load(found.entry)
        params = Params.model_validate({"datasets": entries, **REST})
        validate_all(params)
        ((name, entry),) = params.datasets.items()
        self.options: Mapping[str, Any] = entry.options
        builder = load_builder(entry.builder).Builder(params.builder_options(name), Context(name, source=Path(entry.source)))
        self.spec = builder.spec()
        self.episodes: list[Episode] = list(builder.episodes(0))
        for episode in self.episodes:
            validate_episode(episode, self.spec)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Episodes, transitions, terminals."""
        return len(self.episodes), sum(e.length for e in self.episodes), sum(e.is_terminal for e in self.episodes)


@pytest.fixture
def paste(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Inspection], Pasted]:
    monkeypatch.chdir(tmp_path)
    return Pasted


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Inspection]:
    """Inspects arrays, given by name, as an .npz file of the project."""
    monkeypatch.chdir(tmp_path)

    def run(arrays: Mapping[str, Any], file: str = "log.npz", **given: list[str]) -> Inspection:
        np.savez(file, **{name: np.asarray(values) for name, values in arrays.items()})
        return inspect(Path(file), given)

    return run


def _walk(lengths: list[int], seed: int = 0) -> dict[str, np.ndarray]:
    """Steps of a pendulum-like task whose reward is a function of observation and action, so that a shift can be seen.

    observation [T, 2], action [T, 1], reward [T], next_observation [T, 2] of all episodes end to end, all float32.
    """
    rng = np.random.default_rng(seed)
    rows: dict[str, list[np.ndarray]] = {"observation": [], "action": [], "reward": [], "next_observation": []}
    for length in lengths:
        state = rng.normal(size=2)
        for _ in range(length):
            action = rng.uniform(-1, 1, 1)
            following = 0.7 * state + rng.normal(scale=0.7, size=2) + 0.3 * action
            rows["observation"].append(state)
            rows["action"].append(action)
            rows["reward"].append(np.array(1 - state @ state - action[0] ** 2 / 2))
            rows["next_observation"].append(following)
            state = following
    return {name: np.stack(values).astype(np.float32) for name, values in rows.items()}


@pytest.fixture
def walk() -> Callable[[list[int]], dict[str, np.ndarray]]:
    return _walk
