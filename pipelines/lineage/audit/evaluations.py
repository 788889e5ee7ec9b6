"""Reported numbers: the metrics of an evaluation against its tables, and the report against the metrics."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines import paths
from pipelines.lineage.audit import estimates
from pipelines.lineage.audit.estimates import Columns, columns_of
from pipelines.lineage.audit.findings import Finding, broken, compared, holds, is_close
from pipelines.lineage.audit.models import flat_experiment
from pipelines.lineage.audit.played import Played, drawn_metrics, expected_metrics, expected_seeds, played_of, score
from pipelines.lineage.audit.scene import BUNDLE_FILE, Scene
from pipelines.lineage.stages import Stage
from rl_datasets.manifest import FILE_NAME, Manifest

EPISODES, METRICS, SUMMARY, STATISTICS = "episodes.csv", "metrics.json", "summary.json", "stats.json"
TABLES = (EPISODES, "fitted_q.csv")


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
        played = played_of(tables[places[0]], places[0])
        columns = columns_of(tables[places[1]], places[1]) if places[1] in tables else {}
        yield from _count(scene, stage, places[0], played)
        yield from _counts(stage, folder, manifest, played, columns, mend)
        if metrics is not None:
            expected = _expected(scene, stage, manifest, played, columns)
            yield from _metrics(scene, stage, folder, scene.mapping(f"{folder}/{METRICS}"), expected, where)


def _expected(scene: Scene, stage: Stage, manifest: Manifest, played: Played, columns: Columns) -> dict[str, Any]:
    """What metrics.json must say; with a deep audit, also what takes a draw or a library."""
    seed = flat_experiment(stage).get("evaluate.seed") if scene.deep else None
    expected = estimates.expected_metrics(columns, seed) if columns else {}
    if played.returns:
        expected |= expected_metrics(played)
        if seed is not None:
            expected |= drawn_metrics(played, seed) | _scored(scene, manifest, expected["return_mean"])
    return expected | _of_the_data(scene, manifest)


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


def _count(scene: Scene, stage: Stage, where: str, played: Played) -> Iterator[Finding]:
    """That each policy played as many episodes as were asked for, and with a deep audit, in the environments that the seed gives."""
    experiment, mend = flat_experiment(stage), scene.mend(where, stage.name)
    if "train.seeds" not in experiment or experiment.get("evaluate.episodes") is None:
        return
    episodes = experiment["evaluate.episodes"]
    expected = {str(seed): episodes for seed in experiment["train.seeds"]}
    found = {seed: len(values) for seed, values in played.returns.items()}
    yield compared(stage.name, f"episodes of each training seed in {where}", where, expected=expected, found=found, mend=mend)
    if scene.deep and "evaluate.seed" in experiment:
        seeds = expected_seeds(experiment["evaluate.seed"], episodes)
        odd = next((own for own in played.environment_seeds.values() if own != seeds), seeds)
        yield compared(stage.name, f"environment seeds in {where}", where, expected=seeds, found=odd, mend=mend)


def _counts(stage: Stage, folder: str, manifest: Manifest, played: Played, columns: Columns, mend: str) -> Iterator[Finding]:
    where = f"{folder}/{FILE_NAME}"
    expected = played.counts | ({"held_out_episodes": len(columns["is_terminal"])} if columns else {})
    found = {name: manifest.counts.get(name) for name in expected}
    yield compared(stage.name, f"counts in {where}", where, expected=expected, found=found, mend=mend, related=folder)


def _metrics(
    scene: Scene, stage: Stage, folder: str, metrics: Mapping[str, Any], expected: dict[str, Any], table: str
) -> Iterator[Finding]:
    """That the metrics are those that the tables and the data give."""
    where = f"{folder}/{METRICS}"
    differing = [name for name, value in expected.items() if not is_close(metrics.get(name), value)]
    link, mend = f"numbers in {where}", scene.mend(where, stage.name)
    if differing:
        wanted, found = ({name: values.get(name) for name in differing} for values in (expected, metrics))
        yield broken(stage.name, link, where, expected=json.dumps(wanted), found=json.dumps(found), mend=mend, related=table)
    else:
        yield holds(stage.name, link, where)


def _scored(scene: Scene, manifest: Manifest, return_mean: float) -> dict[str, Any]:
    """The score by the reference returns that the policies have; nothing where none is here."""
    policies = [entry.path for entry in manifest.inputs if entry.path.startswith(f"{paths.MODELS.as_posix()}/")]
    descriptions = [found for path in policies if (found := scene.json(f"{path}/{BUNDLE_FILE}")) is not None]
    return {"normalized_score": score(return_mean, descriptions[0]["spec"].get("reference_returns"))} if descriptions else {}


def _of_the_data(scene: Scene, manifest: Manifest) -> dict[str, Any]:
    """The return of the behaviour, as the statistics of the split have it that the manifest names."""
    splits = [entry.path for entry in manifest.inputs if entry.path.startswith(f"{paths.SPLITS.as_posix()}/")]
    statistics = scene.json(f"{splits[0]}/{STATISTICS}") if splits else None
    return {"behaviour_return_mean": statistics["episode_return"]["mean"]} if statistics else {}
