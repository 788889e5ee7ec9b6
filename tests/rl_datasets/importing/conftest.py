"""Three short episodes whose every value tells where it belongs, and an import of arrays as a test sees it."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.importing.convert import convert
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.parts import ArrayPart, Part
from rl_datasets.importing.report import ImportReport
from rl_datasets.importing.spec import describe
from rl_datasets.schema import Episode, validate_episode

BASE = {"env_id": "Toy", "observation": "o", "action": "a", "reward": "r"}
# A transition as (observation, action, reward, discount, next observation); the observation 103 is step 3 of episode 1.
Transition = tuple[float, float, float, float, float]


class Imported:
    """The episodes of an import, with its report."""

    def __init__(self, parts: list[Part], options: Mapping[str, Any]) -> None:
        self.options = MappingOptions.model_validate({**BASE, **options})
        self.report = ImportReport()
        self.spec, self.assumed = describe(lambda: iter(parts), self.options)
        self.episodes: list[Episode] = list(convert(iter(parts), self.options, self.spec, self.report))
        for episode in self.episodes:
            validate_episode(episode, self.spec)

    @property
    def transitions(self) -> list[list[Transition]]:
        return [
            [
                (
                    float(e.observation[t, 0]),
                    float(e.action[t, 0]),
                    float(e.reward[t]),
                    float(e.discount[t]),
                    float(e.observation[t + 1, 0]),
                )
                for t in range(e.length)
            ]
            for e in self.episodes
        ]

    @property
    def notes(self) -> str:
        return "\n".join([*self.report.notes(), *self.assumed])


@pytest.fixture
def imported() -> Callable[..., Imported]:
    """Imports arrays, given by name, by a mapping; `groups` gives the rows of each column in each group."""

    def run(arrays: Mapping[str, Any], groups: Mapping[str, list[int]] | None = None, **options: Any) -> Imported:
        columns = {name: np.asarray(values) for name, values in arrays.items()}
        lengths = {name: np.array(rows) for name, rows in (groups or {}).items()}
        named = [f"demo_{number}" for number in range(len(next(iter(lengths.values()))))] if groups else None
        return Imported([ArrayPart("toy.npz", "", columns, named, lengths)], options)

    return run


@pytest.fixture
def refused(imported: Callable[..., Imported]) -> Callable[..., str]:
    """Returns the message with which an import is refused."""

    def run(arrays: Mapping[str, Any], **options: Any) -> str:
        with pytest.raises(HindcastError) as error:
            imported(arrays, **options)
        assert "\n" not in str(error.value)
        return str(error.value)

    return run
