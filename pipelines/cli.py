"""The `hindcast` command: what a person asks of a project that DVC has run."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from pipelines import paths
from rl_datasets.errors import HindcastError
from rl_datasets.inspection.role_names import ROLES


class Commands(TyperGroup):
    """The commands. An empty text, as a shell's variable that is not set leaves it, never stands for an argument that was left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Raises HindcastError where an argument, or the value of an option, is empty."""
        for before, word in pairwise(args):
            option, equals, value = word.partition("=")
            if not word.strip() or (option.startswith("--") and equals and not value.strip()):
                place = option.strip() or before
                raise HindcastError(
                    f"'hindcast {args[0]}' was given an empty text {'for' if place.startswith('--') else 'after'} '{place}', as a variable "
                    "of the shell that is not set leaves it. Give a value, or leave it out."
                )
        return super().parse_args(ctx, args)


app = typer.Typer(cls=Commands, help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console()
Target = Annotated[str, typer.Argument(help="a data set, an experiment, a stage or an output path")]


@app.command()
def results() -> None:
    """Show the table of experiments and where the report lies."""
    from pipelines.report import results_table

    console.print(results_table())
    console.print(f"Report: {paths.REPORT / 'index.html'}")


@app.command()
def lineage(
    target: Annotated[
        str, typer.Argument(help="a data set, split, experiment, seed's model (EXPERIMENT/seed_3), metric (EXPERIMENT:iqm) or path; or all")
    ] = "",
    rev: Annotated[str, typer.Option(help="in a revision of git instead of on disk", metavar="REV")] = "",
    down: Annotated[bool, typer.Option("--down", help="what was made from it, instead of what it was made from")] = False,
    style: Annotated[str, typer.Option("--format", help="text, json, html, openlineage or prov")] = "text",
    out: Annotated[Path | None, typer.Option(help="a file to write; a page without it: artifacts/report/lineage.html")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="every detail in the text")] = False,
) -> None:
    """Show which bytes, code, parameters, environment and people's decisions made a target, or with --down what was made from it."""
    from pipelines.commands.lineage import form_of, run

    run(target, rev, down, form_of(style), out, verbose, console)


@app.command()
def audit(
    target: Annotated[str, typer.Argument(help="as for lineage; all stages without it")] = "",
    deep: Annotated[bool, typer.Option(help="read every byte, in DVC's cache too, and compute every digest and number again")] = False,
    remote: Annotated[bool, typer.Option("--remote", help="also read every object that should be on DVC's default remote")] = False,
    rev: Annotated[str, typer.Option(help="audit a revision of git instead of what is on disk", metavar="REV")] = "",
    verbose: Annotated[bool, typer.Option(help="also a line for each output that is not here")] = False,
    json: Annotated[bool, typer.Option(help="every link that was looked at, as JSON")] = False,
) -> None:
    """Prove that everything on disk still follows from what was run. Exit code 0: it does; 1: broken; 2: cannot tell."""
    from pipelines.commands.audit import run

    raise typer.Exit(run(target, deep, remote, rev, verbose, json, console))


@app.command()
def why(
    target: Annotated[str, typer.Argument(help="a stage, data set, experiment or output path")],
    verbose: Annotated[bool, typer.Option(help="every change, not only the first ones of a kind")] = False,
    json: Annotated[bool, typer.Option(help="as JSON, for programs")] = False,
) -> None:
    """Show why a stage would run: what has changed since its last run, from what to what; and why it ran then."""
    from pipelines.commands.why import run

    run(target, verbose, json, console)


@app.command()
def diff(
    before: Annotated[str, typer.Argument(help="a revision: a commit, branch or tag")] = "HEAD",
    after: Annotated[str, typer.Argument(help="another, or 'workspace' for what is on disk")] = "workspace",
    target: Annotated[str, typer.Argument(help="as for lineage; all stages without it")] = "",
    deep: Annotated[bool, typer.Option("--deep", help="also read the episodes: which differ inside, how columns have drifted")] = False,
    verbose: Annotated[bool, typer.Option(help="every cause and episode, not only the first ones")] = False,
    json: Annotated[bool, typer.Option(help="as JSON, for programs")] = False,
) -> None:
    """Show what changed between two revisions, in parameters, data, code, packages and metrics, and which change explains which."""
    from pipelines.commands.diff import run

    run(before, after, target, deep, verbose, json, console)


