"""The report's page: one HTML text that needs nothing else, no script, no network, and nothing that changes between equal runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

import numpy as np
import pandas as pd

from pipelines.reporting.definitions import DEFINITIONS, ESTIMATE_DEFINITIONS, PLAYED_DEFINITIONS
from pipelines.reporting.estimates import estimates_section
from pipelines.reporting.results import BEHAVIOUR_SPLIT, CURVE_KEYS, DatasetResult, ExperimentResult
from rl_datasets.page.charts import Distribution, Line, distribution_chart, line_chart
from rl_datasets.page.html import details, digest, document, figure, heads, navigation, number, paragraphs, section, table
from rl_datasets.words import count

KINDS = {"train": "one", "validation": "two", "environment": "one"}  # split of a curve -> its class in style.css; no metric has all three
PLAYED_SECTIONS = (("results", "Results"), ("returns", "Returns"))
ESTIMATE_SECTION = ("estimates", "Estimates from the data")
SECTIONS = (
    ("curves", "Learning curves"),
    ("data", "Data sets"),
    ("definitions", "Definitions"),
    ("origins", "Origins"),
)
ESTIMATE_NOTE = "Fitted Q evaluation"  # begins what a manifest says of it, which has a section of its own
FOOTER = (
    '<p>The numbers of the table are also in <a href="summary.json">summary.json</a>. '
    "<code>hindcast audit</code> checks that every byte behind them still follows from what was run.</p>"
)


def render_page(datasets: Mapping[str, DatasetResult], experiments: Sequence[ExperimentResult], shared: Sequence[str] = ()) -> str:
    """Returns the whole page. `datasets` holds every data set that an experiment names; the order of both is kept.

    `shared` says which data sets share episodes.
    """
    by_dataset = {name: [e for e in experiments if e.params.dataset == name] for name in datasets}
    title = f"{count(len(experiments), 'experiment')} on {count(len(datasets), 'data set')}"
    played, estimated = (
        {name: [e for e in members if test(e)] for name, members in by_dataset.items()} for test in (_is_played, _is_estimated)
    )
    played, estimated = ({name: members for name, members in groups.items() if members} for groups in (played, estimated))
    how = " and ".join(
        ["each played with its final weights in fresh environments"] * bool(played) + ["valued on held-out data"] * bool(estimated)
    )
    sections = (*(PLAYED_SECTIONS if played else ()), *([ESTIMATE_SECTION] if estimated else ()), *SECTIONS)
    header = f"""<p class="overline">Hindcast report</p>
