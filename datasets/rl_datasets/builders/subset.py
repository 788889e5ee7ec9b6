"""A part of another data set, drawn by the seed: a number of episodes, or a fraction.

Which episodes are drawn hangs on the seed and each episode's id alone, so a fraction keeps its episodes when the parent grows, and a
smaller part lies within a larger one of the same seed.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from rl_datasets.builder import Context
from rl_datasets.derived import ParentOptions, PartBuilder
from rl_datasets.errors import HindcastError
from rl_datasets.schema import Episode
from rl_datasets.words import count


class Options(ParentOptions):
    """Either `episodes` or `fraction`."""

    episodes: int | None = Field(None, gt=0)
    fraction: float | None = Field(None, gt=0, le=1)

    @model_validator(mode="after")
    def _one_measure(self) -> "Options":
        if (self.episodes is None) == (self.fraction is None):
            raise ValueError("give either 'episodes' or 'fraction'")
        return self


class Builder(PartBuilder):
    options: Options

    def __init__(self, options: Options, context: Context) -> None:
        super().__init__(options, context)
        self.expected_episodes = options.episodes

    def episodes(self, seed: int) -> Iterator[Episode]:
        """In the parent's order. Raises HindcastError where there are fewer than asked for, or none is drawn."""
        places = {episode.episode_id: place(seed, episode.episode_id) for episode in self.parent.episodes()}
        drawn = self._drawn(places)
        for episode in self.parent.episodes():
            if episode.episode_id in drawn:
                yield episode
        rest = f"of the {count(len(places), 'episode')} of '{self.parent.name}'"
        self.notes = [f"{count(len(drawn), f'{rest} was', f'{rest} were')} drawn with seed {seed}."]

    def _drawn(self, places: dict[str, float]) -> set[str]:
        asked, fraction = self.options.episodes, self.options.fraction
        if asked is not None and asked > len(places):
            raise HindcastError(
                f"{count(asked, 'episode is', 'episodes are')} asked for, but '{self.parent.name}' has {len(places):,}. Ask for fewer."
            )
        if asked is not None:
            return set(sorted(places, key=lambda episode_id: (places[episode_id], episode_id))[:asked])
        assert fraction is not None, "the options have one of the two"
        drawn = {episode_id for episode_id, value in places.items() if value < fraction}
        if not drawn:
            raise HindcastError(f"A fraction of {fraction:g} of {count(len(places), 'episode')} of '{self.parent.name}' is none. Raise it.")
        return drawn


def place(seed: int, episode_id: str) -> float:
    """Where an episode stands in the order of drawing: uniform in [0, 1), and a function of the two alone."""
    digest = hashlib.sha256(f"subset/{seed}/{episode_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    from rl_datasets.derived_example import write_parent

    return {"parent": write_parent(folder, "north").as_posix(), "episodes": 4}
