"""Parts of a source to episodes, by a mapping: the one conversion that all importers share.

A part is read in blocks of whole episodes, each column once; what costs Python time is a block, not a row. So memory is that of
a block, or of the longest episode, and a few numbers an episode.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.ends import EpisodeRows, breaks, find_episodes
from rl_datasets.importing.mapping import Array, MappingOptions
from rl_datasets.importing.parts import TIME, Part, shown
from rl_datasets.importing.report import ImportReport
from rl_datasets.importing.resolve import Resolved, resolve
from rl_datasets.importing.values import ArrayMaker
from rl_datasets.recording import Packed, unpack
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves

REWARD = ArraySpec((), "float32")
BLOCK_BYTES = 8 * 2**20  # of what is stored
_COPIED_ALONE = 16  # rows an episode, above which copying episode by episode is faster

NO_OBSERVATION = "no observation follows an episode's last transition in the source"
BEYOND = "their reward or action would stand beyond the episode's last row"
IN_TAIL = "they follow the last end of the file (tail: drop)"
NO_TRANSITION = "they hold no transition"


@dataclass(frozen=True)
class Extents:
    """What becomes of E episodes: transitions found and kept, and how they end."""

    found: np.ndarray  # [E] int64
    kept: np.ndarray  # [E] int64, at most those found; 0 where the episode is dropped
    is_terminal: np.ndarray  # [E] bool, of what is kept
    is_repeated: np.ndarray  # [E] bool, whether the last observation repeats the one before it


def convert(parts: Iterable[Part], options: MappingOptions, spec: EnvSpec, report: ImportReport) -> Iterator[Episode]:
    """Yields the episodes of all parts in order. Raises HindcastError where anything is not as declared, naming part and row.

    The report is complete when the episodes are exhausted, and its account of rows and episodes has then been checked.
    """
    seen: dict[str, str] = {}  # id to the part it is from
    for part in parts:
        ordered = part
        try:
            columns = resolve(options, part)
            if columns.ignored:
                report.once(f"Columns that were left out: {', '.join(columns.ignored)}.")
            if columns.step_metadata:
                report.once(f"Columns that are kept as step metadata: {', '.join(columns.step_metadata.values())}.")
            episodes, ordered = find_episodes(options, columns, part)
            yield from _Converter(options, spec, columns, episodes, ordered, report).episodes(seen)
        finally:
            if ordered is not part:
                ordered.close()
            part.close()
    report.check()


def extents(options: MappingOptions, episodes: EpisodeRows, has_next: bool, limit: int | None, report: ImportReport) -> Extents:
    """Returns what becomes of the episodes, and takes it down in the report. `limit` is the environment's, of steps an episode."""
    rows = episodes.stop - episodes.start
    is_steps = options.rows == "steps"
    found = rows - is_steps
    ends_terminal = _ends(options, episodes, found, limit, report)
    repeats = ends_terminal & (options.lost_observation == "repeat" and options.rows == "transitions" and not has_next)
    observations = rows + (has_next or options.rows == "extra_observation" or repeats)
    within = rows - max(options.reward_offset, options.action_offset)
    kept = np.maximum(np.minimum(np.minimum(observations - 1, within), found), 0)
    report.rows += int(rows.sum())
    report.last_rows += len(rows) * is_steps
    if episodes.tail and options.tail == "drop":
        report.drop(IN_TAIL, int(found[-1]), 1)
        kept[-1] = 0
    counted = len(rows) - (episodes.tail if options.tail == "drop" else 0)
    lost, empty = (found - kept)[:counted], (kept == 0)[:counted]
    beyond = (within < np.minimum(observations - 1, found))[:counted]
    report.drop(BEYOND, int(lost[beyond].sum()))
    report.drop(NO_OBSERVATION, int(lost[~beyond].sum()))
    report.drop(NO_TRANSITION, 0, int(empty.sum()))
    is_whole = kept == found
    lost_terminals = int((ends_terminal & ~is_whole)[:counted].sum())
    report.count(
        "{} episodes lost their terminal transition with it and are truncated now (lost_observation: repeat keeps it).",
        lost_terminals,
        "{} episode lost its terminal transition with it and is truncated now (lost_observation: repeat keeps it).",
    )
    repeated = repeats & is_whole & (kept > 0)
    report.count(
        "{} terminal transitions have no observation after them; it repeats the one before, as declared.",
        int(repeated.sum()),
        "{} terminal transition has no observation after it; it repeats the one before, as declared.",
    )
    return Extents(found, kept, ends_terminal & is_whole, repeated)


