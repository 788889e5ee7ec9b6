"""What a data set, an episode or a file has touched: splits, models and numbers, now and in every revision that git still has.

A revision is read from its dvc.lock; which episodes a data set held, from its episodes.csv where those bytes are still here.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.lineage.graph import Graph, inside_project, overlap
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.outcomes import SPLIT, episode_table, metrics_of
from pipelines.lineage.revisions import (
    NO_HISTORY,
    Commit,
    Stages,
    commits_changing,
    has_history,
    run_project,
    stages_here,
    steps,
    was_tracked,
)
from pipelines.lineage.stages import require_project
from pipelines.lineage.store import Store
from rl_datasets.errors import HindcastError

LEARNT = ("train", "validation")  # splits that training reads; no model and no number is made from the others
_SHOWN = 3  # stages that one was made from
MADE_OF = ("collect", "combine")  # stages whose outputs hold the episodes of their parents


@dataclass(frozen=True)
class Touched:
    """What one state of dvc.lock has of the target. `stages` says how each is touched, sources first; `unknown` what could not be told."""

    stages: Mapping[str, str]
    metrics: Mapping[str, Mapping[str, Any]]  # by experiment, where they are still here
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Impact:
    """`now` is what dvc.lock says on disk (in a clone without files, in HEAD); `past` other states, with the commits that have them."""

    target: str
    now: Touched
    now_rebuild: tuple[str, ...]  # the last stages of those that are touched now
    past: tuple[tuple[tuple[Commit, ...], Touched], ...]
    has_history: bool = True  # without git, only `now` can be told


class State:
    """One dvc.lock, and what is still here of its outputs."""

    def __init__(self, stages: Stages) -> None:
        self.project = run_project(stages)
        self.graph = Graph(self.project.stages)
        self._tables: dict[str, dict[str, dict[str, str]] | None] = {}

    @cached_property
    def store(self) -> Store:
        return Store(self.project)

    @cached_property
    def order(self) -> list[str]:
        return self.graph.upstream(list(self.project.stages))

    def role(self, dataset: str, episode: str) -> str | None:
        """Returns the split that has an episode, "" where the data set does not hold it; None where that cannot be told."""
        table = self.episodes(dataset)
        return None if table is None else table.get(episode, {}).get(SPLIT, "")

    def episodes(self, dataset: str) -> Mapping[str, Mapping[str, str]] | None:
        """Returns the rows of a data set's episodes by id; None where they are not here."""
        if dataset not in self._tables:
            self._tables[dataset] = episode_table(self.store, self.project.stages.get(f"split@{dataset}"))
        return self._tables[dataset]

    def datasets(self) -> list[str]:
        return [name.partition("@")[2] for name in self.project.stages if name.startswith("collect@")]


def impact(target: str) -> Impact:
    """Finds what a target has touched. It is tried as a data set or stage, then as a path, then as an episode ("DATASET:ID" or "ID").

    Raises HindcastError where the current folder is no project, and where no state has any of these and git never had such a file.
    """
    require_project()
    is_known = has_history()
    commits = commits_changing(LOCK, everywhere=True) if is_known else []
    here, read = stages_here(), list(steps(commits))
    states = {id(step.stages): step.stages for step in read}
    if here is None:
        newest = commits_changing(LOCK)[:1] if is_known else []
        here = next((step.stages for step in read if [step.commit] == newest), {})
    now, past = State(here), {key: State(stages) for key, stages in states.items()}
    others = {key: state for key, state in past.items() if state.project.stages != now.project.stages}
    touch = _kind_of(target, [now, *others.values()])
    found = {key: touch(state) for key, state in others.items()}
    groups: dict[str, tuple[list[Commit], Touched]] = {}
    for step in read:
        touched = found.get(id(step.stages))
        if touched and (touched.stages or touched.unknown):
            groups.setdefault(repr(touched), ([], touched))[0].append(step.commit)
    current = touch(now)
    last = [name for name in current.stages if not any(child in current.stages for child in now.graph.children(name))]
    return Impact(target, current, tuple(last), tuple((tuple(some), touched) for some, touched in groups.values()), is_known)


