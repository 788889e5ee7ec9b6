"""Every episode of a data set to its split, in the order of the data, so that no two splits share what they must not.

An episode is bound to the split of those before it that have its group or content or are nearly the same, and where the order is by
time, to the split of its time. What is bound to nothing gets a split of its own. What is bound to several splits would leak from one to
another wherever it went: it is set aside, beside the episodes that the quality gate put in quarantine.
"""

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rl_datasets.errors import HindcastError
from rl_datasets.splits import Fractions, SplitParams, TimeOrder, assign_split, require_episodes, stratified_split, timestamp

QUARANTINE = "quarantine"  # the split of episodes that are in none
STRATA = 5  # of returns: fifths of those of the first episodes
REMEMBERED = 10_000  # returns that the fifths follow from, at most
KINDS = ("policy", "environment", "task")  # metadata whose every value must keep a share of train


class Candidate(NamedTuple):
    """What the split of an episode follows from."""

    episode_id: str
    content: str
    group: str  # the content where no column groups
    episode_return: float
    kinds: Mapping[str, str]  # of KINDS, what the metadata hold
    time: float | None = None
    reason: str = ""  # why the quality gate put it in quarantine


class Placed(NamedTuple):
    split: str
    reason: str = ""  # why it is in QUARANTINE


Bond = tuple[str, str]  # (split, why an episode is bound to it)


def allocate(candidates: Sequence[Candidate], near: Iterable[tuple[int, int]], params: SplitParams) -> list[Placed]:
    """Returns where each episode goes; `near` are pairs (earlier, later) of places in `candidates` that are nearly the same.

    Raises HindcastError where a split would be empty, a policy or task would vanish from train, or too many are set aside.
    """
    earlier = defaultdict(list)
    for first, second in near:
        earlier[second].append(first)
    by_time = _by_time(candidates, params)
    fresh = _fresh(params)
    placed: list[Placed] = []
    groups: dict[str, Bond] = {}
    contents: dict[str, Bond] = {}
    for place, candidate in enumerate(candidates):
        if candidate.reason:
            placed.append(Placed(QUARANTINE, candidate.reason))
            continue
        bonds = [bonds[key] for bonds, key in ((groups, candidate.group), (contents, candidate.content)) if key in bonds]
        bonds += [
            (placed[other].split, f"nearly the same as '{candidates[other].episode_id}'")
            for other in earlier[place]
            if placed[other].split != QUARANTINE
        ]
        if by_time is not None:
            bonds.append((by_time(candidate), "by its time"))
        bound = dict(reversed(bonds))
        if len(bound) > 1:
            told = " and ".join(f"to {split} ({why})" for split, why in sorted(bound.items()))
            placed.append(Placed(QUARANTINE, f"it belongs {told}, and would leak from one to the other"))
            continue
        split = next(iter(bound), None) or fresh(candidate)
        placed.append(Placed(split))
        named = "its content" if candidate.group == candidate.content else f"its group '{candidate.group}'"
        groups.setdefault(candidate.group, (split, f"{named}, as '{candidate.episode_id}'"))
        contents.setdefault(candidate.content, (split, f"its content, as '{candidate.episode_id}'"))
    _require(candidates, placed, params)
    return placed


def _fresh(params: SplitParams) -> Callable[[Candidate], str]:
    """Returns what gives a split to an episode that is bound to none."""
    fractions, seed = params.fractions, params.seed
    counts: Counter[str] = Counter()
    returns: list[float] = []

    def stratum(candidate: Candidate) -> str:
        if params.stratify == "policy":
            return candidate.kinds.get("policy", "")
        rank = bisect_right(returns, candidate.episode_return)
        fifth = rank * STRATA // (len(returns) + 1)
        if len(returns) < REMEMBERED:
            insort(returns, candidate.episode_return)
        return str(fifth)

    def place(candidate: Candidate) -> str:
        if params.stratify is None:
            return assign_split(candidate.group, fractions, seed)
        key = stratum(candidate)
        counts[key] += 1
        return stratified_split(key, counts[key] - 1, fractions, seed)

    return place


def _by_time(candidates: Sequence[Candidate], params: SplitParams) -> Callable[[Candidate], str] | None:
    """Returns what gives the split of an episode's time; None where the order is not by time."""
    if params.order is None:
        return None
    begins = time_borders([c.time for c in candidates if c.time is not None and not c.reason], params.order, params.fractions)

    def at(candidate: Candidate) -> str:
        assert candidate.time is not None, "a data set that is ordered by time has the time of every episode"
        return next(split for split, begin in reversed(begins.items()) if candidate.time >= begin)

    return at


def time_borders(times: Sequence[float], order: TimeOrder, fractions: Fractions) -> dict[str, float]:
    """Returns when each split begins, in their order: as `order` says, else so that the splits have their fractions of `times`."""
    given = {"validation": order.validation_from, "test": order.test_from}
    in_order, share = sorted(times), 0.0
    begins: dict[str, float] = {}
    for split, fraction in fractions.positive().items():
        stated = given.get(split)
        if not begins:
            begins[split] = float("-inf")
        elif stated is not None:
            begins[split] = timestamp(stated, f"split.order.{split}_from")
        else:
            begins[split] = in_order[min(round(share * len(in_order)), len(in_order) - 1)] if in_order else float("inf")
        share += fraction
    return begins


def _require(candidates: Sequence[Candidate], placed: Sequence[Placed], params: SplitParams) -> None:
    aside = [place for place, (candidate, to) in enumerate(zip(candidates, placed, strict=True)) if to.reason and not candidate.reason]
    if len(aside) > params.set_aside_limit * len(candidates):
        first = aside[0]
        raise HindcastError(
            f"{len(aside):,} of {len(candidates):,} episodes fit no split without a leak, more than split.set_aside_limit "
            f"({params.set_aside_limit:g}). The first is '{candidates[first].episode_id}': {placed[first].reason}. Group them by a "
            "metadata column that keeps them together (split.group), or raise the limit."
        )
    groups: dict[str, set[str]] = defaultdict(set)
    for candidate, to in zip(candidates, placed, strict=True):
        groups[to.split].add(candidate.group)
    drawn = params.order is None and params.stratify is None
    kept = {split: len(members) for split, members in groups.items() if split != QUARANTINE}
    require_episodes(kept, params.fractions, drawn, params.group)
    _require_kinds(candidates, placed)


def _require_kinds(candidates: Sequence[Candidate], placed: Sequence[Placed]) -> None:
    """No policy or task that has several episodes loses its share of train to the quarantine."""
    for kind in KINDS:
        left: dict[str, Counter[str]] = defaultdict(Counter)
        for candidate, to in zip(candidates, placed, strict=True):
            if kind in candidate.kinds:
                left[candidate.kinds[kind]][to.split] += 1
        for value, counts in sorted(left.items()):
            if counts["train"] == 0 and counts[QUARANTINE] and counts.total() > 1:
                raise HindcastError(
                    f"No episode of {kind} '{value}' would be left in train: {counts[QUARANTINE]} of its {counts.total()} are in "
                    "quarantine (quarantine.csv of the check says why). Mend or collect those episodes, set split.stratify to policy, "
                    f"or take that {kind} out of the data set with the builder 'filter'."
                )
