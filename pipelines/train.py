"""Trains the policies of one experiment, all seeds in one program, and writes down its learning curves."""

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pipelines import paths
from pipelines.inputs import parameters_of, read_input
from pipelines.params import ExperimentParams, Params
from pipelines.stage import console, main, reporting
from rl_datasets.files import read_json, replacing
from rl_datasets.manifest import Input, Manifest, package_versions, write_manifest
from rl_datasets.rlds import DESCRIPTION, read_spec
from rl_datasets.schema import EnvSpec, Transition, Tree
from rl_datasets.stream import Stream, open_stream
from trainer import loop
from trainer.bundle import Bundle, Dataset, make_bundle, stack_bundles
from trainer.checkpoint import PACKAGES, CheckpointFolder, run_fingerprint
from trainer.curves import write_csv, write_tensorboard
from trainer.data import training_feed, validation_batches
from trainer.diagnosis import Symptom, diagnose, largest_discounted_return
from trainer.learner import Learner, LearnerParams, load_learner
from trainer.points import TRAIN, Row
from trainer.preprocessing import Preprocessor, make_preprocessor
from trainer.selection import ENVIRONMENT_RETURN, selection_note

EVALUATION_SEED = 0x74726169  # of evaluations while training: episodes that no evaluate stage counts, unless it asks for this seed


@dataclass(frozen=True)
class Task:
    """All that determines what one run of the stage makes."""

    experiment: ExperimentParams
    preset: LearnerParams
    parameters: dict[str, Any]  # those that this stage depends on
    dataset: Dataset
    split: Path
    statistics: dict[str, Any]
    spec: EnvSpec
    stream: Stream
    validation: Transition | None

    @cached_property
    def learner(self) -> Learner[Any]:
        learner: Learner[Any] = load_learner(self.experiment.algorithm).Learner(self.preset, self.spec, self.experiment.train.updates)
        return learner

    @cached_property
    def preprocessor(self) -> Preprocessor:
        return make_preprocessor(self.preset, self.spec, self.statistics)

    @property
    def plan(self) -> loop.Plan:
        train = self.experiment.train
        return loop.Plan(train.seeds, train.updates, train.log_every, train.evaluate_every, train.select, train.precision)

    @property
    def fingerprint(self) -> str:
        values = {"parameters": self.parameters, "dataset": asdict(self.dataset), "spec": self.spec.to_json()}
        return run_fingerprint(**values, statistics=self.statistics)


def run(key: str, params: Params) -> Path:
    """Writes artifacts/models/<experiment>/. A killed run goes on from its last checkpoint, and ends in the same bytes."""
    task = prepare(key, params)
    folder = paths.MODELS / key
    checkpoints = CheckpointFolder(paths.CHECKPOINTS / key, task.fingerprint)
    feed, why = training_feed(task.stream, task.spec, task.plan.seeds, task.experiment.train.batch_size, params.runtime.feed)
    console.print(f"train@{key}: feed {why}", highlight=False, soft_wrap=True)
    with reporting(f"train@{key}") as report:
        fitted = loop.fit(
            task.learner,
            task.preprocessor,
            feed,
            task.plan,
            validation=task.validation,
            checkpoints=checkpoints,
            hooks=loop.Hooks(report, symptom_printer(task), functools.partial(environment_returns, task)),
        )
    with replacing(folder) as part:
        write_model(part, key, task, fitted)
    checkpoints.remove()
    return folder


def symptom_printer(task: Task) -> Callable[[Sequence[Row]], None]:
    """Returns what prints the signs of divergence and collapse in the curves so far, each once."""
    printed: set[Symptom] = set()

    def watch(rows: Sequence[Row]) -> None:
        for symptom in symptoms(task, rows):
            if symptom not in printed:
                printed.add(symptom)
                console.print(f"Warning. {symptom}", style="yellow", markup=False, highlight=False, soft_wrap=True)

    return watch


def symptoms(task: Task, rows: Sequence[Row]) -> list[Symptom]:
    reward, seen = task.statistics["reward"], task.preprocessor
    scaling = float(seen.reward_scale), float(seen.reward_shift)
    return diagnose(rows, task.plan.seeds, largest_discounted_return(reward["minimum"], reward["maximum"], *scaling, task.preset.gamma))


