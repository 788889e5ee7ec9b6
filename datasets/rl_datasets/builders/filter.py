"""The episodes of another data set that meet a condition: by return, length, ending, policy, or any of their metadata."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from rl_datasets.derived import ParentOptions, PartBuilder
from rl_datasets.errors import HindcastError
from rl_datasets.schema import Episode
from rl_datasets.words import count


class Options(ParentOptions):
    """An episode is kept where it meets all conditions; bounds are inclusive."""

    minimum_return: float | None = None
    maximum_return: float | None = None
    minimum_length: int | None = Field(None, gt=0)  # transitions
    maximum_length: int | None = Field(None, gt=0)
    is_terminal: bool | None = None
    policies: tuple[str, ...] = ()
    metadata: Mapping[str, tuple[str | int | float, ...]] = Field(default_factory=dict)  # by name, the values that are kept


class Builder(PartBuilder):
    options: Options

    def episodes(self, seed: int) -> Iterator[Episode]:
        """Raises HindcastError where nothing is left, or a metadata name is none."""
        del seed
        kept, dropped = 0, dict[str, int]()
        for episode in self.parent.episodes():
            reason = self._refused(episode)
            if reason is None:
                kept += 1
                yield episode
            else:
                dropped[reason] = dropped.get(reason, 0) + 1
        if not kept:
            told = ", ".join(f"{number:,} by {reason}" for reason, number in sorted(dropped.items()))
            raise HindcastError(f"No episode of '{self.parent.name}' is left: {told}. Widen the conditions in its options.")
        of = f"of '{self.parent.name}'"
        rest = f"of the {count(kept + sum(dropped.values()), 'episode')} {of}"
        self.notes = [f"{count(kept, f'{rest} was', f'{rest} were')} kept."]
        for reason, number in sorted(dropped.items()):
            self.notes.append(f"{count(number, f'episode {of} was', f'episodes {of} were')} left out by {reason}.")
        self.counts = {"left_out_episodes": sum(dropped.values())}

    def _refused(self, episode: Episode) -> str | None:
        """Returns the first condition that an episode does not meet."""
        options, known = self.options, episode.metadata
        total = episode.episode_return
        tests = (
            ("minimum_return", options.minimum_return is None or total >= options.minimum_return),
            ("maximum_return", options.maximum_return is None or total <= options.maximum_return),
            ("minimum_length", options.minimum_length is None or episode.length >= options.minimum_length),
            ("maximum_length", options.maximum_length is None or episode.length <= options.maximum_length),
            ("is_terminal", options.is_terminal is None or episode.is_terminal == options.is_terminal),
            ("policies", not options.policies or known["policy"] in options.policies),
        )
        if absent := sorted(set(options.metadata) - set(known)):
            raise HindcastError(
                f"metadata names '{absent[0]}', but the episodes of '{self.parent.name}' have {', '.join(sorted(known))}. Mend the option."
            )
        by_metadata = ((f"metadata.{key}", known[key] in values) for key, values in options.metadata.items())
        return next((name for name, meets in (*tests, *by_metadata) if not meets), None)


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    from rl_datasets.derived_example import write_parent

    return {"parent": write_parent(folder, "north").as_posix(), "minimum_length": 2, "metadata": {"site": [0, 1, 2]}}
