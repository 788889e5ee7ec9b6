"""Which column tells episodes apart, and which one orders their rows, by what they hold alone: no name is asked."""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rl_datasets.importing.parts import TIME
from rl_datasets.importing.times import moments
from rl_datasets.inspection.facts import Facts
from rl_datasets.inspection.head import Head

_FEWEST_ROWS = 4  # of an id, on average


Found = tuple[tuple[str, ...], str]  # columns whose values together tell episodes apart, and why they are taken for that


def find_id(facts: Mapping[str, Facts], head: Head, is_end: np.ndarray, clocks: Sequence[str]) -> Found | None:
    """Returns columns of whole numbers or texts that tell episodes apart, or None.

    `facts` are of the columns in question, `is_end` [rows] tells on which rows an episode is known to end, and `clocks` are columns
    that may order rows. A time is no id, for rows of several episodes may share it.
    """
    ids = _codes(facts, head)
    together = next((name for name, values in ids.items() if _is_id(values, is_end)), None)
    if together is not None:
        second = find_second(together, facts, head, is_end)
        return second or ((together,), "it stays the same over many rows, and never comes back")
    for clock in clocks:
        if head.columns[clock].rows == head.rows and (found := _in_time(ids, _ranks(head, clock), is_end, clock)):
            return found
    return None


def find_second(named: str, facts: Mapping[str, Facts], head: Head, is_end: np.ndarray) -> Found | None:
    """Returns an id of two columns where that of one is too coarse, or None: a day is one of each house, a stay one of each patient.

    That it is too coarse shows in a clock, a time or a count: rows of one id share a value of it, and those of both columns do not,
    or it leaps within an id where the second column changes and nowhere else.
    """
    first, others = pd.factorize(head.arrays[named].reshape(-1))[0], _codes(facts, head)
    for clock, fact in facts.items():
        is_time = fact.column.dtype == TIME
        if clock == named or fact.missing or fact.column.rows != head.rows or not (is_time or (fact.is_number and fact.is_whole)):
            continue
        if head.arrays[clock].ndim > 1 and head.arrays[clock].shape[1:] != (1,):
            continue
        times = _ranks(head, clock)
        most = int(np.bincount(_both(first, times)).max())
        for name, second in others.items():
            if name in (named, clock):
                continue
            both, order = _both(first, second), np.lexsort((times, _both(first, second)))
            if not _is_id(both[order], is_end[order]):
                continue
            columns = tuple(column for column in head.columns if column in (named, name))
            is_unit = most > 1 and second.max() + 1 == most and len(np.unique(_both(both, times))) == len(times)
            if is_unit and (is_time or _counts(head.arrays[clock], both)):
                return columns, f"rows of one '{named}' share values of '{clock}', those of one '{named}' and '{name}' do not"
            if most == 1 and is_time and _leaps(head.arrays[clock], first, both):
                return columns, f"'{clock}' leaps wherever '{name}' changes within one '{named}'"
    return None


def id_codes(head: Head, names: Sequence[str]) -> np.ndarray:
    """Returns [rows] whole numbers from 0, one for each id that the columns make together."""
    codes = [pd.factorize(head.arrays[name].reshape(-1))[0] for name in names]
    return functools.reduce(_both, codes)


def find_order(named: Sequence[str], facts: Mapping[str, Facts], head: Head) -> tuple[str, str] | None:
    """Returns a column that orders the rows of each id, and why, or None: a count, or a time."""
    ids, told = id_codes(head, named), " and ".join(f"'{name}'" for name in named)
    for name, fact in facts.items():
        if fact.is_number and fact.is_whole and _counts(head.arrays[name], ids):
            return name, f"it counts the rows of each {told}"
        if fact.column.dtype == TIME and not fact.missing and _is_clock(head.arrays[name], ids):
            return name, f"the times of each {told} differ"
    return None


def most_at_a_time(head: Head, named: Sequence[str] = ()) -> tuple[str, int] | None:
    """Returns a column of times and the greatest number of rows, of one id where its columns are named, that share a time.

    None where no time comes twice.
    """
    ids = [id_codes(head, named)] if named else []
    for name, column in head.columns.items():
        if column.dtype == TIME and column.rows == head.rows and name not in named:
            shared = pd.DataFrame(dict(enumerate([head.arrays[name].reshape(-1), *ids]))).value_counts()
            if len(shared) and shared.iloc[0] > 1:
                return name, int(shared.iloc[0])
    return None


def _codes(facts: Mapping[str, Facts], head: Head) -> dict[str, np.ndarray]:
    return {name: pd.factorize(head.arrays[name])[0] for name, fact in facts.items() if _may_be_id(head.arrays.get(name), fact)}


