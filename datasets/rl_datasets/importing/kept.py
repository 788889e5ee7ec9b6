"""What is stored of columns as step metadata: each as it is, and as float64 where whole numbers are missing among others."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.parts import BLOCK_ROWS, Column, Part
from rl_datasets.importing.resolve import resolve
from rl_datasets.schema import TEXT, ArraySpec

_STORED_AS = {np.dtype(np.longdouble).name: "float64"}
_EXACT = 2**53  # below which float64 has every whole number


def kept_specs(parts: Callable[[], Iterator[Part]], options: MappingOptions) -> tuple[dict[str, ArraySpec], list[str]]:
    """Returns the step metadata by name, as the first part has them, and a sentence for each assumption.

    Reads whole numbers that may be missing. Raises HindcastError where the mapping does not fit, or float64 would round one of them.
    """
    part = next(iter(parts()), None) if options.step_metadata else None
    if part is None:
        return {}, []
    try:
        columns = {name: part.columns[column] for name, column in resolve(options, part).step_metadata.items()}
        for name, column in columns.items():
            if column.is_text and math.prod(column.shape) != 1:
                raise HindcastError(
                    f"{part.name}: step_metadata.{name} names '{column.name}', whose rows are texts of shape {list(column.shape)}; one "
                    "text a row is expected. Ignore it, or join them where the file is made."
                )
    finally:
        part.close()
    gaps = _with_gaps(parts, options, [name for name, column in columns.items() if _is_whole(column)])
    specs = {name: _spec(column) for name, column in columns.items()}
    told = [f"step_metadata/{name}: some numbers are missing, so they are stored as float64, NaN in the place of these." for name in gaps]
    return {name: replace(leaf, dtype="float64") if name in gaps else leaf for name, leaf in specs.items()}, told


def _spec(column: Column) -> ArraySpec:
    return ArraySpec((), TEXT) if column.is_text else ArraySpec(column.shape, _STORED_AS.get(column.dtype, column.dtype))


def _is_whole(column: Column) -> bool:
    return column.may_miss and not column.is_text and np.dtype(column.dtype).kind in "iub"


def _with_gaps(parts: Callable[[], Iterator[Part]], options: MappingOptions, names: list[str]) -> list[str]:
    """Returns those of the names of whose numbers some are missing in any part."""
    gaps, largest = dict.fromkeys(names, False), dict.fromkeys(names, 0.0)
    for part in parts() if names else ():
        try:
            columns = resolve(options, part).step_metadata
            for name in (name for name in names if name in columns):
                for start in range(0, part.columns[columns[name]].rows, BLOCK_ROWS):
                    block = part.read(columns[name], start, min(start + BLOCK_ROWS, part.columns[columns[name]].rows))
                    gaps[name] |= block.dtype.kind == "f"
                    largest[name] = max(largest[name], float(np.nanmax(np.abs(block.astype(np.float64)), initial=0)))
        finally:
            part.close()
    for name in names:
        if gaps[name] and largest[name] >= _EXACT:
            raise HindcastError(
                f"step_metadata/{name} has missing values beside whole numbers from 2**53 on ({largest[name]:.0f}), which float64 would "
                "round. Keep it as text ('types: {...: text}' of a table), or fill the gaps."
            )
    return [name for name in names if gaps[name]]
