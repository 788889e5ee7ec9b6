"""What a stage reads from another: byte for byte as it was made, and made with the parameters that params.yaml has now.

`dvc repro` sees to that by itself; a stage that is run by hand, on files that were edited or are of another day, is refused here.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pipelines import paths
from pipelines.params import Params
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, Manifest, read_manifest, require_files

ABSENT = "nothing"


def parameters_of(job: str, params: Params, *, defaults: bool = True) -> dict[str, Any]:
    """Returns what the manifest of a job such as "train@cartpole_iql" records as its parameters; plain JSON.

    Without `defaults`, only those that differ from the default of their model.
    """
    stage, _, key = job.partition("@")

    def dump(model: BaseModel, **options: Any) -> dict[str, Any]:
        return model.model_dump(mode="json", exclude_defaults=not defaults, **options)

    match stage:
        case "collect":
            values = dump(params.dataset(key))
        case "check":
            values = dump(params.checks_of(key))
        case "split":
            values = dump(params.split_of(key))
        case "train":
            values = {**dump(params.experiment(key), exclude={"evaluate"}), "learner": dump(params.learner_params(key))}
        case _:
            experiment = params.experiment(key)
            values = {**dump(experiment), "version": params.dataset(experiment.dataset).version}
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def read_input(folder: Path, job: str, params: Params, *files: str) -> Manifest:
    """Returns the manifest of what `job` made in `folder`.

    Raises HindcastError where another job made it, where it or what it was made from (as far as that is here) was made with other
    parameters than params.yaml has now or from other content than is there now, and where one of `files` in it was changed.
    """
    manifest = read_manifest(folder)
    if manifest.job != job:
        raise HindcastError(
            f"{folder} holds what {manifest.job} made, but what {job} makes is expected there: the two were swapped or copied. "
            f"Restore it with 'dvc checkout --force {folder}', or rebuild it with 'dvc repro --force {job}'."
        )
    for place, made in _with_sources(folder, manifest, set()):
        _require_parameters(place, made, params)
    require_files(folder, manifest, *files)
    return manifest


def _with_sources(folder: Path, manifest: Manifest, seen: set[Path]) -> Iterator[tuple[Path, Manifest]]:
    """Yields what was made, and then what that was made from, as far as it is here; each once, by `seen`."""
    if folder in seen:
        return
    seen.add(folder)
    yield folder, manifest
    for entry in manifest.inputs:
        source = _folder_of(Path(entry.path))
        if source is None:
            continue
        made = read_manifest(source)
        if source == Path(entry.path) and made.digest != entry.digest:
            raise HindcastError(
                f"{folder} was made from {source} when that had the digest {entry.digest[:12]}; now it has {made.digest[:12]}. "
                f"Run 'dvc repro {manifest.job}'."
            )
        yield from _with_sources(source, made, seen)


def _folder_of(path: Path) -> Path | None:
    """The artifact that a path is or lies in, as a policy does in its model; None for a file of the user's, and where it is not here."""
    inside = [folder for folder in (path, *path.parents) if paths.ARTIFACTS in folder.parents]
    return next((folder for folder in inside if (folder / FILE_NAME).is_file()), None)


def _require_parameters(folder: Path, manifest: Manifest, params: Params) -> None:
    stage, _, key = manifest.job.partition("@")
    if key not in (params.datasets if stage in ("collect", "check", "split") else params.experiments):
        return  # what once was made, and params.yaml no longer asks for
    found, asked = _flat(manifest.parameters), _flat(parameters_of(manifest.job, params))
    chosen = _flat(parameters_of(manifest.job, params, defaults=False))  # an option that is newer than the artifact counts where it is used
    differing = [
        f"{_place(stage, key, name, params)} was {found.get(name, ABSENT)!r} and is now {asked.get(name, ABSENT)!r}"
        for name in sorted({*found, *chosen})
        if found.get(name, ABSENT) != asked.get(name, ABSENT)
    ]
    if differing:
        raise HindcastError(
            f"{folder} was made with other parameters than params.yaml has now: {'; '.join(differing)}. "
            f"Run 'dvc repro {manifest.job}' (with --force where DVC finds nothing to do), or take the change back."
        )


def _place(stage: str, key: str, name: str, params: Params) -> str:
    """The path in params.yaml of a parameter as a manifest names it."""
    match stage:
        case "collect":
            return f"datasets.{key}.{name}"
        case "check":
            own = not {name, name.removesuffix(".severity")}.isdisjoint(_flat(params.checks.get(key, {})))  # a severity may stand alone
            return f"checks.{key if own else 'default'}.{name}"
        case "split":
            own = name.partition(".")[0] in params.split.datasets.get(key, ())
            return f"split.datasets.{key}.{name}" if own else f"split.{name}"
    entry = params.experiments[key]
    if name == "version":
        return f"datasets.{entry.dataset}.version"
    head, _, tail = name.partition(".")
    return f"learners.{entry.algorithm}.{entry.preset}.{tail}" if head == "learner" else f"experiments.{key}.{name}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"dataset": {"name": "x"}} becomes {"dataset.name": "x"}; what is empty stays as it is."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else {prefix + name: value}
    return flat
