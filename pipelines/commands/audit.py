"""`hindcast audit`: what is looked at, how it is shown, and the exit code."""

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from pipelines.lineage.audit import audit_project, exit_code
from pipelines.lineage.audit.output import audit_json, audit_lines


def run(target: str, deep: bool, remote: bool, revision: str, verbose: bool, as_json: bool, console: Console) -> int:
    """Prints the findings and returns the exit code. Raises HindcastError where the target, the revision or the remote is none."""
    spinner = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True, disable=as_json or not console.is_terminal
    )
    with spinner:
        task = spinner.add_task("")
        findings = audit_project(target, revision, lambda what: spinner.update(task, description=what), deep=deep, remote=remote)
    if as_json:
        typer.echo(audit_json(findings))
    for line in () if as_json else audit_lines(findings, verbose):
        console.print(line, soft_wrap=True)
    return exit_code(findings)
