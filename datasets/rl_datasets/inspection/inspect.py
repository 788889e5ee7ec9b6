"""`inspect`: an unknown path to what is known of it, with a tried entry for params.yaml."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from rl_datasets.errors import HindcastError
from rl_datasets.importing.convert import convert
from rl_datasets.importing.ends import find_episodes
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.report import ImportReport
from rl_datasets.importing.resolve import resolve
from rl_datasets.importing.spec import describe
from rl_datasets.inspection.columns import Oddity, listed, oddities_of_columns
from rl_datasets.inspection.described import builder_of, describe_folder
from rl_datasets.inspection.draft import Draft, draft_mapping
from rl_datasets.inspection.entry import UNKNOWN, dataset_name, entry_text
from rl_datasets.inspection.environment import difference, match_environment
from rl_datasets.inspection.facts import Facts, facts_of, with_marks
from rl_datasets.inspection.head import HEAD_BYTES, Head
from rl_datasets.inspection.ids import most_at_a_time
from rl_datasets.inspection.oddities import Divided, oddities_of_rows
from rl_datasets.inspection.opening import Source, open_source
from rl_datasets.inspection.roles import AS_GIVEN, BY_NAME, Roles, as_given, guess_roles
from rl_datasets.words import count

FEWEST_EPISODES = 10
_IN_STEPS = ("observation", "next_observation", "action", "reward", "terminal", "truncated", "step_metadata")


@dataclass(frozen=True)
class ColumnLine:
    """A row of the table that is shown."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    rows: int
    range: str
    role: str


