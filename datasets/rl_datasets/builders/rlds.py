"""RLDS data sets that exist: a TFDS directory, ours or anybody's, or a TFDS builder class by its import path.

A data set that this project wrote comes through as it is. Of any other, `mapping` may say which arrays of a step are what; by
default they are the features' own "observation", "action", "reward" and "is_terminal", and everything else is left out but for what
`step_metadata` names.
"""

import importlib
import importlib.resources
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from rl_datasets.builder import BuilderOptions, Context
from rl_datasets.errors import HindcastError, describe_raise
from rl_datasets.importing.builder import ImportBuilder, file_inputs, filled_in, source_path
from rl_datasets.importing.episodic import parts_of
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.parts import ArrayPart, Part, Scratch
from rl_datasets.importing.report import ImportReport
from rl_datasets.importing.resolve import resolve
from rl_datasets.importing.source import source_files
from rl_datasets.manifest import Input
from rl_datasets.rlds import STEP_METADATA, RldsReader
from rl_datasets.schema import EnvSpec, Episode

_OF_RLDS = ("is_first", "is_last", "discount")  # what a step says of its place in the episode


class Options(BuilderOptions):
    """`path` is the folder of one version, or with `tfds_class` ("module:Class") the data_dir that the class keeps its data in."""

    path: str | None = Field(None, min_length=1)  # the entry's source where nothing is said
    tfds_class: str | None = Field(None, pattern=r"^[\w.]+:\w+$")
    splits: tuple[str, ...] = ()  # in this order; all where nothing is said
    mapping: Mapping[str, Any] = Field(default_factory=dict)


class Builder(ImportBuilder):
    packages = ("numpy", "tensorflow-datasets")

    def __init__(self, options: Options, context: Context) -> None:
        self.root = source_path(options.path, context)
        self._scratch = Scratch()
        folder = self.root if options.tfds_class is None else prepared(options.tfds_class, self.root, self._scratch)
        self.reader = RldsReader(folder)
        self.splits = options.splits or self.reader.splits
        self._passes = self.reader.is_own and not options.mapping
        if self._passes:
            self.context, self.notes, self.counts = context, [], {}
            self._spec: EnvSpec = self.reader.spec
            return
        mapping = filled_in(_defaults(self.reader), options.mapping)
        self._columns, self._left_out = _used(self.reader, mapping)
        super().__init__(mapping.model_copy(update={"ignore": ()}), context)
        if self._left_out:
            self._assumed = [*self._assumed, f"Arrays of a step that were left out: {', '.join(self._left_out)}."]

    def parts(self) -> Iterator[Part]:
        return parts_of(self._stored(), str(self.root))

    @cached_property
    def inputs(self) -> Sequence[Input]:
        return file_inputs(source_files(self.root, ("",)))

    def episodes(self, seed: int) -> Iterator[Episode]:
        if not self._passes:
            yield from super().episodes(seed)
            return
        report = ImportReport()
        for split in self.splits:
            for episode in self.reader.episodes_of(self.reader.shards(split)):
                report.rows, report.last_rows = report.rows + episode.length + 1, report.last_rows + 1
                report.ended["terminal" if episode.is_terminal else "truncated"] += 1
                yield episode
                report.keep(1, episode.length, int(episode.is_terminal))
        report.check()
        self.notes, self.counts = report.notes(), report.counts()

    def _stored(self) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        many = len(self.splits) > 1
        for split in self.splits:
            for number, (arrays, _) in enumerate(self.reader.arrays(self.reader.shards(split), self._columns)):
                columns = {key: array.astype(str) if array.dtype == object else array for key, array in arrays.items()}
                yield f"{split}-{number:08d}" if many else f"{number:08d}", columns


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    from rl_datasets.rlds import write_rlds
    from rl_datasets.schema import ArraySpec

    spec = EnvSpec("Logged-v0", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0.0, 2.0, 3))
    rng, episodes = np.random.default_rng(0), []
    for number in range(4):
        steps = 3 + number
        action, reward = rng.integers(0, 3, steps + 1), rng.normal(size=steps + 1).astype(np.float32)
        discount = np.ones(steps + 1, np.float32)
        action[-1] = reward[-1] = discount[-1] = 0
        discount[-2] = number % 2
        observation = rng.normal(size=(steps + 1, 2)).astype(np.float32)
        metadata: dict[str, str | int | float] = {"seed": number, "policy": "random", "environment": "Logged-v0"}
        episodes.append(Episode(f"{number:08d}", observation, action, reward, discount, number % 2 == 0, metadata))
    write_rlds(folder / "logged" / "1.0.0", "logged", "1.0.0", spec, {"train": episodes})
    return {"path": str(folder / "logged" / "1.0.0")}


def _defaults(reader: RldsReader) -> dict[str, Any]:
    """The mapping that the features of foreign data suggest."""
    keys = [key for key in reader.step_keys if reader.is_array(key)]
    return {
        "env_id": reader.name,
        "observation": _nest([key for key in keys if key.split("/")[0] == "observation"]),
        "action": "action",
        "reward": "reward",
        "terminal": "is_terminal?",
        "ends": {"kind": "groups"},
        "rows": "steps",
        "inner_flags": "ignore",
        "step_metadata": {name: f"{STEP_METADATA}/{name}" for name in (reader.spec.step_metadata if reader.is_own else ())},
    }


def _nest(keys: Sequence[str], depth: int = 1) -> dict[str, Any]:
    """Features by path as the `Array` of a mapping."""
    if len(keys) == 1 and keys[0].count("/") == depth - 1:
        return {"columns": keys[0]}
    names = list(dict.fromkeys(key.split("/")[depth] for key in keys))
    return {"entries": {name: _nest([key for key in keys if key.split("/")[depth] == name], depth + 1) for name in names}}


def _used(reader: RldsReader, mapping: MappingOptions) -> tuple[list[str], list[str]]:
    """Returns the arrays of a step that the mapping uses, and those that it does not."""
    every = ArrayPart(str(reader.path), "", {key: np.zeros(0, np.float32) for key in reader.step_keys})
    unreadable = {key for key in reader.step_keys if not (reader.is_array(key) or reader.is_text(key))}
    ignored = [name for name in reader.step_keys if name in {*unreadable, *_OF_RLDS}]
    found = resolve(mapping.model_copy(update={"ignore": (*mapping.ignore, *ignored)}), every, needs_all=False)
    used = {column for columns in (*found.leaves.values(), *found.next_leaves.values()) for column in columns}
    used |= {*found.terminal, *found.truncated, *found.metadata.values(), *found.step_metadata.values()}
    left_out = [key for key in reader.step_keys if key not in used and key not in _OF_RLDS]
    return [key for key in reader.step_keys if key in used], left_out


def prepared(name: str, data_dir: Path, scratch: Scratch) -> Path:
    """Returns the folder of the data that a TFDS builder class keeps in `data_dir`, or makes there where they are raw files."""
    module_name, _, class_name = name.partition(":")
    sys.modules.setdefault("importlib_resources", importlib.resources)  # a backport that TFDS imports without requiring it
    try:
        builder = getattr(importlib.import_module(module_name), class_name)(data_dir=str(data_dir))
        if not Path(str(builder.data_path)).is_dir():
            builder = type(builder)(data_dir=str(scratch.path))
            builder.download_and_prepare()
        return Path(str(builder.data_path))
    except Exception as error:  # whatever a class that somebody wrote raises
        raise HindcastError(f"tfds_class '{name}' cannot give its data: {describe_raise(error)}. Mend the class or 'path'.") from error