<h1>{title}</h1>
<p>Policies learnt from logged experience alone, {how}.
No policy, step or seed was chosen by what it scored.</p>
{navigation(sections)}"""
    results = (_results(datasets, played), _returns(datasets, played)) if played else ()
    estimates = [estimates_section(estimated)] if estimated else []
    main = (
        *results,
        *estimates,
        _curves(experiments),
        _data(datasets, shared),
        _definitions(bool(played), bool(estimated)),
        _origins(experiments),
    )
    return document(f"Hindcast report: {title}", header, "\n".join(main), FOOTER)


def _is_played(experiment: ExperimentResult) -> bool:
    return experiment.returns is not None


def _is_estimated(experiment: ExperimentResult) -> bool:
    return experiment.values is not None


def _results(datasets: Mapping[str, DatasetResult], by_dataset: Mapping[str, Sequence[ExperimentResult]]) -> str:
    experiments = [experiment for members in by_dataset.values() for experiment in members]
    columns = _columns(any(experiment.metrics["success_rate"] is not None for experiment in experiments))
    head = heads(columns, ("Experiment", "Algorithm"))
    groups = []
    for name, members in by_dataset.items():
        label = f"<b>{escape(name)}</b> {escape(datasets[name].version)}"
        rows = "\n".join(f"<tr>{''.join(cell(member) for cell in columns.values())}</tr>" for member in members)
        groups.append(f'<tbody><tr><th scope="rowgroup" colspan="{len(columns)}">{label}</th></tr>\n{rows}</tbody>')
    notes = sorted({note for experiment in experiments for note in experiment.notes if not note.startswith(ESTIMATE_NOTE)})
    return section("results", "Results", table("Results", head, "\n".join(groups)) + paragraphs(notes))


def _columns(success: bool) -> dict[str, Callable[[ExperimentResult], str]]:
    """The columns of the table of results: heading, and the cell of an experiment."""
    columns: dict[str, Callable[[ExperimentResult], str]] = {
        "Experiment": lambda e: f'<th scope="row"><a href="#curves-{escape(e.name)}">{escape(e.name)}</a></th>',
        "Algorithm": lambda e: f'<td class="text">{escape(e.params.algorithm)}</td>',
        "Mean \u00b1 SD": lambda e: _cell(number(e.metrics["return_mean"]), f"\u00b1 {number(e.metrics['return_std'])}"),
        "IQM [95 % interval]": lambda e: _cell(
            number(e.metrics["iqm"]), f"[{number(e.metrics['iqm_low'])}, {number(e.metrics['iqm_high'])}]"
        ),
        "Worst seed": lambda e: _cell(number(e.metrics["worst_seed_mean"])),
        "Behaviour": lambda e: _cell(number(e.metrics["behaviour_return_mean"])),
        "Score": lambda e: _cell_or_none(e.metrics["normalized_score"], number),
        "Success": lambda e: _cell_or_none(e.metrics["success_rate"], "{:.1%}".format),
        "Seeds \u00d7 episodes": lambda e: _cell(f"{len(e.params.train.seeds)} \u00d7 {e.params.evaluate.episodes}"),
        "Updates": lambda e: _cell(f"{e.params.train.updates:,}"),
        "Transitions": lambda e: _cell(f"{e.transitions:,}"),
    }
    return columns if success else {name: cell for name, cell in columns.items() if name != "Success"}


def _cell(value: str, aside: str = "") -> str:
    return f'<td>{value} <span class="aside">{aside}</span></td>' if aside else f"<td>{value}</td>"


def _cell_or_none(value: float | None, form: Callable[[float], str]) -> str:
    return '<td><span class="aside">none</span></td>' if value is None else _cell(form(value))


def _returns(datasets: Mapping[str, DatasetResult], by_dataset: Mapping[str, Sequence[ExperimentResult]]) -> str:
    figures = [_return_figure(datasets[name], members) for name, members in by_dataset.items()]
    intro = (
        "<p>Undiscounted return of every evaluated episode, beside the episodes of the training split. Each row is scaled to its own "
        "highest bar; the dashed line is the behaviour data's mean, the thick stroke the interval of the IQM.</p>"
    )
    seeds = _seed_table([member for members in by_dataset.values() for member in members])
    return section("returns", "Returns against the behaviour data", f'{intro}<div class="grid pair">{"".join(figures)}</div>\n{seeds}')


def _return_figure(dataset: DatasetResult, members: Sequence[ExperimentResult]) -> str:
    behaviour = dataset.behaviour_returns
    mean = float(behaviour.mean())
    rows = [Distribution(f"behaviour data: mean {number(mean)}, {count(len(behaviour), 'episode')}", behaviour, "behaviour")]
    for member in members:
        assert member.returns is not None
        returns = member.returns.ravel()
        label = f"{member.name}: mean {number(member.metrics['return_mean'])}, {count(len(returns), 'episode')}"
        interval = (member.metrics["iqm_low"], member.metrics["iqm_high"])
        rows.append(Distribution(label, returns, "policy", interval))
    description = f"Histograms of episode returns on {dataset.name}. " + ". ".join(row.label for row in rows) + "."
    chart = distribution_chart(rows, mean, description, "episode return")
    return figure(dataset.name, chart)


def _seed_table(experiments: Sequence[ExperimentResult]) -> str:
    """Mean return of each training seed: a mean over seeds hides the one that failed."""
    seeds = sorted({seed for experiment in experiments for seed in experiment.params.train.seeds})
    head = heads(["Experiment", *map("Seed {}".format, seeds)], ("Experiment",))
    rows = []
    for experiment in experiments:
        means = dict(zip(experiment.params.train.seeds, experiment.metrics["seed_means"], strict=True))
        cells = "".join(f"<td>{number(means[seed]) if seed in means else ''}</td>" for seed in seeds)
        rows.append(f'<tr><th scope="row">{escape(experiment.name)}</th>{cells}</tr>')
    title = "Mean return of each training seed"
    return details(title, table(title, head, f"<tbody>{''.join(rows)}</tbody>"))


def _curves(experiments: Iterable[ExperimentResult]) -> str:
    keys = (
        '<p class="quiet keys"><span><span class="key one"></span>train, or episodes in the environment, one line a seed</span>'
        '<span><span class="key two"></span>validation, one line a seed</span></p>'
    )
    return section("curves", "Learning curves", keys + "\n".join(_curve_block(experiment) for experiment in experiments))


def _curve_block(experiment: ExperimentResult) -> str:
    metrics = [str(column) for column in experiment.curves.columns if column not in CURVE_KEYS]
    losses, others = [m for m in metrics if "loss" in m], [m for m in metrics if "loss" not in m]
    shown, folded = (losses, others) if losses else (metrics, [])
    more = details(count(len(folded), "more quantity", "more quantities"), _curve_grid(experiment, folded)) if folded else ""
    name = escape(experiment.name)
    notes = paragraphs(experiment.training_notes)
    return f'<h3 id="curves-{name}">{name}</h3>{_curve_grid(experiment, shown)}{more}{notes}'


def _curve_grid(experiment: ExperimentResult, metrics: Sequence[str]) -> str:
    figures = [_curve_figure(experiment.name, experiment.curves, metric) for metric in metrics]
    return f'<div class="grid">{"".join(figures)}</div>'


def _curve_figure(name: str, curves: pd.DataFrame, metric: str) -> str:
    lines, last = [], []
    for split, kind in KINDS.items():
        rows = curves[curves["split"] == split]
        lines += [
            Line(group["step"].to_numpy(np.float64), group[metric].to_numpy(np.float64), kind, f"{split}, seed {seed}")
            for seed, group in rows.groupby("seed", sort=True)
        ]
        final = rows.loc[rows["step"] == rows["step"].max(), metric].dropna()
        last += [f"{split} ends at a mean of {final.mean():.4g}"] if len(final) else []
    title = metric.replace("_", " ")
    chart = line_chart(lines, f"{title} of {name} over updates: {'; '.join(last) or 'no values'}.", "updates")
    return figure(title, chart)


def _data(datasets: Mapping[str, DatasetResult], shared: Sequence[str]) -> str:
    columns = ("Data set", "Version", "Quality gate", "Data card", "Episodes", "In training", "Return, mean", "Lowest", "Highest", "Digest")
    left = {"Version", "Data set", "Quality gate", "Data card"}
    rows = "".join(_data_row(dataset) for dataset in datasets.values())
    body = table("Data sets", heads(columns, left), f"<tbody>{rows}</tbody>")
    notes = [f"Returns are those of the split \u201c{BEHAVIOUR_SPLIT}\u201d.", *shared]
    return section("data", "Data sets", body + paragraphs(notes))


def _data_row(dataset: DatasetResult) -> str:
    returns, name = dataset.behaviour_returns, escape(dataset.name)
    kind, text = dataset.verdict
    return (
        f'<tr><th scope="row">{name}</th><td class="text">{escape(dataset.version)}</td>'
        f'<td class="text"><span class="badge {kind}">{escape(text)}</span></td>'
        f'<td class="text"><a href="../checks/{name}/card.html">card of {name}</a></td>'
        f"<td>{len(dataset.episodes):,}</td><td>{len(returns):,}</td>"
        f"<td>{number(returns.mean())}</td><td>{number(returns.min())}</td><td>{number(returns.max())}</td>"
        f"<td>{digest(dataset.digest)}</td></tr>"
    )


def _definitions(played: bool, estimated: bool) -> str:
    shown = (*(PLAYED_DEFINITIONS if played else ()), *(ESTIMATE_DEFINITIONS if estimated else ()), *DEFINITIONS)
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in shown)
    return section("definitions", "How these numbers are made", f'<dl class="terms">{terms}</dl>')


def _origins(experiments: Sequence[ExperimentResult]) -> str:
    lines = []
    for experiment in experiments:
        inputs = "".join(f"<dd>{escape(entry.name)} {digest(entry.digest)}</dd>" for entry in experiment.inputs)
        lines.append(f"<dt>{escape(experiment.name)}</dt>{inputs}")
    intro = (
        "<p>What each evaluation read, by the first twelve digits of its content's digest. "
        "<code>hindcast lineage &lt;experiment&gt;</code> follows it to the source, and <code>hindcast lineage --format html</code> draws "
        'all of it beside this page, as <a href="lineage.html">a graph to explore</a> in which broken links are red.</p>'
    )
    return section("origins", "Origins", intro + details("Digests of data and policies", f"<dl>{''.join(lines)}</dl>"))