def _ends(options: MappingOptions, episodes: EpisodeRows, found: np.ndarray, limit: int | None, report: ImportReport) -> np.ndarray:
    """Returns whether each episode ends in a terminal state, as declared, and counts the ends by kind."""
    is_terminal = episodes.is_terminal.copy()
    unflagged = ~(is_terminal | episodes.is_truncated)
    report.ended["terminal"] += int(is_terminal.sum())
    report.ended["truncated"] += int(episodes.is_truncated.sum())
    report.ended["unflagged"] += int(unflagged.sum())
    for noted in episodes.notes:
        report.count(*noted)
    report.count(
        "{} parts end in rows after the last end; they are kept as a truncated episode.",
        episodes.tail * (options.tail == "keep"),
        "{} part ends in rows after the last end; they are kept as a truncated episode.",
    )
    unflagged[len(unflagged) - episodes.tail :] = False
    report.count(
        f"{{}} episodes end without a flag and count as {options.unflagged}.",
        int(unflagged.sum()),
        f"{{}} episode ends without a flag and counts as {options.unflagged}.",
    )
    if options.unflagged == "terminal":
        is_terminal |= unflagged
    if limit is not None:
        at_limit = is_terminal & (found >= limit)
        number, place = int(at_limit.sum()), f"on the limit of {limit:,} steps"
        if options.time_limit == "repair":
            is_terminal &= ~at_limit
            report.repaired += number
            many, one = (
                f"{{}} terminals {place} became truncations, as declared.",
                f"{{}} terminal {place} became a truncation, as declared.",
            )
        else:
            many = f"{{}} terminals are {place} and were kept as terminals (time_limit: repair makes them truncations)."
            one = f"{{}} terminal is {place} and was kept as a terminal (time_limit: repair makes it a truncation)."
        report.count(many, number, one)
    return is_terminal


