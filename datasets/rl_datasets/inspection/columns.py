"""Oddities of columns, which show without knowing where episodes end."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from rl_datasets.checks.extremes import sentinels
from rl_datasets.inspection.draft import is_one_hot
from rl_datasets.inspection.facts import Facts
from rl_datasets.inspection.head import Head
from rl_datasets.inspection.roles import Roles

STORED = ("observation", "action", "reward", "next_observation")
_LISTED = 8
_FILLED = "What the observation's 'missing_marks' lists is taken for missing, and 'missing' fills it: 0 or the median of what is known."
_KEPT = "Kept; 'missing_marks' lists such values for 'missing' to fill."


@dataclass(frozen=True)
class Oddity:
    """`evidence` is what was found, in numbers; `answer` what the entry does about it."""

    kind: str
    evidence: str
    answer: str


def oddities_of_columns(head: Head, facts: Mapping[str, Facts], roles: Roles) -> Iterator[Oddity]:
    """Yields what is odd about types, ranges and single columns."""
    pickled = [name for name, fact in facts.items() if fact.column.dtype == "object"]
    if pickled:
        yield Oddity("pickled", f"{listed(pickled)}: pickled objects, which were not opened, for unpickling runs code.", "Ignored.")
    yield from _doubles(head, facts, roles)
    yield from _constant(head, facts)
    if is_one_hot(roles.of("action"), head):
        names = roles.of("action")
        yield Oddity("one_hot", f"On each row exactly one of {listed(names)} is 1.", "The action is which of them it is (one_hot).")
    yield from _categories(head, facts, roles)
    missing = [f"{name} ({facts[name].missing:,})" for name in roles.of("observation") if facts[name].missing and facts[name].is_number]
    if missing:
        answer = (
            "What 'missing' says takes their place, 0 or the median; with 'carry: true' the episode's last known value, where there is one."
        )
        yield Oddity("missing_values", f"Values that are missing or not a number: {listed(missing)}.", answer)
    yield from _sentinels(head, facts, roles)
    aside = [name for name in head.columns if "propensit" in name.lower() or "prob" in name.lower()]
    if aside:
        yield Oddity("propensities", f"{listed(aside)}: likely the behaviour policy's probabilities.", "Ignored.")
    yield from _actions_outside(head, facts, roles)


def listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def _doubles(head: Head, facts: Mapping[str, Facts], roles: Roles) -> Iterator[Oddity]:
    stored = {name for role in STORED for name in roles.of(role)}
    doubles = [name for name, fact in facts.items() if fact.column.dtype == "float64" and name in stored]
    if doubles:
        error = max(_rounding(head.arrays[name]) for name in doubles)
        change = f"changes values by {error:.1g} of themselves at most" if error else "holds all values exactly"
        yield Oddity("float64", f"{listed(doubles)}: float64.", f"Stored as float32, which {change}.")


def _constant(head: Head, facts: Mapping[str, Facts]) -> Iterator[Oddity]:
    whole = [f"{name} ({_value(fact)})" for name, fact in facts.items() if fact.is_constant and fact.column.rows == head.rows]
    if whole:
        yield Oddity("constant", f"The same on all {head.rows:,} rows: {listed(whole)}.", "Kept as mapped; it tells a learner nothing.")
    several = {name: fact for name, fact in facts.items() if fact.constants and not fact.is_constant and fact.column.rows > 1}
    partly = [f"{name} ({len(fact.constants)} of {int(np.prod(fact.column.shape))})" for name, fact in several.items()]
    if partly:
        yield Oddity("constant", f"Elements that are the same on every row: {listed(partly)}.", "Kept; they tell a learner nothing.")


def _categories(head: Head, facts: Mapping[str, Facts], roles: Roles) -> Iterator[Oddity]:
    for name in (name for role in ("observation", "action") for name in roles.of(role) if facts[name].levels):
        counts = Counter("" if text is None else str(text) for text in head.arrays[name].reshape(-1).tolist())
        held = listed([f"{text or '(none)'} ({counts[text]:,} rows)" for text in facts[name].levels])
        where = "" if head.is_whole else f" Only the first {head.rows:,} rows were looked at; add what others hold."
        answer = f"Stored is which of them it is (categories, sorted); any other is refused with its row.{where}"
        yield Oddity("categories", f"{name} is text of {len(facts[name].levels)} kinds: {held}.", answer)


def _sentinels(head: Head, facts: Mapping[str, Facts], roles: Roles) -> Iterator[Oddity]:
    found, kept = [], 0
    for name in (name for role in ("observation", "action") for name in roles.of(role) if facts[name].is_number):
        for column in head.arrays[name].reshape(len(head.arrays[name]), -1).T:
            values = column.astype(np.float64)
            for value in sentinels(values):
                kept += value not in facts[name].marks
                found.append(f"{name} ({value:.9g} on {int((values == value).sum()):,} of {len(values):,} rows)")
    if found:
        told = "far from all others, it seems to stand for a missing one"
        yield Oddity(
            "sentinel",
            f"A value that comes again, {told}: {listed(found)}.",
            _KEPT if kept == len(found) else f"{_FILLED} What it does not list is kept." if kept else _FILLED,
        )


def _actions_outside(head: Head, facts: Mapping[str, Facts], roles: Roles) -> Iterator[Oddity]:
    names = [name for name in roles.of("action") if facts[name].is_number and facts[name].column.dtype.startswith("float")]
    if not names or is_one_hot(roles.of("action"), head):
        return
    values = np.concatenate([head.arrays[name].reshape(head.rows, -1).astype(np.float64) for name in names], axis=1)
    outside = (np.abs(values) > 1 + 1e-5).any(axis=1)
    if outside.any():
        yield Oddity(
            "actions_outside",
            f"{int(outside.sum()):,} of {len(values):,} rows ({outside.mean():.0%}) have an action outside [-1, 1]; "
            f"the range is {np.nanmin(values):.4g} to {np.nanmax(values):.4g}.",
            "'bounds' says what the action space is; 'clip: [-1, 1]' under action is right where the environment clips.",
        )


def _rounding(values: np.ndarray) -> float:
    """The largest part of a value that rounding to float32 takes."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        apart = np.abs(values.astype(np.float32).astype(np.float64) - values) / np.abs(values)
    return float(np.nanmax(np.where(np.isfinite(apart), apart, 0), initial=0))


def _value(fact: Facts) -> str:
    if fact.minimum is None:
        return str(fact.values[0]) if fact.values else "missing"
    return f"{fact.minimum:g}" if fact.minimum == fact.maximum else "a row of values"
