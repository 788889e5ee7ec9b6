"""Links from a data set to those that it is made of: one small file each, which changes when the parent does."""

from dataclasses import asdict, dataclass
from pathlib import Path

from rl_datasets.files import read_json, write_json


@dataclass(frozen=True)
class Link:
    """A data set by name, the folder of its version, and the digest of its content."""

    dataset: str
    path: str
    digest: str


def write_link(folder: Path, link: Link) -> Path:
    """Returns the file, which has the name of the data set."""
    file = folder / f"{link.dataset}.json"
    write_json(file, asdict(link))
    return file


def read_links(folder: Path) -> list[Link]:
    """Returns the links in a folder, in the order of their names; none where it has none, or is none."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [Link(*(read_json(file, "dataset", "path", "digest")[key] for key in ("dataset", "path", "digest"))) for file in files]
