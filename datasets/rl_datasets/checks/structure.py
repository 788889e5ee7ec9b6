"""Checks of the shape of data sets and episodes: files, ids, lengths, nesting and dtypes, flags, discounts, the last step."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rl_datasets.checks.block import Block, Misfit
from rl_datasets.checks.check import Check, Fault, NotApplicable, Options, Running, per_block, per_table
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.words import and_more
from rl_datasets.recorded import FLAGS as FLAG_NAMES
from rl_datasets.recorded import Damage
from rl_datasets.words import count


class _Files(Running):
    def damage(self, damage: Damage) -> Iterator[Fault]:
        yield Fault(f"{damage.file}: {damage.found}", damage.expected, evidence={"file": damage.file})


class _Lengths(Running):
    def __init__(self, expected: Expected, options: Options) -> None:
        super().__init__(expected, options)
        self._limit = expected.spec.max_episode_steps

    def misfit(self, misfit: Misfit) -> Iterator[Fault]:
        steps = len(misfit.episode.reward)
        if steps < 2:
            yield Fault(count(steps, "step"), "at least 2 steps, which make one transition", misfit.number)
        elif self._limit is not None and steps - 1 > self._limit:
            yield self._too_long(misfit.number, steps - 1)

    def block(self, block: Block) -> Iterator[Fault]:
        if self._limit is not None:
            for index in np.flatnonzero(block.lengths > self._limit):
                yield self._too_long(int(block.number[index]), int(block.lengths[index]))

    def finish(self, table: pd.DataFrame) -> Iterator[Fault]:
        if table.empty:
            yield Fault("no episode in the data set", "at least one")

    def _too_long(self, number: int, length: int) -> Fault:
        return Fault(count(length, "transition"), f"at most {self._limit}, the environment's max_episode_steps", number, self._limit)


class _Spec(Running):
    def misfit(self, misfit: Misfit) -> Iterator[Fault]:
        for found, wanted in misfit.faults:
            yield Fault(found, wanted, misfit.number)


class _Flags(Running):
    def __init__(self, expected: Expected, options: Options) -> None:
        super().__init__(expected, options)
        self._known = False

    def misfit(self, misfit: Misfit) -> Iterator[Fault]:
        steps = len(misfit.episode.reward)
        if misfit.flags is not None:
            self._known = True
            if misfit.flags.shape != (steps, len(FLAG_NAMES)):
                yield Fault(f"flags of {count(len(misfit.flags), 'step')}", f"flags of {count(steps, 'step')}", misfit.number)

    def block(self, block: Block) -> Iterator[Fault]:
        if block.flags is None:
            return
        self._known = True
        firsts, lasts = block.starts[:-1], block.lasts
        right = np.zeros_like(block.flags)
        right[firsts, 0] = right[lasts, 1] = True
        right[lasts, 2] = block.is_terminal
        if (block.flags == right).all():
            return
        for name, found, wanted in zip(FLAG_NAMES, block.flags.T, right.T, strict=True):
            for index, row, steps_wrong in block.first_wrong(found != wanted):
                step, steps = int(row - block.starts[index]), int(block.lengths[index]) + 1
                yield Fault(
                    f"{name} {found[row]}{and_more(steps_wrong)}",
                    f"{wanted[row]} on step {step} of {steps}",
                    int(block.number[index]),
                    step,
                )

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:
        if not self._known and len(table):
            yield NotApplicable("the episodes come from no file, and only files hold flags")


def _discount(block: Block, expected: Expected, options: Options) -> Iterator[Fault]:  # noqa: ARG001
    """0 exactly on the transition into a terminal state, 1 on every other, truncation included."""
    wanted = np.ones_like(block.discount)
    wanted[block.lasts - 1] = ~block.is_terminal
    for index, row, steps_wrong in block.first_wrong((block.discount != wanted) & ~block.is_last):
        end = "its transition leads into a terminal state" if wanted[row] == 0 else "its transition doesn't lead into a terminal state"
        found = f"discount {block.discount[row]:g}{and_more(steps_wrong)}"
        yield Fault(found, f"{wanted[row]:g}, for {end}", *block.place(index, row))


def _last_step(block: Block, expected: Expected, options: Options) -> Iterator[Fault]:  # noqa: ARG001
    for name, array in (("action", block.action), ("reward", block.reward), ("discount", block.discount)):
        lasts = array[block.lasts]
        for index in np.flatnonzero(lasts.reshape(len(lasts), -1).any(axis=1)):  # NaN counts as well
            found = f"{name} {lasts[index].tolist()} on the last step"
            yield Fault(found, "zeros", int(block.number[index]), int(block.lengths[index]))


def _episode_ids(table: pd.DataFrame, expected: Expected, options: Options) -> Iterator[Fault]:  # noqa: ARG001
    ids = table["episode_id"]
    for number in np.flatnonzero(ids == ""):
        yield Fault("an empty id", "an id of its own for each episode", int(number))
    for _, same in ids[ids.duplicated(keep=False) & (ids != "")].groupby(ids, sort=False):
        yield Fault(f"{len(same)} episodes of this id", "an id of its own for each episode", int(same.index[0]))


FILES = Check(
    "files",
    "A shard that is missing, cut, damaged (its checksums), of other counts than the description says, or not named there.",
    "What cannot be read is missing from every result; what is not named may be half of another version.",
    "Restore the folder with 'dvc checkout --force' or from where it came, or make the data again.",
    Options,
    _Files,
)
EPISODE_IDS = Check(
    "episode_ids",
    "An empty id, or one that two episodes have.",
    "Splits, quarantine and reports name episodes by id.",
    "Give every episode an id of its own in the builder.",
    Options,
    per_table(_episode_ids),
)
FLAGS = Check(
    "flags",
    "is_first other than on the first step alone, is_last other than on the last alone, is_terminal before the last step.",
    "Other readers of RLDS divide episodes and stop bootstrapping by these flags.",
    "Write is_first on the first step, is_last on the last, and is_terminal there where the environment terminated.",
    Options,
    _Flags,
)
LENGTHS = Check(
    "lengths",
    "An episode without a transition or beyond the environment's step limit; a data set without an episode.",
    "An episode beyond the limit is two that were joined, or of another environment.",
    "Divide or drop the episode in the builder, or correct max_episode_steps in spec().",
    Options,
    _Lengths,
)
SPEC = Check(
    "spec",
    "Observations nested otherwise than in the spec; an array of another shape or dtype, or without one row a step.",
    "Learners read columns by their place.",
    "Correct spec() in the builder, or convert the array there.",
    Options,
    _Spec,
)
DISCOUNT = Check(
    "discount",
    "A discount other than 0 on the transition into a terminal state and 1 on every other, truncation included.",
    "It decides where learners bootstrap; a 0 at a time limit teaches that the world ends there.",
    "Derive the discount from the environment's `terminated` in the builder; truncation keeps 1.",
    Options,
    per_block(_discount),
)
LAST_STEP = Check(
    "last_step",
    "An action, reward or discount on the last step, which holds only the last observation.",
    "Something there is a sign that rows are shifted by one.",
    "Write zeros there; nothing follows the last observation.",
    Options,
    per_block(_last_step),
)
