"""Gathers all experiments into one page, artifacts/report/index.html, and one list, artifacts/report/summary.json."""

from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from pipelines import paths
from pipelines.params import Params
from pipelines.reporting.page import render_page
from pipelines.reporting.results import read_results
from pipelines.stage import console, main
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, replacing, write_json, write_text
from rl_datasets.page.html import number
from trainer.metrics import CONFIDENCE

PAGE = "index.html"
SUMMARY = "summary.json"


def run(_key: str, params: Params) -> Path:
    """Writes artifacts/report/. Raises HindcastError where a piece is missing or was made with other parameters."""
    if not params.experiments:
        raise HindcastError("params.yaml has no experiment, so there is nothing to report. Add an entry under 'experiments'.")
    results = read_results(params)
    page = render_page(*results)
    with replacing(paths.REPORT) as folder:
        write_text(folder / PAGE, page)
        write_json(folder / SUMMARY, [experiment.summary() for experiment in results.experiments])
    console.print(
        f"{len(results.experiments)} experiments: {paths.REPORT / PAGE} ('hindcast results' shows the table here)", highlight=False
    )
    for sentence in results.shared:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    return paths.REPORT


def results_table() -> Table:
    """Returns the table of experiments by data set, from summary.json, for a terminal of 80 columns.

    Raises HindcastError where there is no report yet, or where it is damaged.
    """
    rows = _read_summary(paths.REPORT / SUMMARY)
    table = Table(title="Returns of the final policies", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, header_style="")
    scored = any(row["normalized_score"] is not None for row in rows)
    table.add_column("")
    for name in ("mean \u00b1 SD", "IQM", f"{CONFIDENCE:.0%} interval", *(["score"] if scored else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        members = [row for row in rows if row["dataset"] == dataset]
        table.add_section()
        table.add_row(dataset, f"behaviour {number(members[0]['behaviour_return_mean'])}", style="dim")
        for row in members:
            score = "none" if row["normalized_score"] is None else number(row["normalized_score"])
            table.add_row(
                row["experiment"],
                f"{number(row['return_mean'])} \u00b1 {number(row['return_std'])}",
                number(row["iqm"]),
                f"{number(row['iqm_low'])} to {number(row['iqm_high'])}",
                *([score] if scored else []),
            )
    return table


def _read_summary(path: Path) -> list[dict[str, Any]]:
    rows = read_json(path)
    texts, numbers = ("experiment", "dataset"), ("behaviour_return_mean", "return_mean", "return_std", "iqm", "iqm_low", "iqm_high")
    for row in rows if isinstance(rows, list) and rows else [None]:
        values = row if isinstance(row, dict) else {}
        is_whole = all(isinstance(values.get(key), str) for key in texts) and all(
            isinstance(values.get(key), int | float) for key in numbers
        )
        if not is_whole or not isinstance(values.get("normalized_score", ""), int | float | None):
            raise HindcastError(
                f"{path} holds {str(row)[:80]!r}, but a list of objects with {', '.join((*texts, *numbers))} and normalized_score is "
                "expected. Restore it with 'dvc checkout --force', or rebuild it with 'dvc repro --force report'."
            )
    return list(rows)


if __name__ == "__main__":
    main("report", run, keyed=False)