@app.command()
def history(
    target: Annotated[str, typer.Argument(help="a stage, data set, experiment or output path, also of another day")],
    everywhere: Annotated[bool, typer.Option("--all", help="all branches, tags and experiments, not only what led to HEAD")] = False,
    verbose: Annotated[bool, typer.Option(help="every change, not only the first ones of a kind")] = False,
    json: Annotated[bool, typer.Option(help="as JSON, for programs")] = False,
) -> None:
    """Show every run of a target that git knows: when, by whom, what was different, and what came of it."""
    from pipelines.commands.history import run

    run(target, everywhere, verbose, json, console)


@app.command()
def impact(
    target: Annotated[str, typer.Argument(help="a data set, an episode (DATASET:ID), a file, or a stage")],
    json: Annotated[bool, typer.Option(help="as JSON, for programs")] = False,
) -> None:
    """Show what a target has touched, in all revisions that git has. Exit code 0: nothing now; 1: something now; 2: cannot tell."""
    from pipelines.commands.impact import run

    raise typer.Exit(run(target, json, console))


@app.command()
def release(
    name: Annotated[str, typer.Argument(help="an experiment, whose policies are released, or a data set")],
    version: Annotated[str, typer.Option(help="a version, or 'major', 'minor', 'patch' to raise the last one")] = "",
) -> None:
    """Tag a model or a data set in gto's form, with the audit's verdict inside; only when the deep audit of it is clean."""
    from pipelines.commands.release import run

    run(name, version, console)


@app.command()
def drift(
    first: Annotated[str, typer.Argument(metavar="A", help="a data set, or the path of an RLDS directory")],
    second: Annotated[str, typer.Argument(metavar="[B]", help="another; without it, A is compared with its earlier version")] = "",
    revision: Annotated[str, typer.Option("--rev", help="take A as this revision has it: a commit, branch or tag")] = "",
    json: Annotated[bool, typer.Option(help="as JSON, for programs")] = False,
) -> None:
    """Show how two data sets differ, column by column, the most changed first. Exit code 0: they do not; 1: they do; 2: cannot tell."""
    from pipelines.commands.drift import run

    raise typer.Exit(run(first, second, revision, json, console))


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="the folder of an RLDS data set, ours or another program's")],
    out: Annotated[Path | None, typer.Option(help="the folder for the data card; NAME-VERSION-check without it")] = None,
    params: Annotated[Path | None, typer.Option(help="a file with a section 'checks' as params.yaml has it")] = None,
    splits: Annotated[list[str] | None, typer.Option("--split", help="one split of the data; repeat for more, all without it")] = None,
) -> None:
    """Check any RLDS directory, and write its data card. Exit code 0: it passes, maybe with warnings; 1: it fails; 2: it cannot be read."""
    from pipelines.commands.check import run

    raise typer.Exit(run(path, out, params, splits or [], console))


@app.command(epilog="\n\n".join(["ROLE is one of:", *(f"{role}: {words}" for role, words in ROLES.items())]))
def inspect(
    path: Annotated[Path, typer.Argument(help="a file or folder of logged data")],
    roles: Annotated[list[str] | None, typer.Option("--as", metavar="ROLE=COLUMN", help="say what a column is; repeat for more")] = None,
    env_id: Annotated[str, typer.Option("--env", help="the environment that the data are from")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="as JSON, for programs")] = False,
) -> None:
    """Show what a file of logged data holds and what is odd about it, and print an entry for params.yaml that imports it."""
    from pipelines.commands.inspect import run

    run(path, roles or [], env_id, as_json, console)


@app.command()
def new_dataset(
    name: Annotated[str, typer.Argument(help="the key of the new data set in params.yaml")],
    file: Annotated[Path | None, typer.Option("--from", help="a file or folder of logged data to import")] = None,
    env_id: Annotated[str, typer.Option("--env", help="an environment of Gymnasium; alone, episodes are collected in it")] = "",
    roles: Annotated[list[str] | None, typer.Option("--as", metavar="ROLE=COLUMN", help="as for inspect")] = None,
) -> None:
    """Write a new data set: its entry in params.yaml, a builder where one is needed, and a first test, after trying them."""
    from pipelines.commands.new_dataset import run

    run(name, file, env_id, roles or [], console)


@app.command()
def export(
    dataset: Annotated[str, typer.Argument(help="a data set that dvc repro has made")],
    out: Annotated[Path, typer.Argument(help="the file or folder to write")],
    style: Annotated[str, typer.Option("--format", help="d4rl, minari or parquet")],
) -> None:
    """Write a data set in another project's format, say what that cannot hold, and print the entry that reads it back."""
    from pipelines.commands.export import run

    run(dataset, style, out, console)


def main() -> None:
    """Runs the command; what a user can mend is one message and exit code 2, where the command could not do its work."""
    try:
        app()
    except HindcastError as error:
        Console(stderr=True).print(str(error), style="bold red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
