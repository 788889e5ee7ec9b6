"""Oddities of order, ends and rewards: each is looked for, told with its numbers, and answered in the entry."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rl_datasets.importing.ends import EpisodeRows, breaks
from rl_datasets.importing.parts import Part
from rl_datasets.inspection.columns import STORED, Oddity
from rl_datasets.inspection.draft import Draft
from rl_datasets.inspection.evidence import explained_reward, missing_first, on_longest, repeated_rows, zero_first
from rl_datasets.inspection.head import Head
from rl_datasets.inspection.ids import id_codes, most_at_a_time
from rl_datasets.inspection.roles import AS_GIVEN, Roles

_RARE = 0.5  # the part of other rewards that may be 0 where a first reward of 0 is to mean something
_BETTER = 0.75  # of the variance that is left unexplained, where the next row's reward is explained better than the row's own
_LEAST_EXPLAINED = 0.3
_SPIKE = 3  # times as many terminals on the greatest length as on those a tenth shorter
_FEWEST_STEPS = 20
_FEWEST_ROWS = 6  # of most episodes, where their id is not in doubt
_MIXED = "Up to {:,} of its rows have the same '{}', as where rows of several episodes stand mixed."
_MOST_ELEMENTS = 1024  # of a row of a column that is compared as numbers


@dataclass(frozen=True)
class Divided:
    """The rows of a head in their order, and the episodes in them."""

    part: Part
    episodes: EpisodeRows

    @property
    def length(self) -> np.ndarray:
        length: np.ndarray = self.episodes.stop - self.episodes.start
        return length

    def matrix(self, names: list[str]) -> np.ndarray:
        """Returns columns side by side, float64 [rows, d]; of T + 1 observations an episode, the last is left out, and so are images."""
        rows = int(self.episodes.stop[-1])
        small = [name for name in names if np.prod(self.part.columns[name].shape, dtype=np.int64) <= _MOST_ELEMENTS]
        columns = [self.part.read(name, 0, self.part.columns[name].rows) for name in small]
        numbers = [column.reshape(len(column), -1).astype(np.float64) for column in columns if column.dtype != object]
        if not numbers:
            return np.zeros((rows, 0))
        joined = np.concatenate(numbers, axis=1)
        if len(joined) > rows:
            joined = joined[np.arange(rows) + np.repeat(np.arange(len(self.length)), self.length)]
        return joined

    def inner(self) -> np.ndarray:
        """The rows whose next row is of the same episode."""
        rows = np.arange(int(self.episodes.stop[-1]))
        return np.setdiff1d(rows, self.episodes.stop - 1)


def oddities_of_rows(head: Head, roles: Roles, divided: Divided, draft: Draft) -> Iterator[Oddity]:
    """Those about order, ends and rewards. What the entry must say of them is said in the draft."""
    yield from _order(head, roles, divided)
    yield from _repeated(head, roles, divided)
    yield from _ends(head, roles, divided, draft)
    yield from _doubtful_ids(head, roles, divided, draft)
    yield from _joined(roles, divided, draft)
    yield from _late_rewards(roles, divided, draft)
    yield from _time_limits(divided, draft)


def _order(head: Head, roles: Roles, divided: Divided) -> Iterator[Oddity]:
    if not roles.of("id") or head.groups is not None:
        return
    name, values = "', '".join(roles.of("id")), id_codes(head, roles.of("id"))
    runs, distinct = 1 + int((values[1:] != values[:-1]).sum()), len(set(values.tolist()))
    if runs > distinct:
        evidence = f"The {distinct:,} ids of '{name}' change {runs - 1:,} times over {len(values):,} rows, not {distinct - 1:,} times."
        answer = f"'{roles.one('sequence')}' orders them." if roles.one("sequence") else "Name a column that orders them: ends.sequence."
        yield Oddity("random_order", evidence, answer)
    elif divided.part is not head:
        yield Oddity(
            "random_order", f"Within the ids of '{name}', rows are not in the order of '{roles.one('sequence')}'.", "It orders them."
        )
    if len(roles.of("id")) == 1 and head.columns[name].is_text:
        first = head.arrays[name].reshape(-1)[0]
        yield Oddity("text_ids", f"The ids in '{name}' are text, such as '{first}'.", "They become the episodes' ids as they are.")


def _repeated(head: Head, roles: Roles, divided: Divided) -> Iterator[Oddity]:
    names = [name for role in STORED for name in roles.of(role)]
    columns = [divided.matrix([name]) for name in names if not head.columns[name].is_text]
    if not columns or len(np.unique(columns[0], axis=0)) < 0.1 * len(columns[0]):
        return  # few states, which come back by nature
    count = repeated_rows(*columns)
    if count:
        rows = len(columns[0])
        yield Oddity(
            "repeated_rows",
            f"{count:,} of {rows:,} rows ({count / rows:.1%}) repeat an earlier one: the same observation, action and reward.",
            "Kept; a split never divides episodes of equal content.",
        )


def _ends(head: Head, roles: Roles, divided: Divided, draft: Draft) -> Iterator[Oddity]:
    episodes, kind = divided.episodes, draft.options["ends"]["kind"]
    count = len(episodes.start)
    if draft.options.get("rows") == "extra_observation":
        observed = head.columns[roles.of("observation")[0]].rows
        yield Oddity(
            "extra_observation",
            f"{observed:,} observations and {head.rows:,} actions: {observed - head.rows:,} more, one an episode, end to end.",
            "rows: extra_observation.",
        )
    if kind == "starts":
        yield Oddity(
            "starts_flagged",
            f"'{roles.one('start')}' is set on {count:,} first rows; no column flags ends.",
            "ends: starts.",
        )
    if not any(roles.of(role) for role in ("terminal", "truncated", "end", "start")):
        told = {"lengths": "lengths", "ids": "ids", "indices": "end indices", "groups": "groups or files", "fixed": "jumps"}
        found = f"No column flags an end. Ends come from {told.get(kind, kind)}: {count:,} episodes of {_range(divided.length)} rows."
        longest, same = int(divided.length.max()), int((divided.length == divided.length.max()).sum())
        hint = ""
        if 1 < same < count and longest >= _FEWEST_STEPS:
            hint = f" {same:,} have the greatest length, {longest:,} rows, as with a time limit; the others may have ended by themselves."
        if kind == "groups" and head.groups is None:
            hint += _untold(head)
        answer = "Every end counts as truncated. Where the task ends episodes itself: 'unflagged: terminal'"
        limit = f", with 'max_episode_steps: {longest}' and 'time_limit: repair' for the longest." if hint else "."
        yield Oddity("no_end_flag", found + hint, answer + limit)
        return
    flagged = int(episodes.is_terminal.sum())
    if roles.of("end") and flagged == 0:
        yield Oddity("never_terminal", f"None of {count:,} episodes is terminal: all ends are cuts.", "All count as truncated.")
    elif flagged < count - episodes.tail and roles.of("terminal"):
        longest = int(((divided.length == divided.length.max()) & ~episodes.is_terminal).sum())
        yield Oddity(
            "ends_without_terminal",
            f"{count - flagged:,} of {count:,} ends are not flagged terminal; {longest:,} of these have the greatest length, "
            f"{divided.length.max():,} rows.",
            "They count as truncated.",
        )
    for role in ("terminal", "truncated"):
        name = roles.one(role)
        if name is not None and not head.arrays[name].astype(bool).any() and not (role == "terminal" and roles.of("end")):
            yield Oddity("flag_never_set", f"'{name}' ({role}) is never set.", "Mapped as it is.")


def _untold(head: Head) -> str:
    """What to do where a file is one episode, for nothing tells more of them, and whether its times say that they are."""
    mixed = f" {_MIXED.format(told[1], told[0])}" if (told := most_at_a_time(head)) else ""
    return f"{mixed} No column was found that tells episodes apart: where there is one, name it with --as id=COLUMN."


def _doubtful_ids(head: Head, roles: Roles, divided: Divided, draft: Draft) -> Iterator[Oddity]:
    """Whether what nobody named an id makes hardly more than single rows, or has several rows at one time."""
    names = roles.of("id")
    if not names or roles.why[names[0]] == AS_GIVEN or draft.options["ends"]["kind"] != "ids":
        return
    answer = "Doubtful: where another column tells episodes apart, name it with --as id=COLUMN."
    name = "', '".join(names)
    count, short = len(divided.length), int((divided.length < _FEWEST_ROWS).sum())
    if count > 1 and 2 * short > count:
        yield Oddity(
            "short_episodes", f"{short:,} of the {count:,} episodes that '{name}' makes have fewer than {_FEWEST_ROWS} rows.", answer
        )
    if told := most_at_a_time(head, names):
        yield Oddity("same_times", f"'{name}' is taken for the id. {_MIXED.format(told[1], told[0])}", answer)


def _joined(roles: Roles, divided: Divided, draft: Draft) -> Iterator[Oddity]:
    """Whether next_observation is the next row's observation everywhere but at ends."""
    if not roles.of("next_observation"):
        if "rows" not in draft.options and "reward_offset" not in draft.options and not roles.of("end"):
            count = len(divided.length)
            yield Oddity(
                "no_next_observation",
                f"No column holds the next observation, so nothing follows the last action of each of {count:,} episodes.",
                f"{count:,} transitions are dropped"
                + (", but terminal ones are kept (lost_observation: repeat)." if divided.episodes.is_terminal.any() else "."),
            )
            if divided.episodes.is_terminal.any():
                draft.say("lost_observation", "repeat", "what follows a terminal transition is never read")
        return
    now, following = divided.matrix(roles.of("next_observation")), divided.matrix(roles.of("observation"))
    if now.shape != following.shape:
        return
    wrong = breaks(now[:-1], following[1:], 0.0)
    inner = np.setdiff1d(wrong, divided.episodes.stop - 1)
    if draft.options["ends"]["kind"] == "breaks":
        yield Oddity(
            "breaks", f"next_observation and the next row's observation differ on {len(wrong):,} of {len(now):,} rows.", "Ends are there."
        )
    elif len(inner):
        yield from _broken(now, following, inner, divided, draft)


