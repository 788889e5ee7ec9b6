"""Evaluates the final policies of every training seed of one experiment: in fresh environments, on the data alone, or both ways."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipelines import paths
from pipelines.inputs import parameters_of, read_input
from pipelines.params import NO_ENVIRONMENT, ExperimentParams, Params
from pipelines.stage import console, main, reporting
from rl_datasets.environments import make_env
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, replacing, write_json, write_text
from rl_datasets.manifest import Input, Manifest, package_versions, write_manifest
from rl_datasets.schema import EnvSpec
from trainer.bundle import Bundle, load_bundle, stack_bundles
from trainer.evaluation import EvaluationEpisode, evaluate_policies
from trainer.fitted_q.summary import Estimate, notes
from trainer.metrics import normalized_score, score_note, summarize_returns

PACKAGES = ("gymnasium", "jax", "jaxlib", "numpy", "scipy")  # those that shape the returns and their summary
PACKAGES_OF_CRITICS = ("flax", "optax")  # those that shape an estimate beside
EPISODE_COLUMNS = ("training_seed", "episode", "environment_seed", "episode_return", "length", "is_terminal")
VALUE_COLUMNS = ("episode_id", "length", "is_terminal", "behaviour_return", "behaviour_rest", "behaviour_value")  # then seed_<n> ...


@dataclass(frozen=True)
class Task:
    """What one run of the stage evaluates."""

    key: str
    experiment: ExperimentParams
    split: Path
    statistics: Mapping[str, Any]  # of the train split
    policies: Sequence[Bundle]  # in the order of the training seeds

    @property
    def spec(self) -> EnvSpec:
        return self.policies[0].spec


@dataclass(frozen=True)
class Part:
    """What one way to evaluate gives: a table, of no rows where the way was not asked for, and what goes with it."""

    table: pd.DataFrame
    metrics: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @functools.cached_property
    def text(self) -> str:
        return str(self.table.to_csv(index=False, lineterminator="\n"))


def run(key: str, params: Params) -> Path:
    """Writes artifacts/evals/<experiment>/. Raises HindcastError where a policy is missing or is not this experiment's."""
    experiment = params.experiment(key)
    version = params.dataset(experiment.dataset).version
    split = paths.SPLITS / experiment.dataset / version
    digest = read_input(split, f"split@{experiment.dataset}", params, "stats.json").digest
    source = Input(f"{experiment.dataset} {version}", split.as_posix(), digest)
    read_input(paths.MODELS / key, f"train@{key}", params)
    learner = params.learner_params(key).model_dump(mode="json")
    expected = {
        paths.MODELS / key / "policies" / f"seed_{seed}": wanted(experiment, version, source.digest, learner, seed)
        for seed in experiment.train.seeds
    }
    policies = {folder: load_fitting(folder, entry) for folder, entry in expected.items()}
    task = Task(key, experiment, split, read_json(split / "stats.json", "episode_return"), list(policies.values()))

    played, estimated = played_part(task), estimated_part(task, params)
    inputs = [
        Input(f"policy of seed {bundle.seed}", folder.as_posix(), bundle.description["digest"]) for folder, bundle in policies.items()
    ]
    manifest = Manifest(
        job=f"evaluate@{key}",
        digest=hashlib.sha256("".join(part.text for part in (played, estimated) if len(part.table)).encode()).hexdigest(),
        parameters=parameters_of(f"evaluate@{key}", params),
        inputs=[*inputs, source],
        counts={**played.counts, **estimated.counts},
        notes=[*played.notes, *estimated.notes],
        packages=package_versions(*PACKAGES, *(PACKAGES_OF_CRITICS if len(estimated.table) else ())),
    )
    metrics = {**played.metrics, **estimated.metrics, "behaviour_return_mean": task.statistics["episode_return"]["mean"]}
    with replacing(paths.EVALS / key) as folder:
        write_text(folder / "episodes.csv", played.text)
        write_text(folder / "fitted_q.csv", estimated.text)
        write_json(folder / "metrics.json", metrics)
        write_manifest(folder, manifest)
    for line in _result_lines(key, metrics, estimated.notes[1:]):
        console.print(line, highlight=False, soft_wrap=True)
    return paths.EVALS / key


def played_part(task: Task) -> Part:
    """Episodes in the environment. Raises HindcastError where it cannot be made."""
    if task.experiment.evaluate.episodes is None:
        return Part(pd.DataFrame(columns=list(EPISODE_COLUMNS)))
    rows = play(task, task.experiment.evaluate.episodes)
    metrics = evaluation_metrics(rows, task.experiment.evaluate.seed)
    metrics["normalized_score"] = normalized_score(metrics["return_mean"], task.spec.reference_returns)
    table = episode_table(rows, task.experiment.train.seeds)
    counts = {"episodes": len(rows), "steps": sum(row.length for row in rows)}
    return Part(table, metrics, counts, [score_note(task.spec.env_id, task.spec.reference_returns)])


