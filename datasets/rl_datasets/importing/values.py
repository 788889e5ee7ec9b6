"""Columns of a block of rows to one array as it is stored: joined, decoded, scaled, cast. Every change of a value is counted."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.mapping import Array
from rl_datasets.importing.missing import filled, require_fillers
from rl_datasets.importing.parts import Column, Part, shown
from rl_datasets.importing.report import ImportReport
from rl_datasets.schema import ArraySpec

NOWHERE = np.zeros(0, np.int64)
_STORED_AS = {"float64": "float32", np.dtype(np.longdouble).name: "float32"}


def array_spec(name: str, array: Array, columns: Sequence[Column], part: Part) -> ArraySpec:
    """Returns what is stored of an array. Raises HindcastError where its options do not fit the columns."""
    require_fillers(name, array, columns, part)
    dtype, shape = _decoded(name, array, columns, part)
    if array.scale is not None or array.offset is not None:
        dtype = dtype if np.dtype(dtype).kind == "f" else "float32"
    dtype = array.dtype or _STORED_AS.get(dtype, dtype)
    _require_dtype(name, dtype)
    if array.shape is not None:
        if math.prod(array.shape) != math.prod(shape):
            raise HindcastError(f"{part.name}: {name}.shape is {list(array.shape)}, but its rows have the shape {list(shape)}.")
        shape = array.shape
    elif (name == "reward" and math.prod(shape) == 1) or (array.num_values is not None and shape == (1,)):
        shape = ()
    elif shape == () and np.dtype(dtype).kind == "f" and name != "reward":
        shape = (1,)  # a scalar that is no category is a vector of one
    if name == "reward" and shape != ():
        raise HindcastError(f"{part.name}: reward has rows of shape {list(shape)}, but one number is expected. Name one column.")
    return _bounded(name, array, ArraySpec(shape, dtype))


class ArrayMaker:
    """Makes one array of one part's columns, a block of rows at a time."""

    def __init__(self, name: str, array: Array, columns: Sequence[str], spec: ArraySpec, part: Part, report: ImportReport) -> None:
        self.name, self.spec, self.columns = name, spec, tuple(columns)
        self._array, self._part, self._report = array, part, report
        self._where = (
            f"{name} ({'column' if len(columns) == 1 else 'columns'} {', '.join(columns[:3])}{' ...' if len(columns) > 3 else ''})"
        )

    def rows(self, start: int, stop: int, begins: np.ndarray = NOWHERE) -> np.ndarray:
        """Returns rows [start, stop), [stop - start, ...] of the spec's shape and dtype. `begins` are those, counted from `start`, on
        which episodes begin.
        """
        values = self._join([self._part.read(column, start, stop) for column in self.columns])
        values = self._decode(values, start, begins)
        values = self._cast(self._scale(values), start)
        return values.reshape(len(values), *self.spec.shape)

    def _join(self, parts: list[np.ndarray]) -> np.ndarray:
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)

    def _decode(self, values: np.ndarray, start: int, begins: np.ndarray) -> np.ndarray:
        array = self._array
        if self.spec.is_text:
            return self._as_texts(values)
        values = filled(values, array, begins, self.name, self._report)
        if array.one_hot:
            return self._one_hot(values, start)
        if array.categories is not None:
            return self._categories(values, array.categories, start)
        if array.text is not None:
            return self._text(values, array.text, start)
        if values.dtype == object:
            raise HindcastError(f"{self._part.name}: {self._where} is text. Say how to store it: 'categories: [...]' or 'text: <bytes>'.")
        return values

    def _as_texts(self, values: np.ndarray) -> np.ndarray:
        texts = values.reshape(len(values)).tolist()
        missing = sum(text is None for text in texts)
        self._report.count(f"{self.name}: {{}} missing texts are empty now.", missing, f"{self.name}: {{}} missing text is empty now.")
        return np.array(["" if text is None else str(text) for text in texts], object)

    def _one_hot(self, values: np.ndarray, start: int) -> np.ndarray:
        flat = values.reshape(len(values), -1)
        set_ = np.where(flat == flat, flat, 0) if flat.dtype.kind == "f" else flat  # a feature that is not there is not set
        wrong: np.ndarray = ((set_ != 0) & (set_ != 1)).any(axis=1) | ((set_ == 1).sum(axis=1) != 1)
        self._refuse(wrong, start, lambda row: f"holds {flat[row].tolist()}", "a 1 in one place and 0 in all others")
        place: np.ndarray = set_.argmax(axis=1)
        return place

    def _categories(self, values: np.ndarray, known: Sequence[str | int], start: int) -> np.ndarray:
        index = {value: number for number, value in enumerate(known)}
        flat = [index.get("" if value is None else value, -1) for value in values.reshape(-1).tolist()]
        numbers = np.array(flat, np.int64).reshape(values.shape)
        wrong = np.asarray((numbers < 0).reshape(len(values), -1).any(axis=1))
        self._refuse(wrong, start, lambda row: f"holds {shown(values[row])}", f"one of the categories {list(known)}")
        return numbers

    def _text(self, values: np.ndarray, width: int, start: int) -> np.ndarray:
        encoded = [("" if value is None else str(value)).encode() for value in values.reshape(len(values)).tolist()]
        wrong = np.array([len(value) > width for value in encoded], bool)
        self._refuse(wrong, start, lambda row: f"holds a text of {len(encoded[row])} bytes", f"at most {width}, as 'text' says")
        return np.array(encoded, f"S{width}").view(np.uint8).reshape(-1, width)

    def _scale(self, values: np.ndarray) -> np.ndarray:
        array = self._array
        if array.scale is not None or array.offset is not None:
            values = values * (1.0 if array.scale is None else array.scale) + (array.offset or 0.0)
            unit = f", in {array.unit}" if array.unit else ""
            self._report.once(f"{self.name}: stored is value * {array.scale or 1:g} + {array.offset or 0:g}{unit}.")
        elif array.unit:
            self._report.once(f"{self.name} is in {array.unit}.")
        if array.clip is not None:
            clipped: np.ndarray = np.clip(values, *array.clip)
            moved = (clipped != values).reshape(len(values), -1).any(axis=1)
            low, high = array.clip
            told = f"had values beyond [{low:g}, {high:g}], which were clipped."
            self._report.count(f"{self.name}: {{}} rows {told}", int(moved.sum()), f"{self.name}: {{}} row {told}")
            values = clipped
        return values

    def _cast(self, values: np.ndarray, start: int) -> np.ndarray:
        """Floats are rounded, but finite ones stay finite; whole numbers stay what they are."""
        found, stored = values.dtype, self.spec.numpy_dtype
        if found.name != stored.name and self._array.text is None:
            self._report.once(f"{self.name}: {found.name} is stored as {stored.name}.")
        if found == stored:
            return values
        try:
            with np.errstate(over="raise", invalid="raise"):
                result = values.astype(stored)
        except FloatingPointError:
            with np.errstate(over="ignore", invalid="ignore"):
                result = values.astype(stored)
        if stored.kind == "f":
            wrong = np.isfinite(values) & ~np.isfinite(result) if found.kind == "f" and found.itemsize > stored.itemsize else None
        else:
            wrong = result != values
        if wrong is not None and wrong.any():
            by_row = wrong.reshape(len(values), -1).any(axis=1)
            self._refuse(by_row, start, lambda row: f"holds {values[row].tolist()}", f"values that {stored.name} can hold")
        return result

    def _refuse(self, wrong: np.ndarray, start: int, found: Callable[[int], str], expected: str) -> None:
        if wrong.any():
            row = int(wrong.argmax())
            where = f"{self._part.name}, row {self._part.row_number(start + row)}"
            raise HindcastError(f"{where}: {self._where} {found(row)}; expected {expected}. Mend the row or the entry.")


