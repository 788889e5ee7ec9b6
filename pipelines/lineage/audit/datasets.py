"""Data sets, read whole: digests of content, counts, statistics, and what is in which split, computed again from the episodes.

Only a deep audit comes here: whatever manifests, dvc.lock and records say of the data, and however well they agree, is put to the test.
"""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipelines import paths
from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.audit.findings import Finding, broken, compared, holds, is_close, listed, unknown
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.changes import flat
from pipelines.lineage.stages import Stage
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, Manifest

if TYPE_CHECKING:
    from pipelines.lineage.audit.episodes import Read

DESCRIPTION, STATISTICS, EPISODES, QUARANTINE = "dataset_info.json", "stats.json", "episodes.csv", "quarantine"
KEPT, LARGEST_KEPT = 16, 100_000  # data sets whose contents stay known, and episodes of the largest of them


class Row(NamedTuple):
    """Of episodes.csv; "" for what it does not have."""

    episode_id: str = ""
    split: str = ""
    length: str = ""
    episode_return: str = ""
    content: str = ""


NO_ROW = Row()
LARGE = 32 << 20  # bytes of a data set that is worth to be read while it is hashed
_known: dict[str, "Read"] = {}  # by DVC's md5 of the folder


def read_ahead(scene: Scene, stages: Iterable[Stage]) -> None:
    """Reads the large data sets of these stages before the hashes of their bytes are known, so that both take the time of one."""
    if not isinstance(scene.contents, Workspace):
        return
    for stage in stages:
        for folder in scene.manifests(stage) if stage.locked is not None else ():
            files = scene.contents.files(folder)
            if f"{folder}/{DESCRIPTION}" in files and sum(map(os.path.getsize, files)) >= LARGE:
                with suppress(Exception):  # which the check of this folder meets again, and tells
                    scene.once(folder, partial(_read_here, folder))


def _read_here(folder: str) -> "Read":
    from pipelines.lineage.audit.episodes import read_directory  # with TensorFlow, two seconds

    return read_directory(Path(folder))


def check_datasets(scene: Scene, stage: Stage) -> Iterator[Finding]:
    if stage.locked is None:
        return
    for folder in scene.manifests(stage):
        if f"{folder}/{DESCRIPTION}" not in scene.contents.files(folder):
            continue
        link, mend = f"content of {folder}", scene.mend(folder, stage.name)
        try:
            manifest = scene.manifest(folder)
            read = scene.once(folder, partial(_read, scene, folder))
        except HindcastError as error:
            yield broken(stage.name, link, folder, found=str(error), mend=mend)
            continue
        if read is None:
            yield unknown(stage.name, link, folder, found="not all of its files are here", mend="'dvc pull' brings them", is_missing=True)
        elif manifest is not None:
            yield from _content(stage, folder, manifest, read, mend)
            yield from _statistics(scene, stage, folder, read, mend)
            if STATISTICS in manifest.files:
                yield from _splits(scene, stage, folder, manifest, read, mend)


def _content(stage: Stage, folder: str, manifest: Manifest, read: "Read", mend: str) -> Iterator[Finding]:
    where = f"{folder}/{FILE_NAME}"
    link = f"content of {folder}"
    yield compared(stage.name, link, folder, expected=f"digest {manifest.digest[:16]}", found=f"digest {read.digest[:16]}", mend=mend)
    counted = {f"{split}_episodes": len(episodes) for split, episodes in read.episodes.items()}
    counted |= {f"{split}_transitions": count for split, count in read.transitions.items()}
    if len(read.episodes) == 1:
        counted = {name.partition("_")[2]: count for name, count in counted.items()}
    expected = {name: manifest.counts.get(name) for name in counted}
    yield compared(stage.name, f"counts in {where}", where, expected=expected, found=counted, mend=mend, related=folder)


def _statistics(scene: Scene, stage: Stage, folder: str, read: "Read", mend: str) -> Iterator[Finding]:
    where = f"{folder}/{STATISTICS}"
    stated = scene.json(where)
    if stated is None or read.statistics is None:
        return
    expected, found = flat(read.statistics), flat(stated)
    differing = sorted(name for name in {*expected, *found} if not is_close(found.get(name), expected.get(name)))
    link = f"statistics {where}"
    if differing:
        wanted, is_so = (f"{differing[0]} = {values.get(differing[0])}" for values in (expected, found))
        yield broken(stage.name, link, where, expected=f"{wanted}, from the episodes of train", found=is_so, mend=mend)
    else:
        yield holds(stage.name, link, where)


