"""How a table of text is written: what an entry declares of it, and the refusal of a file that shows something else."""

import codecs
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, field_validator

from rl_datasets.builder import BuilderOptions
from rl_datasets.errors import HindcastError

_OF_VALUES = {"decimal", "thousands", "na_values", "date_format"}  # keys that tell how values are read


def _as_texts(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]
Character = Annotated[str, Field(min_length=1, max_length=1)]


class Dialect(BuilderOptions):
    """How the lines of a CSV are written, in the words of pandas. What is not said is as most files are."""

    sep: Character | None = None  # between fields; a comma where nothing is said, in .tsv a tab
    decimal: Character = "."
    thousands: Character | None = None  # stands between the thousands of a number: 1.234.567
    encoding: str = "utf-8"
    quotechar: Character = '"'
    comment: Character | None = None  # lines that begin with it are left out
    skiprows: int = Field(0, ge=0)  # lines before the header
    names: Texts | None = None  # of the columns, where no line of the file names them
    na_values: Texts = ()  # stand for a missing number or time, beside "", NA, N/A, n/a, NULL, null, NaN and nan
    date_format: str | None = None  # of times that are not in ISO 8601, such as "%d.%m.%Y %H:%M"

    @field_validator("encoding")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            codecs.lookup(name)
        except LookupError as error:
            raise ValueError(f"no encoding is named '{name}'; expected one such as utf-8, latin-1, cp1252 or utf-16") from error
        return name


class Sign(NamedTuple):
    """A key of a Dialect that a file asks for, its value, and what was seen."""

    key: str
    value: Any
    evidence: str


class UndeclaredError(HindcastError):
    """A file is written in another way than its entry says."""

    def __init__(self, path: Path, declared: Dialect, signs: Sequence[Sign]) -> None:
        self.signs = tuple(signs)
        wanted = words(adopt(declared, signs))
        told = " (a column that is text all the same: types: {NAME: text})" if {sign.key for sign in signs} & _OF_VALUES else ""
        super().__init__(f"{path}: {'; '.join(sign.evidence for sign in signs)}. Declare it in the options, read: {wanted}{told}.")


def adopt(declared: Dialect, signs: Sequence[Sign]) -> Dialect:
    """Returns the dialect with what a file asks for; marks of missing values are added to those that are declared."""
    values = {key: getattr(declared, key) for key in declared.model_fields_set}
    for sign in signs:
        values[sign.key] = (*values.get("na_values", ()), *sign.value) if sign.key == "na_values" else sign.value
    return Dialect(**values)


def declared_keys(read: Dialect) -> dict[str, Any]:
    """Returns what an entry says, in plain lists and words."""
    return {
        key: list(value) if isinstance(value := getattr(read, key), tuple) else value
        for key in Dialect.model_fields
        if key in read.model_fields_set
    }


def words(read: Dialect) -> str:
    """Returns what is declared as YAML on one line."""
    return "{" + ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in declared_keys(read).items()) + "}"
