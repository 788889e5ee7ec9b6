"""What the values of a column are: their range, whether they are flags or whole numbers, whether they ever change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rl_datasets.checks.extremes import sentinels
from rl_datasets.importing.parts import TIME, Column
from rl_datasets.inspection.head import Head

MOST_DISTINCT = 64  # values that are told apart


@dataclass(frozen=True)
class Facts:
    """Of the rows that were looked at. Ranges leave out what is missing, and marks; they are None for text and for what cannot be read."""

    column: Column
    minimum: float | None = None
    maximum: float | None = None
    missing: int = 0
    values: tuple[float | str, ...] | None = None  # those that differ, sorted; None where there are more than MOST_DISTINCT
    is_whole: bool = False  # every number is a whole one
    constants: tuple[int, ...] = ()  # elements of a row that never change
    marks: tuple[float, ...] = ()  # numbers that seem to stand for a missing one, such as -999, where they were looked for

    @property
    def is_flag(self) -> bool:
        """0 and 1 alone, one a row."""
        one_each = self.is_number and int(np.prod(self.column.shape)) == 1
        return one_each and not self.missing and self.values is not None and set(self.values) <= {0.0, 1.0}

    @property
    def is_number(self) -> bool:
        return self.minimum is not None

    @property
    def levels(self) -> list[str]:
        """The texts of a column of few, sorted; a missing one is "". Empty for numbers, and where there are many."""
        if not self.column.is_text or self.column.dtype == TIME or self.values is None:
            return []
        return sorted({*map(str, self.values), *([""] if self.missing else [])})

    @property
    def is_constant(self) -> bool:
        return self.column.rows > 1 and len(self.constants) == int(np.prod(self.column.shape, dtype=np.int64)) > 0


def facts_of(head: Head) -> dict[str, Facts]:
    return {name: _facts(column, head.arrays.get(name)) for name, column in head.columns.items()}


def with_marks(facts: Mapping[str, Facts], names: Sequence[str], head: Head) -> dict[str, Facts]:
    """Returns the facts with the marks of columns that make one array, and with ranges that leave them out.

    A number is a mark for all of them or for none: it is left where another column holds it among its other values. Images have none.
    """
    numbers = {name: _elements(head.arrays[name]) for name in names if facts[name].is_number and len(facts[name].column.shape) < 2}
    if len(numbers) < sum(facts[name].is_number for name in names):
        return dict(facts)
    columns = [column for elements in numbers.values() for column in elements.T]
    found = sorted({mark for column in columns for mark in sentinels(column)})
    marks = [mark for mark in found if not any(_is_inside(column, mark, found) for column in columns)]
    told = dict(facts)
    for name, elements in numbers.items():
        here = tuple(mark for mark in marks if (elements == mark).any())
        known = elements[~np.isin(elements, here) & ~np.isnan(elements)]
        if here and len(known):
            told[name] = replace(facts[name], marks=here, minimum=float(known.min()), maximum=float(known.max()))
    return told


def _elements(values: np.ndarray) -> np.ndarray:
    """Returns rows [N, ...] as float64 [N, D]."""
    return values.reshape(len(values), -1).astype(np.float64)


def _is_inside(column: np.ndarray, mark: float, marks: Sequence[float]) -> bool:
    """Whether a column holds a number among its values, or nothing besides marks."""
    if not (column == mark).any():
        return False
    rest = column[~np.isin(column, marks) & np.isfinite(column)]
    return not len(rest) or bool(rest.min() <= mark <= rest.max())


def _facts(column: Column, values: np.ndarray | None) -> Facts:
    if values is None or not len(values):
        return Facts(column)
    if column.is_text:
        return _text_facts(column, values)
    flat = values.reshape(len(values), -1)
    if flat.shape[1] == 0:
        return Facts(column)
    numbers = flat.astype(np.float64) if flat.dtype.kind == "b" else flat
    gone = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(numbers.shape, bool)
    if gone.all():
        return Facts(column, missing=int(gone.sum()))
    known = numbers[~gone] if gone.any() else numbers
    finite = known[np.isfinite(known)] if known.dtype.kind == "f" else known
    distinct = np.unique(flat[:, 0][~gone[:, 0]]) if flat.shape[1] == 1 else np.zeros(0)
    few = flat.shape[1] == 1 and len(distinct) <= MOST_DISTINCT
    with np.errstate(invalid="ignore"):
        constants = np.flatnonzero(((numbers == numbers[:1]) | (gone & gone[:1])).all(axis=0))
    return Facts(
        column,
        float(known.min()),
        float(known.max()),
        int(gone.sum()),
        tuple(float(value) for value in distinct) if few else None,
        bool(numbers.dtype.kind in "iu" or flat.dtype.kind == "b" or (finite == np.floor(finite)).all()),
        tuple(constants.tolist()),
    )


def _text_facts(column: Column, values: np.ndarray) -> Facts:
    flat = values.reshape(-1)
    gone = pd.isna(flat)
    distinct = set(flat[~gone].tolist())
    few = tuple(sorted(distinct)) if len(distinct) <= MOST_DISTINCT else None
    return Facts(column, missing=int(gone.sum()), values=few, constants=(0,) if len(distinct) + bool(gone.any()) == 1 else ())
