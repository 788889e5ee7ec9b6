"""`hindcast inspect`: shows what a file holds, and prints an entry for params.yaml that imports it."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pipelines.commands.templates import experiment_entry
from rl_datasets.errors import HindcastError
from rl_datasets.inspection.inspect import Inspection, inspect
from rl_datasets.words import count

EXPERIMENT = "[bold]To train on it, the entry under 'experiments'[/]"
DATA = "data"  # the folder that the entry names for a file from elsewhere


def run(path: Path, roles: Sequence[str], env_id: str, as_json: bool, console: Console) -> None:
    """Prints what is known of a path. Raises HindcastError where it cannot be imported at all."""
    source, comment = source_of(path)
    found = inspect(path, given_roles(roles), source=source, source_comment=comment, env_id=env_id)
    if as_json:
        console.file.write(json.dumps(found.to_json(), indent=2, allow_nan=False) + "\n")
    else:
        show(found, console, _command(found.name, path, roles, env_id))


def given_roles(words: Sequence[str]) -> dict[str, list[str]]:
    """Returns columns by role from words such as "action=throttle,brake". Raises HindcastError for another form."""
    given: dict[str, list[str]] = {}
    for word in words:
        role, equals, columns = word.partition("=")
        if not equals or not columns:
            raise HindcastError(f"--as takes ROLE=COLUMN or ROLE=COLUMN,COLUMN; found '{word}'.")
        given.setdefault(role, []).extend(name for name in columns.split(",") if name)
    return given


def source_of(path: Path) -> tuple[str, str]:
    """Returns the path that an entry names, inside the project, and what must be done first where the file lies elsewhere."""
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix(), ""
    except ValueError:
        return f"{DATA}/{path.name}", f"copy it there first: mkdir -p {DATA} && cp -r {path} {DATA}/"


def _command(name: str, path: Path, roles: Sequence[str], env_id: str) -> str:
    """The command that writes what is shown."""
    given = [word for role in roles for word in ("--as", role)] + (["--env", env_id] if env_id else [])
    return shlex.join(["hindcast", "new-dataset", name, "--from", str(path), *given])


def show(found: Inspection, console: Console, command: str) -> None:
    console.print(_columns(found))
    if not found.is_whole or found.files > 1:
        others = f" of the first of {found.files:,} files" if found.files > 1 else ""
        console.print(f"Only the first {count(found.rows, f'row{others} was', f'rows{others} were')} looked at.", highlight=False)
    console.print("\n[bold]What is odd[/]" if found.oddities else "\nNothing odd was found.")
    for oddity in found.oddities:
        console.print(f"[yellow]{oddity.kind}[/]", end=": ")
        console.print(f"{oddity.evidence} {oddity.answer}", markup=False, highlight=False, soft_wrap=True)
    if found.fault:
        console.print("\n[bold red]The entry does not import the file yet.[/]", end=" ")
        console.print(found.fault, markup=False, highlight=False, soft_wrap=True)
    else:
        counts = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in found.trial.items() if number)
        console.print(f"\n[bold]Tried on these rows:[/] {counts}", highlight=False, soft_wrap=True)
    if not found.fault:
        console.print("\n[bold]To write what follows into params.yaml[/]:", end=" ")
        console.print(command, markup=False, highlight=False, soft_wrap=True)
    console.print("\n[bold]The entry under 'datasets'[/]\n")
    console.print(found.entry, markup=False, highlight=False, soft_wrap=True, end="")
    experiment = "" if found.fault else experiment_entry(found.name, found.entry, found.trial)
    if experiment:
        console.print(f"\n{EXPERIMENT}\n")
        console.print(experiment, markup=False, highlight=False, soft_wrap=True, end="")


def _columns(found: Inspection) -> Table:
    table = Table(title=f"{found.path}: {count(found.total_rows, 'row')}", title_justify="left")
    for heading in ("column", "type", "shape", "rows", "range", "likely role"):
        table.add_column(heading, justify="right" if heading == "rows" else "left", overflow="fold")
    for line in found.columns:
        shape = "x".join(map(str, line.shape)) or "one"
        table.add_row(line.name, line.dtype, shape, f"{line.rows:,}", line.range, line.role)
    return table