def touched_by_stages(state: State, starts: Mapping[str, str]) -> Touched:
    """Returns all that stands below some stages; `starts` says how those are touched."""
    reached = set(state.graph.downstream([name for name in starts if name in state.project.stages]))
    how = {}
    for name in (name for name in state.order if name in reached):
        how[name] = starts.get(name) or _made_from([parent for parent in state.graph.parents(name) if parent in reached])
    return Touched(how, _metrics(state, how))


def touched_by_episode(state: State, episode: str, only: str = "") -> Touched:
    """Returns what an episode touched: the data sets that hold it (or one, with what is made of that), and what learnt from it."""
    how: dict[str, str] = {}
    ids: dict[str, str] = {}  # by data set, the id that the episode has in it
    unknown: list[str] = []
    for name in state.order:
        kind, _, key = name.partition("@")
        above = [parent for parent in state.graph.parents(name) if parent in how]
        if kind == "collect":
            found = _id_in(state, key, episode, above, ids, only)
            if found is None:
                unknown.append(name)
            elif found:
                ids[key], how[name] = found, "holds it"
            elif any(parent.partition("@")[0] not in MADE_OF for parent in above):
                how[name] = "was collected by a policy that learnt from it"
        elif kind == "split" and key in ids:
            how[name] = f"has it in {state.role(key, ids[key])}"
        elif reading := [parent for parent in above if _reads_it(how, parent)]:
            how[name] = _made_from(reading)
    return Touched(how, _metrics(state, how), tuple(unknown))


def _id_in(state: State, dataset: str, episode: str, above: list[str], ids: Mapping[str, str], only: str) -> str | None:
    """Returns the id by which a data set holds an episode, "" where it does not; None where that cannot be told.

    One that is made of others may put their names before the ids (`ids: prefix`).
    """
    is_derived = any(parent.partition("@")[0] in MADE_OF for parent in above)
    if only and dataset != only and not is_derived:
        return ""
    names = [name for other, known in ids.items() for name in (known, f"{other}-{known}")] if is_derived else [episode]
    roles = {name: state.role(dataset, name) for name in names}
    return next((name for name, role in roles.items() if role), None if None in roles.values() else "")


def _kind_of(target: str, states: list[State]) -> Callable[[State], Touched]:
    """Returns what finds the target in a state."""
    if any(target in state.datasets() for state in states):
        return lambda state: touched_by_stages(state, {f"collect@{target}": "is the data set"})
    if any(target in state.project.stages for state in states):
        return lambda state: touched_by_stages(state, {target: "is the stage"})
    path = _path(target)
    if path and any(_readers(state, path) or state.graph.makers(path) for state in states):
        return lambda state: touched_by_stages(state, _around(state, path))
    dataset, _, episode = target.partition(":")
    only = dataset if ":" in target and any(dataset in state.datasets() for state in states) else ""
    wanted = episode if only else target
    roles = [state.role(key, wanted) for state in states for key in state.datasets()]
    own = [state.role(only, wanted) for state in states if only in state.datasets()]
    if any(roles) or (wanted and None in own and not _written_otherwise(_tables(states, only), wanted)):
        return lambda state: touched_by_episode(state, wanted, only)
    if path and not only and (Path(path).exists() or was_tracked(path) or was_tracked(f"{path}.dvc")):
        return lambda _: Touched({}, {})
    raise HindcastError(unknown_target(target, states))


