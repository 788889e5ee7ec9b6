"""What two revisions made: the episodes of each data set, and the returns of each experiment. Read from outputs that are still here."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pipelines.lineage.changes import Change, Kind, differing, flat, hashes
from pipelines.lineage.difference import Difference
from pipelines.lineage.stages import Stage
from pipelines.lineage.store import Store
from rl_datasets.manifest import FILE_NAME

EPISODES, METRICS = "episodes.csv", "metrics.json"
ID, SPLIT = "episode_id", "split"
SHOWN = (
    *("return_mean", "iqm", "iqm_low", "iqm_high", "worst_seed_mean", "normalized_score", "behaviour_return_mean"),
    *("fitted_q_value", "fitted_q_value_low", "fitted_q_value_high", "fitted_q_behaviour", "fitted_q_calibration", "fitted_q_flags"),
)
HEADLINES = (("iqm", "iqm_low", "iqm_high"), ("fitted_q_value", "fitted_q_value_low", "fitted_q_value_high"))  # with their intervals


@dataclass(frozen=True)
class EpisodeDifference:
    """Which episodes came, went and changed, by id; `changed` names the columns of episodes.csv that differ, with both values."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[Change, ...]]

    def moved(self) -> list[str]:
        """Returns the episodes of which only the split differs."""
        return [name for name, changes in self.changed.items() if [change.name for change in changes] == [SPLIT]]


@dataclass(frozen=True)
class DataDifference:
    """One data set whose bytes differ. `episodes` is None where a table of one of the two revisions is not here."""

    name: str
    version: tuple[str, str]
    digest: tuple[str, str]  # of the content; "" where the manifest is not here
    episodes: EpisodeDifference | None

    @property
    def is_version_kept(self) -> bool:
        """Whether other content goes by the same version."""
        return "" not in self.digest and self.digest[0] != self.digest[1] and self.version[0] == self.version[1]


@dataclass(frozen=True)
class MetricDifference:
    """One experiment whose metrics differ, or that one revision lacks (None)."""

    experiment: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def are_apart(self) -> bool | None:
        """Whether the 95 % intervals of the headline have no value in common; None where one is absent."""
        if self.before is None or self.after is None or self.headline is None:
            return None
        _, low, high = self.headline
        return bool(self.before[low] > self.after[high] or self.after[low] > self.before[high])

    @property
    def headline(self) -> tuple[str, str, str] | None:
        """The first number with its interval that both sides have: the IQM of what was played, else the estimate from the data."""
        both = (self.before or {}).keys() & (self.after or {}).keys()
        return next((names for names in HEADLINES if both.issuperset(names)), None)


def data_differences(found: Difference) -> Iterator[DataDifference]:
    """Yields the data sets whose raw content or split differs, in the order of the stages."""
    stores = Store(found.before), Store(found.after)
    keys = dict.fromkeys(name.partition("@")[2] for name in found.stages if name.startswith(("collect@", "split@")))
    for key in keys:
        raws = [_description(store, stage_named(project.stages, f"collect@{key}")) for store, project in _sides(stores, found)]
        tables = [episode_table(store, stage_named(project.stages, f"split@{key}")) for store, project in _sides(stores, found)]
        before, after = tables
        episodes = None if before is None or after is None else episode_difference(before, after)
        digest, version = ((raws[0][name], raws[1][name]) for name in ("digest", "version"))
        unknown = episodes is None and any(
            found.stages[name].outputs for name in (f"collect@{key}", f"split@{key}") if name in found.stages
        )
        if unknown or digest[0] != digest[1] or version[0] != version[1] or before != after:
            yield DataDifference(key, version, digest, episodes)


def metric_differences(found: Difference) -> Iterator[MetricDifference]:
    """Yields the experiments whose evaluation differs, in the order of the stages; without metrics where they are not here."""
    stores = Store(found.before), Store(found.after)
    for name, entry in found.stages.items():
        if name.startswith("evaluate@") and (entry.outputs or not (entry.before and entry.after)):
            key = name.partition("@")[2]
            values = [metrics_of(store, stage_named(project.stages, name)) for store, project in _sides(stores, found)]
            yield MetricDifference(key, *values)


def episode_difference(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> EpisodeDifference:
    """Compares two tables, each a row an episode by its id."""
    both = [name for name in before if name in after and before[name] != after[name]]
    changed = {name: tuple(Change(Kind.OUTPUT, *entry) for entry in differing(before[name], after[name])) for name in both}
    return EpisodeDifference(tuple(n for n in after if n not in before), tuple(n for n in before if n not in after), changed)


def episode_table(store: Store, split: Stage | None) -> dict[str, dict[str, str]] | None:
    """Returns the rows of a split's episodes.csv by id, without the id; None where they are not here, or the stage was not run."""
    content = _file_of(store, split, EPISODES)
    if content is None:
        return None
    rows = csv.DictReader(io.StringIO(content.decode("utf-8")))
    return {row.pop(ID): row for row in rows}


def metrics_of(store: Store, evaluate: Stage | None) -> dict[str, Any] | None:
    """Returns metrics.json of an evaluation; None where it is not here, or the stage was not run."""
    content = _file_of(store, evaluate, METRICS)
    return None if content is None else json.loads(content)


def metric_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Returns the numbers of two metrics.json that differ, of those that are shown."""
    old, new = ({key: value for key, value in flat(values).items() if key in SHOWN} for values in (before, after))
    return [Change(Kind.OUTPUT, *entry) for entry in differing(old, new)]


def stage_named(stages: Mapping[str, Stage], name: str) -> Stage | None:
    stage = stages.get(name)
    return stage if stage is not None and stage.locked is not None else None


def _sides(stores: tuple[Store, Store], found: Difference) -> list[tuple[Store, Any]]:
    return [(stores[0], found.before), (stores[1], found.after)]


def _file_of(store: Store, stage: Stage | None, name: str) -> bytes | None:
    """The one file of this name in a stage's outputs."""
    outputs = hashes((stage.locked if stage else None) or {}, "outs")
    places = [path for output in outputs for path in store.files(output) if PurePosixPath(path).name == name]
    return store.read(places[0]) if len(places) == 1 else None


def _description(store: Store, collect: Stage | None) -> dict[str, str]:
    """The digest and the version that a data set's manifest says; the version also where only the lock is here."""
    content = _file_of(store, collect, FILE_NAME)
    locked = flat(collect.locked_parameters() if collect else {})
    version = next((str(value) for key, value in locked.items() if key.endswith(".version")), "")
    return {"digest": json.loads(content)["digest"] if content else "", "version": version}
