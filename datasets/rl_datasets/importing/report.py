"""What an import read, kept, dropped and assumed: counts for the manifest, and a sentence each for the data card."""

from collections import Counter

from rl_datasets.errors import HindcastError
from rl_datasets.words import count


class ImportReport:
    """Counts before equal counts after: `check` raises where they do not."""

    def __init__(self) -> None:
        self.rows = self.last_rows = 0  # rows read, and those that hold nothing but an episode's last observation
        self.ended: Counter[str] = Counter()  # episodes as the source ends them: terminal, truncated, unflagged
        self.dropped: Counter[str] = Counter()  # transitions by reason
        self.dropped_episodes: Counter[str] = Counter()  # by reason
        self.kept_episodes = self.kept_transitions = self.terminals = 0
        self.repaired = 0
        self._once: dict[str, None] = {}
        self._counted: Counter[str] = Counter()  # by sentence with a place for the number
        self._singular: dict[str, str] = {}  # of such a sentence

    def once(self, sentence: str) -> None:
        """Notes a sentence, the first time that it is said."""
        self._once[sentence] = None

    def count(self, sentence: str, number: int, one: str) -> None:
        """Adds to the number that stands for "{}" in a sentence; `one` is the sentence where it is 1."""
        if number:
            self._counted[sentence] += number
            self._singular[sentence] = one

    def drop(self, reason: str, transitions: int, episodes: int = 0) -> None:
        if transitions:
            self.dropped[reason] += transitions
        if episodes:
            self.dropped_episodes[reason] += episodes

    def keep(self, episodes: int, transitions: int, terminals: int) -> None:
        """Takes note of episodes that were handed on."""
        self.kept_episodes += episodes
        self.kept_transitions += transitions
        self.terminals += terminals

    def check(self) -> None:
        """Raises HindcastError where rows or episodes were lost without a reason, or nothing is left."""
        after = self.kept_transitions + sum(self.dropped.values()) + self.last_rows
        if self.rows != after:
            raise HindcastError(
                f"{self.rows} rows were read, but {self.kept_transitions} transitions kept, {sum(self.dropped.values())} dropped and "
                f"{self.last_rows} last observations are {after}. The conversion is at fault; nothing was written."
            )
        episodes = self.kept_episodes + sum(self.dropped_episodes.values())
        if sum(self.ended.values()) != episodes:
            raise HindcastError(
                f"{sum(self.ended.values())} episodes were found, but {episodes} were kept or dropped. The conversion is at fault; "
                "nothing was written."
            )
        if not self.kept_episodes:
            reasons = "; ".join(self.dropped) or "there are no rows"
            raise HindcastError(f"No transition is left of {self.rows} rows: {reasons}. Mend the source or its entry.")

    def counts(self) -> dict[str, int]:
        return {
            "rows_read": self.rows,
            "terminals": self.terminals,
            "truncations": self.kept_episodes - self.terminals,
            "unflagged_ends": self.ended["unflagged"],
            "dropped_transitions": sum(self.dropped.values()),
            "dropped_episodes": sum(self.dropped_episodes.values()),
            "repaired_time_limits": self.repaired,
        }

    def notes(self) -> list[str]:
        """One sentence each, the account of rows and ends first."""
        read = count(self.rows, "row was", "rows were")
        episodes = count(self.kept_episodes, "episode")
        kept = count(self.kept_transitions, f"transition in {episodes} was", f"transitions in {episodes} were")
        last = f", {count(self.last_rows, 'row holds', 'rows hold')} only an episode's last observation" if self.last_rows else ""
        ends = ", ".join(f"{self.ended[kind]:,} {words}" for kind, words in _ENDS.items() if self.ended[kind])
        return [
            f"{read} read: {kept} kept{last}, {count(sum(self.dropped.values()), 'transition was', 'transitions were')} dropped.",
            f"Ends as the source tells them: {ends or 'none'}.",
            *(
                f"{count(number, 'transition was', 'transitions were')} dropped: {reason}."
                for reason, number in sorted(self.dropped.items())
            ),
            *(
                f"{count(number, 'episode was', 'episodes were')} dropped whole: {reason}."
                for reason, number in sorted(self.dropped_episodes.items())
            ),
            *sorted(self._once),
            *(self._told(sentence, number) for sentence, number in sorted(self._counted.items())),
        ]

    def _told(self, sentence: str, number: int) -> str:
        return (self._singular[sentence] if number == 1 else sentence).replace("{}", f"{number:,}")


_ENDS = {"terminal": "terminal", "truncated": "truncated", "unflagged": "without a flag"}
