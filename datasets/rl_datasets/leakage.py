"""Episodes that are in two places: in two splits of a data set, or in two data sets, equal or nearly the same.

`episodes.csv` and `sketches.npy` of a divided data set tell without reading its episodes again; `contents.contents_of` makes the same of
any RLDS directory.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rl_datasets.digest import content_key
from rl_datasets.errors import HindcastError
from rl_datasets.schema import Episode
from rl_datasets.similarity import EMPTY, KEPT, near_pairs

EPISODES, SKETCHES = "episodes.csv", "sketches.npy"


class EpisodeEntry(NamedTuple):
    """A row of episodes.csv, in the order of the raw data."""

    episode_id: str
    split: str
    length: int
    episode_return: float
    is_terminal: bool
    policy: str
    seed: int
    content: str  # the hash of what happened
    reason: str  # why it is in no split, where it is in none


class Contents(NamedTuple):
    """What the episodes of a data set hold, in short."""

    entries: Sequence[EpisodeEntry]  # E
    sketches: np.ndarray  # [E, KEPT] uint64


class Leak(NamedTuple):
    """Two episodes that hold the same, or nearly."""

    first: EpisodeEntry
    second: EpisodeEntry
    equal: bool

    @property
    def crosses(self) -> bool:
        """Whether the two are in different splits."""
        return self.first.split != self.second.split and not (self.first.reason or self.second.reason)

    def __str__(self) -> str:
        likeness = "the same as" if self.equal else "nearly the same as"
        return f"'{self.second.episode_id}' ({self.second.split}) is {likeness} '{self.first.episode_id}' ({self.first.split})"


class Shared(NamedTuple):
    """How many episodes of a data set are in another one too."""

    equal: int
    near: int  # beside those that are equal
    across: int  # of both, those that are in another split there, so that one data set's train holds what the other tests on
    example: Leak


def leaks(contents: Contents) -> Iterator[Leak]:
    """Yields an episode with one before it that is in another split and equal or nearly the same. What is in no split leaks nothing."""
    kept = [place for place, entry in enumerate(contents.entries) if not entry.reason]
    entries = [contents.entries[place] for place in kept]
    first: dict[str, EpisodeEntry] = {}
    for entry in entries:
        before = first.setdefault(entry.content, entry)
        if before.split != entry.split:
            yield Leak(before, entry, equal=True)
    for a, b in near_pairs(contents.sketches[kept]).tolist():
        if entries[a].split != entries[b].split and entries[a].content != entries[b].content:
            yield Leak(entries[a], entries[b], equal=False)


def shared(a: Contents, b: Contents) -> Shared | None:
    """Returns what of `a` is in `b`; None where that is nothing. Episodes in quarantine count too, for they are there."""
    there: dict[str, list[EpisodeEntry]] = {}
    for entry in b.entries:
        there.setdefault(entry.content, []).append(entry)
    found = {
        place: [Leak(entry, other, equal=True) for other in there[entry.content]]
        for place, entry in enumerate(a.entries)
        if entry.content in there
    }
    equal = len(found)
    for first, second in _near_across(a.sketches, b.sketches):
        if a.entries[first].content not in there:
            found.setdefault(first, []).append(Leak(a.entries[first], b.entries[second], equal=False))
    if not found:
        return None
    across = sum(any(leak.crosses for leak in found[place]) for place in found)
    return Shared(equal, len(found) - equal, across, found[min(found)][0])


def _near_across(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yields (row of a, row of b) of sketches that are near. Only rows with a hash that is in both are looked at."""
    common = np.setdiff1d(np.intersect1d(a, b), [EMPTY])
    rows = [np.flatnonzero(np.isin(sketches, common).any(axis=1)) for sketches in (a, b)]
    size = len(rows[0])
    for first, second in near_pairs(np.concatenate([a[rows[0]], b[rows[1]]])).tolist():
        if first < size <= second:
            yield int(rows[0][first]), int(rows[1][second - size])


def episode_entry(episode: Episode, split: str = "") -> EpisodeEntry:
    """Returns the row of an episode, of no split yet where none is given."""
    known = episode.metadata
    ending = (episode.is_terminal, str(known.get("policy", "")), int(known.get("seed", -1)))
    return EpisodeEntry(episode.episode_id, split, episode.length, episode.episode_return, *ending, content_key(episode), "")


def write_contents(folder: Path, contents: Contents) -> None:
    """Writes episodes.csv and sketches.npy."""
    with (folder / EPISODES).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(EpisodeEntry._fields)
        writer.writerows(contents.entries)
    np.save(folder / SKETCHES, contents.sketches)


def read_contents(folder: Path) -> Contents:
    """Reads what `write_contents` wrote. Raises HindcastError where it is missing or damaged."""
    try:
        with (folder / EPISODES).open(encoding="utf-8", newline="") as file:
            entries = [_parsed(row) for row in csv.DictReader(file)]
        sketches = np.load(folder / SKETCHES, allow_pickle=False)
        if sketches.dtype != np.uint64 or sketches.shape != (len(entries), KEPT):
            raise ValueError(f"{SKETCHES} holds {sketches.dtype}{list(sketches.shape)}, but {EPISODES} has {len(entries)} rows")
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise HindcastError(
            f"{folder} does not say what its episodes hold ({type(error).__name__}: {error}). "
            "Restore it with 'dvc checkout --force', or rebuild it with 'dvc repro'."
        ) from error
    return Contents(entries, sketches)


def _parsed(row: dict[str, str]) -> EpisodeEntry:
    numbers = int(row["length"]), float(row["episode_return"]), row["is_terminal"] == "True", row["policy"], int(row["seed"])
    return EpisodeEntry(row["episode_id"], row["split"], *numbers, row["content"], row["reason"])
