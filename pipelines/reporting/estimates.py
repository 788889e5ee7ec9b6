"""The part of the report's page on fitted Q evaluation: estimates beside the behaviour, how far the estimator is off, and its warnings."""

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from pipelines.reporting.results import ExperimentResult
from rl_datasets.page.charts import Distribution, distribution_chart
from rl_datasets.page.html import details, figure, heads, number, paragraphs, section, table
from trainer.fitted_q.summary import INTERVAL, PREFIX

COLUMNS = ("Experiment", "Algorithm", "Estimate", "Behaviour", "Difference", "Calibration", "Far actions", "Gamma", "Episodes", "Warnings")


ASSUMED = "Fitted Q evaluation: "  # begins the note on what was assumed


def estimates_section(by_dataset: Mapping[str, Sequence[ExperimentResult]]) -> str:
    """`by_dataset` holds experiments with a fitted Q evaluation, at least one a data set."""
    experiments = [experiment for members in by_dataset.values() for experiment in members]
    intro = (
        "<p>Discounted returns of the policies as the data alone tell them. Read an estimate beside the calibration, which is how far the "
        "same estimator is off for the behaviour, where the truth is known. "
        f"{INTERVAL}</p>"
    )
    figures = "".join(_figure(name, members) for name, members in by_dataset.items())
    assumed = paragraphs(sorted({note for experiment in experiments for note in experiment.notes if note.startswith(ASSUMED)}))
    body = f'{intro}{_table(by_dataset)}{assumed}{_warnings(experiments)}<div class="grid pair">{figures}</div>{_seeds(experiments)}'
    return section("estimates", "Estimates from the data alone", body)


def _table(by_dataset: Mapping[str, Sequence[ExperimentResult]]) -> str:
    is_played = any(member.discounted is not None for members in by_dataset.values() for member in members)
    columns = [*COLUMNS[:3], *(["Played"] if is_played else []), *COLUMNS[3:]]
    groups = []
    for name, members in by_dataset.items():
        rows = "\n".join(f"<tr>{_row(member, is_played)}</tr>" for member in members)
        groups.append(f'<tbody><tr><th scope="rowgroup" colspan="{len(columns)}"><b>{escape(name)}</b></th></tr>\n{rows}</tbody>')
    return table("Estimates from the data alone", heads(columns, COLUMNS[:2]), "\n".join(groups))


def _row(experiment: ExperimentResult, is_played: bool) -> str:
    metrics, fitted_q = experiment.metrics, experiment.params.evaluate.fitted_q
    true = metrics.get("discounted_return_mean")
    cells = [
        _interval(experiment, "value"),
        *(["none" if true is None else number(true)] if is_played else []),
        *(_interval(experiment, name) for name in ("behaviour", "difference", "calibration")),
        f"{metrics[PREFIX + 'far_share']:.1%}",
        f"{fitted_q.gamma:g}" if fitted_q else "",
        f"{metrics[PREFIX + 'episodes']:,}",
        f"{metrics[PREFIX + 'flags']}",
    ]
    head = f'<th scope="row">{escape(experiment.name)}</th><td class="text">{escape(experiment.params.algorithm)}</td>'
    return head + "".join(f"<td>{cell}</td>" for cell in cells)


def _interval(experiment: ExperimentResult, name: str) -> str:
    mean, low, high = (number(experiment.metrics[f"{PREFIX}{name}{end}"]) for end in ("", "_low", "_high"))
    return f'{mean} <span class="aside">[{low}, {high}]</span>'


def _warnings(experiments: Sequence[ExperimentResult]) -> str:
    """The warnings of each experiment; a list with none says so."""
    told = [f"{experiment.name}, {flag}" for experiment in experiments for flag in experiment.flags]
    return paragraphs(told or ["None of the signs that an estimate is wrong was found."])


def _figure(name: str, members: Sequence[ExperimentResult]) -> str:
    """Values at the initial states, one by one: of the behaviour as logged and by the estimator, of each policy, and as played."""
    rows, mean = _behaviour(members[0])
    for member in members:
        rows.append(_distribution(f"{member.name}, estimated", _values(member), member, "value", "policy"))
        if member.discounted is not None:
            played = np.ravel(member.discounted)
            rows.append(Distribution(f"{member.name}, played: mean {number(played.mean())}", played, "behaviour"))
    description = f"Histograms of discounted returns on {name}. " + ". ".join(row.label for row in rows) + "."
    return figure(name, distribution_chart(rows, mean, description, "discounted return from an initial state"))


def _behaviour(member: ExperimentResult) -> tuple[list[Distribution], float]:
    """The rows of the behaviour, and the mean of its returns as logged."""
    assert member.values is not None
    known = (member.values["behaviour_return"] + member.values["behaviour_rest"]).to_numpy(np.float64)
    told = member.values["behaviour_value"].to_numpy(np.float64)
    logged = _distribution("behaviour, as logged", known, member, "behaviour", "behaviour")
    return [logged, Distribution(f"behaviour, by the estimator: mean {number(told.mean())}", told, "behaviour")], float(known.mean())


def _distribution(label: str, values: np.ndarray, member: ExperimentResult, name: str, kind: str) -> Distribution:
    metrics = member.metrics
    interval = (metrics[f"{PREFIX}{name}_low"], metrics[f"{PREFIX}{name}_high"])
    return Distribution(f"{label}: mean {number(metrics[PREFIX + name])}", values, kind, interval)


def _values(member: ExperimentResult) -> np.ndarray:
    """Of all training seeds."""
    assert member.values is not None
    values: np.ndarray = member.values[[f"seed_{seed}" for seed in member.params.train.seeds]].to_numpy(np.float64).ravel()
    return values


def _seeds(experiments: Sequence[ExperimentResult]) -> str:
    """The estimate of each training seed: a mean over seeds hides the one that failed."""
    seeds = sorted({seed for experiment in experiments for seed in experiment.params.train.seeds})
    rows = []
    for experiment in experiments:
        means = dict(zip(experiment.params.train.seeds, experiment.metrics[f"{PREFIX}seed_values"], strict=True))
        cells = "".join(f"<td>{number(means[seed]) if seed in means else ''}</td>" for seed in seeds)
        rows.append(f'<tr><th scope="row">{escape(experiment.name)}</th>{cells}</tr>')
    title = "Estimate of each training seed"
    return details(
        title, table(title, heads(["Experiment", *map("Seed {}".format, seeds)], ("Experiment",)), f"<tbody>{''.join(rows)}</tbody>")
    )
