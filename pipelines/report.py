"""Gathers all experiments into one page, artifacts/report/index.html, and one list, artifacts/report/summary.json."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from pipelines import paths
from pipelines.params import Params
from pipelines.reporting.page import render_page
from pipelines.reporting.results import read_results
from pipelines.stage import console, main
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, replacing, write_json, write_text
from rl_datasets.page.html import number
from rl_datasets.words import count
from trainer.fitted_q.summary import INTERVAL
from trainer.metrics import CONFIDENCE

PAGE = "index.html"
SUMMARY = "summary.json"
TEXTS = ("experiment", "dataset")
NUMBERS = (  # of each way to evaluate
    ("return_mean", "return_std", "iqm", "iqm_low", "iqm_high", "behaviour_return_mean"),
    ("fitted_q_value", "fitted_q_value_low", "fitted_q_value_high", "fitted_q_behaviour", "fitted_q_calibration", "fitted_q_flags"),
)


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
        f"{count(len(results.experiments), 'experiment')}: {paths.REPORT / PAGE} ('hindcast results' shows the table here)", highlight=False
    )
    for sentence in results.shared:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
    return paths.REPORT


def results_table() -> Group:
    """Returns the tables of experiments by data set, from summary.json, for a terminal of 80 columns: as played, and as estimated.

    Raises HindcastError where there is no report yet, or where it is damaged.
    """
    summary = paths.REPORT / SUMMARY
    if not summary.exists():
        raise HindcastError(
            f"There is no report yet ({summary} is missing). It is of all experiments in params.yaml, and 'dvc repro' makes what it lacks; "
            "for one of them, 'dvc metrics show' has the numbers. Entries that you do not need, as the examples, can be deleted."
        )
    rows = _read_summary(summary)
    played, estimated = ([row for row in rows if key in row] for key in ("return_mean", "fitted_q_value"))
    return Group(*([_played_table(played)] if played else []), *([_estimate_table(estimated)] if estimated else []))


def _played_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    scored = any(row["normalized_score"] is not None for row in rows)
    table = _table("Returns of the final policies", "mean \u00b1 SD", "IQM", f"{CONFIDENCE:.0%} interval", *(["score"] if scored else []))
    for dataset, members in _by_dataset(rows):
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


def _estimate_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Discounted, with what the same estimator is off by for the behaviour, and the number of warnings."""
    played = any("discounted_return_mean" in row for row in rows)
    columns = ("estimate", f"{CONFIDENCE:.0%} interval", *(["played"] if played else []), "off by", "warnings")
    table = _table("Discounted returns as the data alone tell them (fitted Q)", *columns)
    table.caption, table.caption_justify = INTERVAL, "left"
    for dataset, members in _by_dataset(rows):
        table.add_section()
        table.add_row(dataset, f"behaviour {number(members[0]['fitted_q_behaviour'])}", style="dim")
        for row in members:
            true = row.get("discounted_return_mean")
            table.add_row(
                row["experiment"],
                number(row["fitted_q_value"]),
                f"{number(row['fitted_q_value_low'])} to {number(row['fitted_q_value_high'])}",
                *([("none" if true is None else number(true))] if played else []),
                number(row["fitted_q_calibration"]),
                str(row["fitted_q_flags"]),
            )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, header_style="")
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _by_dataset(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    names = dict.fromkeys(row["dataset"] for row in rows)
    return [(name, [row for row in rows if row["dataset"] == name]) for name in names]


def _read_summary(path: Path) -> list[dict[str, Any]]:
    rows = read_json(path)
    for row in rows if isinstance(rows, list) and rows else [None]:
        if not _is_whole(row):
            texts = ", ".join((*TEXTS, *NUMBERS[0]))
            raise HindcastError(
                f"{path} holds {str(row)[:80]!r}, but a list of objects with {texts} and normalized_score, or with "
                f"{', '.join(NUMBERS[1])}, is expected. "
                "Restore it with 'dvc checkout --force', or rebuild it with 'dvc repro --force report'."
            )
    return list(rows)


def _is_whole(row: Any) -> bool:
    """Whether an object has all that the tables show of at least one way to evaluate."""
    values = row if isinstance(row, dict) else {}
    ways = [names for names in NUMBERS if names[0] in values]
    return (
        all(isinstance(values.get(key), str) for key in TEXTS)
        and bool(ways)
        and all(isinstance(values.get(key), int | float) for names in ways for key in names)
        and ("return_mean" not in values or isinstance(values.get("normalized_score", ""), int | float | None))
    )


if __name__ == "__main__":
    main("report", run, keyed=False)