@dataclass(frozen=True)
class Inspection:
    """What is known of a path. `trial` are the counts of an import of the rows that were looked at, `fault` why there is none."""

    path: str
    builder: str
    name: str
    rows: int  # that were looked at
    total_rows: int
    is_whole: bool
    files: int
    columns: Sequence[ColumnLine]
    oddities: Sequence[Oddity]
    entry: str
    trial: Mapping[str, int]
    notes: Sequence[str]
    fault: str

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values."""
        return {
            **asdict(self),
            "columns": [asdict(line) for line in self.columns],
            "oddities": [asdict(oddity) for oddity in self.oddities],
        }


def inspect(
    path: Path,
    given: Mapping[str, Sequence[str]] | None = None,
    name: str = "",
    source: str = "",
    source_comment: str = "",
    env_id: str = "",
    head_bytes: int = HEAD_BYTES,
) -> Inspection:
    """Looks at a file or folder. `given` are columns by role that need no guess; `source` is what the entry shall say, with a comment.

    Reads at most about `head_bytes`, of the first file of a folder. Raises HindcastError where the path cannot be imported at all.
    """
    if not path.exists():
        raise HindcastError(f"{path} does not exist. Give the path of a file or folder.")
    described = builder_of(path)
    if described is not None:
        return _inspect_described(path, *described, name or dataset_name(path.name), source, source_comment, head_bytes)
    with open_source(path, head_bytes) as opened:
        head = Head(opened.part, head_bytes)
        if head.total_rows == 0:
            raise HindcastError(f"{path} has no rows. Give a file with data.")
        facts = facts_of(head)
        roles = guess_roles(head, facts, given or {})
        facts = with_marks(facts, roles.of("observation"), head)
        draft, oddities, trial, notes, fault = _understand(head, facts, roles, opened, env_id)
        dialect = [Oddity("dialect", f"{_capital(sign.evidence)}.", f"read.{sign.key}.") for sign in opened.signs]
        key = name or dataset_name(path.name)
        return Inspection(
            path=path.as_posix(),
            builder=opened.builder,
            name=key,
            rows=head.rows,
            total_rows=head.total_rows,
            is_whole=head.is_whole and not opened.is_cut,
            files=opened.files,
            columns=[_line(fact, opened.part.columns[column].rows, roles) for column, fact in facts.items()],
            oddities=[*dialect, *oddities],
            entry=entry_text(key, opened.builder, source or path.as_posix(), draft, source_comment),
            trial=trial,
            notes=notes,
            fault=fault,
        )


def _inspect_described(path: Path, builder: str, folder: Path, key: str, source: str, comment: str, head_bytes: int) -> Inspection:
    found = describe_folder(builder, folder, head_bytes)
    inner = folder.relative_to(path).as_posix()
    within = Path(source or path) / ("" if inner == "." else inner)
    return Inspection(
        path=path.as_posix(),
        builder=builder,
        name=key,
        rows=found.head.rows,
        total_rows=found.head.total_rows,
        is_whole=found.is_whole,
        files=1,
        columns=[_line(fact, fact.column.rows, found.roles) for fact in found.facts.values()],
        oddities=found.oddities,
        entry=entry_text(key, builder, within.as_posix(), found.draft, comment),
        trial=found.counts,
        notes=[],
        fault="",
    )


Understood = tuple[Draft, list[Oddity], Mapping[str, int], list[str], str]


def _understand(head: Head, facts: Mapping[str, Facts], roles: Roles, opened: Source, env_id: str) -> Understood:
    draft = draft_mapping(head, facts, roles)
    if roles.of("step_metadata"):
        draft.say("step_metadata", roles.of("step_metadata"))
    oddities = list(oddities_of_columns(head, facts, roles))
    if roles.missing:
        fault = _unrecognised(draft, roles)
        _finish(draft, head, roles, opened, env_id or UNKNOWN)
        return draft, oddities, {}, [], fault
    draft.say("env_id", env_id or "Unknown")
    draft.say("ignore", _ignored(head, roles, draft))
    try:
        with _divided(head, draft) as divided:
            oddities += oddities_of_rows(head, roles, divided, draft)
            oddities += _say_environment(draft, roles, divided, opened.path.name, env_id)
            oddities += _say_metadata(draft, head, facts, roles, divided)
        _finish(draft, head, roles, opened, draft.options["env_id"])
        report, assumed = _try(head, draft)
    except (HindcastError, ValidationError) as error:
        _finish(draft, head, roles, opened, draft.options["env_id"])
        return draft, oddities, {}, [], _message(error)
    oddities += _few_episodes(report.kept_episodes, head, roles, opened)
    counts = {"episodes": report.kept_episodes, "transitions": report.kept_transitions, **report.counts()}
    return draft, oddities, counts, [*report.notes(), *assumed], ""


def _unrecognised(draft: Draft, roles: Roles) -> str:
    """Leaves a line to fill in for each array of which no column is known, keeps what was asked for, and returns what is to be done."""
    for role in roles.missing:
        draft.say(role, UNKNOWN, f"not recognised: name the columns, or run again with --as {role}=COLUMN")
    wanted, untold = _enumerated(roles.missing), ""
    if asked := roles.of("metadata"):
        draft.say("metadata", {_key(name): name for name in asked}, f"as asked; not tried, for {wanted} must be known first")
        untold = f" Whether {listed(asked)} (metadata) has one value an episode cannot be told before."
    first = [role for role in roles.missing if role != "observation"]
    says = " ".join(f"--as {role}=COLUMN" for role in first or roles.missing)
    rest = " Numbers that are left are then taken to be observed." if first and first != roles.missing else ""
    return f"No column was recognised as {wanted}. Say which: {says}.{rest}{untold}"


@contextmanager
def _divided(head: Head, draft: Draft) -> Iterator[Divided]:
    """Finds the episodes by the draft; flags within episodes are ignored where they would be refused, and the draft then says so."""
    options = _options(draft)
    try:
        episodes, part = find_episodes(options, resolve(options, head), head)
    except HindcastError:
        if draft.options["ends"]["kind"] in ("flags", "breaks"):
            raise
        lenient = _options(Draft({**draft.options, "inner_flags": "ignore"}))
        episodes, part = find_episodes(lenient, resolve(lenient, head), head)
        draft.say("inner_flags", "ignore", "flags are also set within episodes")
    try:
        yield Divided(part, episodes)
    finally:
        if part is not head:
            part.close()


def _options(draft: Draft) -> MappingOptions:
    values = {key: value for key, value in draft.options.items() if key not in ("groups", "path", "files", "read")}
    return MappingOptions.model_validate(values)


def _try(head: Head, draft: Draft) -> tuple[ImportReport, list[str]]:
    """Imports the rows that were looked at."""
    options, report = _options(draft), ImportReport()
    spec, assumed = describe(lambda: iter([head]), options)
    for _ in convert([head], options, spec, report):
        pass
    return report, assumed


def _say_environment(draft: Draft, roles: Roles, divided: Divided, file: str, env_id: str) -> list[Oddity]:
    action = draft.options["action"]
    is_category = isinstance(action, dict) and ({"num_values", "one_hot", "categories"} & set(action)) != set()
    observation, taken = divided.matrix(roles.of("observation")), divided.matrix(roles.of("action"))
    if is_category:
        taken = np.zeros((len(taken), 1))
    longest = int(divided.length.max()) - (draft.options.get("rows") == "steps")
    match = match_environment(env_id or file, observation, taken, is_category, longest)
    if match is None or ("entries" in draft.options["observation"] if isinstance(draft.options["observation"], dict) else False):
        said = "" if env_id else "name it; with an environment that Gymnasium can make, policies are evaluated there"
        draft.say("env_id", env_id or _camel(file), said)
    else:
        draft.say("env_id", match.env_id, "guessed from the file's name and the shapes" if not env_id else "")
    if match is not None and match.fits:
        draft.say("bounds", "environment", "all values lie within them")
    elif not is_category:
        outside = f"not {match.env_id}'s, beyond which some values or lengths are" if match is not None else "the least and greatest found"
        draft.say("bounds", "data", outside)
    told = difference(env_id, observation, taken, is_category) if env_id and match is None else ""
    answer = "Policies cannot be evaluated there. Map the columns that it has, and ignore others (--as ignore=COLUMN)."
    return [Oddity("environment_differs", f"{_capital(told)}.", answer)] if told else []


def _say_metadata(draft: Draft, head: Head, facts: Mapping[str, Facts], roles: Roles, divided: Divided) -> Iterator[Oddity]:
    """Keeps the columns that have one value an episode, whether they hold it once or on each of its rows.

    Yields which of those that were asked for cannot be kept, and what else is left out that may matter.
    """
    metadata, asked = {}, set(roles.of("metadata"))
    count, inner = len(divided.length), divided.inner()
    for name in draft.options["ignore"]:
        fact = facts.get(name)
        if fact is None or not fact.column.is_readable or int(np.prod(fact.column.shape)) != 1:
            continue
        if fact.column.rows == head.rows:
            values = divided.part.read(name, 0, head.rows).reshape(-1)
            same = (values[inner] == values[inner + 1]) | ((values[inner] != values[inner]) & (values[inner + 1] != values[inner + 1]))
            keeps = bool(same.all()) and len(inner) > 0 and (name in asked or not fact.is_constant)
        else:
            keeps = fact.column.rows == count and count > 1
        if keeps and not (fact.missing and fact.column.is_text):
            metadata[_key(name)] = name
    policy = roles.one("policy")
    if policy is not None and policy in draft.options["ignore"]:
        values = divided.part.read(policy, 0, head.rows).reshape(-1)
        if bool((values[inner] == values[inner + 1]).all()):
            metadata = {"policy": policy, **{key: name for key, name in metadata.items() if name != policy}}
    if metadata:
        draft.say("metadata", metadata, "one value an episode")
    draft.say("ignore", [name for name in draft.options["ignore"] if name not in metadata.values()])
    yield from _texts_left_out(draft, facts, roles)
    if not (left := sorted(asked - set(metadata.values()))):
        return
    found = (
        f"{listed(left)}: asked for as metadata, but not one value an episode (it changes in one, is missing in one, or cannot be read)."
    )
    answer = "Ignored. What changes within an episode can be kept with each step: --as step_metadata=COLUMN."
    yield Oddity("no_metadata", found, answer)


def _texts_left_out(draft: Draft, facts: Mapping[str, Facts], roles: Roles) -> Iterator[Oddity]:
    """Yields a word on texts of few values that may say what was observed, where nobody said what was."""
    observed = roles.of("observation")
    left = [name for name in draft.options["ignore"] if name in facts and facts[name].levels and not facts[name].is_constant]
    left = [name for name in left if facts[name].column.rows == facts[observed[0]].column.rows and name not in roles.why]
    if left and any(roles.why[name] != AS_GIVEN for name in observed):
        told = ", ".join(f"{name} ({len(facts[name].levels)} texts)" for name in left)
        category, kept = as_given("observation", [*observed, *left]), as_given("step_metadata", left)
        answer = f"Ignored. {category} stores it as a category, {kept} keeps it with each step."
        yield Oddity("text_left_out", f"Text that changes within episodes: {told}.", answer)


def _columns_of(ends: Mapping[str, Any]) -> set[str]:
    told = (ends[key] for key in ("column", "sequence") if key in ends)
    return {name for names in told for name in ([names] if isinstance(names, str) else names)}


def _few_episodes(episodes: int, head: Head, roles: Roles, opened: Source) -> list[Oddity]:
    """Tells of a log that runs on without a mark that would cut it into as many episodes as a division needs."""
    if episodes >= FEWEST_EPISODES or not head.is_whole or opened.is_cut or opened.files > 1:
        return []
    ids, clock = roles.of("id"), roles.one("sequence") or "time"
    answer = "A log that runs on is cut where a further column of the id changes. "
    if (told := most_at_a_time(head, ids)) is not None and told[0] != clock:
        answer += (
            f"'{told[0]}' has one value on up to {told[1]:,} rows: where each value is an episode, say {as_given('id', [*ids, told[0]])}."
        )
    else:
        answer += f"Make one, such as the day by pandas, frame['day'] = frame['{clock}'].str[:10], and say {as_given('id', [*ids, 'day'])}."
    return [Oddity("few_episodes", f"{count(episodes, 'episode is', 'episodes are')} too few to train on some and test on others.", answer)]


def _ignored(head: Head, roles: Roles, draft: Draft) -> list[str]:
    ends = draft.options.get("ends", {})
    used = {name for role in _IN_STEPS for name in roles.of(role)}
    used |= _columns_of(ends)
    return [name for name in head.columns if name not in used]


def _finish(draft: Draft, head: Head, roles: Roles, opened: Source, env_id: str) -> None:
    """Adds what does not hang on episodes."""
    draft.options.update(opened.options)
    draft.options["env_id"] = env_id
    terminal = draft.options.get("terminal")
    used = {terminal["columns"]} if isinstance(terminal, dict) else set()
    ends = draft.options.get("ends", {})
    used |= _columns_of(ends) | set(draft.options.get("metadata", {}).values())
    ignored = [name for name in draft.options.get("ignore", _ignored(head, roles, draft)) if name not in used]
    unused = [name for role in ("end", "start", "id", "sequence", "lengths", "indices") for name in roles.of(role) if name not in used]
    ignored += [name for name in unused if name not in ignored and name not in draft.options.get("metadata", {}).values()]
    if ignored:
        draft.say("ignore", ignored, "left out; metadata keeps what has one value an episode, step_metadata what changes")
    else:
        draft.options.pop("ignore", None)


def _line(fact: Facts, rows: int, roles: Roles) -> ColumnLine:
    column = fact.column
    if fact.minimum is None or fact.maximum is None:
        shown = "" if fact.values is None else f"{len(fact.values)} texts: " + ", ".join(str(value) for value in fact.values[:3])
        shown = shown or ("many texts" if column.is_text else "not read")
    else:
        shown = f"{fact.minimum:.6g}" if fact.minimum == fact.maximum else f"{fact.minimum:.6g} to {fact.maximum:.6g}"
        shown += f", {fact.missing:,} missing" if fact.missing else ""
        shown += f", without {', '.join(f'{mark:g}' for mark in fact.marks)}" if fact.marks else ""
    role, why = roles.role_of(column.name) or "", roles.why.get(column.name, BY_NAME)
    role += "" if why == BY_NAME else f", {why}"
    return ColumnLine(column.name, column.dtype, column.shape, rows, shown, role)


def _enumerated(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _key(name: str) -> str:
    return name.replace("/", "_").replace(".", "_").replace(" ", "_").lower()


def _camel(file: str) -> str:
    return "".join(word.capitalize() for word in dataset_name(file).split("_"))


def _message(error: HindcastError | ValidationError) -> str:
    if isinstance(error, HindcastError):
        return str(error)
    fault = error.errors()[0]
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
