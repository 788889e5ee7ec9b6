"""Data sets that are made of others: where a parent lies, what it holds, and what its children say of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from rl_datasets.builder import RAW_SPLIT, BuilderBase, BuilderOptions, Context
from rl_datasets.errors import HindcastError
from rl_datasets.links import read_links
from rl_datasets.manifest import FILE_NAME, Input, Manifest, read_manifest
from rl_datasets.schema import EnvSpec, Episode


@dataclass(frozen=True)
class Parent:
    """A data set as its collect stage wrote it."""

    name: str
    folder: Path
    manifest: Manifest

    @property
    def input(self) -> Input:
        return Input(self.name, self.folder.as_posix(), self.manifest.digest)

    def spec(self) -> EnvSpec:
        from rl_datasets.rlds import read_spec

        return read_spec(self.folder)

    def episodes(self) -> Iterator[Episode]:
        """In the order in which they are stored."""
        from rl_datasets.rlds import read_episodes

        yield from read_episodes(self.folder, RAW_SPLIT)


class ParentOptions(BuilderOptions):
    parent: str | None = Field(None, min_length=1)  # a folder such as artifacts/raw/<name>; the entry's source where nothing is said


class PartBuilder(BuilderBase):
    """A builder of some episodes of one other data set, `parent`: derive from it and write `episodes`."""

    options: ParentOptions

    def __init__(self, options: ParentOptions, context: Context) -> None:
        super().__init__(options, context)
        self.parent = find_parent(Path(options.parent) if options.parent is not None else context.source or Path())
        self.inputs = [self.parent.input]

    def spec(self) -> EnvSpec:
        return self.parent.spec()


def find_parent(path: Path) -> Parent:
    """Returns the data set in artifacts/raw/<name>, or in the folder of one version of it. Raises HindcastError where it isn't one."""
    folders = [path] if (path / FILE_NAME).is_file() else sorted(file.parent for file in path.glob(f"*/{FILE_NAME}"))
    if len(folders) != 1:
        found = "there is no such folder" if not path.is_dir() else f"it holds {len(folders)} data sets"
        raise HindcastError(
            f"{path} was expected to hold one data set that 'dvc repro' has made, but {found}. "
            "Name it as artifacts/raw/<name>, and run 'dvc repro' for it first."
        )
    manifest = read_manifest(folders[0])
    return Parent(manifest.job.partition("@")[2], folders[0], manifest)


def linked_parents(folder: Path) -> list[Parent]:
    """Returns the data sets that the links in a folder name, in the order of their names. Raises HindcastError where one has changed."""
    parents = []
    for link in read_links(folder):
        parent = find_parent(Path(link.path))
        if parent.manifest.digest != link.digest:
            raise HindcastError(
                f"{folder / link.dataset}.json links to {parent.folder} of digest {link.digest[:12]}, which now has "
                f"{parent.manifest.digest[:12]}. Run 'dvc repro'."
            )
        parents.append(parent)
    return parents
