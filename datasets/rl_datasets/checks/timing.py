"""Checks of when things happen: timestamps, time limits marked as terminal, episodes cut before their limit."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.block import Block
from rl_datasets.checks.check import Check, Fault, NotApplicable, Options, Running, Warns, per_table
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.words import and_more
from rl_datasets.words import count

TIMES = ("time", "timestamp", "timestamps", "timestep", "clock", "t")  # names of a column of times
ASCENDING = 0.9  # share of the episodes that begin later than the one before, from which on the others stand out
FEWEST = 10  # episodes
WINDOW = 0.1  # of the limit: lengths near it, by which a chance end just there is judged
EXCESS = 10.0  # ends at the limit, as a multiple of those of a length near it
ALIKE = 0.8  # share of the truncated episodes that are of one length, from which on others stand out


class TimestampOptions(Warns):
    gap: float = Field(10.0, gt=1, description="time between two steps, as a multiple of the median of the episode")


class _Timestamps(Running):
    options: TimestampOptions

    def __init__(self, expected: Expected, options: TimestampOptions) -> None:
        super().__init__(expected, options)
        self._places = [i for i, leaf in enumerate(expected.observation) if leaf.size == 1 and _is_time(leaf.name)]
        self._begins: list[tuple[int, str, float]] = []
        self._any = bool(self._places)

    def block(self, block: Block) -> Iterator[Fault]:
        for place in self._places:
            times = block.observation[place].reshape(-1).astype(np.float64)
            passed = np.diff(times)
            backward = (passed <= 0) & block.is_inner
            backward[_repeated_ends(block)] = False  # no time passes where the last observation repeats the one before
            yield from self._wrong(block, place, times, np.append(backward, False), "a later time than before")
            usual = np.repeat(_medians(passed, block), np.diff(block.starts))[:-1]
            gaps = (passed > self.options.gap * usual) & block.is_inner & (usual > 0)
            yield from self._wrong(
                block, place, times, np.append(gaps, False), f"at most {self.options.gap:g} times the usual time between"
            )
        for key in sorted(block.metadata.keys() & set(TIMES)):
            for number, value in zip(block.number.tolist(), block.metadata[key], strict=True):
                if value is not None and not isinstance(value, str):
                    self._begins.append((number, key, float(value)))

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:  # noqa: ARG002
        if not self._any and not self._begins:
            yield NotApplicable(f"no column of the observation and no number of the metadata is named {', '.join(TIMES)}")
        for key in sorted({key for _, key, _ in self._begins}):
            numbers, times = zip(*((number, time) for number, each, time in self._begins if each == key), strict=True)
            passed = np.diff(np.array(times))
            if len(passed) >= FEWEST and ASCENDING <= (passed > 0).mean() < 1:
                for place in np.flatnonzero(~(passed > 0)):
                    found = f"{key} {times[place + 1]:.12g}, after {times[place]:.12g} of the episode before"
                    yield Fault(found, "times that go forward, as elsewhere", numbers[place + 1])

    def _wrong(self, block: Block, place: int, times: np.ndarray, wrong: np.ndarray, wanted: str) -> Iterator[Fault]:
        for index, row, steps in block.first_wrong(wrong):
            number, step = block.place(index, row)
            found = f"{self.expected.observation[place].name} {times[row + 1]:.12g} after {times[row]:.12g}{and_more(steps)}"
            yield Fault(found, wanted, number, step + 1)


def _time_limits(table: pd.DataFrame, expected: Expected, options: Options) -> Iterator[Fault | NotApplicable]:  # noqa: ARG001
    """Ends at the limit are compared with those a little before it, for an episode may well end just there."""
    length, terminal = table["length"].to_numpy(), table["is_terminal"].to_numpy(bool)
    known = expected.spec.max_episode_steps
    if known is None and (len(table) < FEWEST or (length == length.max()).sum() < max(3, 0.2 * len(table))):
        yield NotApplicable("the environment has no time limit that is known, and lengths show none")
        return
    limit = int(length.max()) if known is None else known
    at_limit = np.flatnonzero(terminal & (length == limit))
    window = max(round(WINDOW * limit), 1)
    near = (terminal & (length < limit) & (length >= limit - window)).sum() / window
    if len(at_limit) > EXCESS * near and limit > 1:
        why = "the environment's max_episode_steps" if known is not None else "the length that many episodes have and none exceeds"
        for number in at_limit:
            wanted = f"a truncated end at {limit}, {why}"
            yield Fault(f"terminal after just {count(limit, 'transition')}", wanted, int(number), limit)


def _early_cuts(table: pd.DataFrame, expected: Expected, options: Options) -> Iterator[Fault | NotApplicable]:  # noqa: ARG001
    cut = table[~table["is_terminal"].astype(bool)]
    counts = cut["length"].value_counts()
    if len(cut) < FEWEST or counts.iloc[0] < ALIKE * len(cut):
        yield NotApplicable("truncated episodes are few, or of many lengths")
        return
    usual = int(counts.index[0])
    for number in cut.index[cut["length"] != usual].tolist():
        length = int(cut["length"].loc[number])
        yield Fault(
            f"truncated after {count(length, 'transition')}",
            f"{count(usual, 'transition')}, as in {count(counts.iloc[0], 'other')}",
            number,
            length,
        )


def _is_time(name: str) -> bool:
    return name.rpartition("/")[2].lower() in TIMES


def _repeated_ends(block: Block) -> np.ndarray:
    """Returns the rows before the last of terminal episodes whose last observation, which is never read, repeats the one before."""
    ends = block.lasts[np.asarray(block.is_terminal, bool)]
    same = np.ones(len(ends), bool)
    for leaf in block.observation:
        same &= (leaf[ends] == leaf[ends - 1]).all(axis=tuple(range(1, leaf.ndim)))
    return np.asarray(ends[same] - 1)


def _medians(passed: np.ndarray, block: Block) -> np.ndarray:
    """Returns the median of the positive times between two steps of each episode, [E]; 0 where there is none."""
    medians = np.zeros(len(block.number))
    for index, (start, last) in enumerate(zip(block.starts[:-1], block.lasts, strict=True)):
        own = passed[start:last]
        own = own[own > 0]
        medians[index] = np.median(own) if len(own) else 0
    return medians


TIMESTAMPS = Check(
    "timestamps",
    "A time that goes back or stands still, or a gap, in a column or in metadata that is named as one.",
    "Rows are out of order or missing, and a step no longer takes the time that the policy will have.",
    "Sort the rows or divide the episode in the builder.",
    TimestampOptions,
    _Timestamps,
)
TIME_LIMITS = Check(
    "time_limits",
    "Terminal ends just at the time limit, more than chance explains.",
    "A limit that is marked terminal teaches that the world ends there; learners should bootstrap through it.",
    "Mark them truncated in the builder, with discount 1 (`time_limit: repair` does so in an import).",
    Warns,
    per_table(_time_limits),
)
EARLY_CUTS = Check(
    "early_cuts",
    "An episode that was truncated elsewhere than nearly all others that were.",
    "Its recording broke off, or a part of it is missing.",
    "Drop it or find the rest; switch the check off where episodes are cut at will.",
    Warns,
    per_table(_early_cuts),
)
