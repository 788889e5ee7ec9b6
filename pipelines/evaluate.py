"""Plays the final policy of every training seed of one experiment in fresh environments, and summarises the returns."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines import paths
from pipelines.inputs import parameters_of, read_input
from pipelines.params import ExperimentParams, Params
from pipelines.stage import console, main
from rl_datasets.environments import make_env
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, replacing, write_json
from rl_datasets.manifest import Input, Manifest, package_versions, write_manifest
from trainer.bundle import Bundle, load_bundle, stack_bundles
from trainer.evaluation import EvaluationEpisode, evaluate_policies
from trainer.metrics import normalized_score, score_note, summarize_returns

PACKAGES = ("gymnasium", "jax", "jaxlib", "numpy", "scipy")  # those that shape the returns and their summary


def run(key: str, params: Params) -> Path:
    """Writes artifacts/evals/<experiment>/. Raises HindcastError where a policy is missing or is not this experiment's."""
    experiment = params.experiment(key)
    version = params.dataset(experiment.dataset).version
    split = paths.SPLITS / experiment.dataset / version
    digest = read_input(split, f"split@{experiment.dataset}", params, "stats.json").digest
    source = Input(f"{experiment.dataset} {version}", split.as_posix(), digest)
    behaviour = read_json(split / "stats.json", "episode_return")["episode_return"]["mean"]
    read_input(paths.MODELS / key, f"train@{key}", params)
    learner = params.learner_params(key).model_dump(mode="json")
    expected = {
        paths.MODELS / key / "policies" / f"seed_{seed}": wanted(experiment, version, source.digest, learner, seed)
        for seed in experiment.train.seeds
    }
    policies = {folder: load_fitting(folder, entry) for folder, entry in expected.items()}
    spec = next(iter(policies.values())).spec

    rows = play(key, experiment, list(policies.values()))
    metrics = evaluation_metrics(rows, experiment.evaluate.seed, behaviour)
    metrics["normalized_score"] = normalized_score(metrics["return_mean"], spec.reference_returns)
    table = episode_table(rows, experiment.train.seeds).to_csv(index=False, lineterminator="\n")
    inputs = [
        Input(f"policy of seed {bundle.seed}", folder.as_posix(), bundle.description["digest"]) for folder, bundle in policies.items()
    ]
    manifest = Manifest(
        job=f"evaluate@{key}",
        digest=hashlib.sha256(table.encode()).hexdigest(),
        parameters=parameters_of(f"evaluate@{key}", params),
        inputs=[*inputs, source],
        counts={"episodes": len(rows), "steps": sum(row.length for row in rows)},
        notes=[score_note(spec.env_id, spec.reference_returns)],
        packages=package_versions(*PACKAGES),
    )
    with replacing(paths.EVALS / key) as folder:
        (folder / "episodes.csv").write_text(table, encoding="utf-8")
        write_json(folder / "metrics.json", metrics)
        write_manifest(folder, manifest)
    console.print(_result_line(key, metrics), highlight=False, soft_wrap=True)
    return paths.EVALS / key


def wanted(experiment: ExperimentParams, version: str, digest: str, learner: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What a policy bundle of this experiment says of itself."""
    return {
        "dataset": {"name": experiment.dataset, "version": version, "digest": digest},
        "algorithm": experiment.algorithm,
        "params": learner,
        "updates": experiment.train.updates,
        "seed": seed,
    }


def load_fitting(folder: Path, expected: Mapping[str, Any]) -> Bundle:
    """Raises HindcastError where a bundle was trained otherwise than the experiment asks for, every difference named."""
    bundle = load_bundle(folder)
    found = _flat(bundle.description)
    faults = [f"{name} is {found.get(name)!r} instead of {value!r}" for name, value in _flat(expected).items() if found.get(name) != value]
    if faults:
        raise HindcastError(
            f"{folder} is not a policy of this experiment as params.yaml and the data set now stand: {'; '.join(faults)}. "
            f"Train it again with 'dvc repro train@{folder.parent.parent.name}'."
        )
    return bundle


def play(key: str, experiment: ExperimentParams, bundles: Sequence[Bundle]) -> list[EvaluationEpisode]:
    spec = bundles[0].spec
    columns = (TextColumn(f"evaluate {key}"), BarColumn(), MofNCompleteColumn(), TextColumn("episodes"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=len(bundles) * experiment.evaluate.episodes)
        return evaluate_policies(
            stack_bundles(bundles),
            functools.partial(make_env, spec.env_id, spec.env_kwargs, spec.max_episode_steps),
            policies=len(bundles),
            episodes=experiment.evaluate.episodes,
            seed=experiment.evaluate.seed,
            advance=lambda count: progress.advance(task, count),
        )


def evaluation_metrics(rows: Sequence[EvaluationEpisode], seed: int, behaviour_return_mean: float) -> dict[str, Any]:
    """Returns metrics.json but for the score: numbers, null where there is none, and one list (`seed_means`)."""
    policies = 1 + max(row.policy for row in rows)
    returns = np.array([row.episode_return for row in rows]).reshape(policies, -1)
    summary = summarize_returns(returns, np.random.default_rng(seed))
    successes = [row.success for row in rows if row.success is not None]
    return {
        "return_mean": summary.mean,
        "return_std": summary.std,
        "return_median": summary.median,
        "iqm": summary.iqm,
        "iqm_low": summary.iqm_low,
        "iqm_high": summary.iqm_high,
        "seed_means": list(summary.seed_means),
        "seed_std": summary.seed_std,
        "worst_seed_mean": summary.worst_seed_mean,
        "length_mean": float(np.mean([row.length for row in rows])),
        "success_rate": float(np.mean(successes)) if len(successes) == len(rows) else None,
        "behaviour_return_mean": behaviour_return_mean,
    }


def episode_table(rows: Sequence[EvaluationEpisode], training_seeds: Sequence[int]) -> pd.DataFrame:
    """Returns episodes.csv: a row an episode; the column `success` only where the environment reports it."""
    table = pd.DataFrame(rows, columns=EvaluationEpisode._fields)
    table["policy"] = [training_seeds[policy] for policy in table["policy"]]
    table = table.rename(columns={"policy": "training_seed"})
    return table.drop(columns="success") if table["success"].isna().all() else table


def _result_line(key: str, metrics: Mapping[str, Any]) -> str:
    return (
        f"[bold]{key}[/]: return {metrics['return_mean']:.1f} \u00b1 {metrics['return_std']:.1f}, "
        f"IQM {metrics['iqm']:.1f} [{metrics['iqm_low']:.1f}, {metrics['iqm_high']:.1f}], "
        f"worst seed {metrics['worst_seed_mean']:.1f}, behaviour {metrics['behaviour_return_mean']:.1f}"
    )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"dataset": {"name": "x"}} becomes {"dataset.name": "x"}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


if __name__ == "__main__":
    main("evaluate", run)