def estimated_part(task: Task, params: Params) -> Part:
    """Fitted Q evaluation on the splits train and test. Raises HindcastError where there is no test split, or critics diverge."""
    evaluate = task.experiment.evaluate
    if evaluate.fitted_q is None:
        return Part(pd.DataFrame(columns=list(VALUE_COLUMNS)))
    from rl_datasets.rlds import DESCRIPTION  # TensorFlow, only where data are read
    from trainer.fitted_q.estimate import estimate_returns

    read_input(task.split, f"split@{task.experiment.dataset}", params, *DESCRIPTION)
    with reporting(f"evaluate@{task.key}") as report:
        estimate = estimate_returns(
            task.policies,
            task.split,
            task.statistics,
            evaluate.fitted_q,
            seed=evaluate.seed,
            train="train",
            held_out="test",
            readers=params.runtime.readers,
            memory_cap_mb=task.experiment.train.memory_cap_mb,
            feed=params.runtime.feed,
            report=report,
        )
    counts = {"held_out_episodes": len(estimate.episodes), "updates": evaluate.fitted_q.updates}
    return Part(value_table(estimate, task.experiment.train.seeds), estimate.metrics(), counts, notes(estimate))


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


def play(task: Task, episodes: int) -> list[EvaluationEpisode]:
    spec, evaluate = task.spec, task.experiment.evaluate
    make = functools.partial(make_env, spec.env_id, spec.env_kwargs, spec.max_episode_steps)
    try:
        make().close()
    except HindcastError as error:
        raise HindcastError(f"{error} {NO_ENVIRONMENT}") from error
    columns = (TextColumn(f"evaluate {task.key}"), BarColumn(), MofNCompleteColumn(), TextColumn("episodes"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        shown = progress.add_task("", total=len(task.policies) * episodes)
        return evaluate_policies(
            stack_bundles(task.policies),
            make,
            policies=len(task.policies),
            episodes=episodes,
            seed=evaluate.seed,
            gamma=evaluate.fitted_q.gamma if evaluate.fitted_q else None,
            advance=lambda count: progress.advance(shown, count),
        )


def evaluation_metrics(rows: Sequence[EvaluationEpisode], seed: int) -> dict[str, Any]:
    """What metrics.json says of episodes, but for the score: numbers, null where there is none, and one list (`seed_means`)."""
    policies = 1 + max(row.policy for row in rows)
    returns = np.array([row.episode_return for row in rows]).reshape(policies, -1)
    summary = summarize_returns(returns, np.random.default_rng(seed))
    successes = [row.success for row in rows if row.success is not None]
    discounted = [row.discounted_return for row in rows if row.discounted_return is not None]
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
        **({"discounted_return_mean": float(np.mean(discounted))} if discounted else {}),
    }


def episode_table(rows: Sequence[EvaluationEpisode], training_seeds: Sequence[int]) -> pd.DataFrame:
    """Returns episodes.csv: a row an episode; `success` only where the environment reports it, `discounted_return` where asked for."""
    table = pd.DataFrame(rows, columns=EvaluationEpisode._fields)
    table["policy"] = [training_seeds[policy] for policy in table["policy"]]
    table = table.rename(columns={"policy": "training_seed"})
    return table.drop(columns=[name for name in ("success", "discounted_return") if table[name].isna().all()])


def value_table(estimate: Estimate, training_seeds: Sequence[int]) -> pd.DataFrame:
    """Returns fitted_q.csv: a row a held-out episode, with the values at its initial state in a column for each training seed."""
    columns = (
        estimate.episodes,
        estimate.length,
        estimate.is_terminal,
        estimate.behaviour_return,
        estimate.behaviour_rest,
        estimate.behaviour_value,
    )
    values = {f"seed_{seed}": row for seed, row in zip(training_seeds, estimate.values, strict=True)}
    return pd.DataFrame({**dict(zip(VALUE_COLUMNS, columns, strict=True)), **values})


def _result_lines(key: str, metrics: Mapping[str, Any], flags: Sequence[str]) -> list[str]:
    lines = []
    if "return_mean" in metrics:
        lines.append(
            f"[bold]{key}[/]: return {metrics['return_mean']:.1f} \u00b1 {metrics['return_std']:.1f}, "
            f"IQM {metrics['iqm']:.1f} [{metrics['iqm_low']:.1f}, {metrics['iqm_high']:.1f}], "
            f"worst seed {metrics['worst_seed_mean']:.1f}, behaviour {metrics['behaviour_return_mean']:.1f}"
        )
    if "fitted_q_value" in metrics:
        true = f", played {metrics['discounted_return_mean']:.4g}" if "discounted_return_mean" in metrics else ""
        lines.append(
            f"[bold]{key}[/]: discounted return, by fitted Q evaluation {metrics['fitted_q_value']:.4g} "
            f"[{metrics['fitted_q_value_low']:.4g}, {metrics['fitted_q_value_high']:.4g}]{true}, "
            f"behaviour {metrics['fitted_q_behaviour']:.4g} (the estimator is off there by {metrics['fitted_q_calibration']:.4g})"
        )
    return [*lines, *(f"[yellow]{escape(flag)}[/]" for flag in flags)]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"dataset": {"name": "x"}} becomes {"dataset.name": "x"}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


if __name__ == "__main__":
    main("evaluate", run)