def _both(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns [rows] whole numbers from 0, one for each pair of values."""
    codes: np.ndarray = pd.factorize(first * (int(second.max()) + 1) + second)[0]
    return codes


def _leaps(texts: np.ndarray, first: np.ndarray, both: np.ndarray) -> bool:
    """Whether times move further, or back, where `both` changes within `first`, and nowhere else within it."""
    moved = np.diff(moments(texts).to_numpy())
    within, stays = first[1:] == first[:-1], both[1:] == both[:-1]
    ordinary = moved[stays]
    if not len(ordinary) or not (within & ~stays).any():
        return False
    leaps = (moved > ordinary.max()) | (moved < min(ordinary.min(), np.timedelta64(0)))
    return bool((leaps == ~stays)[within].all())


def _may_be_id(values: np.ndarray | None, fact: Facts) -> bool:
    if values is None or values.ndim > 1 or values.dtype.kind == "f" or fact.column.dtype == TIME:
        return False
    return not (fact.missing or fact.is_constant or fact.is_flag)


def _is_id(ids: np.ndarray, is_end: np.ndarray) -> bool:
    """Whether values stay the same over rows and never come back, and change wherever an episode is known to end."""
    is_last = np.append(ids[1:] != ids[:-1], True)
    return bool(is_last[is_end].all()) and 2 <= int(is_last.sum()) == ids.max() + 1 <= len(ids) // _FEWEST_ROWS


def _in_time(ids: Mapping[str, np.ndarray], times: np.ndarray, is_end: np.ndarray, clock: str) -> Found | None:
    """As `find_id`, of rows of several episodes that stand mixed: no two rows of an id may have the same time.

    An id is one stretch of the time, or of the time of a unit such as a room or a machine: a column of which every value has a row at one
    time. A unit is an id itself where no other column changes so seldom within it that it may tell episodes apart.
    """
    apart = {name: values for name, values in ids.items() if len(np.unique(values * (times.max() + 1) + times)) == len(times)}
    most = int(np.bincount(times).max())
    if most == 1:
        order = np.argsort(times)
        found = next((name for name, values in apart.items() if _is_id(values[order], is_end[order])), None)
        return ((found,), f"one stretch of '{clock}' each") if found else None
    units = [name for name, values in apart.items() if values.max() + 1 == most]
    for unit in units:
        order = np.lexsort((times, ids[unit]))
        finer = (name for name, values in apart.items() if name not in units and _is_id(values[order], is_end[order]))
        if found := next(finer, None):
            return (found,), f"one stretch of '{clock}' within one '{unit}' each"
        seldom = (_changes_seldom(values[order], ids[unit][order]) for values in ids.values())
        if _is_id(ids[unit][order], is_end[order]) and not any(seldom):
            return (unit,), f"no two of its rows have the same '{clock}'"
    return None


def _changes_seldom(values: np.ndarray, units: np.ndarray) -> bool:
    """Whether values change within units, yet stay the same over rows."""
    changes = int(((values[1:] != values[:-1]) & (units[1:] == units[:-1])).sum())
    return 0 < changes <= len(values) // _FEWEST_ROWS


def _ranks(head: Head, clock: str) -> np.ndarray:
    """Returns [rows] whole numbers from 0 that rise with the values of a column."""
    values = head.arrays[clock].reshape(head.rows, -1)[:, 0]
    if head.columns[clock].is_text:
        values = moments(values).to_numpy()
    return np.unique(values, return_inverse=True)[1]


def _is_clock(times: np.ndarray, ids: np.ndarray) -> bool:
    """Whether the times of each id differ, and rise with the rows unless the rows of ids stand mixed."""
    rows = pd.DataFrame({"id": ids.reshape(len(ids)), "time": moments(times)})
    if rows.duplicated().any() or not rows.id.duplicated().any():
        return False
    is_mixed = bool((rows.id != rows.id.shift()).sum() > rows.id.nunique())
    return is_mixed or bool(rows.groupby("id", sort=False).time.is_monotonic_increasing.all())


def _counts(values: np.ndarray, ids: np.ndarray) -> bool:
    """Whether the numbers of each id are n, n + 1, ... in some order."""
    flat = values.reshape(len(values), -1)
    if flat.shape[1] != 1 or not np.isfinite(flat.astype(np.float64)).all():
        return False
    code, _ = pd.factorize(ids.reshape(len(ids)))
    order = np.lexsort((flat[:, 0], code))
    same = code[order][1:] == code[order][:-1]
    return bool(same.any() and (np.diff(flat[order, 0].astype(np.float64))[same] == 1).all())
