"""Flags of rows and of episodes, read a block at a time: which rows they are set on, and which episodes end with them."""

from collections.abc import Iterator, Sequence

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.mapping import Flag, MappingOptions
from rl_datasets.importing.parts import BLOCK_ROWS, Part, shown

Counted = list[tuple[str, int, str]]  # as ImportReport.count takes them


def flag_rows(flag: Flag, columns: Sequence[str], part: Part) -> np.ndarray:
    """Returns the rows, int64 in order, where any of the columns is set. Raises HindcastError where one is neither 0 nor 1."""
    found = [row for column in columns for row in _column_rows(flag, column, part)]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)


def episode_flags(
    name: str,
    flag: Flag | None,
    columns: Sequence[str],
    part: Part,
    options: MappingOptions,
    edges: tuple[np.ndarray, np.ndarray],
    notes: Counted,
) -> np.ndarray:
    """Returns whether the flag is set at the end of each episode, bool [E]. Its columns have one value a row, or one an episode.

    `edges` are the first rows of episodes, and those after their last. Raises HindcastError where it is set within an episode.
    """
    start, stop = edges
    found = np.zeros(len(start), bool)
    for column in columns if flag is not None else ():
        assert flag is not None
        rows, count = flag_rows(flag, (column,), part), part.columns[column].rows
        if count == stop[-1]:
            episode = np.searchsorted(stop, rows, side="right")
            inner = rows != stop[episode] - 1
            if inner.any() and options.inner_flags == "refuse":
                row, last = int(rows[inner.argmax()]), int(stop[episode[inner.argmax()]]) - 1
                raise HindcastError(
                    f"{part.name}, row {part.row_number(row)}: '{column}' ({name}) is set, but by ends of kind {options.ends.kind} the "
                    f"episode goes on to row {part.row_number(last)}. Let flags tell the ends, or set 'inner_flags: ignore'."
                )
            told = f"'{column}' set within an episode, which was ignored as declared."
            notes.append((f"{{}} rows have {told}", int(inner.sum()), f"{{}} row has {told}"))
            found[episode[~inner]] = True
        elif count == len(start):
            found[rows] = True
        else:
            raise HindcastError(
                f"{part.name}: the flag '{column}' has {count} rows, but one a row ({stop[-1]}) or one an episode ({len(start)}) is "
                "expected. Ignore it, or mend 'ends'."
            )
    return found


def _column_rows(flag: Flag, column: str, part: Part) -> Iterator[np.ndarray]:
    for start, block in _blocks(part, column):
        if flag.equals is not None:
            yield start + np.flatnonzero(block == flag.equals)
            continue
        is_set = block.astype(bool) if block.dtype == bool else block == 1
        wrong = ~(is_set | (block == 0))
        if wrong.any():
            place = int(np.asarray(wrong).argmax())
            raise HindcastError(
                f"{part.name}, row {part.row_number(start + place)}: the flag '{column}' is {shown(block[place])}, but 0 or 1 is expected. "
                "Mend the row, or say which value sets it with 'equals'."
            )
        yield start + np.flatnonzero(is_set)


def _blocks(part: Part, column: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (first row, values [n]) of a column with one value a row."""
    described = part.columns[column]
    if int(np.prod(described.shape)) != 1:
        raise HindcastError(f"{part.name}: '{column}' has rows of shape {list(described.shape)}, but one value a row is expected there.")
    for start in range(0, described.rows, BLOCK_ROWS):
        block = part.read(column, start, min(start + BLOCK_ROWS, described.rows))
        yield start, block.reshape(len(block))