def _splits(scene: Scene, stage: Stage, folder: str, manifest: Manifest, read: "Read", mend: str) -> Iterator[Finding]:
    """That no episode is in two splits, that the table says where each is, and that all together are the raw data's."""
    twice = sorted(_in_several(read.episodes))
    leaking = _in_several({split: contents.values() for split, contents in read.contents.items()})
    leaking_ids = sorted(name for contents in read.contents.values() for name, content in contents.items() if content in leaking)
    link = f"splits of {folder} share no episode"
    if twice or leaking_ids:
        found = f"in two splits: {listed(twice or leaking_ids)}"
        yield broken(stage.name, link, folder, expected="each episode and each content in one split", found=found, mend=mend)
    else:
        yield holds(stage.name, link, folder)
    table = _table(scene, folder)
    yield from _rows(stage, folder, table, read, mend)
    for split, episodes in read.episodes.items():
        rows = [name for name, row in table.items() if row.split == split]
        yield _order(stage, folder, rows, list(episodes), mend)
    raws = [entry.path for entry in manifest.inputs if entry.path.startswith(f"{paths.RAW.as_posix()}/")]
    raw = scene.once(raws[0], partial(_read, scene, raws[0])) if raws else None
    if raw is not None:
        aside = {name for name, row in table.items() if row.split == QUARANTINE}
        wanted = {name: digest for name, digest in raw.all_episodes.items() if name not in aside}
        here = read.all_episodes
        differing = [] if wanted == here else sorted(name for name in {*wanted, *here} if wanted.get(name) != here.get(name))
        link = f"episodes of {folder} are those of {raws[0]}"
        if differing:
            found = f"others, or other content, of {listed(differing)}"
            yield broken(stage.name, link, folder, expected="the same episodes", found=found, mend=mend, related=raws[0])
        else:
            yield holds(stage.name, link, folder)
        yield _order(stage, raws[0], list(table), list(raw.all_episodes), mend)


def _order(stage: Stage, folder: str, table: list[str], stored: list[str], mend: str) -> Finding:
    """That episodes are stored in the order of the table, which is that of the raw data: digests leave it out, and training follows it."""
    common = {*table} & {*stored}
    expected, found = ([name for name in names if name in common] for names in (table, stored))
    link = f"order of the episodes of {folder}"
    if expected == found:
        return holds(stage.name, link, folder)
    place = next(number for number, names in enumerate(zip(expected, found, strict=False)) if names[0] != names[1])
    return broken(stage.name, link, folder, expected=f"episode '{expected[place]}' at place {place}", found=f"'{found[place]}'", mend=mend)


def _rows(stage: Stage, folder: str, table: Mapping[str, Row], read: "Read", mend: str) -> Iterator[Finding]:
    """That episodes.csv says of each episode its split, length, return and content."""
    where, wrong = f"{folder}/{EPISODES}", []
    for split, episodes in read.episodes.items():
        contents = read.contents.get(split, {})
        for name in episodes:
            row, (length, episode_return), content = table.get(name, NO_ROW), read.rows[name], contents.get(name)
            same = row.split == split and row.length == str(length) and row.content == content
            if not same or _number(row.episode_return) != episode_return:
                wrong.append(name)
    known = read.all_episodes
    wrong += [name for name, row in table.items() if name not in known and row.split != QUARANTINE]
    link = f"table {where}"
    if wrong:
        found = f"other rows, or none, for {listed(wrong)}"
        yield broken(stage.name, link, where, expected="a row for each episode with what its shards hold", found=found, mend=mend)
    else:
        yield holds(stage.name, link, where)


def _in_several(groups: Mapping[str, Iterable[str]]) -> set[str]:
    """The members of more than one group."""
    seen: set[str] = set()
    several: set[str] = set()
    for members in map(set, groups.values()):
        several |= seen & members
        seen |= members
    return several


def _table(scene: Scene, folder: str) -> dict[str, Row]:
    """The rows of episodes.csv by id, in order."""
    content = scene.contents.read(f"{folder}/{EPISODES}")
    rows = csv.reader(io.StringIO((content or b"").decode("utf-8", "replace")))
    places = {name: place for place, name in enumerate(next(rows, []))}
    wanted = [places.get(name, -1) for name in Row._fields]
    table = {}
    for values in rows:
        values += [""] * (len(places) - len(values)) + [""]  # the last for a column that is not there
        row = Row(*[values[place] for place in wanted])
        table[row.episode_id] = row
    return table


def _read(scene: Scene, folder: str) -> "Read | None":
    """Reads every episode. None where not all files are here. Raises HindcastError where they are damaged.

    What was read depends on the bytes alone, whose hashes this audit has just taken: of equal bytes it is kept, for an audit of many
    revisions meets the same data again and again.
    """
    from pipelines.lineage.audit.episodes import read_directory  # with TensorFlow, two seconds

    hashed = scene.contents.hashed(folder)
    key = hashed.md5 if hashed is not None else ""
    if key in _known:
        return _known[key]
    with scene.directory(folder) as path:
        read = None if path is None else read_directory(path)
    if read is not None and sum(map(len, read.episodes.values())) <= LARGEST_KEPT:
        while len(_known) >= KEPT:
            _known.pop(next(iter(_known)))
        _known[key] = read
    return read


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