def unknown_target(target: str, states: list[State]) -> str:
    """Returns what is said of a target that no state has: which known names and episodes are nearest, and which could not be read."""
    dataset, colon, episode = target.partition(":")
    tables = _tables(states, dataset if colon else "")
    near = _written_otherwise(tables, episode if colon else target)
    datasets = sorted({key for state in states for key in state.datasets()})
    if not near and colon and (ids := [f"{key}:{name}" for key, table in tables for name in table or ()]):
        first, last = min(ids), max(ids)
        hint = f" The episodes of {dataset} are {first} to {last}."
    else:
        known = sorted({name for state in states for name in _names(state)})
        near = near or difflib.get_close_matches(dataset if colon else target, known, n=_SHOWN, cutoff=0.5)
        hint = f" Nearest: {', '.join(near)}." if near else f" Data sets: {', '.join(datasets) or 'none'}."
    unread = sum(table is None for _, table in tables)
    unseen = (
        f" The episodes of {unread} states of data sets are not here to be looked at; 'dvc fetch --all-commits' brings them."
        if unread
        else ""
    )
    history = "" if has_history() else f" {NO_HISTORY}"
    return (
        f"'{target}' is no data set, stage, path that a stage read or made, tracked file, or episode (DATASET:ID or ID), in any of the "
        f"{len(states)} {'state' if len(states) == 1 else 'states'} of dvc.lock that could be read.{hint}{unseen}{history}"
    )


def _names(state: State) -> set[str]:
    stages = state.project.stages
    paths = (path for stage in stages.values() for path in (*stage.dependencies, *stage.outputs))
    return {*stages, *state.datasets(), *paths}


def _tables(states: list[State], dataset: str) -> list[tuple[str, Mapping[str, Mapping[str, str]] | None]]:
    """The episodes of one data set, or with "" of all, in each state that has it."""
    return [(key, state.episodes(key)) for state in states for key in state.datasets() if dataset in ("", key)]


def _written_otherwise(tables: list[tuple[str, Mapping[str, Mapping[str, str]] | None]], episode: str) -> list[str]:
    """The first episodes (DATASET:ID) whose ids differ from one only in the zeros that numbers begin with."""
    wanted = _unpadded(episode)
    return list(dict.fromkeys(f"{key}:{name}" for key, table in tables for name in table or () if _unpadded(name) == wanted))[:_SHOWN]


def _unpadded(episode: str) -> str:
    """Returns an id without the zeros that its numbers begin with."""
    return re.sub(r"(?<!\d)0+(?=\d)", "", episode)


def _path(target: str) -> str:
    try:
        return inside_project(target)
    except HindcastError:
        return ""


def _around(state: State, path: str) -> dict[str, str]:
    """The stages that made or read a path, with the version that they read."""
    made = dict.fromkeys(state.graph.makers(path), f"made {path}")
    return made | {name: _version(state, name, path) for name in _readers(state, path)}


def _readers(state: State, path: str) -> list[str]:
    return [name for name, stage in state.project.stages.items() if any(overlap(path, read) for read in stage.dependencies)]


def _version(state: State, name: str, path: str) -> str:
    read = {place: md5 for place, md5 in state.project.stages[name].locked_hashes("deps").items() if overlap(path, place)}
    return "read " + ", ".join(f"{place} of md5 {md5[:8]}" for place, md5 in read.items())


def _made_from(parents: list[str]) -> str:
    more = f" and {len(parents) - _SHOWN} more" if len(parents) > _SHOWN else ""
    return f"was made from {', '.join(parents[:_SHOWN])}{more}"


def _reads_it(how: Mapping[str, str], parent: str) -> bool:
    """Whether what is made from a touched stage is touched: not where that is a split which has the episode where no learner reads it."""
    is_split = parent.startswith("split@") and how[parent].startswith("has it in ")
    return not is_split or how[parent].removeprefix("has it in ") in LEARNT


def _metrics(state: State, how: Mapping[str, str]) -> dict[str, Mapping[str, Any]]:
    names = [name for name in how if name.startswith("evaluate@")]
    found = ((name.partition("@")[2], metrics_of(state.store, state.project.stages[name])) for name in names)
    return {key: values for key, values in found if values is not None}