def environment_returns(task: Task, policies: Sequence[Tree]) -> dict[str, np.ndarray]:
    """Mean returns and lengths, [S] each, of the policies so far in fresh environments: a point of the curves."""
    from rl_datasets.environments import make_env  # Gymnasium and its simulators, only for runs that ask for them
    from trainer.evaluation import evaluate_policies

    spec, train = task.spec, task.experiment.train
    same = {"algorithm": task.experiment.algorithm, "params": {}, "spec": spec.to_json(), "updates": train.updates}
    rows = evaluate_policies(
        stack_bundles([Bundle(same, task.learner, task.preprocessor, policy) for policy in policies]),
        functools.partial(make_env, spec.env_id, spec.env_kwargs, spec.max_episode_steps),
        policies=len(policies),
        episodes=train.evaluate_episodes,
        seed=EVALUATION_SEED,
    )
    table = np.array([(row.episode_return, row.length) for row in rows]).reshape(len(policies), train.evaluate_episodes, 2)
    means = table.mean(axis=1).astype(np.float32)
    return {ENVIRONMENT_RETURN: means[:, 0], "environment_length": means[:, 1]}


def prepare(key: str, params: Params) -> Task:
    """Raises HindcastError where the split is missing, damaged, or made with other parameters than are asked for now."""
    experiment = params.experiment(key)
    train, version = experiment.train, params.dataset(experiment.dataset).version
    split = paths.SPLITS / experiment.dataset / version
    made = read_input(split, f"split@{experiment.dataset}", params, *DESCRIPTION, "stats.json")
    dataset = Dataset(experiment.dataset, version, made.digest)
    statistics = read_json(split / "stats.json", "observation", "reward", "episode_return")
    preset = params.learner_params(key)
    options = {"readers": params.runtime.readers, "memory_cap_mb": train.memory_cap_mb, "next_action": preset.NEXT_ACTION}
    stream = open_stream(split, TRAIN, batch_size=train.batch_size, **options)
    validation = validation_batches(split, train.batch_size, options)
    parameters = parameters_of(f"train@{key}", params)
    return Task(experiment, preset, parameters, dataset, split, statistics, read_spec(split).without_step_metadata(), stream, validation)


def write_model(part: Path, key: str, task: Task, fitted: loop.Fitted) -> None:
    """Fills a folder with the policies, the curves and the manifest."""
    train = task.experiment.train
    digests = [
        make_bundle(
            spec=task.spec,
            algorithm=task.experiment.algorithm,
            params=task.preset,
            updates=train.updates,
            seed=seed,
            preprocessor=task.preprocessor,
            policy=policy,
            dataset=task.dataset,
        ).save(part / "policies" / f"seed_{seed}")
        for seed, policy in zip(train.seeds, fitted.policies, strict=True)
    ]
    write_csv(part / "curves.csv", fitted.rows, train.seeds)
    write_tensorboard(part / "tensorboard", fitted.rows, train.seeds)
    manifest = Manifest(
        job=f"train@{key}",
        digest=hashlib.sha256("\n".join(digests).encode()).hexdigest(),
        parameters=task.parameters,
        inputs=[Input(f"{task.dataset.name} {task.dataset.version}", task.split.as_posix(), task.dataset.digest)],
        counts={"updates": fitted.step, "transitions": task.stream.transitions, "dropped_tail": task.stream.dropped},
        notes=[*notes(task, fitted)],
        packages=package_versions(*PACKAGES),
    )
    write_manifest(part, manifest)


def notes(task: Task, fitted: loop.Fitted) -> Iterator[str]:
    """Yields what one should know of a run beside its numbers."""
    train = task.experiment.train
    if task.stream.dropped:
        yield f"Every epoch drops {task.stream.dropped} transitions that fill no batch, others each time."
    if fitted.step < train.updates:
        yield f"Training stopped after {fitted.step:,} of {train.updates:,} updates: every seed was out of patience."
    if train.select and fitted.choice:
        yield selection_note(train.select, fitted.choice, train.seeds, fitted.step)
    yield from map(str, symptoms(task, fitted.rows))


if __name__ == "__main__":
    main("train", run)
