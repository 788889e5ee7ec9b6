"""Checks of a data set as a whole: which episodes repeat others or stand apart, and how it is made up."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.block import Block
from rl_datasets.checks.check import Check, Fault, NotApplicable, Options, Running, Warns, per_table
from rl_datasets.checks.expected import Expected
from rl_datasets.similarity import Sketcher, can_be_near, near_pairs

NAMED = 5  # ids written out for each group
FEWEST = 20  # episodes that say what is usual
APART = 6.0  # distance of two groups, in deviations within them, that makes them two
PART = 0.1  # least share of either
MANY_STEPS = 64  # of an episode, on average, from which on some of its steps tell it
COLUMNS_OF_CHOICE = 3  # that decide which


class FarOptions(Warns):
    factor: float = Field(10.0, gt=1, description="distance from the median, in widths of the range that holds 90 % of the episodes")


class ImbalanceOptions(Warns):
    share: float = Field(0.01, ge=0, lt=0.5, description="of the transitions, below which a policy or an environment is scarce")


def _duplicates(table: pd.DataFrame, expected: Expected, options: Options) -> Iterator[Fault]:  # noqa: ARG001
    """Yields one fault a group, in the order of its first episode; the copies are set aside, not the first."""
    content = table["content"]
    twice = table[content.duplicated(keep=False) & (content != 0)]
    for _, ids in twice.groupby("content", sort=False)["episode_id"]:
        first, *copies = ids.index.tolist()
        found = f"the same content in {_named([str(episode_id) for episode_id in ids.iloc[1:]])}"
        there = f"the same content in '{ids.iloc[0]}'"
        yield Fault(found, "content of its own for each episode", first, set_aside=tuple(copies), found_there=there)


class _NearDuplicates(Running):
    """Keeps the sketch of each episode."""

    def __init__(self, expected: Expected, options: Options) -> None:
        super().__init__(expected, options)
        self._sketcher = Sketcher(expected.spec)
        self._shares: int | None = None  # of long episodes, one step in so many tells enough
        self._numbers: list[np.ndarray] = []

    def block(self, block: Block) -> Iterator[Fault]:
        if self._shares is None:
            self._shares = max(int(block.lengths.mean()) // MANY_STEPS, 1)
        observation, action, starts = block.observation, block.action, block.starts
        if self._shares > 1:
            rows = self._chosen(block)
            observation, action = tuple(leaf[rows] for leaf in observation), action[rows]
            starts = np.searchsorted(rows, starts)
        self._sketcher.add_all(observation, action, np.diff(starts))
        self._numbers.append(block.number)
        yield from ()

    def _chosen(self, block: Block) -> np.ndarray:
        """Returns some of the rows, by what is in them, so that a copy has the same; and all last rows."""
        place = next(i for i, leaf in enumerate(self.expected.observation) if leaf.is_float or leaf.spec.is_image)
        columns = block.observation_rows(place).T
        code = np.zeros(len(block.reward), np.uint32)
        for column in columns[:: -(-len(columns) // COLUMNS_OF_CHOICE)]:
            coarse = (column.astype(np.float32, copy=False).view(np.uint32) + np.uint32(1 << 19)) >> np.uint32(20)
            code = (code + coarse) * np.uint32(0x9E3779B1)  # wraps around; high bits depend on all
        chosen = (code ^ (code >> np.uint32(15))) * np.uint32(0x85EBCA6B) <= np.uint32(0xFFFFFFFF // (self._shares or 1))
        return np.flatnonzero(chosen | block.is_last)

    def finish(self, table: pd.DataFrame) -> Iterator[Fault]:
        if not self._numbers:
            return
        numbers, content, ids = np.concatenate(self._numbers), table["content"].to_numpy(), table["episode_id"]
        order = np.argsort(numbers)
        groups: dict[int, int] = {}  # a later episode, to the earliest that it is near
        for earlier, later in numbers[order][near_pairs(self._sketcher.result()[order])].tolist():
            if content[earlier] != content[later]:
                groups.setdefault(later, groups.get(earlier, earlier))
        for later, earlier in sorted(groups.items()):
            yield Fault(f"nearly the same steps as in '{ids.iloc[earlier]}'", "steps of its own for each episode", later)


def _far(column: str, unit: str) -> Callable[[pd.DataFrame, Expected, FarOptions], Iterator[Fault | NotApplicable]]:
    def check(table: pd.DataFrame, expected: Expected, options: FarOptions) -> Iterator[Fault | NotApplicable]:  # noqa: ARG001
        values = table[column].to_numpy(np.float64)
        finite = values[np.isfinite(values)]
        if len(finite) < FEWEST:
            yield NotApplicable(f"fewer than {FEWEST} episodes do not say what is usual")
            return
        low, middle, high = np.quantile(finite, [0.05, 0.5, 0.95])
        width = options.factor * (high - low if high > low else max(1.0, abs(middle)))
        for number in np.flatnonzero(np.isfinite(values) & (np.abs(values - middle) > width)):
            wanted = f"{unit} such as the others': 90 % of them are between {low:.6g} and {high:.6g}"
            yield Fault(f"{unit} {values[number]:.6g}", wanted, int(number))

    return check


def _mixture(table: pd.DataFrame, expected: Expected, options: Options) -> Iterator[Fault | NotApplicable]:  # noqa: ARG001
    if len(table) < 2 * FEWEST:
        yield NotApplicable(f"fewer than {2 * FEWEST} episodes do not show two groups")
        return
    for (policy, environment), rows in table.groupby(["policy", "environment"]):
        values = np.sort(rows["episode_return"].to_numpy(np.float64))
        values = values[np.isfinite(values)]
        if len(values) >= 2 * FEWEST and (cut := _two_groups(values)) is not None:
            below, above = values[:cut], values[cut:]
            found = (
                f"returns in two groups under one policy '{policy}'{f' in {environment}' if environment else ''}: "
                f"{len(below)} near {below.mean():.6g}, {len(above)} near {above.mean():.6g}"
            )
            yield Fault(found, "a policy's name of its own for each group", evidence={"below": len(below), "above": len(above)})


def _imbalance(table: pd.DataFrame, expected: Expected, options: ImbalanceOptions) -> Iterator[Fault]:  # noqa: ARG001
    total = table["length"].sum()
    for column in ("policy", "environment"):
        shares = table.groupby(column)["length"].sum() / max(total, 1)
        for name, share in shares[shares < options.share].items():
            found = f"{share:.2%} of the transitions by the {column} '{name}'"
            yield Fault(found, f"at least {options.share:.2%} of each", int(table.index[table[column] == name][0]))


def _seeds(table: pd.DataFrame, expected: Expected, options: Options) -> Iterator[Fault]:  # noqa: ARG001
    known = table[table["seed"] >= 0]
    again = known[known.duplicated(["policy", "environment", "seed"], keep=False)]
    for (_, _, seed), rows in again.groupby(["policy", "environment", "seed"], sort=False):
        first, *others = rows.index.tolist()
        found = f"the seed {seed} in {_named([str(episode_id) for episode_id in rows['episode_id'].iloc[1:]])} too"
        there = f"the seed {seed} in '{rows['episode_id'].iloc[0]}' too"
        yield Fault(found, "a seed of its own for each episode of a policy", first, set_aside=tuple(others), found_there=there)


def _two_groups(values: np.ndarray) -> int | None:
    """Returns where sorted values fall apart into two groups, each a cloud far from the other; None where they do not.

    Of all cuts the one of the least variance within. Groups of one value each, such as success and failure, are no clouds.
    """
    count = np.arange(1, len(values))
    sums, squares = np.cumsum(values), np.cumsum(values**2)
    left = squares[:-1] - sums[:-1] ** 2 / count
    right = squares[-1] - squares[:-1] - (sums[-1] - sums[:-1]) ** 2 / (len(values) - count)
    cut = int(np.argmin(left + right)) + 1
    below, above = values[:cut], values[cut:]
    spread = np.sqrt((below.var() * len(below) + above.var() * len(above)) / len(values))
    scattered = len(np.unique(values)) > len(values) // 4
    is_apart = above.mean() - below.mean() > APART * spread and min(len(below), len(above)) >= PART * len(values)
    return cut if is_apart and scattered else None


def _named(others: list[str]) -> str:
    return ", ".join(f"'{other}'" for other in others[:NAMED]) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")


def _make_near_duplicates(expected: Expected, options: Options) -> Running | NotApplicable:
    if can_be_near(expected.spec):
        return _NearDuplicates(expected, options)
    return NotApplicable("observations hold no float and no image, and much is alike by chance")


DUPLICATES = Check(
    "duplicates",
    "Episodes of identical content: all arrays and the end, whatever their ids.",
    "They weigh twice, and in two splits they would leak from one to the other.",
    "Drop the copies, or vary the seeds. A split never divides them, but they weigh twice.",
    Warns,
    per_table(_duplicates),
)
NEAR_DUPLICATES = Check(
    "near_duplicates",
    "An episode most of whose steps another one has too: a copy with noise, rounding, other rewards, or cut.",
    "As with copies; a test split that holds them measures memory.",
    "Drop it, or import only one of the two. A split keeps them together.",
    Warns,
    _make_near_duplicates,
)
RETURN_OUTLIERS = Check(
    "return_outliers",
    "An episode whose return is far beyond those of the others.",
    "Its rewards are in other units, or summed; learners that weigh by return see little else.",
    "Look at its rewards; mend or drop it in the builder.",
    FarOptions,
    per_table(_far("episode_return", "return")),
)
LENGTH_OUTLIERS = Check(
    "length_outliers",
    "An episode far longer than the others.",
    "Ends were lost and several episodes were joined, or time stood still.",
    "Divide it in the builder; raise factor where lengths vary so much.",
    FarOptions,
    per_table(_far("length", "length")),
)
MIXTURE = Check(
    "mixture",
    "Returns of one policy and environment in two groups far apart.",
    "Two policies, tasks or versions share a name, so neither filters, splits nor baselines can tell them apart.",
    "Name the policies apart in the builder (metadata), or see what else differs.",
    Warns,
    per_table(_mixture),
)
IMBALANCE = Check(
    "imbalance",
    "A policy or an environment with hardly any of the transitions.",
    "A learner hardly sees it, and a small split may lack it.",
    "Collect more of it, leave it out with the builder `filter`, or stratify the split.",
    ImbalanceOptions,
    per_table(_imbalance),
)
SEEDS = Check(
    "seeds",
    "Two episodes of one policy and environment with the same seed.",
    "The same start twice: less variety than the number of episodes says; and a replay cannot tell which is meant.",
    "Give each episode a seed of its own, or -1 where none is known.",
    Warns,
    per_table(_seeds),
)
