"""What takes the place of values that a source lacks: the last known one of the episode, or a number."""

import math
from collections.abc import Sequence

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.mapping import Array
from rl_datasets.importing.parts import Column, Part
from rl_datasets.importing.report import ImportReport


def require_fillers(name: str, array: Array, columns: Sequence[Column], part: Part) -> None:
    """Raises HindcastError where there is neither one number for all elements nor one for each."""
    width = sum(math.prod(column.shape) for column in columns)
    if array.missing is not None and len(array.missing) not in (1, width):
        raise HindcastError(f"{part.name}: {name}.missing has {len(array.missing)} numbers, but one or {width} are expected.")


def filled(values: np.ndarray, array: Array, begins: np.ndarray, name: str, report: ImportReport) -> np.ndarray:
    """Returns rows [N, ...] with every missing number filled, as the array's options say, and counts them in the report.

    `begins` are the rows on which episodes begin: nothing is carried beyond the end of one.
    """
    if array.missing is None or values.dtype.kind not in "iuf":
        return values
    gone = _gone(values, array)
    if not gone.any():
        return values
    flat, gone = values.reshape(len(values), -1), gone.reshape(len(values), -1)
    if array.carry:
        before = int(np.count_nonzero(gone))
        flat, gone = _carried(flat, gone, begins)
        carried = before - int(np.count_nonzero(gone))
        told = "the last known one of the episode."
        report.count(f"{name}: {{}} missing values became {told}", carried, f"{name}: {{}} missing value became {told}")
    told = f"replaced by {', '.join(f'{number:g}' for number in array.missing)}."
    left = int(np.count_nonzero(gone))
    report.count(f"{name}: {{}} missing values were {told}", left, f"{name}: {{}} missing value was {told}")
    fillers = np.asarray(array.missing, np.float64)
    exact = flat.dtype.kind == "f" or (fillers.astype(flat.dtype) == fillers).all()  # what is not, the cast to what is stored refuses
    return np.where(gone, fillers.astype(flat.dtype) if exact else fillers, flat).reshape(values.shape)


def _gone(values: np.ndarray, array: Array) -> np.ndarray:
    gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    for mark in array.missing_marks:
        gone |= values == mark
    return gone


def _carried(values: np.ndarray, gone: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns [N, D] with the last known value of each element's episode in the place of a missing one, and what is missing still."""
    source = np.where(gone, -1, np.arange(len(values))[:, None])
    source[begins] = begins[:, None]  # where it is missing there, it stays so until it is known
    np.maximum.accumulate(source, axis=0, out=source)
    return np.take_along_axis(values, source, axis=0), np.take_along_axis(gone, source, axis=0)
