"""Names of a mapping to columns of a part: every name is found, every column is accounted for."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rl_datasets.errors import HindcastError
from rl_datasets.importing.mapping import Array, Flag, MappingOptions
from rl_datasets.importing.parts import Part, require_readable

_REST = "*"  # as step metadata: all that nothing else names
_LISTED = 40  # columns that a message lists


@dataclass(frozen=True)
class Resolved:
    """The columns of one part that each field of the mapping is made of."""

    leaves: Mapping[str, tuple[str, ...]]  # of observation, action and reward, by path
    next_leaves: Mapping[str, tuple[str, ...]]  # of next_observation, by the paths of observation; empty where there is none
    terminal: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    step_metadata: Mapping[str, str] = field(default_factory=dict)  # by the name under which each is kept
    ignored: tuple[str, ...] = ()

    @property
    def action(self) -> str:
        """The column whose rows count as the rows of the part."""
        return self.leaves["action"][0]


def resolve(options: MappingOptions, part: Part, needs_all: bool = True) -> Resolved:
    """Raises HindcastError where a name is missing (with the nearest), one cannot be read, or `needs_all` and nothing is said of one."""
    arrays = {**options.observation.leaves("observation"), "action": options.action, "reward": options.reward}
    leaves = {name: expand(array.columns, part, name) for name, array in arrays.items()}
    if absent := [name for name, columns in leaves.items() if not columns]:
        raise HindcastError(f"{part.name}: {absent[0]} would be made of no column; it is needed. {_known(part)}")
    found = Resolved(
        leaves=leaves,
        next_leaves=_next_leaves(options.next_observation, part),
        terminal=_flag_columns(options.terminal, part, "terminal"),
        truncated=_flag_columns(options.truncated, part, "truncated"),
        metadata={key: found[0] for key, name in options.metadata.items() if (found := expand([name], part, f"metadata.{key}"))},
    )
    used, ignored = _used(found, options, part), expand(options.ignore, part, "ignore")
    kept = _step_metadata(options, part, used, ignored)
    for name, where in (*used.items(), *((column, f"step_metadata.{name}") for name, column in kept.items())):
        require_readable(part, name, where)
    named = {*used, *kept.values()}
    if needs_all:
        _require_all(part, {*named, *ignored})
    return replace(found, step_metadata=kept, ignored=tuple(name for name in ignored if name not in named))


def expand(names: Iterable[str], part: Part, where: str) -> tuple[str, ...]:
    """Returns the columns that names stand for, each once. Raises HindcastError where there is none of a name that isn't optional."""
    columns: dict[str, None] = {}
    for name in names:
        optional, pattern = name.endswith("?"), name.rstrip("?")
        found = _matches(pattern, list(part.columns)) if "*" in pattern else [pattern] if pattern in part.columns else []
        if not found and not optional:
            raise missing_column(part, pattern, where)
        columns |= dict.fromkeys(found)
    return tuple(columns)


def missing_column(part: Part, name: str, where: str) -> HindcastError:
    if "*" in name:
        return HindcastError(f"{part.name}: {where} names '{name}', which matches no column. {_known(part)}")
    near = difflib.get_close_matches(name, list(part.columns), n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return HindcastError(f"{part.name}: {where} names the column '{name}', which is not there.{hint} {_known(part)}")


def _matches(pattern: str, names: Sequence[str]) -> list[str]:
    expression = re.compile("(.*)".join(map(re.escape, pattern.split("*"))))
    found = [(name, match.groups()) for name in names if (match := expression.fullmatch(name))]
    if all(group.isdecimal() for _, groups in found for group in groups):
        found.sort(key=lambda entry: [int(group) for group in entry[1]])
    return [name for name, _ in found]


def _next_leaves(array: Array | None, part: Part) -> dict[str, tuple[str, ...]]:
    if array is None:
        return {}
    leaves = {name: expand(leaf.columns, part, f"next_{name}") for name, leaf in array.leaves("observation").items()}
    present = [name for name, columns in leaves.items() if columns]
    if present and len(present) < len(leaves):
        absent = next(name for name in leaves if name not in present)
        raise HindcastError(f"{part.name}: next_{absent} has no column here, but next_{present[0]} has. {_known(part)}")
    return leaves if present else {}


def _flag_columns(flag: Flag | None, part: Part, where: str) -> tuple[str, ...]:
    return () if flag is None else expand(flag.columns, part, where)


def _step_metadata(options: MappingOptions, part: Part, used: Iterable[str], ignored: Iterable[str]) -> dict[str, str]:
    """Returns columns by the name under which each is kept. What a pattern stands for hangs on what else is made of the columns."""
    kept: dict[str, str] = {}
    for name, pattern in options.step_metadata.items():
        columns = expand([pattern], part, "step_metadata")
        if "*" in pattern:
            taken = {*used, *ignored} if pattern.rstrip("?") == _REST else {*used}
            kept |= {column: column for column in columns if column not in taken}
        else:
            kept |= {name.rstrip("?"): column for column in columns}
    return kept


def _used(found: Resolved, options: MappingOptions, part: Part) -> dict[str, str]:
    """Returns the columns that something is made of, each with a word for what."""
    used = {column: name for name, columns in found.leaves.items() for column in columns}
    used |= {column: f"next_{name}" for name, columns in found.next_leaves.items() for column in columns}
    used |= dict.fromkeys(found.terminal, "terminal") | dict.fromkeys(found.truncated, "truncated")
    used |= {column: f"metadata.{key}" for key, column in found.metadata.items()}
    for key in ("column", "sequence"):
        name = getattr(options.ends, key, None)
        if name is not None:
            used |= dict.fromkeys(expand([name] if isinstance(name, str) else name, part, f"ends.{key}"), f"ends.{key}")
    return used


def _require_all(part: Part, accounted: set[str]) -> None:
    left = [name for name in part.columns if name not in accounted]
    if left:
        names = f"[{', '.join(_quoted(name) for name in _globs(left))}]"
        raise HindcastError(
            f"{part.name}: nothing is said about the column{'s' if len(left) > 1 else ''} {', '.join(left[:_LISTED])}"
            f"{f' and {len(left) - _LISTED} more' if len(left) > _LISTED else ''}. Map them, keep them as metadata or with each step by "
            f"'step_metadata: {names}', or leave them out with 'ignore: {names}'."
        )


def _globs(names: Sequence[str]) -> list[str]:
    """Columns of one group as one pattern."""
    groups = [name.rpartition("/")[0] for name in names]
    return list(
        dict.fromkeys(f"{group}/*" if group and groups.count(group) > 3 else name for name, group in zip(names, groups, strict=True))
    )


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][\w/.-]*", name) else f'"{name}"'


def _known(part: Part) -> str:
    names = list(part.columns)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"The columns are: {', '.join(names[:_LISTED]) or 'none'}{more}."
