"""Tables: CSV and TSV, JSON lines, Parquet, Arrow (Feather), also compressed by gzip, bzip2 or Zstandard.

Nested columns are flattened: field `b` of `a` is the column "a.b", a list of numbers is an array, and of any other list the column
"a.count" holds the number of its elements. A text file is parsed once, into a temporary file that is then read block by block.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from rl_datasets.builder import Context
from rl_datasets.importing.builder import FileImportBuilder, FileOptions
from rl_datasets.importing.dialect import Dialect
from rl_datasets.importing.parts import Part, Scratch
from rl_datasets.importing.tables import TablePart


class Options(FileOptions):
    """Files and their mapping. `types` are those of columns of a text whose values do not show them: text, float64, int64 or bool."""

    types: Mapping[str, str] = Field(default_factory=dict)  # by name
    read: Dialect = Dialect()  # how a CSV is written


class Builder(FileImportBuilder):
    options: Options
    suffixes = tuple(
        f".{kind}{packed}"
        for kind in ("csv", "tsv", "jsonl", "json", "ndjson", "parquet", "feather", "arrow")
        for packed in ("", ".gz", ".bz2", ".zst")
    )
    packages = ("numpy", "pyarrow")

    def __init__(self, options: Options, context: Context) -> None:
        self._first = Scratch()
        super().__init__(options, context)

    def open_file(self, path: Path, label: str) -> Part:
        """The first file is opened to describe the data and again to read them, and parsed once."""
        return TablePart(path, label, self.options.types, self.options.read, self._first if path == self.files[0] else None)


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    rng = np.random.default_rng(0)
    lines = ["trip,minute,speed,grade,throttle,fuel,done"]
    for trip, length in (("north", 5), ("south", 1), ("west", 4)):
        for minute in range(length):
            speed, grade, throttle = rng.uniform(0, 30), rng.normal(), rng.uniform()
            lines.append(
                f"{trip},{minute},{speed:.3f},{grade:.3f},{throttle:.3f},{-throttle:.2f},{int(minute == length - 1 and trip != 'west')}"
            )
    (folder / "trips.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")  # rows in another order
    mapping = {"observation": ["speed", "grade"], "action": ["throttle"], "reward": "fuel", "terminal": "done"}
    ends = {"kind": "ids", "column": "trip", "sequence": "minute"}
    return {"path": str(folder / "trips.csv"), "env_id": "Trips", **mapping, "ends": ends, "bounds": "data", "lost_observation": "repeat"}
