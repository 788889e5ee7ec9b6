"""Gathers all experiments into one page, artifacts/report/index.html, and one list, artifacts/report/summary.json."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from pipelines import paths
from pipelines.params import Params
from pipelines.reporting.page import number, render_page
from pipelines.reporting.results import read_datasets, read_experiments
from pipelines.stage import main
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, replacing, write_json, write_text

PAGE = "index.html"
SUMMARY = "summary.json"
console = Console()


def run(_key: str, params: Params) -> Path:
    """Writes artifacts/report/. Raises HindcastError where a piece is missing or was made with other parameters."""
    if not params.experiments:
        raise HindcastError("params.yaml has no experiment, so there is nothing to report. Add an entry under 'experiments'.")
    experiments = read_experiments(params)
    page = render_page(read_datasets(params), experiments)
    with replacing(paths.REPORT) as folder:
        write_text(folder / PAGE, page)
        write_json(folder / SUMMARY, [experiment.summary() for experiment in experiments])
    console.print(results_table())
    console.print(f"Report: {paths.REPORT / PAGE}", highlight=False)
    return paths.REPORT


def results_table() -> Table:
    """Returns the table of experiments for a terminal, from summary.json. Raises HindcastError where there is no report yet."""
    table = Table(title="Returns of the final policies", title_justify="left", header_style="bold")
    for name in ("experiment", "data set", "algorithm"):
        table.add_column(name, overflow="fold")
    for name in ("return", "IQM", "behaviour", "score", "seeds x episodes"):
        table.add_column(name, justify="right")
    for row in read_json(paths.REPORT / SUMMARY):
        score = row["normalized_score"]
        table.add_row(
            row["experiment"],
            row["dataset"],
            row["algorithm"],
            f"{number(row['return_mean'])} \u00b1 {number(row['return_std'])}",
            f"{number(row['iqm'])} ({number(row['iqm_low'])} to {number(row['iqm_high'])})",
            number(row["behaviour_return_mean"]),
            "none" if score is None else number(score),
            f"{row['seeds']} x {row['episodes'] // row['seeds']}",
        )
    return table


if __name__ == "__main__":
    main("report", run, keyed=False)
