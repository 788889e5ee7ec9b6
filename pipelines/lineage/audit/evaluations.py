"""Reported numbers: the metrics of an evaluation against its tables, and the report against the metrics."""

import csv
import hashlib
import io
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines import paths
from pipelines.lineage.audit.estimates import columns_of, expected_metrics
from pipelines.lineage.audit.findings import Finding, broken, compared, holds
from pipelines.lineage.audit.models import flat_experiment
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.stages import Stage
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME

EPISODES, METRICS, SUMMARY, STATISTICS = "episodes.csv", "metrics.json", "summary.json", "stats.json"
TABLES = (EPISODES, "fitted_q.csv")
TOLERANCE = 1e-9  # relative, between two ways to sum the same numbers
Returns = dict[str, list[float]]  # of each training seed, in the order of episodes


def check_evaluation(scene: Scene, stage: Stage) -> Iterator[Finding]:
    if stage.locked is None:
        return
    for folder in scene.manifests(stage):
        manifest = scene.manifest(folder)
        places = [f"{folder}/{name}" for name in TABLES]
        tables = {where: table for where in places if (table := scene.contents.read(where)) is not None}
        metrics = scene.json(f"{folder}/{METRICS}")
        if (
            manifest is None
            or METRICS not in manifest.files
            or any(f"{folder}/{name}" not in tables for name in TABLES if name in manifest.files)
        ):
            continue
        filled = {where: table for where, table in tables.items() if table.count(b"\n") > 1} or tables
        where = next(iter(filled))
        link, mend = f"digest of {' and '.join(filled)} by {FILE_NAME}", scene.mend(where, stage.name)
        found = hashlib.sha256(b"".join(filled.values())).hexdigest()
        yield compared(stage.name, link, where, expected=manifest.digest, found=found, mend=mend, related=f"{folder}/{FILE_NAME}")
        returns, lengths = _returns(tables[places[0]], places[0])
        yield from _count(scene, stage, places[0], returns)
        if metrics is not None:
            seed = flat_experiment(stage).get("evaluate.seed") if scene.deep else None
            expected = _of_returns(returns, lengths, seed) if returns else {}
            values = columns_of(tables[places[1]], places[1]) if places[1] in tables else {}
            expected |= expected_metrics(values, seed) if values else {}
            yield from _metrics(scene, stage, folder, scene.mapping(f"{folder}/{METRICS}"), expected, where)


def check_report(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That each line of summary.json has the numbers of its experiment's metrics.json, and that no experiment is missing."""
    where = next((path for path in stage.outputs if path.endswith(f"/{SUMMARY}")), None)
    rows = scene.json(where) if where else None
    if stage.locked is None or where is None or rows is None:
        return
    mend = scene.mend(where, stage.name)
    if not isinstance(rows, list):
        yield broken(stage.name, where, where, expected="a list of experiments", found=rows, mend=mend)
        return
    named = [row["experiment"] for row in rows]
    expected = list(stage.locked_parameters().get("experiments", {}))
    yield compared(stage.name, f"experiments in {where}", where, expected=expected, found=named, mend=mend)
    for row in rows:
        source = f"{paths.EVALS.as_posix()}/{row['experiment']}/{METRICS}"
        metrics = scene.json(source)
        if isinstance(metrics, dict):
            shared = {key: metrics[key] for key in row if key in metrics}
            found = {key: row[key] for key in shared}
            differing = {key: value for key, value in shared.items() if found[key] != value}
            link = f"numbers of {row['experiment']} in {where}"
            found = {key: found[key] for key in differing}
            yield compared(stage.name, link, where, expected=differing, found=found, mend=mend, related=source)


def _returns(table: bytes, where: str) -> tuple[Returns, list[int]]:
    """The returns of each training seed, and all lengths. Raises HindcastError where it is no such table."""
    returns: Returns = defaultdict(list)
    lengths = []
    try:
        for row in csv.DictReader(io.StringIO(table.decode("utf-8"))):
            returns[row["training_seed"]].append(float(row["episode_return"]))
            lengths.append(int(row["length"]))
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise HindcastError(f"{where} is no table of episodes ({type(error).__name__}: {error})") from error
    return dict(returns), lengths


def _count(scene: Scene, stage: Stage, where: str, returns: Returns) -> Iterator[Finding]:
    experiment = flat_experiment(stage)
    if "train.seeds" in experiment and "evaluate.episodes" in experiment:
        expected = {str(seed): experiment["evaluate.episodes"] for seed in experiment["train.seeds"]}
        found = {seed: len(values) for seed, values in returns.items()}
        link, mend = f"episodes of each training seed in {where}", scene.mend(where, stage.name)
        yield compared(stage.name, link, where, expected=expected, found=found, mend=mend)


def _of_returns(returns: Returns, lengths: list[int], seed: int | None) -> dict[str, Any]:
    """What the metrics of episodes must be; with the seed of the evaluation, those that are drawn by chance too, by the same draw."""
    every = [value for values in returns.values() for value in values]
    means = [statistics.fmean(values) for values in returns.values()]
    expected: dict[str, Any] = {
        "return_mean": statistics.fmean(every),
        "return_std": statistics.pstdev(every),
        "return_median": statistics.median(every),
        "seed_means": means,
        "seed_std": statistics.stdev(means) if len(means) > 1 else None,
        "worst_seed_mean": min(means),
        "length_mean": statistics.fmean(lengths),
    }
    return expected | _drawn(returns, seed)


def _metrics(
    scene: Scene, stage: Stage, folder: str, metrics: Mapping[str, Any], expected: dict[str, Any], table: str
) -> Iterator[Finding]:
    """That the metrics are those that the tables and the data give."""
    where = f"{folder}/{METRICS}"
    expected |= _of_the_data(scene, folder)
    differing = [name for name, value in expected.items() if not _is_close(metrics.get(name), value)]
    link, mend = f"numbers in {where}", scene.mend(where, stage.name)
    if differing:
        wanted, found = ({name: values.get(name) for name in differing} for values in (expected, metrics))
        yield broken(stage.name, link, where, expected=json.dumps(wanted), found=json.dumps(found), mend=mend, related=table)
    else:
        yield holds(stage.name, link, where)


def _drawn(returns: Returns, seed: int | None) -> dict[str, Any]:
    import numpy as np

    from trainer.metrics import summarize_returns  # SciPy, most of a second

    lengths = {len(values) for values in returns.values()}
    if seed is None or len(lengths) != 1:
        return {}
    summary = summarize_returns(np.array(list(returns.values())), np.random.default_rng(seed))
    return {"iqm": summary.iqm, "iqm_low": summary.iqm_low, "iqm_high": summary.iqm_high}


def _of_the_data(scene: Scene, folder: str) -> dict[str, Any]:
    """The return of the behaviour, as the statistics of the split have it that the manifest names."""
    manifest = scene.manifest(folder)
    splits = [entry.path for entry in manifest.inputs if entry.path.startswith(f"{paths.SPLITS}/")] if manifest else []
    statistics_ = scene.json(f"{splits[0]}/{STATISTICS}") if splits else None
    return {"behaviour_return_mean": statistics_["episode_return"]["mean"]} if statistics_ else {}


def _is_close(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(_is_close, found, expected))
    if expected is None or not isinstance(found, int | float):
        return bool(found == expected)
    return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
