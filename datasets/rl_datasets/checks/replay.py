"""The check that the environment gives the data again: from the recorded seed and by the recorded actions, row for row.

An episode is run by the code that collection runs, and its rows are compared as they are stored. Where they part, the step is named
whose action led elsewhere; an observation or reward that alone is another, with the rows after it as they should be, is itself at fault.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import tree
from pydantic import Field

from rl_datasets.checks.block import Block
from rl_datasets.checks.check import Check, Covered, Fault, NotApplicable, Running, Warns
from rl_datasets.checks.expected import Expected
from rl_datasets.errors import HindcastError
from rl_datasets.schema import EnvSpec, Episode, Tree, named_leaves

NO_SEED = "no episode records the seed that its environment was reset with"
NO_SEED_CHOSEN = "none of the episodes that were chosen records the seed that its environment was reset with"


class Divergence(NamedTuple):
    """Where the environment leaves the data."""

    step: int
    array: str  # such as "observation/pose"; "environment" where it raised, "end" where the episode ended otherwise
    recorded: str
    replayed: str
    row: int  # of the array

    def __str__(self) -> str:
        place = f"{self.array} of step {self.row}" if self.row != self.step else self.array
        return f"{place} is {self.recorded}, but the environment gives {self.replayed}"


class ReplayOptions(Warns):
    episodes: Literal["all"] | Annotated[int, Field(gt=0)] = Field(
        20, description="how many episodes are replayed, evenly spread over the data, or all"
    )
    tolerance: float = Field(
        0.0, ge=0, description="difference that may be between a value and the environment's, as a part of max(1, |value|); 0: bit for bit"
    )


def replay(episode: Episode, spec: EnvSpec, env: Any, tolerance: float = 0.0) -> Divergence | None:
    """Runs an episode again in `env` (of gymnasium) and returns where it first differs; None where it is the same to the end.

    `env` may have run others before. The episode's metadata hold the seed; an episode that was cut is run as far as it goes.
    """
    from gymnasium.wrappers import TimeLimit  # where no data are replayed, no simulator is imported

    from rl_datasets.recording import aligned, describe_error, unpack
    from rl_datasets.rollout import record_episode

    seed, given = int(episode.metadata["seed"]), _Given(episode)
    try:
        recording = record_episode(TimeLimit(env, episode.length), given, spec, index=0, seed=seed, policy="")
        (again,) = unpack(aligned(spec, [recording]))
    except HindcastError as error:  # it has other arrays by now
        return Divergence(0, "environment", "data that meet the spec", str(error), 0)
    except Exception as error:  # whatever an environment raises
        step = max(given.count - 1, 0)
        return Divergence(step, "environment", "a step" if given.count else "a reset", f"an exception: {describe_error(error)}", step)
    return first_difference(episode, again, tolerance)


def first_difference(episode: Episode, again: Episode, tolerance: float = 0.0) -> Divergence | None:
    """Returns where an episode, run again from its seed by its actions, first differs: by the transition, observations before rewards."""
    found = [difference for difference in (_observed(episode, again, tolerance), _rewarded(episode, again, tolerance)) if difference]
    ends = _end(episode, again)
    return min([*found, *([ends] if ends else [])], key=lambda difference: difference.step, default=None)


class _Given:
    """A policy that takes the recorded actions one after another."""

    def __init__(self, episode: Episode) -> None:
        self._actions = episode.action.copy()  # an environment may change what it is given
        self.count = 0

    def __call__(self, observation: Tree) -> Any:
        del observation
        self.count += 1
        return self._actions[self.count - 1]


def _observed(episode: Episode, again: Episode, tolerance: float) -> Divergence | None:
    leaves = [
        (name, recorded[: len(replayed)], replayed)
        for (name, recorded), replayed in zip(
            named_leaves(episode.observation, "observation"), tree.flatten(again.observation), strict=True
        )
    ]
    differs = np.stack([_differs(recorded, replayed, tolerance) for _, recorded, replayed in leaves])  # [leaves, rows]
    rows = np.flatnonzero(differs.any(axis=0))
    if not len(rows):
        return None
    row = int(rows[0])
    name, recorded, replayed = next(leaf for leaf, wrong in zip(leaves, differs, strict=True) if wrong[row])
    is_alone = len(rows) == 1 and row < len(again.reward) - 1
    return Divergence(row if row == 0 or is_alone else row - 1, *_values(name, recorded[row], replayed[row], tolerance), row)


def _rewarded(episode: Episode, again: Episode, tolerance: float) -> Divergence | None:
    recorded, replayed = episode.reward[: again.length], again.reward[: again.length]
    rows = np.flatnonzero(_differs(recorded, replayed, tolerance))
    if not len(rows):
        return None
    row = int(rows[0])
    return Divergence(row, *_values("reward", recorded[row], replayed[row], tolerance), row)


def _end(episode: Episode, again: Episode) -> Divergence | None:
    last = again.length - 1
    if again.length < episode.length:
        ended = "a terminal state" if again.is_terminal else "truncation"
        return Divergence(last, "end", f"not there, for {episode.length - again.length} more transitions follow", ended, last)
    if again.is_terminal != episode.is_terminal:
        kinds = {True: "a terminal state", False: "none or truncation"}
        return Divergence(last, "end", kinds[episode.is_terminal], kinds[again.is_terminal], last)
    return None


def _differs(a: np.ndarray, b: np.ndarray, tolerance: float) -> np.ndarray:
    """Returns whether rows of two arrays [N, ...] differ, [N]; NaN equals NaN."""
    if a.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            if tolerance:
                same |= np.abs(a.astype(np.float64) - b) <= tolerance * np.maximum(1, np.abs(a))
    else:
        same = a == b
    differs: np.ndarray = ~same.reshape(len(same), -1).all(axis=1)
    return differs


def _values(name: str, recorded: np.ndarray, replayed: np.ndarray, tolerance: float) -> tuple[str, str, str]:
    """Returns the place of the first element that differs in a row, with both values in full."""
    a, b = np.atleast_1d(recorded), np.atleast_1d(replayed)
    place = int(np.flatnonzero(_differs(a.reshape(-1, 1), b.reshape(-1, 1), tolerance))[0])
    index = ", ".join(map(str, np.unravel_index(place, a.shape)))
    return f"{name}[{index}]" if np.ndim(recorded) else name, str(a.flat[place]), str(b.flat[place])


class _Replay(Running):
    """Replays the episodes that are chosen; at the end, says how many of all."""

    options: ReplayOptions

    def __init__(self, expected: Expected, options: ReplayOptions) -> None:
        super().__init__(expected, options)
        self._env: Any = None
        self._unmade, self._replayed = "", 0
        self._versions = versions(expected.manifest.packages if expected.manifest else {})
        self._is_chosen = chosen(options.episodes, expected.manifest.counts.get("episodes") if expected.manifest else None)

    def block(self, block: Block) -> Iterator[Fault]:
        for index, (number, seed) in enumerate(zip(block.number.tolist(), block.label("seed", -1), strict=True)):
            if self._is_chosen(number) and int(seed) >= 0 and self._can_run():
                self._replayed += 1
                episode = block.recorded(index).episode
                if found := replay(episode, self.expected.spec, self._env, self.options.tolerance):
                    yield self._fault(found, episode, number)

    def finish(self, table: pd.DataFrame) -> Iterator[NotApplicable | Covered]:
        if self._env is not None:
            self._env.close()
        if self._unmade:
            yield NotApplicable(f"the environment cannot be made: {self._unmade}")
        elif not self._replayed:
            yield NotApplicable(NO_SEED if not (table["seed"] >= 0).any() else NO_SEED_CHOSEN)
        else:
            yield Covered(self._replayed, len(table))

    def _can_run(self) -> bool:
        """Makes the environment, once and only for data that can be replayed."""
        if self._env is None and not self._unmade:
            assert self.expected.make_env is not None, "the check is not made without it"
            try:
                self._env = self.expected.make_env()
            except HindcastError as error:
                self._unmade = str(error)
        return not self._unmade

    def _fault(self, found: Divergence, episode: Episode, number: int) -> Fault:
        expected = f"what {self.expected.spec.env_id} gives from seed {episode.metadata['seed']} by the recorded actions ({self._versions})"
        return Fault(str(found), expected, number, found.step, found._asdict())


def chosen(episodes: Literal["all"] | int, count: int | None) -> Callable[[int], bool]:
    """Returns whether an episode of a number is replayed: so many of `count`, evenly spread, or the first where the count isn't known."""
    if episodes == "all" or (count is not None and episodes >= count):
        return lambda _: True
    if count is None:
        return lambda number: number < episodes
    numbers = frozenset(place * count // episodes for place in range(episodes))
    return numbers.__contains__


def versions(recorded: Mapping[str, str]) -> str:
    """Says with which versions the data were made, and which are installed."""
    if not recorded:
        return "the versions that made the data are not recorded"
    installed = {name: _installed(name) for name in sorted(recorded)}
    differing = [name for name in installed if installed[name] != recorded[name]]
    if not differing:
        return "of " + ", ".join(f"{name} {number}" for name, number in installed.items()) + ", which made the data too"
    return "made with " + ", ".join(f"{name} {recorded[name]}, here {installed[name]}" for name in differing)


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def _make(expected: Expected, options: ReplayOptions) -> _Replay | NotApplicable:
    return NotApplicable("the environment of these data is not known") if expected.make_env is None else _Replay(expected, options)


REPLAY = Check(
    "replay",
    "Episodes that the environment does not give again, from the recorded seed and by the recorded actions, in observation, reward or end.",
    "What the environment does not give was changed after it was recorded, shifted against its actions, or made by another version.",
    "Collect the data again with the versions installed here, or mend what changed them; where the seed is not that of the reset, "
    "or other steps came before, set the check off.",
    ReplayOptions,
    _make,
)
