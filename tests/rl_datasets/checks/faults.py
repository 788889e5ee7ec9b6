"""Kinds of fault, each put alone into a clean data set, with the check that should find it and the place that it should name."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rl_datasets.recorded import Recorded
from rl_datasets.schema import Episode
from tests.rl_datasets.checks.clean_data import swing_episode

AT, STEP = 7, 12  # the episode and the step that most faults are put at
ID = f"toy-{AT:03d}"
ALL = ("discrete", "continuous", "image")

Items = list[Episode | Recorded]


class Place(NamedTuple):
    """What a finding should name; an empty id is the data set."""

    episode_id: str = ID
    step: int | None = STEP


def from_episode(number: int) -> Place:
    """The first of a range of episodes."""
    return Place(f"toy-{number:03d}", None)


HERE, EPISODE, WHOLE = Place(), Place(ID, None), Place("", None)


@dataclass(frozen=True)
class Fault:
    """`put` takes the clean episodes and gives them with the fault."""

    name: str
    check: str
    put: Callable[[list[Episode]], Sequence[Episode | Recorded]]
    place: Place = HERE
    into: tuple[str, ...] = ALL


def at(change: Callable[[Episode], Episode], number: int = AT) -> Callable[[list[Episode]], list[Episode]]:
    """Changes one episode."""
    return lambda episodes: [change(episode) if index == number else episode for index, episode in enumerate(episodes)]


def everywhere(change: Callable[[Episode], Episode]) -> Callable[[list[Episode]], list[Episode]]:
    return lambda episodes: [change(episode) for episode in episodes]


def between(change: Callable[[Episode], Episode], first: int, end: int) -> Callable[[list[Episode]], list[Episode]]:
    """Changes consecutive episodes."""
    return lambda episodes: [change(episode) if first <= index < end else episode for index, episode in enumerate(episodes)]


def put(field: str, where: Any, value: Any) -> Callable[[Episode], Episode]:
    """Sets elements of an array."""

    def change(episode: Episode) -> Episode:
        array = getattr(episode, field).copy()
        array[where] = value
        return replace(episode, **{field: array})

    return change


def sometimes(column: int, *values: float) -> Callable[[Episode], Episode]:
    """Sets a column of the observation to each of some values in a few of the steps."""
    return both(*(put("observation", (slice(5 + 7 * place, None, 40), column), value) for place, value in enumerate(values)))


def scaled(field: str, factor: float) -> Callable[[Episode], Episode]:
    """Multiplies the reward, the action, or the last column of the observation."""

    def change(episode: Episode) -> Episode:
        array = getattr(episode, field).copy()
        array[..., -1 if field == "observation" else slice(None)] *= factor
        return replace(episode, **{field: array})

    return change


def fahrenheit(episode: Episode) -> Episode:
    return replace(episode, observation=(episode.observation * 1.8 + 32).astype(np.float32))


def mapped(field: str, function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Episode], Episode]:
    return lambda episode: replace(episode, **{field: function(getattr(episode, field))})


def flagged(where: tuple[int, int], value: bool) -> Callable[[list[Episode]], list[Recorded]]:
    """Stores one flag other than it should be."""

    def change(episodes: list[Episode]) -> list[Recorded]:
        items = []
        for index, episode in enumerate(episodes):
            flags = np.zeros((episode.length + 1, 3), bool)
            flags[0, 0] = flags[-1, 1] = True
            flags[-1, 2] = episode.is_terminal
            if index == AT:
                flags[where] = value
            items.append(Recorded(episode, flags))
        return items

    return change


def cut(episode: Episode, start: int, end: int) -> Episode:
    """Leaves out the transitions from `start` up to `end`; an end that is cut off is truncated."""
    rows = np.r_[0:start, end : episode.length + 1]
    arrays = {field: getattr(episode, field)[rows].copy() for field in ("observation", "action", "reward", "discount")}
    is_terminal = episode.is_terminal and end < episode.length
    for field in ("action", "reward", "discount"):
        arrays[field][-1] = 0
    if not is_terminal:
        arrays["discount"][-2:-1] = 1
    return replace(episode, **arrays, is_terminal=is_terminal)


def shifted(field: str, rows: int) -> Callable[[Episode], Episode]:
    """Moves a column so many rows down; what falls off is lost, and the last row stays zero."""

    def change(episode: Episode) -> Episode:
        array = np.zeros_like(getattr(episode, field))
        moved = np.roll(getattr(episode, field)[:-1], rows, axis=0)
        moved[(slice(0, rows) if rows > 0 else slice(rows, None))] = 0
        array[:-1] = moved
        return replace(episode, **{field: array})

    return change


def both(*changes: Callable[[Episode], Episode]) -> Callable[[Episode], Episode]:
    def change(episode: Episode) -> Episode:
        for each in changes:
            episode = each(episode)
        return episode

    return change


def joined_with_next(episodes: list[Episode]) -> list[Episode]:
    """Makes one episode of two, whose lost end is no longer seen."""
    first, second = episodes[AT], episodes[AT + 1]
    arrays = {field: np.concatenate([getattr(first, field)[:-1], getattr(second, field)]) for field in ("observation", "action", "reward")}
    discount = np.concatenate([np.ones(first.length, np.float32), second.discount])
    joined = replace(first, **arrays, discount=discount, is_terminal=second.is_terminal)
    return [*episodes[:AT], joined, *episodes[AT + 2 :]]


def copied(change: Callable[[Episode], Episode] = lambda episode: episode) -> Callable[[list[Episode]], list[Episode]]:
    return lambda episodes: [*episodes, replace(change(episodes[AT]), episode_id="copy", metadata={**episodes[AT].metadata, "seed": 999})]


def noisy(array: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(0).normal(0, 1e-5, array.shape)
    return (array + noise * (array != 0)).astype(array.dtype)


def all_terminal(episode: Episode) -> Episode:
    discount = episode.discount.copy()
    discount[-2] = 0
    return replace(episode, is_terminal=True, discount=discount)


def with_metadata(**values: Any) -> Callable[[Episode], Episode]:
    return lambda episode: replace(episode, metadata={**episode.metadata, **values})


def times(wrong: Callable[[int], float]) -> Callable[[list[Episode]], list[Episode]]:
    return lambda episodes: [with_metadata(timestamp=wrong(index))(episode) for index, episode in enumerate(episodes)]


def clocks(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[list[Episode]], list[Episode]]:
    return at(lambda episode: replace(episode, observation={**episode.observation, "time": change(episode.observation["time"])}))


def two_kinds(episodes: list[Episode]) -> list[Episode]:
    """Half of the episodes under the same name as the others, by a policy that does far better."""
    calm = [replace(swing_episode(100 + index, 120, gain=-0.3), episode_id=f"more-{index}") for index in range(40)]
    better = [replace(episode, reward=(episode.reward / 50).astype(np.float32)) for episode in calm[:20]]
    return [*episodes, *better, *calm[20:]]


def many_in_one(episodes: list[Episode]) -> list[Episode]:
    """Joins an episode with so many copies of others that it is far longer than any."""
    joined = episodes
    for _ in range(25):
        joined = joined_with_next(joined)
    return [*joined, *(replace(episode, episode_id=f"{episode.episode_id}-again") for episode in episodes[AT + 1 :])]


FAULTS: tuple[Fault, ...] = (
    Fault("an id twice", "episode_ids", at(lambda e: replace(e, episode_id="toy-003")), Place("toy-003", None)),
    Fault("an empty id", "episode_ids", at(lambda e: replace(e, episode_id="")), WHOLE),
    Fault("is_first inside", "flags", flagged((STEP, 0), True)),
    Fault("is_first lost", "flags", flagged((0, 0), False), Place(step=0)),
    Fault("is_last inside", "flags", flagged((STEP, 1), True)),
    Fault("is_terminal inside", "flags", flagged((STEP, 2), True)),
    Fault(
        "beyond the step limit",
        "lengths",
        lambda es: joined_with_next([*es[:AT], es[8], *es[AT + 1 :]]),
        Place("toy-008", 120),
        ("continuous",),
    ),
    Fault("no transition", "lengths", at(lambda e: cut(e, 0, e.length)), EPISODE),
    Fault("no episode", "lengths", lambda _: [], WHOLE),
    Fault("float64 rewards", "spec", at(mapped("reward", lambda a: a.astype(np.float64))), EPISODE),
    Fault("an image as floats", "spec", at(mapped("observation", lambda a: a / np.float32(255))), EPISODE, ("image",)),
    Fault("a column missing", "spec", at(mapped("observation", lambda a: a[..., :-1])), EPISODE),
    Fault("an action short", "spec", at(mapped("action", lambda a: a[:-1])), EPISODE),
    Fault("nested otherwise", "spec", at(lambda e: replace(e, observation={"place": e.observation})), EPISODE),
    Fault("discount 0 inside", "discount", at(put("discount", STEP, 0))),
    Fault("gamma as discount", "discount", at(mapped("discount", lambda a: (a * 0.99).astype(np.float32))), Place(step=0)),
    Fault("terminal lost", "discount", at(lambda e: replace(e, is_terminal=False)), Place(step=24), ("discrete",)),
    Fault("truncation with discount 0", "discount", at(put("discount", -2, 0)), Place(step=119), ("continuous",)),
    Fault("an action on the last step", "last_step", at(put("action", -1, 1)), Place(step=120), ("continuous",)),
    Fault("a reward on the last step", "last_step", at(put("reward", -1, 1)), Place(step=25), ("discrete",)),
    Fault("NaN observation", "finite", at(put("observation", (STEP, 1), np.nan)), into=("discrete", "continuous")),
    Fault("infinite reward", "finite", at(put("reward", STEP, np.inf))),
    Fault("NaN action", "finite", at(put("action", STEP, np.nan)), into=("continuous",)),
    Fault("an action above its bound", "action_bounds", at(put("action", STEP, 2.5)), into=("continuous",)),
    Fault("a category that is none", "action_bounds", at(put("action", STEP, 4)), into=("discrete", "image")),
    Fault("a category below 0", "action_bounds", at(put("action", STEP, -1)), into=("discrete", "image")),
    Fault("an observation beyond its bound", "observation_bounds", at(put("observation", (STEP, 0), 101)), into=("discrete", "continuous")),
    Fault("a reward out of range", "reward_range", at(put("reward", STEP, 2)), into=("discrete", "continuous")),
    Fault("1e30 in an observation", "outliers", at(put("observation", (STEP, 2), 1e30)), into=("discrete", "continuous")),
    Fault("another unit in one step", "outliers", at(put("observation", (STEP, 2), -3000)), into=("discrete", "continuous")),
    Fault("-1e6 as a reward", "outliers", at(put("reward", STEP, -1e6))),
    Fault("1e9 as an action", "outliers", at(put("action", STEP, 1e9)), into=("continuous",)),
    Fault("-999 for what is missing, beside 1e6", "outliers", everywhere(sometimes(2, -999, 1e6)), Place(step=5), ("continuous",)),
    Fault("1e6 for what is missing, beside -999", "outliers", everywhere(sometimes(2, -999, 1e6)), Place(step=12), ("continuous",)),
    Fault("degrees for radians in some episodes", "units", between(scaled("observation", 57.3), 9, 16), from_episode(9), ("continuous",)),
    Fault("thousandths in the first half", "units", between(scaled("observation", 1000), 0, 30), from_episode(0), ("discrete",)),
    Fault("thousandths from an episode on", "units", between(scaled("observation", 1000), 41, 99), from_episode(41), ("discrete",)),
    Fault("Fahrenheit from an episode on", "units", between(fahrenheit, 50, 99), from_episode(50), ("discrete",)),
    Fault("rewards in cents from an episode on", "units", between(scaled("reward", 100), 14, 99), from_episode(14), ("continuous",)),
    Fault(
        "rewards in thousandths in some episodes",
        "units",
        between(scaled("reward", 1000), 9, 16),
        from_episode(9),
        ("discrete", "continuous", "image"),
    ),
    Fault("actions in other units in some episodes", "units", between(scaled("action", 1 / 57.3), 9, 16), from_episode(9), ("continuous",)),
    Fault(
        "a sensor not connected in some episodes",
        "units",
        between(put("observation", (slice(None), 2), 0.5), 9, 16),
        from_episode(9),
        ("discrete", "continuous"),
    ),
    Fault("two episodes joined", "jumps", joined_with_next, Place(step=119), ("continuous",)),
    Fault("rows missing", "jumps", at(lambda e: cut(e, 30, 80)), Place(step=29), ("continuous",)),
    Fault("a sensor not connected", "constant", everywhere(put("observation", (slice(None), 1), 0)), WHOLE, ("discrete", "continuous")),
    Fault("rewards not filled in", "constant", everywhere(put("reward", slice(None), 0)), WHOLE),
    Fault("a camera switched off", "constant", everywhere(put("observation", slice(None), 7)), WHOLE, ("image",)),
    Fault(
        "a clock that goes back",
        "timestamps",
        clocks(lambda a: np.where(np.arange(len(a)) >= STEP, a - 1, a).astype(np.float32)),
        into=("nested with an image and a clock",),
    ),
    Fault(
        "a gap in time",
        "timestamps",
        clocks(lambda a: np.where(np.arange(len(a)) >= STEP, a + 9, a).astype(np.float32)),
        into=("nested with an image and a clock",),
    ),
    Fault("an episode out of order", "timestamps", times(lambda index: 1000.0 + index - 5 * (index == AT)), EPISODE),
    Fault("a time limit marked terminal", "time_limits", at(all_terminal), Place(step=120), ("continuous",)),
    Fault("all time limits marked terminal", "time_limits", everywhere(all_terminal), Place("toy-000", 120), ("continuous",)),
    Fault("an episode broken off", "early_cuts", at(lambda e: cut(e, 70, e.length)), Place(step=70), ("continuous",)),
    Fault("rewards a row late in one episode", "reward_shift", at(shifted("reward", 1)), Place(step=1), ("continuous",)),
    Fault("rewards a row early in one episode", "reward_shift", at(shifted("reward", -1)), Place(step=1), ("continuous",)),
    Fault("rewards a row late", "reward_shift", everywhere(shifted("reward", 1)), WHOLE, ("discrete", "continuous")),
    Fault("rewards a row early", "reward_shift", everywhere(shifted("reward", -1)), WHOLE, ("continuous",)),
    Fault("actions paired with the next observation", "action_shift", everywhere(shifted("action", 1)), WHOLE, ("discrete", "continuous")),
    Fault("actions a row early", "action_shift", everywhere(shifted("action", -1)), WHOLE, ("discrete", "continuous")),
    Fault("actions a row late in one episode", "action_shift", at(shifted("action", 1)), Place(step=1), ("continuous",)),
    Fault("rewards a row late in some episodes", "reward_shift", between(shifted("reward", 1), 9, 16), from_episode(9), ("continuous",)),
    Fault("rewards a row late in the first half", "reward_shift", between(shifted("reward", 1), 0, 12), from_episode(0), ("continuous",)),
    Fault(
        "rewards a row early from an episode on", "reward_shift", between(shifted("reward", -1), 17, 99), from_episode(17), ("continuous",)
    ),
    Fault("actions a row late in some episodes", "action_shift", between(shifted("action", 1), 9, 16), from_episode(9), ("continuous",)),
    Fault(
        "actions a row early from an episode on", "action_shift", between(shifted("action", -1), 14, 99), from_episode(14), ("continuous",)
    ),
    Fault("actions a row late, one column of many moves", "action_shift", everywhere(shifted("action", 1)), WHOLE, ("crowded",)),
    Fault("actions a row late, which only rewards tell", "action_shift", everywhere(shifted("action", 1)), WHOLE, ("betting",)),
    Fault(
        "a column frozen",
        "frozen_sensors",
        at(lambda e: put("observation", (slice(STEP, STEP + 15), 2), e.observation[STEP, 2])(e)),
        into=("discrete", "continuous"),
    ),
    Fault("all sensors frozen", "frozen_sensors", at(lambda e: put("observation", slice(STEP, STEP + 15), e.observation[STEP])(e))),
    Fault("no action for a while", "idle_actions", at(put("action", slice(STEP, STEP + 30), 0)), into=("continuous",)),
    Fault("a black frame", "images", at(put("observation", STEP, 0)), into=("image",)),
    Fault(
        "images scaled to 0 to 1",
        "images",
        at(mapped("observation", lambda a: (a / 255).round().astype(np.uint8))),
        Place(step=0),
        ("image",),
    ),
    Fault(
        "an episode of clipped actions",
        "saturated_actions",
        at(mapped("action", lambda a: (2 * np.sign(a)).astype(np.float32))),
        Place(step=0),
        ("continuous",),
    ),
    Fault(
        "all actions clipped",
        "saturated_actions",
        everywhere(mapped("action", lambda a: (2 * np.sign(a)).astype(np.float32))),
        WHOLE,
        ("continuous",),
    ),
    Fault("actions normalised", "action_range", everywhere(mapped("action", lambda a: np.clip(a, -1, 1))), WHOLE, ("continuous",)),
    Fault("actions in other units", "action_range", everywhere(mapped("action", lambda a: a / 100)), WHOLE, ("continuous",)),
    Fault(
        "an action never taken", "coverage", everywhere(mapped("action", lambda a: np.where(a == 1, 0, a))), WHOLE, ("discrete", "image")
    ),
    Fault("one and the same action", "coverage", everywhere(put("action", slice(0, -1), 1)), WHOLE, ("discrete", "image")),
    Fault("an episode twice", "duplicates", copied(), EPISODE),
    Fault("a copy with noise", "near_duplicates", copied(mapped("observation", noisy)), Place("copy", None), ("discrete", "continuous")),
    Fault("a copy without its beginning", "near_duplicates", copied(lambda e: cut(e, 0, 9)), Place("copy", None)),
    Fault("a copy with other rewards", "near_duplicates", copied(mapped("reward", lambda a: a / 2)), Place("copy", None)),
    Fault("an episode's rewards in other units", "return_outliers", at(mapped("reward", lambda a: a * 1000)), EPISODE),
    Fault("many episodes in one", "length_outliers", many_in_one, EPISODE, ("discrete",)),
    Fault("two policies under one name", "mixture", two_kinds, WHOLE, ("continuous",)),
    Fault(
        "a policy with one episode",
        "imbalance",
        lambda es: [*es[:AT], with_metadata(policy="other")(cut(es[AT], 4, es[AT].length)), *es[AT + 1 :]],
        EPISODE,
    ),
    Fault("a seed twice", "seeds", at(with_metadata(seed=3)), Place("toy-003", None)),
)


@dataclass(frozen=True)
class FileFault:
    """`put` takes the shards of a data set and does something to the files; `file` is the number of the one at fault, or its name."""

    name: str
    put: Callable[[list[Path]], object]
    file: int | str = 1


def flipped(shards: list[Path]) -> None:
    content = bytearray(shards[1].read_bytes())
    content[len(content) // 2] ^= 1
    shards[1].write_bytes(content)


STRAY = "toy-other.tfrecord-00000-of-00001"
FILE_FAULTS: tuple[FileFault, ...] = (
    FileFault("a shard missing", lambda shards: shards[1].unlink()),
    FileFault("a shard cut", lambda shards: os.truncate(shards[1], shards[1].stat().st_size - 40)),
    FileFault("a shard emptied", lambda shards: os.truncate(shards[1], 0)),
    FileFault("a bit flipped", flipped),
    FileFault("a shard that holds another's episodes", lambda shards: shards[1].write_bytes(shards[0].read_bytes())),
    FileFault("a stray shard", lambda shards: shutil.copy(shards[0], shards[0].with_name(STRAY)), STRAY),
)
