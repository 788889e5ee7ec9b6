"""What all importing builders share: options, spec, episodes, inputs and the report. A builder of a kind of file adds `open_file`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from rl_datasets.builder import Context
from rl_datasets.errors import HindcastError
from rl_datasets.importing.convert import convert
from rl_datasets.importing.layouts import with_layout
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.parts import Part
from rl_datasets.importing.report import ImportReport
from rl_datasets.importing.source import file_digest, labels_of, source_files
from rl_datasets.importing.spec import describe
from rl_datasets.manifest import Input
from rl_datasets.schema import EnvSpec, Episode


class FileOptions(MappingOptions):
    """Files and their mapping. An episode lies in one file."""

    path: str | None = Field(None, min_length=1)  # file or folder; the entry's source where nothing is said
    files: str | None = Field(None, min_length=1)  # which of a folder, such as "train-*.npz"; those of the kind where nothing is said
    layout: str | None = None  # a mapping by name: d4rl, d3rlpy, d3rlpy2 or robomimic

    @model_validator(mode="before")
    @classmethod
    def _fill_in_layout(cls, values: Any) -> Any:
        try:
            return with_layout(values) if isinstance(values, Mapping) else values
        except HindcastError as error:
            raise ValueError(str(error)) from error


class ImportBuilder:
    """Episodes of logged data by a mapping. A subclass yields the `parts` of its source, each time anew, and names what it read."""

    packages: Sequence[str] = ("numpy",)
    expected_episodes: int | None = None

    def __init__(self, options: MappingOptions, context: Context) -> None:
        """Opens the first part, so that a mapping that does not fit is an error now."""
        self.options, self.context = options, context
        self.notes: list[str] = []
        self.counts: dict[str, int] = {}
        self._spec, self._assumed = describe(self.parts, options)

    def parts(self) -> Iterator[Part]:
        raise NotImplementedError

    @property
    def inputs(self) -> Sequence[Input]:
        raise NotImplementedError

    def spec(self) -> EnvSpec:
        return self._spec

    def episodes(self, seed: int) -> Iterator[Episode]:
        """Logged data are what they are: the seed changes nothing."""
        del seed
        report = ImportReport()
        yield from convert(self.parts(), self.options, self._spec, report)
        self.notes, self.counts = [*report.notes(), *self._assumed], report.counts()


class FileImportBuilder(ImportBuilder):
    """A builder whose parts are files. A subclass says which suffixes are its own and opens one file."""

    options: FileOptions
    suffixes: Sequence[str] = ()

    def __init__(self, options: FileOptions, context: Context) -> None:
        self.root = source_path(options.path, context)
        self.files = source_files(self.root, self.suffixes, options.files)
        super().__init__(options, context)

    def open_file(self, path: Path, label: str) -> Part:
        """Raises HindcastError where the file is not of this kind, or damaged."""
        raise NotImplementedError

    def parts(self) -> Iterator[Part]:
        for path, label in zip(self.files, labels_of(self.files, self.root, self.suffixes), strict=True):
            yield self.open_file(path, label)

    @cached_property
    def inputs(self) -> Sequence[Input]:
        return file_inputs(self.files)


def filled_in(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> MappingOptions:
    """Returns a mapping from what a source says of itself, with an entry's own options in its place, key by key."""
    try:
        return MappingOptions.model_validate({**defaults, **own})
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise HindcastError(f"The option 'mapping' does not fit: {faults}.") from error


def source_path(path: str | None, context: Context) -> Path:
    """Returns the path in the options, or the entry's source. Raises HindcastError where neither is given."""
    if path is None and context.source is None:
        raise HindcastError("No file is named. Give the entry a 'source', or its options a 'path'.")
    return Path(path) if path is not None else context.source  # type: ignore[return-value]


def file_inputs(files: Sequence[Path]) -> list[Input]:
    """One input a file, with the SHA-256 of its content."""
    return [Input(name=path.name, path=path.as_posix(), digest=file_digest(path)) for path in files]
