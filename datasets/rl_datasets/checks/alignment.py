"""Checks of whether rewards and actions stand in the row where they belong, by what follows from what, without the environment.

A reward follows from its own row (observation, action, next observation) at least as well as from other rows; the change of an
observation follows from its own row's action. Where other rows explain much more, a column is shifted: the rewards, or the actions,
whichever explains more. That is asked of all data, of ranges of consecutive episodes, and of single ones. Of data whose environment is
at hand, the check `replay` is exact.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from rl_datasets.checks.check import Check, Fault, NotApplicable, Running, Warns
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.neighbours import ACTIONS, OWN, REWARDS, Hypothesis, Neighbours
from rl_datasets.checks.odd_parts import odd_range, odd_stretches
from rl_datasets.checks.sample import Sample
from rl_datasets.words import count

EXPLAINED = 0.5  # greatest error of the rows that explain more, where 1 is no model
EFFECT = 0.3  # least share of the error that an action takes away, to be an effect
SEEN = 0.1  # the same of a part of the data within the whole
MOVES = 0.01  # least error without an action: a column that follows from the observation alone tells nothing of actions
NAMED = 3  # columns
REWARD_PLACE = "rewards in the row of the action that earned them"
ACTION_PLACE = "actions in the row of the observation that they were taken at"


class ShiftOptions(Warns):
    ratio: float = Field(2.0, gt=1, description="error by the own row, as a multiple of that by the neighbour, for all data or a range")
    episode_ratio: float = Field(9.0, gt=1, description="the same for one episode beside others that are right")


class _Seen(NamedTuple):
    """What a shift is looked for in."""

    rows: Neighbours
    sample: Sample
    table: pd.DataFrame
    options: ShiftOptions


Whole = Callable[[Neighbours, float], Fault | None]  # says what is wrong with some rows as a whole, by the option `ratio`


def _reward_shift(seen: _Seen) -> Iterator[Fault | NotApplicable]:
    """Asks of all rows, then of a range of episodes, then of single ones."""
    rows, ratio = seen.rows, seen.options.ratio
    if np.ptp(rows.reward) <= 1e-6 * max(1.0, float(np.abs(rows.reward).max())):
        yield NotApplicable("rewards do not vary within episodes")
    elif fault := _wrong_rewards(rows, ratio):
        yield fault
    elif not _of_actions(rows, ratio):
        found = _of_range(seen, odd_range(rows, "reward", slice(None), REWARDS), _wrong_rewards)
        yield from [found] if found else _single_rewards(seen)


def _wrong_rewards(rows: Neighbours, ratio: float) -> Fault | None:
    errors = rows.reward_errors
    best = min(REWARDS, key=lambda each: errors[each])
    if not _explains(errors, best, ratio) or _of_actions(rows, ratio):
        return None
    found = f"{_follow(best)} (error {errors[best]:.2g} of the variance) and not their own ({errors[OWN]:.2g})"
    other = min(ACTIONS, key=lambda each: errors[each])
    if _explains(errors, other, ratio) and _moved(rows) is None:
        found += f"; or their own with the action of the {_side(other)} ({errors[other]:.2g}), so that actions would be shifted"
    return Fault(found, REWARD_PLACE, evidence=_evidence(errors))


def _single_rewards(seen: _Seen) -> Iterator[Fault]:
    for stretch, best in odd_stretches(seen.rows, "reward", slice(None), (*REWARDS, *ACTIONS), seen.options.episode_ratio):
        if best in REWARDS:
            yield _of_stretch(seen, stretch, f"{_follow(best)}, unlike in other episodes", REWARD_PLACE)


def _action_shift(seen: _Seen) -> Iterator[Fault]:
    """Asks of all rows, then of a range of episodes, then of single ones."""
    rows = seen.rows
    if fault := _wrong_actions(rows, seen.options.ratio):
        yield fault
        return
    columns = np.flatnonzero(np.max(list(_effects(rows).values()), axis=0) > SEEN)
    found = _of_range(seen, odd_range(rows, "change", columns, ACTIONS), _wrong_actions) if len(columns) else None
    if np.ptp(rows.reward) and not found:
        found = _of_range(seen, odd_range(rows, "reward", slice(None), ACTIONS), _wrong_actions)
    yield from [found] if found else _single_actions(seen, columns)


def _wrong_actions(rows: Neighbours, ratio: float) -> Fault | None:
    effects = _effects(rows)
    places = [np.flatnonzero((effects[each] > EFFECT) & (effects[OWN] < EFFECT * effects[each])) for each in ACTIONS]
    own = bool((effects[OWN] > EFFECT).any())
    for best, columns in sorted(zip(ACTIONS, places, strict=True), key=lambda found: -len(found[1])):
        if len(columns) and not own and not (best[1] == 1 and _is_reaction(rows, ratio)):
            errors = {each: float(rows.change_errors[each][columns].mean()) for each in (OWN, *ACTIONS)}
            effect = float(effects[best][columns].mean())
            found = f"{_named(rows, columns)} by the action of the {_side(best)} ({effect:.0%} of the error) and not their own"
            return Fault(found, ACTION_PLACE, evidence=_evidence(errors, rows, columns))
    if best_of := _of_actions(rows, ratio):
        errors = rows.reward_errors
        found = (
            f"rewards that follow from their row with the action of the {_side(best_of)} (error {errors[best_of]:.2g} of the variance) "
            f"and not with its own ({errors[OWN]:.2g}); with the whole of another row, as if rewards were shifted, the error is "
            f"{min(errors[each] for each in REWARDS):.2g}"
        )
        return Fault(found, ACTION_PLACE, evidence=_evidence(errors))
    return None


def _is_reaction(rows: Neighbours, ratio: float) -> bool:
    """Whether the action of the row after tells of a change because a policy reacted to it: it follows from what it sees, or rewards say
    that actions are where they belong."""
    errors, late = rows.reward_errors, ACTIONS[1]
    return rows.is_reaction or (errors[OWN] < EXPLAINED and errors[late] > ratio * errors[OWN])


def _single_actions(seen: _Seen, columns: np.ndarray) -> Iterator[Fault]:
    if not (_effects(seen.rows)[OWN] > EFFECT).any():
        return
    for stretch, best in odd_stretches(seen.rows, "change", columns, ACTIONS, seen.options.episode_ratio):
        found = f"observations that change by the action of the {_side(best)}, unlike in other episodes"
        yield _of_stretch(seen, stretch, found, ACTION_PLACE)


def _of_range(seen: _Seen, part: np.ndarray | None, whole: Whole) -> Fault | None:
    """Returns what is wrong with a part of the rows, or with the rest of them where the part is right. part: [N] bool."""
    for chosen in () if part is None else (part, ~part):
        some = seen.rows.of(chosen)
        if len(np.unique(some.owner)) > 1 and (fault := whole(some, seen.options.ratio)):
            first, last = (int(seen.sample.number[some.owner[place]]) for place in (0, -1))
            ids = seen.table["episode_id"]
            found = f"{fault.found}, in episodes from '{ids.iloc[first]}' to '{ids.iloc[last]}', unlike in the others"
            return fault._replace(found=found, episode=first, set_aside=tuple(range(first, last + 1)))
    return None


def _effects(rows: Neighbours) -> dict[Hypothesis, np.ndarray]:
    """Returns the share of the error that each action takes away from that of the observation alone, [D] each; 0 where it is small."""
    none = rows.change_errors[None]
    return {each: np.where(none > MOVES, 1 - rows.change_errors[each] / np.maximum(none, MOVES), 0.0) for each in (OWN, *ACTIONS)}


def _moved(rows: Neighbours) -> bool | None:
    """Whether observations say that actions stand in a wrong row; None where they say nothing of actions."""
    effects = _effects(rows)
    greatest = np.max(list(effects.values()), axis=0)
    return None if not (greatest > EFFECT).any() else not ((effects[OWN] == greatest) & (greatest > EFFECT)).any()


def _of_actions(rows: Neighbours, ratio: float) -> Hypothesis | None:
    """Returns the action of which row explains rewards far better than its own and than shifted rewards would; None where none does, or
    where observations change by the action of their own row."""
    errors = rows.reward_errors
    best = min(ACTIONS, key=lambda each: errors[each])
    if not _explains(errors, best, ratio) or (moved := _moved(rows)) is False:
        return None
    narrow = rows.narrow_errors
    return best if moved or min(narrow[each] for each in ACTIONS) < min(narrow[each] for each in REWARDS) else None


def _explains(errors: Mapping[Hypothesis, float], hypothesis: Hypothesis, ratio: float) -> bool:
    return errors[hypothesis] < EXPLAINED and errors[OWN] > ratio * errors[hypothesis]


def _of_stretch(seen: _Seen, stretch: int, found: str, wanted: str) -> Fault:
    return Fault(found, wanted, int(seen.sample.number[stretch]), int(seen.rows.step[seen.rows.owner == stretch][0]))


def _named(rows: Neighbours, columns: np.ndarray) -> str:
    names = list(dict.fromkeys(rows.names[column] for column in columns))
    more = f" and {count(len(names) - NAMED, 'column')} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}, which {'changes' if len(names) == 1 else 'change'}"


def _follow(hypothesis: Hypothesis) -> str:
    return f"rewards that follow from the {_side(hypothesis)}"


def _side(hypothesis: Hypothesis) -> str:
    return "row before" if hypothesis[1] < 0 else "row after"


def _evidence(errors: Mapping[Hypothesis, float], rows: Neighbours | None = None, columns: np.ndarray | None = None) -> dict[str, Any]:
    sides = {-1: "row_before", 1: "row_after"}
    told = {"own_row": errors[OWN]} | {f"{moved}_of_{sides[offset]}": error for (moved, offset), error in errors.items() if offset}
    named = {} if rows is None or columns is None else {"columns": [rows.names[column] for column in columns]}
    return {name: round(error, 6) for name, error in told.items()} | named


def _of_neighbours(look: Callable[[_Seen], Iterator[Fault | NotApplicable]]) -> Callable[[Expected, ShiftOptions], Running]:
    """Makes a check of a function of neighbouring rows."""

    class OfNeighbours(Running):
        def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:
            rows, sample = self.expected.neighbours, self.sample
            if isinstance(rows, str) or sample is None:
                return iter([NotApplicable(str(rows))])
            return look(_Seen(rows, sample, table, self.options))

    return OfNeighbours


REWARD_SHIFT = Check(
    "reward_shift",
    "Rewards that follow from the row before or after much better than from their own; in all data, in a range of episodes, or in one.",
    "A learner then credits every action with what another one earned.",
    "Shift the column in the builder (`reward_offset: 1` in an import), and see that the last row holds none.",
    ShiftOptions,
    _of_neighbours(_reward_shift),
)
ACTION_SHIFT = Check(
    "action_shift",
    "A column of the observation that changes, or rewards that follow, by the action of the row before or after: actions paired with the "
    "next observation, or a row too early; in all data, in a range of episodes, or in one.",
    "A learner then learns what was done before a state was seen, not in it.",
    "Pair each action with the observation that it was chosen at; switch the check off where actuators lag.",
    ShiftOptions,
    _of_neighbours(_action_shift),
)
