"""Checks of a data set as a whole: which episodes repeat others."""

from collections.abc import Iterator

import pandas as pd

from rl_datasets.checks.check import Check, Fault, Options, Warns, per_table
from rl_datasets.checks.expected import Expected

NAMED = 5  # ids written out for each group


def _duplicates(table: pd.DataFrame, expected: Expected, options: Options) -> Iterator[Fault]:  # noqa: ARG001
    """Yields one fault a group, in the order of its first episode; the copies are set aside, not the first."""
    content = table["content"]
    twice = table[content.duplicated(keep=False) & (content != 0)]
    for _, ids in twice.groupby("content", sort=False)["episode_id"]:
        others = [str(episode_id) for episode_id in ids.iloc[1:]]
        named = ", ".join(f"'{other}'" for other in others[:NAMED]) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")
        first, *copies = ids.index.tolist()
        yield Fault(f"the same content in {named}", "content of its own for each episode", first, set_aside=tuple(copies))


DUPLICATES = Check(
    "duplicates",
    "Episodes of identical content: all arrays and the end, whatever their ids.",
    "They weigh twice, and in two splits they would leak from one to the other.",
    "Drop the copies, or vary the seeds. A split never divides them, but they weigh twice.",
    Warns,
    per_table(_duplicates),
)