def _broken(now: np.ndarray, following: np.ndarray, inner: np.ndarray, divided: Divided, draft: Draft) -> Iterator[Oddity]:
    rows = divided.inner()
    scale = np.maximum(np.nanstd(following, axis=0), 1e-12)
    apart = np.abs(now[rows] - following[rows + 1])
    if np.nanmax(apart / scale) < 1e-3:
        tolerance = float(f"{2 * np.nanmax(apart):.1g}")
        draft.say("tolerance", tolerance, "between a next_observation and the next row's observation")
        yield Oddity("breaks", f"next_observation differs from the next row's observation by {np.nanmax(apart):.2g} at most.", "tolerance.")
        return
    draft.say("ends", {"kind": "breaks"}, "flags do not tell all ends")
    yield Oddity(
        "breaks",
        f"Within what flags make {len(divided.length):,} episodes, next_observation is not the next row's observation on {len(inner):,} "
        f"rows, the first is row {divided.part.row_number(int(inner[0])):,}.",
        "Episodes end there too, truncated (ends: breaks).",
    )


def _late_rewards(roles: Roles, divided: Divided, draft: Draft) -> Iterator[Oddity]:
    if not roles.of("reward") or draft.options.get("rows") == "extra_observation" or len(divided.length) < 2:
        return
    start, inner = divided.episodes.start, divided.inner()
    reward = divided.matrix(roles.of("reward"))[:, 0]
    zero, elsewhere = zero_first(reward, start)
    explained = explained_reward(divided.matrix(roles.of("observation")), divided.matrix(roles.of("action")), reward, inner)
    begins_with_zero = zero == len(start) and elsewhere < _RARE
    next_better = explained is not None and explained.late > _LEAST_EXPLAINED and 1 - explained.late < _BETTER * (1 - explained.same)
    own_better = explained is not None and explained.same > _LEAST_EXPLAINED and 1 - explained.same < _BETTER * (1 - explained.late)
    begins_with_none = missing_first(reward, start)
    if not (begins_with_none or (begins_with_zero and not own_better) or (next_better and zero >= 0.9 * len(start))):
        return
    evidence = (
        "The first reward of every episode is missing, and no other."
        if begins_with_none
        else f"The first reward of {zero:,} of {len(start):,} episodes is 0, of all others {elsewhere:.1%} are."
    )
    if explained is not None:
        evidence += (
            f" Observation and action of a row explain {explained.late:.0%} of the variance of the next row's reward, "
            f"and {explained.same:.0%} of its own."
        )
    if roles.of("next_observation"):
        draft.say("reward_offset", 1, "the reward of a row is on the next one")
        answer = "reward_offset: 1; the last transition of an episode has no reward, and is dropped."
    else:
        draft.say("rows", "steps", "the last row of an episode holds its final observation, and the last reward")
        draft.say("reward_offset", 1, "the reward of a row is on the next one")
        draft.options.pop("lost_observation", None)
        answer = "rows: steps with reward_offset: 1; the last row of an episode is its final observation and the last reward."
    yield Oddity("reward_late", evidence, answer)


def _time_limits(divided: Divided, draft: Draft) -> Iterator[Oddity]:
    is_terminal = divided.episodes.is_terminal
    terminals = int(is_terminal.sum())
    if terminals < 2:
        return
    length = divided.length - (draft.options.get("rows") == "steps")
    longest, at, near = on_longest(length, is_terminal)
    is_all = at == terminals and longest > 1
    is_spike = longest >= _FEWEST_STEPS and at >= max(2, 0.05 * terminals) and at > _SPIKE * max(near, 1)
    if not is_all and not is_spike:
        return
    draft.say("max_episode_steps", longest, "guessed from the lengths of terminal episodes")
    draft.say("time_limit", "repair", "a terminal on that limit becomes a truncation; leave it out where the task itself ends there")
    yield Oddity(
        "time_limit_terminal",
        f"{at:,} of {terminals:,} terminal episodes have just the greatest length, {longest:,} steps"
        + ("." if is_all else f"; {near:,} are up to a tenth shorter."),
        f"time_limit: repair, with max_episode_steps: {longest}.",
    )


def _range(length: np.ndarray) -> str:
    return f"{length.min():,}" if length.min() == length.max() else f"{length.min():,} to {length.max():,}"