class _Converter:
    """One part on its way to episodes."""

    def __init__(
        self, options: MappingOptions, spec: EnvSpec, columns: Resolved, episodes: EpisodeRows, part: Part, report: ImportReport
    ) -> None:
        self.options, self.part, self.report, self.columns, self.rows = options, part, report, columns, episodes
        arrays = {**options.observation.leaves("observation"), "action": options.action, "reward": options.reward}
        specs = {**dict(named_leaves(spec.observation, "observation")), "action": spec.action, "reward": REWARD}
        self.env_id = spec.env_id
        self.makers = {name: ArrayMaker(name, arrays[name], columns.leaves[name], specs[name], part, report) for name in arrays}
        self.next_makers = {
            name: ArrayMaker(name, arrays[name], names, specs[name], part, report) for name, names in columns.next_leaves.items()
        }
        self.kept_makers = {
            name: ArrayMaker(f"step_metadata/{name}", Array(columns=(column,)), [column], spec.step_metadata[name], part, report)
            for name, column in self._kept_columns(spec).items()
        }
        self._require_rows()
        self.extents = extents(options, episodes, bool(self.next_makers), spec.max_episode_steps, report)
        row_bytes = sum(leaf.zeros().nbytes for leaf in (*(specs[name] for name in arrays), *spec.step_metadata.values()))
        self.block_rows = max(BLOCK_BYTES // (row_bytes or 1), 1)

    def _kept_columns(self, spec: EnvSpec) -> Mapping[str, str]:
        """Raises HindcastError where the part has others than the first one."""
        found = self.columns.step_metadata
        if found.keys() != spec.step_metadata.keys():
            odd = ", ".join(sorted(found.keys() ^ spec.step_metadata.keys()))
            raise HindcastError(f"{self.part.name}: its step metadata differ from those of the source's first part in {odd}. Ignore these.")
        return found

    def _require_rows(self) -> None:
        """Raises HindcastError where columns that stand side by side differ in length."""
        rows, episodes = int(self.rows.stop[-1]), len(self.rows.stop)
        for name, columns in (*self.columns.leaves.items(), *((f"next_{n}", c) for n, c in self.columns.next_leaves.items())):
            extra = episodes if self.options.rows == "extra_observation" and name.startswith("observation") else 0
            for column in columns:
                found = self.part.columns[column].rows
                if found != rows + extra:
                    hint = f" ({rows} and one an episode, of which there are {episodes})" if extra else ""
                    raise HindcastError(
                        f"{self.part.name}: '{column}' ({name}) has {found} rows, but {rows + extra} are expected{hint}, as many as "
                        f"'{self.columns.action}' (action) says. Mend the mapping: 'rows' and 'ends' say how many rows an episode has."
                    )
        for name, maker in self.kept_makers.items():
            found = self.part.columns[maker.columns[0]].rows
            if found != rows and not self._has_extra(maker):
                raise HindcastError(
                    f"{self.part.name}: step_metadata.{name} names '{maker.columns[0]}', which has {found} rows, but {rows} are expected, "
                    f"as '{self.columns.action}' (action) has. Keep it as 'metadata' where it has one value an episode, or ignore it."
                )

    def _has_extra(self, maker: ArrayMaker) -> bool:
        """Whether a column has one row an episode more than actions have."""
        rows, episodes = int(self.rows.stop[-1]), len(self.rows.stop)
        return self.options.rows == "extra_observation" and self.part.columns[maker.columns[0]].rows == rows + episodes

    def episodes(self, seen: dict[str, str]) -> Iterator[Episode]:
        start, stop = self.rows.start, self.rows.stop
        first = 0
        while first < len(start):
            last = max(int(np.searchsorted(stop, start[first] + self.block_rows, side="right")), first + 1)
            kept = first + np.flatnonzero(self.extents.kept[first:last])
            if len(kept):
                yield from self._block(kept, seen)
            first = last

    def _block(self, kept: np.ndarray, seen: dict[str, str]) -> Iterator[Episode]:
        """Yields the episodes of these numbers, which follow one another."""
        first_row, end_row = int(self.rows.start[kept[0]]), int(self.rows.stop[kept[-1]])
        start, length = self.rows.start[kept] - first_row, self.extents.kept[kept]
        edges = np.concatenate([[0], np.cumsum(length + 1)])
        at, last = edges[:-1], edges[1:] - 1
        leaves = {name: self._observation(name, kept, first_row, end_row, edges) for name, _ in self._observed()}
        begins = self._begins(kept) - first_row
        action, reward = (
            spread(self.makers[name].rows(first_row, end_row, begins), start + offset, length, at, int(edges[-1]))
            for name, offset in (("action", self.options.action_offset), ("reward", self.options.reward_offset))
        )
        is_terminal = self.extents.is_terminal[kept]
        discount = np.ones(edges[-1], np.float32)
        discount[last] = 0
        discount[last - 1] = ~is_terminal
        labels = self._labels(kept, first_row, end_row, is_terminal.tolist(), seen)
        beside = {name: self._steps(maker, kept, first_row, end_row, edges)[0] for name, maker in self.kept_makers.items()}
        packed = Packed(edges, self.options.observation.nest(leaves, "observation"), action, reward, discount, labels, beside)
        yield from unpack(packed)
        self.report.keep(len(kept), int(length.sum()), int(is_terminal.sum()))

    def _begins(self, kept: np.ndarray) -> np.ndarray:
        """The first row of each episode from the first to the last of these, also of those between that are dropped."""
        begins: np.ndarray = self.rows.start[kept[0] : kept[-1] + 1]
        return begins

    def _observed(self) -> Iterator[tuple[str, ArrayMaker]]:
        return ((name, maker) for name, maker in self.makers.items() if name.startswith("observation"))

    def _observation(self, name: str, kept: np.ndarray, first_row: int, end_row: int, edges: np.ndarray) -> np.ndarray:
        """Returns one leaf of all steps of a block, [edges[-1], ...]."""
        start, length = self.rows.start[kept] - first_row, self.extents.kept[kept]
        result, rows = self._steps(self.makers[name], kept, first_row, end_row, edges)
        beyond = self.rows.stop[kept] - self.rows.start[kept] <= length
        if self.options.rows == "extra_observation" or not beyond.any():
            return result
        last_rows, last_steps = (start + length - 1)[beyond], (edges[1:] - 1)[beyond]
        if name not in self.next_makers:  # a terminal state that the source does not show, declared to repeat the one before
            result[last_steps] = rows[last_rows]
            return result
        following = self.next_makers[name].rows(first_row, end_row)
        self._require_joined(name, rows, following, kept, first_row)
        result[last_steps] = following[last_rows]
        return result

    def _steps(self, maker: ArrayMaker, kept: np.ndarray, first_row: int, end_row: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns what stands on the rows of a block's steps, [edges[-1], ...], blank for a step without a row of its own; and the rows."""
        start, length, at, total = self.rows.start[kept], self.extents.kept[kept], edges[:-1], int(edges[-1])
        if self._has_extra(maker):
            lead = first_row + int(kept[0])  # one more row for each episode before
            begins = self._begins(kept) + np.arange(kept[0], kept[-1] + 1) - lead
            rows = maker.rows(lead, end_row + int(kept[-1]) + 1, begins)
            return spread(rows, start + kept - lead, length + 1, at, total), rows
        rows = maker.rows(first_row, end_row, self._begins(kept) - first_row)
        return spread(rows, start - first_row, np.minimum(length + 1, self.rows.stop[kept] - start), at, total), rows

    def _require_joined(self, name: str, rows: np.ndarray, following: np.ndarray, kept: np.ndarray, first_row: int) -> None:
        """Raises HindcastError where within an episode a next_observation is not the observation of the next row."""
        wrong = breaks(following[:-1], rows[1:], self.options.tolerance)
        ends = self.rows.stop - 1 - first_row
        inner = wrong[~np.isin(wrong, ends[max(int(kept[0]) - 1, 0) : int(kept[-1]) + 1])]
        if len(inner):
            row = int(inner[0])
            found, expected = following[row].reshape(-1), rows[row + 1].reshape(-1)
            place = int(np.flatnonzero(~((found == expected) | ((found != found) & (expected != expected))))[0])
            raise HindcastError(
                f"{self.part.name}, row {self.part.row_number(first_row + row)}: next_{name} is not the {name} of the episode's next row "
                f"(element {place}: {found[place]} and then {expected[place]}). Let episodes end there with 'ends: {{kind: breaks}}', "
                "allow a difference with 'tolerance', or leave next_observation out of the mapping and ignore its columns."
            )

    def _labels(
        self, kept: np.ndarray, first_row: int, end_row: int, is_terminal: Sequence[bool], seen: dict[str, str]
    ) -> list[tuple[str, bool, Mapping[str, Any]]]:
        ids = self._ids(kept.tolist())
        for episode_id in ids:
            if episode_id in seen:
                raise HindcastError(
                    f"The episode id '{episode_id}' is in {seen[episode_id]} and again in {self.part.name}. Ids are unique; take one of "
                    "the files out of the source, or rename the ids."
                )
            seen[episode_id] = self.part.name
        common = {"seed": -1, "policy": self.options.policy, "environment": self.env_id}
        if not self.columns.metadata:
            return [(episode_id, terminal, common) for episode_id, terminal in zip(ids, is_terminal, strict=True)]
        columns = [self._metadata(key, column, kept, first_row, end_row) for key, column in self.columns.metadata.items()]
        return [
            (episode_id, terminal, {**common, **dict(zip(self.columns.metadata, values, strict=True))})
            for episode_id, terminal, *values in zip(ids, is_terminal, *columns, strict=True)
        ]

    def _ids(self, kept: Sequence[int]) -> list[str]:
        label, named = self.part.label, self.rows.ids
        if named is None and self.options.ends.kind == "groups" and label:
            return [label] * len(kept)  # the whole part is one episode
        if named is None:
            return [f"{label}-{number:08d}" if label else f"{number:08d}" for number in kept]
        if self.options.ends.kind == "groups" and label:
            return [f"{label}-{named[number]}" for number in kept]
        return [named[number] for number in kept]

    def _metadata(self, key: str, column: str, kept: np.ndarray, first_row: int, end_row: int) -> list[Any]:
        """Returns one value an episode. Raises HindcastError where the column changes within one."""
        described, episodes = self.part.columns[column], len(self.rows.stop)
        if int(np.prod(described.shape)) != 1 or described.rows not in (episodes, self.rows.stop[-1]):
            raise HindcastError(
                f"{self.part.name}: metadata.{key} names '{column}' with {described.rows} rows of shape {list(described.shape)}; one value "
                f"an episode ({episodes}) or a row ({self.rows.stop[-1]}) is expected."
            )
        if described.dtype == TIME:
            self.report.once(f"metadata.{key}: the times in '{column}' are kept as text in ISO 8601, those of a zone in UTC.")
        if described.rows == episodes:
            values = self.part.read(column, int(kept[0]), int(kept[-1]) + 1).reshape(-1)[kept - kept[0]]
        else:
            rows = self.part.read(column, first_row, end_row).reshape(-1)
            values = rows[self.rows.start[kept] - first_row]
            changes = np.flatnonzero((rows[1:] != rows[:-1]) & ~((rows[1:] != rows[1:]) & (rows[:-1] != rows[:-1]))) + 1
            inner = changes[~np.isin(changes + first_row, self.rows.start)]
            if len(inner):
                row = int(inner[0])
                raise HindcastError(
                    f"{self.part.name}, row {self.part.row_number(first_row + row)}: metadata.{key} is {shown(rows[row])}, but "
                    f"{shown(rows[row - 1])} on the row before it in the same episode. Metadata hold one value an episode; "
                    "keep the column with 'step_metadata', or ignore it."
                )
        if values.dtype == object:
            return ["" if value is None else str(value) for value in values.tolist()]
        return list((values.astype(np.int64) if values.dtype == bool else values).tolist())


def spread(rows: np.ndarray, start: np.ndarray, length: np.ndarray, at: np.ndarray, total: int) -> np.ndarray:
    """Returns [total, ...] with rows [start, start + length) of each episode from `at` on, and zero or "" elsewhere."""
    if len(start) and (length == np.append(at[1:], total) - at).all() and (start[1:] == start[:-1] + length[:-1]).all():
        return rows[start[0] : start[0] + total]  # nothing lies between
    result = np.full(total, "", object) if rows.dtype == object else np.zeros((total, *rows.shape[1:]), rows.dtype)
    if length.sum() > _COPIED_ALONE * len(length):
        for source, count, target in zip(start.tolist(), length.tolist(), at.tolist(), strict=True):
            result[target : target + count] = rows[source : source + count]
    else:
        place = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)  # within its episode
        result[np.repeat(at, length) + place] = rows[np.repeat(start, length) + place]
    return result
