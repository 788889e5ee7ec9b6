"""Builds one data set: episodes from its builder, as RLDS with a manifest."""

import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines import paths
from pipelines.params import DatasetParams, Params
from pipelines.stage import console, main
from rl_datasets.builder import RAW_SPLIT, BatchPolicy, Context, DatasetBuilder, load_builder
from rl_datasets.errors import HindcastError
from rl_datasets.files import replacing
from rl_datasets.links import read_links
from rl_datasets.manifest import FILE_NAME, Manifest, package_versions, write_manifest
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import Episode
from rl_datasets.words import count

REDRAW_SECONDS = 0.2
NOTES_SHOWN = 10


def run(key: str, params: Params) -> Path:
    """Writes artifacts/raw/<key>/<version>/, whole or not at all."""
    entry = params.dataset(key)
    context = Context(key, workers=params.runtime.workers, load_policy=_load_policy, source=Path(entry.source))
    options = params.builder_options(key)  # first, for it names the key of an unknown builder
    builder: DatasetBuilder = load_builder(entry.builder).Builder(options, context)
    _require_within_source(key, entry, builder)
    folder = paths.RAW / key / entry.version
    started = time.monotonic()
    with replacing(folder) as part:
        made = _without(builder.episodes(entry.seed), key, entry.exclude)
        episodes = _watched(made, f"collect {key}", builder.expected_episodes)
        packages = package_versions(*builder.packages)
        excluded = {"excluded_episodes": len(entry.exclude)} if entry.exclude else {}
        written = write_rlds(part, key, entry.version, builder.spec(), {RAW_SPLIT: episodes}, versions=packages)
        manifest = Manifest(
            job=f"collect@{key}",
            digest=written.digest,
            parameters=entry.model_dump(mode="json"),
            inputs=tuple(builder.inputs),
            counts={"episodes": written.episodes[RAW_SPLIT], "transitions": written.transitions[RAW_SPLIT], **builder.counts, **excluded},
            notes=(
                *builder.notes,
                *(
                    f"{count(number, 'of its episodes was left out by its id', 'of its episodes were left out by their ids')}."
                    for number in excluded.values()
                ),
            ),
            packages=packages,
        )
        write_manifest(part, manifest)
    _report(manifest, folder, time.monotonic() - started)
    return folder


def _load_policy(path: Path) -> BatchPolicy:
    from trainer.bundle import load_bundle  # JAX takes most of a second, and few data sets need it

    return load_bundle(path)


def _require_within_source(key: str, entry: DatasetParams, builder: DatasetBuilder) -> None:
    """DVC reruns a data set when its `source` changes, so all that the builder reads must lie there."""
    outside = [entered for entered in builder.inputs if not Path(entered.path).is_relative_to(entry.source)]
    linked = {link.path for link in read_links(Path(entry.source))} if outside else set()  # by files there, which change with a parent
    for entered in outside:
        if entered.path not in linked:
            raise HindcastError(
                f"params.yaml:\n  datasets.{key}.source: found '{entry.source}', but the data set is made from '{entered.path}', "
                "which is not in it. Set source to that path or to a folder above it, so that a change there rebuilds the data."
            )


def _without(episodes: Iterable[Episode], key: str, exclude: Collection[str]) -> Iterator[Episode]:
    """Passes on all episodes but those of these ids. Raises HindcastError, once all are read, where one of the ids is none."""
    left = set(exclude)
    for episode in episodes:
        if episode.episode_id in left:
            left.remove(episode.episode_id)
        else:
            yield episode
    if left:
        raise HindcastError(
            f"params.yaml:\n  datasets.{key}.exclude: found '{min(left)}', but the builder makes no episode of this id. "
            "Where it is no longer in the source, take it off the list; else mend the id (artifacts/splits/*/*/episodes.csv has them)."
        )


def _watched(episodes: Iterable[Episode], what: str, total: int | None) -> Iterator[Episode]:
    """Passes episodes on and shows how many there are, and how many steps a second."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,} episodes, {task.fields[rate]:,} steps/s"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task(what, total=total, rate=0)
        started = drawn = time.monotonic()
        count = steps = 0
        for episode in episodes:
            yield episode
            count, steps, now = count + 1, steps + episode.length, time.monotonic()
            if now - drawn > REDRAW_SECONDS:
                progress.update(task, completed=count, rate=int(steps / (now - started)))
                drawn = now


def _report(manifest: Manifest, folder: Path, seconds: float) -> None:
    counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in manifest.counts.items() if count)
    rate = manifest.counts["transitions"] / seconds
    console.print(f"{counts} in {seconds:.1f} s ({rate:,.0f} steps/s): {folder}", highlight=False, soft_wrap=True)
    for note in manifest.notes[:NOTES_SHOWN]:
        console.print(f"  {note}", markup=False, highlight=False, soft_wrap=True)
    if len(manifest.notes) > NOTES_SHOWN:
        console.print(f"  {count(len(manifest.notes) - NOTES_SHOWN, 'more note')}: {folder / FILE_NAME}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main("collect", run)
