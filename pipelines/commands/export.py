"""`hindcast export`: a data set that the pipeline has made, in another project's format, and the entry that reads it back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from pipelines import paths
from pipelines.inputs import read_input
from pipelines.params import load_params
from rl_datasets.builder import RAW_SPLIT
from rl_datasets.errors import HindcastError
from rl_datasets.exporting.exporter import Exported, load_exporter
from rl_datasets.files import WriteError, replacing
from rl_datasets.inspection.draft import Draft
from rl_datasets.inspection.entry import entry_text
from rl_datasets.rlds import DESCRIPTION, read_episodes, read_spec, read_splits
from rl_datasets.schema import Episode
from rl_datasets.words import count


def run(dataset: str, style: str, out: Path, console: Console) -> Exported:
    """Writes the file or folder `out`, whole or not at all. Raises HindcastError where it exists, or the data set is not made yet."""
    exporter, params = load_exporter(style), load_params()
    version = params.dataset(dataset).version
    raw = paths.RAW / dataset / version
    read_input(raw, f"collect@{dataset}", params, *DESCRIPTION)
    if out.exists():
        raise HindcastError(f"{out} exists already. Choose another name, or remove it.")
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"export {dataset}", total=read_splits(raw)[RAW_SPLIT].episodes)

        def watched() -> Iterator[Episode]:
            for episode in read_episodes(raw, RAW_SPLIT):
                progress.advance(task)
                yield episode

        with _whole(out, is_folder=not exporter.SUFFIX) as part:
            exported: Exported = exporter.write(part, dataset, read_spec(raw), watched())
    _tell(exported, dataset, out, console)
    return exported


@contextmanager
def _whole(out: Path, is_folder: bool) -> Iterator[Path]:
    """Yields a path beside `out` to write, which takes its place when it is done, and is removed on any error."""
    if is_folder:
        with replacing(out) as part:
            yield part
        return
    part = out.with_name(f".{out.name}.partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(out)
    except OSError as error:
        raise WriteError(out, error.strerror or str(error)) from error
    finally:
        part.unlink(missing_ok=True)


def _tell(exported: Exported, dataset: str, out: Path, console: Console) -> None:
    console.print(
        f"{count(exported.episodes, 'episode')}, {count(exported.transitions, 'transition')}: {out}", highlight=False, soft_wrap=True
    )
    console.print("What the format cannot hold:")
    for sentence in exported.lost:
        console.print(f"  {sentence}", markup=False, highlight=False, soft_wrap=True)
    console.print("An entry that reads it back:")
    entry = entry_text(f"{dataset}_again", exported.builder, out.as_posix(), Draft(dict(exported.options)))
    console.print(entry, markup=False, highlight=False, soft_wrap=True, end="")
