"""What each column likely is, by its name and by what it holds. A guess is one line of a table here, and its reason is told."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.importing.parts import TIME
from rl_datasets.inspection.facts import Facts
from rl_datasets.inspection.head import Head, episode_lengths
from rl_datasets.inspection.ids import Found, find_id, find_order, find_second
from rl_datasets.inspection.role_names import ROLES

BY_NAME, AS_GIVEN = "its name", "as given"
NEEDED = ("observation", "action", "reward")
_MANY = ("observation", "next_observation", "action")  # made of several columns, perhaps

# Names by role: those of public data sets and libraries, and what logs of other fields call the same. In singular; "s" is taken off.
_NAMES: Mapping[str, Sequence[str]] = {
    "next_observation": ("next_observation", "next_obs", "next_state", "next_state_feature", "next_feature", "new_obs", "new_observation",
                         "observation_next", "obs_next", "state_next", "s_next", "next_s", "obs2", "s2", "s'"),
    "observation": ("observation", "ob", "obs", "state", "state_feature", "observation_feature", "feature", "s"),
    "action": ("action", "act", "a", "control", "command", "cmd", "decision", "dose", "treatment", "setpoint", "u"),
    "reward": ("reward", "rew", "r", "payoff", "utility", "score", "profit"),
    "terminal": ("terminal", "terminated", "termination", "is_terminal", "done", "absorbing", "terminate"),
    "truncated": ("truncated", "truncation", "timeout", "time_limit", "is_truncated", "trunc"),
    "end": ("episode_terminal", "episode_end", "is_last", "last", "end", "end_of_episode", "final"),
    "start": ("episode_start", "is_first", "first", "start", "initial"),
    "lengths": ("episode_length", "length", "ep_len", "ep_length", "traj_length", "trajectory_length", "path_length"),
    "id": ("episode_id", "episode", "mdp_id", "traj_id", "trajectory_id", "trajectory", "traj", "ep", "episode_index", "ep_id", "run",
           "run_id", "trip", "trip_id", "session", "session_id", "patient", "patient_id", "subject_id", "icustayid", "id"),
    "sequence": ("step", "sequence_number", "t", "timestep", "time_step", "frame", "frame_index", "tick", "step_id", "index", "bloc"),
    "policy": ("policy", "policy_name", "behavior_policy", "behaviour_policy", "behavior", "behaviour", "agent", "controller"),
}  # fmt: skip
_COST = ("cost", "penalty", "loss", "expense", "bill")  # a reward with the sign turned
_APART = re.compile(r"[._/\[( ]|\d")  # what may follow a name in that of one of its columns: obs_3, obs.x, obs/camera, obs[0], obs3
_PROPENSITY = re.compile(r"propensit|prob\b|_prob|log_?p\b|log_prob|logp")
_ASIDE = re.compile(r"^(infos?|metadata|extras?)[./]")


@dataclass
class Roles:
    """Columns by role. `why` says of each column how its role was found; `shared` are prefixes that stand for all columns of a role."""

    columns: dict[str, list[str]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)
    is_cost: bool = False

    def add(self, role: str, column: str, why: str) -> None:
        self.columns.setdefault(role, []).append(column)
        self.why[column] = why

    def one(self, role: str) -> str | None:
        return next(iter(self.columns.get(role, ())), None)

    def of(self, role: str) -> list[str]:
        return self.columns.get(role, [])

    @property
    def missing(self) -> list[str]:
        return [role for role in NEEDED if not self.of(role)]

    def role_of(self, column: str) -> str | None:
        return next((role for role, columns in self.columns.items() if column in columns), None)


def as_given(role: str, names: Sequence[str]) -> str:
    """Returns what says on a command line which columns have a role, in quotes where a shell would part it."""
    return f"--as {shlex.quote(f'{role}=' + ','.join(names))}"


def guess_roles(head: Head, facts: Mapping[str, Facts], given: Mapping[str, Sequence[str]]) -> Roles:
    """Returns the likely roles. `given` are roles that a person has named, which stand. Raises HindcastError for an unknown one."""
    roles = Roles()
    _take_given(roles, head, given)
    rows = head.rows
    for name, fact in facts.items():
        if name in roles.why:
            continue
        named = role_by_name(name)
        if named is None or named[0] in given or (named[0] not in _MANY and roles.of(named[0])):
            continue
        role, stem = named
        if _fits(role, fact, rows, bool(head.episodes) or role == "observation"):
            roles.add(role, name, BY_NAME)
            roles.shared.setdefault(role, stem)
    _drop_mixed(roles, facts)
    told = episode_lengths(head, rows)
    if told and not {"lengths", "indices"} & set(given):
        _replace(roles, told[1], told[0], f"its values {'add up to' if told[1] == 'lengths' else 'rise to'} the {rows:,} rows")
    _by_content(roles, head, facts)
    return roles


def role_by_name(name: str) -> tuple[str, str] | None:
    """Returns (role, the part of the name that says so), or None. A name may be one of several columns of a role: "obs_3"."""
    plain = name.lower().replace("-", "_")
    if _PROPENSITY.search(plain) or _ASIDE.match(plain) or plain.startswith("next_action"):
        return None
    last = plain.rpartition("/")[2]
    for role, names in _NAMES.items():
        for known in names:
            if plain in (known, f"{known}s") or last in (known, f"{known}s"):
                return role, name
    for role in _MANY:
        for known in sorted(_NAMES[role], key=len, reverse=True):
            for stem in (f"{known}s", known):
                if len(known) > 1 and plain.startswith(stem) and _APART.match(plain[len(stem) :]):
                    return role, name[: len(stem) + (not plain[len(stem)].isdigit())]
    return None


def _take_given(roles: Roles, head: Head, given: Mapping[str, Sequence[str]]) -> None:
    from rl_datasets.importing.resolve import expand

    for role, names in given.items():
        if role not in ROLES:
            raise HindcastError(f"There is no role '{role}'. The roles are: {', '.join(ROLES)}.")
        if role == "cost" and "reward" in given:
            raise HindcastError("Both a reward and a cost are named, but what came of an action is one of them. Name one.")
        roles.is_cost |= role == "cost"
        for column in expand(names, head, role):
            roles.add("reward" if role == "cost" else role, column, AS_GIVEN)


def _fits(role: str, fact: Facts, rows: int, may_be_short: bool) -> bool:
    """Whether a column holds what its name promises."""
    column = fact.column
    size = int(np.prod(column.shape, dtype=np.int64))
    if role in ("observation", "next_observation"):
        return fact.is_number and column.rows >= rows
    if role == "action":
        return column.rows == rows and (fact.is_number or (column.is_text and fact.values is not None))
    if role == "reward":
        return column.rows == rows and fact.is_number and size == 1
    if role in ("terminal", "truncated"):
        return fact.is_flag and (column.rows == rows or (may_be_short and column.rows < rows))
    if role in ("end", "start"):
        return fact.is_flag and column.rows == rows
    if role == "lengths":
        return False  # by its values alone
    if role == "sequence":
        return column.rows == rows and fact.is_number and fact.is_whole and size == 1
    if role == "id":
        return column.rows == rows and size <= 1 and (column.is_text or (fact.is_whole and not fact.missing)) and not fact.is_constant
    return role == "policy" and column.is_text


def _drop_mixed(roles: Roles, facts: Mapping[str, Facts]) -> None:
    """A column that is named for the whole (`observation`) is not one piece of it beside others (`observation_3`)."""
    for role in _MANY:
        columns = roles.of(role)
        whole = [name for name in columns if roles.shared.get(role) == name or role_by_name(name) == (role, name)]
        if whole and len(columns) > len(whole) and len({facts[name].column.rows for name in columns}) > 1:
            for name in set(columns) - set(whole):
                columns.remove(name)
                del roles.why[name]
        if whole:
            roles.shared.pop(role, None)


def _replace(roles: Roles, role: str, column: str, why: str) -> None:
    before = roles.role_of(column)
    if before is not None:
        roles.columns[before].remove(column)
    roles.add(role, column, why)


def _by_content(roles: Roles, head: Head, facts: Mapping[str, Facts]) -> None:
    """Finds what no name told: a cost for a reward, an id that stays the same over rows, and the rest for the observation."""
    rows = head.rows
    left = {name: fact for name, fact in facts.items() if name not in roles.why and fact.column.rows == rows}
    if not roles.of("reward"):
        cost = next((name for name in left if name.lower() in _COST and left[name].is_number), None)
        if cost:
            roles.add("reward", left.pop(cost).column.name, "a cost, with the sign turned")
            roles.is_cost = True
    is_told = head.groups is not None or any(roles.of(role) for role in ("lengths", "indices", "id", "start", "end"))
    if not is_told and (found := find_id(left, head, _flagged(head, roles), _clocks(roles, facts))):
        _add_id(roles, found, left)
    elif [roles.why[name] for name in roles.of("id")] == [BY_NAME] and head.groups is None:
        clocks = left | {name: facts[name] for name in roles.of("sequence")}
        if found := find_second(roles.of("id")[0], clocks, head, _flagged(head, roles)):
            _add_id(roles, found, left)
    if roles.of("id") and not roles.of("sequence") and (order := find_order(roles.of("id"), left, head)):
        roles.add("sequence", *order)
        left.pop(order[0])
    if not roles.of("observation") and roles.of("action") and roles.of("reward"):
        for name, fact in left.items():
            aside = role_by_name(name) or _PROPENSITY.search(name.lower()) or _ASIDE.match(name.lower()) or fact.is_constant
            if fact.is_number and not aside:
                roles.add("observation", name, "a number with no other role")


def _add_id(roles: Roles, found: Found, left: dict[str, Facts]) -> None:
    columns, why = found
    roles.columns["id"] = list(columns)
    for name in columns:
        roles.why[name] = why
        left.pop(name, None)


def _clocks(roles: Roles, facts: Mapping[str, Facts]) -> list[str]:
    """The columns that may order rows: the sequence that a person has named, or all times."""
    times = [name for name, fact in facts.items() if fact.column.dtype == TIME and name not in roles.why]
    given = [name for name in roles.of("sequence") if roles.why[name] == AS_GIVEN]
    return [name for name in given or times if not facts[name].missing and (facts[name].is_number or facts[name].column.dtype == TIME)]


def _flagged(head: Head, roles: Roles) -> np.ndarray:
    """Returns [rows] whether a flag of a row says that an episode ends there."""
    names = [name for role in ("terminal", "truncated") for name in roles.of(role) if head.columns[name].rows == head.rows]
    flags = [head.arrays[name].reshape(-1) == 1 for name in names if not head.columns[name].is_text]
    is_end: np.ndarray = np.any(flags, axis=0) if flags else np.zeros(head.rows, bool)
    return is_end
