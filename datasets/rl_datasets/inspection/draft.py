"""The mapping that roles and values suggest, before any oddity is looked for: options of an importer, each guess with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rl_datasets.inspection.facts import Facts
from rl_datasets.inspection.head import Head
from rl_datasets.inspection.roles import AS_GIVEN, BY_NAME, Roles, as_given

_CATEGORIES = 64  # whole numbers that an action may take and still be one of several choices
_JUMP = 8.0  # times the median distance of two observations that follow one another
_FEWEST_JUMPS = 2


@dataclass
class Draft:
    """Options as they would stand in params.yaml, and a comment for some of their keys."""

    options: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)

    def say(self, key: str, value: Any, comment: str = "") -> None:
        self.options[key] = value
        if comment:
            self.comments[key] = comment


def draft_mapping(head: Head, facts: Mapping[str, Facts], roles: Roles) -> Draft:
    """Returns the options for columns and ends. What has no column yet is left out."""
    draft = Draft()
    for role in ("observation", "action", "reward", "next_observation"):
        if roles.of(role):
            draft.say(role, _array(role, head, facts, roles), _reason(role, roles, _marks(roles.of(role), facts)))
    for role in ("terminal", "truncated"):
        if roles.of(role):
            draft.say(role, roles.of(role)[0])
    _say_ends(draft, head, facts, roles)
    _say_rows(draft, head, facts, roles)
    return draft


def names_of(role: str, head: Head, roles: Roles) -> Any:
    """Returns one name, a pattern that stands for just these columns, or a list."""
    columns = roles.of(role)
    if len(columns) == 1:
        return columns[0]
    stem = roles.shared.get(role)
    if stem is not None and [name for name in head.columns if name.startswith(stem)] == columns:
        return f"{stem}*"
    return columns


def is_one_hot(columns: Sequence[str], head: Head) -> bool:
    """Whether in every row exactly one of the columns is 1, and the others are 0 or missing."""
    if len(columns) < 2 or any(head.columns[name].is_text or head.columns[name].shape for name in columns):
        return False
    values = np.nan_to_num(np.stack([head.arrays[name].astype(np.float64) for name in columns], axis=1))
    return bool(np.isin(values, (0, 1)).all() and (values.sum(axis=1) == 1).all())


def _array(role: str, head: Head, facts: Mapping[str, Facts], roles: Roles) -> Any:
    names = names_of(role, head, roles)
    columns = roles.of(role)
    if role == "action":
        return _action(names, columns, head, facts)
    if role == "reward":
        return {"columns": names, "scale": -1} if roles.is_cost else names
    if texts := [name for name in columns if facts[name].levels]:
        return _with_categories(role, columns, texts, head, facts, roles)
    nested = _nest(columns, facts)
    if nested:
        return {"entries": nested}
    return _numbers(role, names, columns, head, facts)


def _numbers(role: str, names: Any, columns: Sequence[str], head: Head, facts: Mapping[str, Facts]) -> Any:
    marks = _marks(columns, facts)
    if role != "observation" or not (marks or any(facts[name].missing for name in columns)):
        return names
    return {"columns": names, "missing": _fillers(columns, head, marks), **({"missing_marks": marks} if marks else {})}


def _marks(columns: Sequence[str], facts: Mapping[str, Facts]) -> list[float]:
    found = sorted({mark for name in columns for mark in facts[name].marks})
    return [int(mark) if mark.is_integer() else mark for mark in found]


def _fillers(columns: Sequence[str], head: Head, marks: Sequence[float]) -> float | list[float]:
    """Returns 0, where each element with gaps has values on both sides of it or equal to it; otherwise the median of every element.

    What is a mark is a gap. Medians of whole numbers are whole.
    """
    arrays = [head.arrays[name].reshape(len(head.arrays[name]), -1) for name in columns]
    values = np.concatenate([array.astype(np.float64) for array in arrays], axis=1)
    elements = [column[~np.isnan(column) & ~np.isin(column, marks)] for column in values.T]
    if all(known.min() <= 0 <= known.max() for known in elements if 0 < len(known) < len(values)):
        return 0.0
    medians = [float(np.median(known)) if len(known) else 0.0 for known in elements]
    whole = all(array.dtype.kind in "iu" for array in arrays)
    rounded = [float(round(median)) if whole else float(f"{median:.4g}") for median in medians]
    return rounded[0] if len(rounded) == 1 else rounded


def _with_categories(role: str, columns: Sequence[str], texts: Sequence[str], head: Head, facts: Mapping[str, Facts], roles: Roles) -> Any:
    """Returns a nest of the numbers as one vector and each text as a category; of next_observation the columns alone, nested alike."""
    numbers = [name for name in columns if name not in texts]
    keys = texts if role == "observation" else [name for name in roles.of("observation") if facts[name].levels]
    stored = [{"columns": name, "categories": facts[name].levels} if role == "observation" else name for name in texts]
    if len(columns) == 1:
        return stored[0]
    vector = {"numbers": _numbers(role, numbers if len(numbers) > 1 else numbers[0], numbers, head, facts)} if numbers else {}
    return {"entries": {**vector, **dict(zip(keys, stored, strict=False))}}


def _action(names: Any, columns: Sequence[str], head: Head, facts: Mapping[str, Facts]) -> Any:
    if is_one_hot(columns, head):
        return {"columns": names, "one_hot": True, "num_values": len(columns)}
    fact = facts[columns[0]]
    if len(columns) > 1 or fact.values is None:
        return names
    if fact.levels:
        return {"columns": names, "categories": fact.levels}
    if not fact.is_whole or fact.missing or fact.minimum is None or fact.maximum is None or len(fact.values) > _CATEGORIES:
        return names
    is_integer = np.dtype(fact.column.dtype).kind in "iub"
    counted = fact.values == tuple(range(len(fact.values)))
    if counted and len(fact.values) > 1:
        return {"columns": names, "num_values": len(fact.values), **({} if is_integer else {"dtype": "int64"})}
    if is_integer and fact.minimum >= 0 and fact.maximum < _CATEGORIES:
        return {"columns": names, "num_values": int(fact.maximum) + 1}
    return {"columns": names, "categories": [int(value) for value in fact.values]} if is_integer and fact.minimum < 0 else names


def _nest(columns: Sequence[str], facts: Mapping[str, Facts]) -> dict[str, str]:
    """Returns a Dict of columns where some are images or matrices, which cannot be joined with others."""
    if len(columns) < 2 or all(len(facts[name].column.shape) < 2 for name in columns):
        return {}
    return {name.rpartition("/")[2].replace(".", "_"): name for name in columns}


def _reason(role: str, roles: Roles, marks: Sequence[float] = ()) -> str:
    if roles.is_cost and role == "reward":
        return "a cost: stored is minus it"
    if role == "reward" and any(roles.why[name] == AS_GIVEN for name in roles.of(role)):
        return f"more of it is taken to be better; where less is, {as_given('cost', roles.of(role))}"
    why = sorted({roles.why[name] for name in roles.of(role)} - {BY_NAME, AS_GIVEN})
    if marks:
        why.append(f"{', '.join(map(str, marks))} {'seems' if len(marks) == 1 else 'seem'} to stand for a missing value")
    return f"guessed: {'; '.join(why)}" if why else ""


def _say_ends(draft: Draft, head: Head, facts: Mapping[str, Facts], roles: Roles) -> None:
    flags = [role for role in ("terminal", "truncated") if roles.of(role)]
    by_row = [role for role in flags if facts[roles.of(role)[0]].column.rows == head.rows]
    if head.groups is not None:
        draft.say("ends", {"kind": "groups"}, f"{len(head.groups):,} groups, each an episode")
    elif roles.of("lengths"):
        draft.say("ends", {"kind": "lengths", "column": roles.of("lengths")[0]})
    elif roles.of("indices"):
        name = roles.of("indices")[0]
        last = int(head.arrays[name].reshape(-1)[-1]) == head.rows - 1
        draft.say("ends", {"kind": "indices", "column": name, **({"at": "last"} if last else {})})
    elif roles.of("id"):
        sequence = {"sequence": roles.of("sequence")[0]} if roles.of("sequence") else {}
        draft.say(
            "ends",
            {"kind": "ids", "column": roles.of("id") if len(roles.of("id")) > 1 else roles.of("id")[0], **sequence},
            _reason("id", roles),
        )
    elif roles.of("start"):
        draft.say("ends", {"kind": "starts", "column": roles.of("start")[0]})
    elif roles.of("end"):
        draft.say("ends", {"kind": "flags", "column": roles.of("end")[0]})
    elif by_row:
        draft.say("ends", {"kind": "flags"})
    elif roles.of("next_observation"):
        draft.say("ends", {"kind": "breaks"}, "no column tells it: where next_observation is not the next row's observation")
    else:
        _say_ends_unknown(draft, head, roles)


def _say_ends_unknown(draft: Draft, head: Head, roles: Roles) -> None:
    length = fixed_length(head, roles)
    if length:
        draft.say("ends", {"kind": "fixed", "length": length}, f"guessed: observations jump every {length:,} rows")
    else:
        draft.say("ends", {"kind": "groups"}, "guessed: no column tells ends, so each file is one episode")


def fixed_length(head: Head, roles: Roles) -> int | None:
    """Returns the number of rows after which observations jump each time, or None where jumps are not that regular."""
    observed = (name for name in roles.of("observation") if not head.columns[name].is_text)
    columns = [name for name in observed if head.columns[name].rows == head.rows]
    if not columns or head.rows < 8:
        return None
    values = np.concatenate([head.arrays[name].reshape(head.rows, -1).astype(np.float64) for name in columns], axis=1)
    spread = values.std(axis=0)
    moved = np.linalg.norm(np.diff(values, axis=0)[:, spread > 0] / spread[spread > 0], axis=1)
    jumps = np.flatnonzero(moved > _JUMP * np.median(moved)) + 1 if len(moved) and np.median(moved) > 0 else np.zeros(0, np.int64)
    if len(jumps) < _FEWEST_JUMPS:
        return None
    length = int(jumps[0])
    expected = np.arange(length, head.rows, length)
    return length if length > 1 and np.array_equal(jumps, expected) else None


def _say_rows(draft: Draft, head: Head, facts: Mapping[str, Facts], roles: Roles) -> None:
    observed = [facts[name].column.rows for name in roles.of("observation")]
    if observed and min(observed) > head.rows:
        extra = min(observed) - head.rows
        draft.say("rows", "extra_observation", f"{extra:,} observations more than actions: one an episode")
