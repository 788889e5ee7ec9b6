"""What follows from faults: which are fatal, which episodes are set aside, and whether so many may be."""

from collections.abc import Iterator, Mapping

import pandas as pd

from rl_datasets.checks.check import Fault
from rl_datasets.checks.report import Quarantined
from rl_datasets.words import count

LIMIT = "quarantine"  # the name under which a report lists what is wrong with the quarantine itself
REMEDY = "Mend the data, or set under 'checks' a severity of 'warn' for what may pass, or a higher quarantine_limit."


class Quarantine:
    """The episodes that checks set aside, by their number in the data."""

    def __init__(self) -> None:
        self._reasons: dict[int, dict[str, tuple[int | None, str]]] = {}

    def add(self, check: str, fault: Fault) -> bool:
        """Returns False where the fault names no episode, so that none can be set aside."""
        if fault.episode is None:
            return False
        numbers = (fault.episode,) if fault.set_aside is None else fault.set_aside
        reason = f"found {fault.found_there or fault.found}; expected {fault.expected}"
        for number in numbers:
            where = fault.step if number == fault.episode else None
            self._reasons.setdefault(number, {}).setdefault(check, (where, reason))
        return True

    def entries(self, table: pd.DataFrame) -> tuple[Quarantined, ...]:
        """Returns each episode once a check, in the order of the data."""
        ids = table["episode_id"]
        return tuple(
            Quarantined(str(ids.iloc[number]), check, *reason)
            for number in sorted(self._reasons)
            for check, reason in self._reasons[number].items()
        )

    def faults(self, table: pd.DataFrame, limit: float) -> Iterator[Fault]:
        """Yields what is wrong with the quarantine itself: too many, or all of a policy or environment, or one without an id."""
        aside = sorted(self._reasons)
        if not aside:
            return
        share = len(aside) / len(table)
        if share > limit:
            found = f"{len(aside):,} of {count(len(table), 'episode')} set aside ({share:.1%}; most often for {_commonest(self._reasons)})"
            yield Fault(found, f"at most {limit:.1%}, the quarantine_limit")
        for column in ("policy", "environment"):
            left = set(table.drop(index=table.index[aside])[column])
            for value in sorted(set(table[column].iloc[aside]) - left):
                yield Fault(f"every episode of the {column} '{value}' set aside", f"an episode of each {column} that is left")
        for number in aside:
            if table["episode_id"].iloc[number] == "":
                yield Fault("an episode without an id to set aside", "an id, by which the split leaves it out")


def _commonest(reasons: Mapping[int, Mapping[str, object]]) -> str:
    checks = [check for each in reasons.values() for check in each]
    return max(sorted(set(checks)), key=checks.count)
