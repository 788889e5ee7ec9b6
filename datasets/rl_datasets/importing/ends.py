"""Where the episodes of a part begin and end, by each of the ways in which files tell it. Reads no more than the columns that do.

Memory is that of a block and a few numbers an episode; with `ids` and a sequence, a few numbers a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from rl_datasets.errors import HindcastError
from rl_datasets.importing.flags import Counted, episode_flags, flag_rows
from rl_datasets.importing.mapping import (
    FixedEnds,
    Flag,
    FlagEnds,
    IdEnds,
    IndexEnds,
    LengthEnds,
    MappingOptions,
    StartEnds,
)
from rl_datasets.importing.parts import BLOCK_ROWS, OrderedPart, Part, read_all, shown
from rl_datasets.importing.resolve import Resolved
from rl_datasets.importing.times import moments


@dataclass(frozen=True)
class EpisodeRows:
    """E episodes of a part: rows [start, stop) each, in order, which together are all rows."""

    start: np.ndarray  # [E] int64
    stop: np.ndarray  # [E] int64
    is_terminal: np.ndarray  # [E] bool, as flagged
    is_truncated: np.ndarray  # [E] bool, as flagged; also where the source tells an end of either kind and `terminal` isn't set
    ids: Sequence[str] | None = None  # [E], where the source names them
    tail: int = 0  # how many of them, at the end, are a tail: rows after the last end (0 or 1)
    notes: Counted = field(default_factory=list)


def find_episodes(options: MappingOptions, columns: Resolved, part: Part) -> tuple[EpisodeRows, Part]:
    """Returns the episodes, and the part with its rows in their order. Raises HindcastError, naming the row, where they do not add up."""
    rows = part.columns[columns.action].rows
    ends = options.ends
    if rows == 0:
        raise HindcastError(f"{part.name} has no rows. Give a file with data, or leave it out of the source.")
    if isinstance(ends, FlagEnds):
        edges, tail = _by_flags(options, columns, part, rows), True
    elif isinstance(ends, StartEnds):
        edges, tail = _by_starts(ends, part, rows), False
    elif isinstance(ends, IndexEnds):
        edges, tail = _by_indices(ends, part, rows), False
    elif isinstance(ends, LengthEnds):
        edges, tail = _by_lengths(ends, part, rows), False
    elif isinstance(ends, IdEnds):
        return _by_ids(ends, options, columns, part, rows)
    elif isinstance(ends, FixedEnds):
        edges, tail = np.array([0, *range(ends.length, rows + 1, ends.length)], np.int64), True
    elif ends.kind == "breaks":
        edges, tail = _by_breaks(options, columns, part, rows), False
    else:
        edges, tail = np.concatenate([[0], np.cumsum(part.group_rows(columns.action))]), False
    has_tail = edges[-1] < rows
    if has_tail:
        edges = np.append(edges, rows)
    return _flagged(options, columns, part, edges, part.groups, int(has_tail and tail)), part


def breaks(now: np.ndarray, following: np.ndarray, tolerance: float) -> np.ndarray:
    """Returns the rows, in order, where next_observation isn't the observation of the next row; two that are no number are the same.

    now: next_observation of rows [n, ...]; following: the observation of the rows after them [n, ...].
    """
    if tolerance:
        differs = ~np.isclose(now.astype(np.float64), following.astype(np.float64), rtol=0, atol=tolerance, equal_nan=True)
    else:
        differs = now != following
    places = np.flatnonzero(differs)
    width = differs.size // len(differs) if len(differs) else 1
    if now.dtype.kind == "f" and len(places):
        first, second = now.reshape(-1)[places], following.reshape(-1)[places]
        places = places[~((first != first) & (second != second))]
    return np.unique(places // max(width, 1))


def _by_flags(options: MappingOptions, columns: Resolved, part: Part, rows: int) -> np.ndarray:
    assert isinstance(options.ends, FlagEnds)
    found = [_of_rows(flag, names, part, rows) for flag, names in _flags(options, columns)]
    if options.ends.column is not None:
        found.append(_of_rows(Flag(columns=(options.ends.column,)), (options.ends.column,), part, rows))
    return np.concatenate([[0], np.unique(np.concatenate(found)) + 1])


def _of_rows(flag: Flag, columns: Sequence[str], part: Part, rows: int) -> np.ndarray:
    for column in columns:
        if part.columns[column].rows != rows:
            raise HindcastError(
                f"{part.name}: the flag '{column}' has {part.columns[column].rows} rows, but there are {rows} rows of actions, and it is "
                "to tell where episodes end. Say with 'ends' what else tells it."
            )
    return flag_rows(flag, columns, part)


def _by_starts(ends: StartEnds, part: Part, rows: int) -> np.ndarray:
    starts = _of_rows(Flag(columns=(ends.column,)), (ends.column,), part, rows)
    if not len(starts) or starts[0] != 0:
        first = f"the first is row {starts[0]}" if len(starts) else "there is none"
        raise HindcastError(
            f"{part.name}, row 0: '{ends.column}' is not set on the first row ({first}), so the rows before it belong to an episode whose "
            "start is lost. Cut them off the file."
        )
    return np.append(starts, rows)


def _by_indices(ends: IndexEnds, part: Part, rows: int) -> np.ndarray:
    listed = _whole_numbers(part, ends.column) + (ends.at == "last")
    previous = np.concatenate([[0], listed[:-1]])
    wrong = (listed <= previous) | (listed > rows)
    if wrong.any():
        place = int(wrong.argmax())
        raise HindcastError(
            f"{part.name}, row {place} of '{ends.column}': the episode would end before row {listed[place]}, but ends must rise from the "
            f"one before ({previous[place]}) to at most the number of rows ({rows}). Mend it, or set ends.at."
        )
    return np.concatenate([[0], listed])


def _by_lengths(ends: LengthEnds, part: Part, rows: int) -> np.ndarray:
    lengths = _whole_numbers(part, ends.column)
    if (lengths <= 0).any():
        place = int((lengths <= 0).argmax())
        raise HindcastError(f"{part.name}, row {place} of '{ends.column}': the length is {lengths[place]}; an episode has a row or more.")
    edges = np.concatenate([[0], np.cumsum(lengths)])
    if edges[-1] != rows:
        place = int(np.searchsorted(edges[1:], rows, side="right"))
        where = f"the episode of row {place} of '{ends.column}' would cross the end" if edges[-1] > rows else f"row {edges[-1]} is in none"
        raise HindcastError(
            f"{part.name}: the lengths in '{ends.column}' add up to {edges[-1]}, but there are {rows} rows; {where}. "
            "Mend the lengths, or say with 'rows' how many rows an episode has."
        )
    return edges


def _whole_numbers(part: Part, column: str) -> np.ndarray:
    """Returns a short column as int64. Raises HindcastError where a value is no whole number."""
    values = read_all(part, column)
    values = values.reshape(len(values), -1)
    if values.dtype.kind not in "iuf" or values.shape[1] != 1:
        raise HindcastError(f"{part.name}: '{column}' holds {values.dtype}, but one whole number a row is expected.")
    numbers = values[:, 0]
    with np.errstate(invalid="ignore"):
        whole = numbers.astype(np.int64)
    if (whole != numbers).any():
        place = int((whole != numbers).argmax())
        raise HindcastError(f"{part.name}, row {place} of '{column}': found {shown(numbers[place])}; expected a whole number.")
    return whole


def _times(part: Part, column: str) -> np.ndarray:
    """Returns a column of times in ISO 8601 as microseconds, int64, of UTC where none is named. Raises HindcastError where one is none."""
    values = read_all(part, column).reshape(-1)
    times = moments(values)
    if times.isna().any():
        place = int(times.isna().to_numpy().argmax())
        raise HindcastError(
            f"{part.name}, row {part.row_number(place)} of '{column}': found {shown(values[place])}; expected a whole number, or a time as "
            "2026-01-31T12:00:00."
        )
    return np.asarray(times.to_numpy().astype("datetime64[us]").astype(np.int64))


def _by_breaks(options: MappingOptions, columns: Resolved, part: Part, rows: int) -> np.ndarray:
    if not columns.next_leaves:
        raise HindcastError(f"{part.name}: ends of kind breaks need next_observation, which has no column here.")
    found = [_of_rows(flag, names, part, rows) + 1 for flag, names in _flags(options, columns)]
    for name, following in columns.next_leaves.items():
        for first, second in zip(columns.leaves[name], following, strict=True):
            for start in range(0, rows - 1, BLOCK_ROWS):
                stop = min(start + BLOCK_ROWS, rows - 1)
                block = breaks(part.read(second, start, stop), part.read(first, start + 1, stop + 1), options.tolerance)
                found.append(start + block + 1)
    return np.unique(np.concatenate([[0], *found, [rows]]))


def _by_ids(ends: IdEnds, options: MappingOptions, columns: Resolved, part: Part, rows: int) -> tuple[EpisodeRows, Part]:
    _require_rows(part, (*ends.column, *([ends.sequence] if ends.sequence else [])), rows)
    ordered = part if ends.sequence is None else _in_order(part, ends.column, ends.sequence, ends.gaps == "allow", rows)
    try:
        starts, ids = _runs(ordered, ends.column, rows)
        _require_unique(ordered, starts, ids)
        found = _flagged(options, columns, ordered, np.append(starts, rows), ids, 0)
        if ends.sequence and part.columns[ends.sequence].is_text:
            told = f"'{ends.sequence}' orders the rows of each episode by its times, of UTC where they name no zone."
            found.notes.append((told, 1, told))
        return found, ordered
    except HindcastError:
        if ordered is not part:
            ordered.close()
        raise


def _in_order(part: Part, columns: Sequence[str], sequence: str, gaps: bool, rows: int) -> Part:
    """Returns the part with the rows of each id together, ids in the order of their first rows."""
    is_time = part.columns[sequence].is_text
    values, numbers = _id_values(part, columns, 0, rows), (_times if is_time else _whole_numbers)(part, sequence)
    code, _ = pd.factorize(values)
    order = np.lexsort((numbers, code))
    code, numbers = code[order], numbers[order]
    step = np.diff(numbers)
    wrong = (code[1:] == code[:-1]) & ((step < 1) if gaps or is_time else (step != 1))
    if wrong.any():
        place = int(wrong.argmax())
        value = part.read(sequence, int(order[place]), int(order[place]) + 1)[0]
        what = "twice" if step[place] == 0 else f"and then {numbers[place + 1]}"
        where, episode = f"{part.name}, row {part.row_number(int(order[place + 1]))}", values[order[place]]
        raise HindcastError(
            f"{where}: episode '{episode}' has '{sequence}' {value} twice; expected each time once. Mend it."
            if is_time
            else f"{where}: episode '{episode}' has '{sequence}' {numbers[place]} {what}; expected each number once, and no gap. "
            "Mend the rows, or set 'gaps: allow' where it is a time and not a count."
        )
    return OrderedPart(part, order) if (order[1:] < order[:-1]).any() else part


def _require_unique(part: Part, starts: np.ndarray, ids: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for start, name in zip(starts.tolist(), ids, strict=True):
        if name in seen:
            raise HindcastError(
                f"{part.name}, row {part.row_number(start)}: the id '{name}' comes back after other ids (first on row {seen[name]}), so "
                "its rows do not stand together. Name the column that orders them, 'ends: {kind: ids, sequence: ...}', or a further column "
                "of the id: 'column: [..., ...]'."
            )
        seen[name] = part.row_number(start)


def _runs(part: Part, columns: Sequence[str], rows: int) -> tuple[np.ndarray, list[str]]:
    """Returns where each run of one id starts, and the ids as text."""
    starts, ids, before = [], [], None
    for start in range(0, rows, BLOCK_ROWS):
        values = _id_values(part, columns, start, min(start + BLOCK_ROWS, rows))
        changes = np.flatnonzero(values[1:] != values[:-1]) + 1
        if before is None or values[0] != before:
            changes = np.concatenate([[0], changes])
        starts.append(start + changes)
        ids += [str(value) for value in values[changes].tolist()]
        before = values[-1]
    return np.concatenate(starts), ids


def _id_values(part: Part, columns: Sequence[str], start: int, stop: int) -> np.ndarray:
    """Returns the id of each row: the value of the column, or the values of several as one text, joined by "/"."""
    each = [_id_column(part, column, start, stop) for column in columns]
    if len(each) == 1:
        return each[0]
    code, found = pd.factorize(pd.MultiIndex.from_arrays(each))
    return np.array(["/".join(map(_escaped, values)) for values in found], object)[code]


def _escaped(value: Any) -> str:
    """A text in which no "/" stands alone, so that different values joined by it stay different."""
    return str(value).replace("\\", "\\\\").replace("/", "\\/")


def _id_column(part: Part, column: str, start: int, stop: int) -> np.ndarray:
    values = part.read(column, start, stop).reshape(stop - start)
    missing = pd.isna(values) | ((values == "") if values.dtype == object else False)
    if missing.any():
        row = start + int(missing.argmax())
        raise HindcastError(f"{part.name}, row {part.row_number(row)}: the id '{column}' is missing there. Mend it.")
    if values.dtype.kind == "f":
        odd = values != np.floor(values)
        if odd.any():
            row = int(odd.argmax())
            where = f"{part.name}, row {part.row_number(start + row)}"
            raise HindcastError(f"{where}: the id '{column}' is {values[row]}; expected a whole number or a text.")
        return values.astype(np.int64)
    return values


def _require_rows(part: Part, columns: Sequence[str], rows: int) -> None:
    for column in columns:
        if part.columns[column].rows != rows:
            raise HindcastError(f"{part.name}: '{column}' has {part.columns[column].rows} rows, but there are {rows} rows of actions.")


def _flagged(
    options: MappingOptions, columns: Resolved, part: Part, edges: np.ndarray, ids: Sequence[str] | None, tail: int
) -> EpisodeRows:
    """Episodes between these edges, with their flags. Raises HindcastError where a flag is set within an episode."""
    start, stop = edges[:-1].astype(np.int64), edges[1:].astype(np.int64)
    notes: Counted = []
    flags = []
    for name, flag, names in (("terminal", options.terminal, columns.terminal), ("truncated", options.truncated, columns.truncated)):
        flags.append(episode_flags(name, flag, names, part, options, (start, stop), notes))
    terminal, truncated = flags
    if isinstance(options.ends, FlagEnds) and options.ends.column is not None:
        ended = np.ones(len(start), bool)
        ended[len(start) - tail :] = False
        truncated = truncated | (ended & ~terminal)
    both = int((terminal & truncated).sum())
    if both:
        one = "{} episode ends with terminal and truncated both set; it counts as terminal."
        notes.append(("{} episodes end with terminal and truncated both set; they count as terminal.", both, one))
    return EpisodeRows(start, stop, terminal, truncated & ~terminal, ids, tail, notes)


def _flags(options: MappingOptions, columns: Resolved) -> list[tuple[Flag, Sequence[str]]]:
    pairs = ((options.terminal, columns.terminal), (options.truncated, columns.truncated))
    return [(flag, names) for flag, names in pairs if flag is not None and names]
