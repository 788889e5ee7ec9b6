"""Checks of what stays the same from step to step where it otherwise changes: frozen sensors, idle actions; and blank images.

A run of R equal values among N steps, of which a share p repeats the one before, is chance with a probability of at most N p**R.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.block import Block
from rl_datasets.checks.check import Check, Fault, NotApplicable, Options, Running, Warns
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.folding import as_columns
from rl_datasets.checks.leaf import Leaf
from rl_datasets.checks.words import and_more
from rl_datasets.words import count

SHORTEST = 8  # repeats in a row that are looked at; a power of two
USUAL = 0.3  # share of repeats from which on a column is one that rests
KEPT = 64  # runs remembered a column
RARE = 0.1  # share of the images up to which odd ones stand out
DARK = 1  # greatest value of an image that holds nothing


class RepeatOptions(Warns):
    steps: int = Field(10, ge=SHORTEST, description="fewest repeats in a row")
    chance: float = Field(1e-6, gt=0, lt=1, description="probability of a run by chance, below which it is named")


class _Run(NamedTuple):
    repeats: int
    number: int
    step: int
    value: float


class Runs:
    """The longest runs of repeats of some columns, as blocks pass."""

    def __init__(self, count: int) -> None:
        self.rows = 0  # pairs of neighbouring steps
        self.repeats = np.zeros(count, np.int64)
        self.kept: list[list[_Run]] = [[] for _ in range(count)]

    def add(self, block: Block, same: np.ndarray | None, values: np.ndarray, others: np.ndarray | None) -> None:
        """same: [D, N - 1] bool, whether row t + 1 repeats row t, never across episodes; None where none does. values: [N, D].

        others: [N - 1] bool, whether anything else changes; a run in which nothing does is rest, and is left out.
        """
        self.rows += int(block.is_inner.sum())
        for column, repeated in enumerate(() if same is None else same):
            count = int(np.count_nonzero(repeated))
            self.repeats[column] += count
            if count >= SHORTEST and self.repeats[column] < USUAL * self.rows and _has_run(repeated):
                self._collect(block, column, repeated, values[:, column], others)

    def unlikely(self, column: int, options: RepeatOptions) -> list[_Run]:
        """Returns the runs of a column that are no chance, the longest first."""
        found = []
        repeats = int(self.repeats[column])
        if repeats >= USUAL * self.rows:
            return []
        for run in self.kept[column]:
            share = max(repeats - run.repeats, 1) / max(self.rows, 1)
            if run.repeats >= options.steps and self.rows * share**run.repeats < options.chance:
                found.append(run)
        return found

    def _collect(self, block: Block, column: int, repeated: np.ndarray, values: np.ndarray, others: np.ndarray | None) -> None:
        ends = np.flatnonzero(np.diff(repeated.astype(np.int8), prepend=0, append=0))
        kept = self.kept[column]
        for start, end in ends.reshape(-1, 2):
            if end - start >= SHORTEST and (others is None or others[start:end].any()):
                index, step = block.locate(int(start))
                kept.append(_Run(int(end - start), int(block.number[index]), step, float(values[start])))
        kept.sort(key=lambda run: (-run.repeats, run.number, run.step))
        del kept[KEPT:]


class _FrozenSensors(Running):
    options: RepeatOptions

    def __init__(self, expected: Expected, options: RepeatOptions) -> None:
        super().__init__(expected, options)
        self._runs = [Runs(leaf.size if _is_columns(leaf) else 1) for leaf in expected.observation]
        self._low = [np.full(leaf.size if _is_columns(leaf) else 0, np.inf) for leaf in expected.observation]
        self._high = [-low for low in self._low]

    def block(self, block: Block) -> Iterator[Fault]:
        if len(block.reward) < 2:
            return
        moving, sames, inner = block.is_action_changed.copy(), [], block.lasts[:-1]
        for place, leaf in enumerate(self.expected.observation):
            if _is_columns(leaf):
                same = block.observation_changes(place) == 0
            else:
                same = (block.leaf_hashes[place][1:] == block.leaf_hashes[place][:-1])[:, None]
            same[inner] = False
            sames.append(as_columns(same) if same.any() else None)
            moving |= True if sames[-1] is None else ~sames[-1].all(axis=0)
        for place, (leaf, columns) in enumerate(zip(self.expected.observation, sames, strict=True)):
            values = np.zeros((len(block.reward), 1))
            if _is_columns(leaf):
                values, (low, high) = block.observation_rows(place), block.observation_extremes(place)
                self._low[place], self._high[place] = np.fmin(self._low[place], low), np.fmax(self._high[place], high)
            self._runs[place].add(block, columns, values, moving)
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault]:  # noqa: ARG002
        for place, leaf in enumerate(self.expected.observation):
            found: dict[tuple[int, int], list[tuple[int, _Run]]] = {}  # by episode and step
            for column in range(len(self._runs[place].kept)):
                for run in self._runs[place].unlikely(column, self.options):
                    if not (_is_columns(leaf) and run.value in (self._low[place][column], self._high[place][column])):  # clipped
                        found.setdefault((run.number, run.step), []).append((column, run))
            for (number, step), runs in sorted(found.items()):
                names = [leaf.column(column) if _is_columns(leaf) else leaf.name for column, _ in runs]
                more = f" and {count(len(names) - 3, 'column')} more" if len(names) > 3 else ""
                words = f"{', '.join(names[:3])}{more} the same for {runs[0][1].repeats + 1} steps"
                yield Fault(words, "values that change, as they do elsewhere", number, step)


class _IdleActions(Running):
    options: RepeatOptions

    def __init__(self, expected: Expected, options: RepeatOptions) -> None:
        super().__init__(expected, options)
        self._runs = Runs(1)
        low, high = expected.action.spec.bounds()
        self._low, self._high = low.reshape(-1), high.reshape(-1)

    def block(self, block: Block) -> Iterator[Fault]:
        if len(block.reward) > 1:
            same: np.ndarray = np.logical_not(block.is_action_changed | block.is_last[:-1] | block.is_last[1:])
            if self.expected.action.is_float:
                rows = np.flatnonzero(same)
                repeated = block.action_rows[rows + 1]
                same[rows] = ((repeated > self._low) & (repeated < self._high)).any(axis=1)  # all at a bound is saturation
            self._runs.add(block, same[None], block.action_rows[:, :1], None)
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault]:  # noqa: ARG002
        for run in self._runs.unlikely(0, self.options):
            yield Fault(f"the same action for {run.repeats + 1} steps", "actions that change, as they do elsewhere", run.number, run.step)


class _Images(Running):
    """Keeps the episodes with odd frames; where many frames are such, they are no fault."""

    def __init__(self, expected: Expected, options: Options) -> None:
        super().__init__(expected, options)
        self._frames = 0
        self._odd: dict[tuple[str, str], tuple[int, list[Fault]]] = {}  # by leaf and what was expected: frames, faults

    def block(self, block: Block) -> Iterator[Fault]:
        self._frames += len(block.reward)
        for place, leaf in enumerate(self.expected.observation):
            if leaf.spec.is_image:
                pixels = block.observation[place].reshape(len(block.reward), -1)
                high, low = pixels.max(axis=1), pixels.min(axis=1)
                self._add(block, leaf, high == low, high, "one value, {}, in all of it", "an image with something on it")
                dark = (high <= DARK) & (high != low)
                self._add(block, leaf, dark, high, "no value above {}", "an image in 0 to 255; was it scaled to 0 to 1?")
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault]:  # noqa: ARG002
        for frames, faults in self._odd.values():
            if frames <= RARE * self._frames:
                yield from faults

    def _add(self, block: Block, leaf: Leaf, odd: np.ndarray, high: np.ndarray, words: str, wanted: str) -> None:
        frames, faults = self._odd.setdefault((leaf.name, wanted), (0, []))
        self._odd[leaf.name, wanted] = frames + int(odd.sum()), faults
        for index, row, steps in block.first_wrong(odd):
            if len(faults) < KEPT:
                faults.append(Fault(f"{leaf.name} with {words.format(high[row])}{and_more(steps)}", wanted, *block.place(index, row)))


def _make_images(expected: Expected, options: Options) -> Running | NotApplicable:
    if any(leaf.spec.is_image for leaf in expected.observation):
        return _Images(expected, options)
    return NotApplicable("no observation is an image")


def _is_columns(leaf: Leaf) -> bool:
    return leaf.is_float and leaf.is_narrow


def _has_run(repeated: np.ndarray) -> bool:
    """Whether SHORTEST repeats stand in a row. repeated: [N] bool."""
    width = 1
    while width < SHORTEST:
        repeated = repeated[:-width] & repeated[width:]
        width *= 2
    return bool(repeated.any())


FROZEN_SENSORS = Check(
    "frozen_sensors",
    "An observation's column, or an image, that repeats for many steps although it otherwise changes and other things go on changing.",
    "The sensor or its logger hung; what was done meanwhile is paired with a state that was not so.",
    "Cut the stretch out in the builder; raise steps where the environment rests.",
    RepeatOptions,
    _FrozenSensors,
)
IDLE_ACTIONS = Check(
    "idle_actions",
    "One and the same action for many steps, not at a bound, although actions otherwise change.",
    "The controller was off or its log was filled up with the last value.",
    "Cut the stretch out in the builder; raise steps where the behaviour rests.",
    RepeatOptions,
    _IdleActions,
)
IMAGES = Check(
    "images",
    "An image of one value, or one without a value above 1, among others that are not.",
    "A camera was off, or images in 0 to 1 were cast to integers, which leaves nothing of them.",
    "Drop the frames in the builder, or multiply by 255 before the cast; switch the check off where such images occur.",
    Warns,
    _make_images,
)