def _decoded(name: str, array: Array, columns: Sequence[Column], part: Part) -> tuple[str, tuple[int, ...]]:
    """Returns dtype and shape of a row once it is joined and decoded."""
    shape = columns[0].shape if len(columns) == 1 else (sum(math.prod(column.shape) for column in columns),)
    if len(columns) == 1 and columns[0].shape == () and _is_list(array):
        shape = (1,)
    if array.one_hot:
        return "int64", ()
    if array.categories is not None:
        return "int64", shape
    if array.text is not None:
        if len(columns) > 1 or not columns[0].is_text:
            raise HindcastError(f"{part.name}: {name}.text is for one column of strings, found {', '.join(c.dtype for c in columns)}.")
        return "uint8", (array.text,)
    if any(column.is_text for column in columns):
        text = next(column.name for column in columns if column.is_text)
        raise HindcastError(
            f"{part.name}: {name} is made of '{text}', which is text. Say how to store it: '{{columns: {text}, categories: [...]}}' "
            f"or '{{columns: {text}, text: <bytes>}}', or keep it as metadata."
        )
    return np.result_type(*(column.dtype for column in columns)).name, shape


def _is_list(array: Array) -> bool:
    return len(array.columns) > 1 or "*" in array.columns[0]


def _bounded(name: str, array: Array, spec: ArraySpec) -> ArraySpec:
    kinds = np.dtype(spec.dtype).kind
    count = array.num_values or (len(array.categories) if array.categories is not None and spec.shape == () else None)
    if count is not None:
        if spec.shape != () or kinds not in "iu":
            raise HindcastError(f"{name}: a category is one whole number, but {spec.dtype}{list(spec.shape)} is stored. Set its dtype.")
        return spec.bounded(0, count - 1, count)
    if kinds == "u" and spec.dtype == "uint8" and array.minimum is None and array.maximum is None:
        return spec.bounded(0, 255)
    low, high = (-np.inf if array.minimum is None else array.minimum), (np.inf if array.maximum is None else array.maximum)
    for key, bound in (("minimum", array.minimum), ("maximum", array.maximum)):
        if bound is not None and len(bound) not in (1, math.prod(spec.shape)):
            raise HindcastError(f"{name}.{key} has {len(bound)} numbers, but one or {math.prod(spec.shape)} are expected.")
    return spec.bounded(low, high)


def _require_dtype(name: str, dtype: str) -> None:
    try:
        usable = np.dtype(dtype).kind in "biuf" and np.dtype(dtype).name == dtype
    except TypeError:
        usable = False
    if not usable:
        raise HindcastError(f"{name}.dtype is '{dtype}'; expected the name of a NumPy type of numbers, such as float32, int64 or uint8.")
