"""Trained policies: each bundle against its weights, its data set and what dvc.lock says that it was trained with."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines import paths
from pipelines.lineage.audit.findings import Finding, broken, compared, holds
from pipelines.lineage.audit.scene import BUNDLE_FILE, Scene
from pipelines.lineage.changes import flat
from pipelines.lineage.stages import Stage
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, values_digest

WEIGHTS = "policy.safetensors"


def check_models(scene: Scene, stage: Stage) -> Iterator[Finding]:
    if stage.locked is None:
        return
    files = [file for output in stage.outputs for file in scene.contents.files(output)]
    folders = sorted(file.rpartition("/")[0] for file in files if file.endswith(f"/{BUNDLE_FILE}"))
    for folder in folders:
        yield from _bundle(scene, stage, folder)
    experiment = flat_experiment(stage)
    if folders and "train.seeds" in experiment:
        yield from _seeds(scene, stage, folders, list(experiment["train.seeds"]))


def _bundle(scene: Scene, stage: Stage, folder: str) -> Iterator[Finding]:
    where = f"{folder}/{BUNDLE_FILE}"
    mend = scene.mend(where, stage.name)
    try:
        description = scene.mapping(where)
    except HindcastError as error:
        yield broken(stage.name, f"policy {folder}", where, found=str(error), mend=mend)
        return
    stated = {key: value for key, value in description.items() if key != "digest"}
    link = f"digest of {where}"
    yield compared(stage.name, link, where, expected=description.get("digest"), found=values_digest(stated), mend=mend)
    weights = f"{folder}/{WEIGHTS}"
    if scene.contents.files(folder):
        found = scene.contents.sha256(weights) or "no such file"
        yield compared(
            stage.name, f"weights {weights}", weights, expected=description.get("weights"), found=found, mend=mend, related=where
        )
    yield from _training(scene, stage, where, description)
    yield from _dataset(scene, stage, where, description)


def _training(scene: Scene, stage: Stage, where: str, description: Mapping[str, Any]) -> Iterator[Finding]:
    """That the policy says of its training what dvc.lock says of the run."""
    experiment = flat_experiment(stage)
    asked = {"algorithm": experiment.get("algorithm"), "updates": experiment.get("train.updates")}
    expected = {name: value for name, value in asked.items() if value is not None}
    found = {name: description.get(name) for name in expected}
    seed = where.split("/")[-2].removeprefix("seed_")
    expected["seed"], found["seed"] = seed, str(description.get("seed"))
    mend = f"it is another policy: {scene.mend(where, stage.name)}"
    yield compared(stage.name, f"training of {where}", where, expected=expected, found=found, mend=mend)


def _dataset(scene: Scene, stage: Stage, where: str, description: Mapping[str, Any]) -> Iterator[Finding]:
    """That the policy was trained on the split that the experiment names, with the content that it has now."""
    said, experiment = description["dataset"], flat_experiment(stage)
    name, mend = experiment.get("dataset", said["name"]), f"it was trained on other data: run 'dvc repro --force {stage.name}'"
    split = f"{paths.SPLITS.as_posix()}/{said['name']}/{said['version']}"
    link = f"data set of {where}"
    if said["name"] != name:
        yield broken(stage.name, link, where, expected=name, found=said["name"], mend=mend)
        return
    digest = scene.digest_of(split)
    if digest is not None:
        yield compared(stage.name, link, where, expected=digest, found=said["digest"], mend=mend, related=split)


def _seeds(scene: Scene, stage: Stage, folders: list[str], seeds: list[int]) -> Iterator[Finding]:
    """That there is a policy for each training seed and no other, and that the manifest's digest is that of all of them."""
    base = folders[0].rpartition("/")[0]
    found = sorted(folder.rpartition("seed_")[2] for folder in folders)
    link, mend = f"training seeds of {base}", scene.mend(base, stage.name)
    if found != sorted(map(str, seeds)):
        yield broken(stage.name, link, base, expected=f"seeds {seeds}", found=f"seeds {', '.join(found)}", mend=mend)
        return
    yield holds(stage.name, link, base)
    model = base.rpartition("/")[0]
    manifest = scene.manifest(model)
    if manifest is not None:
        digests = [str(scene.mapping(f"{base}/seed_{seed}/{BUNDLE_FILE}").get("digest")) for seed in seeds]
        digest, where = hashlib.sha256("\n".join(digests).encode()).hexdigest(), f"{model}/{FILE_NAME}"
        yield compared(stage.name, f"policies by {where}", where, expected=digest, found=manifest.digest, mend=mend, related=base)


def flat_experiment(stage: Stage) -> dict[str, Any]:
    """The parameters in dvc.lock that lie under the experiment of a stage, without its name: "train.seeds", "dataset"."""
    prefix = f"experiments.{stage.name.partition('@')[2]}."
    locked = flat(stage.locked_parameters())
    return {name.removeprefix(prefix): value for name, value in locked.items() if name.startswith(prefix)}
