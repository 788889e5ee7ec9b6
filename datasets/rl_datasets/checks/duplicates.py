"""Episodes of identical content: they weigh twice, and in two splits they would leak from one to the other."""

from collections.abc import Iterator

import pandas as pd

from rl_datasets.checks.findings import Expected, Fault

NAMED = 5  # ids written out for each group


def check_duplicates(table: pd.DataFrame, expected: Expected) -> Iterator[Fault]:  # noqa: ARG001
    """No two episodes with the same arrays. Yields one fault a group, in the order of its first episode."""
    twice = table[table["content"].duplicated(keep=False)]
    for _, ids in twice.groupby("content", sort=False)["episode_id"]:
        first, *others = (str(episode_id) for episode_id in ids)
        named = ", ".join(f"'{other}'" for other in others[:NAMED]) + (f" and {len(others) - NAMED} more" if len(others) > NAMED else "")
        yield Fault(None, f"the same content in {named}", "content of its own for each episode", first)
