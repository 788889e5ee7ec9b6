"""`Params`: the whole of params.yaml as frozen models, and `load_params`, its only reader.

The shape follows what DVC needs to rerun no more than it must: an experiment names its learner by `algorithm` (a file of
trainer/learners/) and `preset` (an entry under `learners.<algorithm>`), and a data set names the one path it is made from.
"""

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from pipelines import paths
from pipelines.yaml_file import read_yaml
from rl_datasets.about import About
from rl_datasets.builder import BuilderOptions, load_builder
from rl_datasets.errors import HindcastError
from rl_datasets.splits import SplitParams, SplitSection
from rl_datasets.validation import validated, validated_over
from rl_datasets.words import count
from trainer.fitted_q.params import FittedQParams
from trainer.selection import ENVIRONMENT_RETURN, SelectParams

if TYPE_CHECKING:
    from rl_datasets.checks import CheckParams

COMBINE_BUILDER = "combine"
Key = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Version = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Model = TypeVar("Model", bound=BaseModel)


def _inside_project(path: str) -> str:
    if path.strip() in ("", "."):
        raise ValueError("must name a file or folder, and not the whole project")
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise ValueError("must be a path inside the project, relative to its root")
    return path


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DatasetParams(_Section):
    """One data set. `source` is the path it is made from beside code: a file, a model, or the lock of the simulators.

    `exclude` names episodes, by id, that its builder makes and that must not be in it. `about` is for its card and for Croissant.
    """

    builder: str
    version: Version
    seed: Seed
    source: Annotated[str, AfterValidator(_inside_project)]
    options: Mapping[str, Any]
    exclude: tuple[str, ...] = ()
    about: About = About()

    @field_validator("exclude")
    @classmethod
    def _each_once(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        if "" in ids:
            raise ValueError("an id is empty: take it off the list")
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            raise ValueError(f"'{twice[0]}' is listed {ids.count(twice[0])} times: list each id once")
        return ids


class CombineParams(_Section):
    """That one data set goes into another, whose builder is `combine`."""

    into: Key
    dataset: Key


class TrainParams(_Section):
    seeds: tuple[Seed, ...] = Field(min_length=1)
    updates: int = Field(gt=0)
    batch_size: int = Field(gt=0)
    log_every: int = Field(500, gt=0)  # updates between two lines of the learning curve
    memory_cap_mb: int = Field(2048, ge=16)  # of transitions held while streaming; above it the shuffle is by windows of shards
    precision: Literal["float32", "tensorfloat32", "bfloat16"] = "float32"  # of products of matrices; all else is float32
    select: SelectParams | None = None  # the policies of the best point of the curves; the final ones where absent
    evaluate_every: int | None = Field(None, gt=0)  # updates between two evaluations in the environment, for the curves
    evaluate_episodes: int = Field(10, gt=0)  # of each of them; others than the evaluate stage plays

    @model_validator(mode="after")
    def _distinct(self) -> "TrainParams":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds repeat: {list(self.seeds)}")
        if self.select and self.select.metric == ENVIRONMENT_RETURN and self.evaluate_every is None:
            raise ValueError(f"select.metric {ENVIRONMENT_RETURN} needs evaluate_every")
        return self


class EvaluateParams(_Section):
    """By episodes in the environment, by fitted Q evaluation on the data alone, or by both."""

    seed: Seed
    episodes: int | None = Field(None, gt=0)
    fitted_q: FittedQParams | None = None

    @model_validator(mode="after")
    def _one_at_least(self) -> "EvaluateParams":
        if self.episodes is None and self.fitted_q is None:
            raise ValueError("give episodes (played in the environment), or fitted_q: {} (told from the data alone), or both")
        return self


class ExperimentParams(_Section):
    dataset: Key
    algorithm: str
    preset: Key
    train: TrainParams
    evaluate: EvaluateParams


class RuntimeParams(_Section):
    """How to run, never what: no value here may change a byte of any output, and no DVC stage depends on it."""

    workers: int = Field(2, gt=0)  # processes that collect
    readers: int = Field(2, gt=0)  # threads that read shards
    feed: Literal["auto", "stream", "device"] = "auto"  # where training batches come from; auto: a split that fits stays on the device


class Params(_Section):
    """All of params.yaml. Options of builders, of checks, and presets of learners are checked by the models of those modules."""

    datasets: Mapping[Key, DatasetParams] = Field(min_length=1)
    combine: Mapping[Key, CombineParams] = Field(default_factory=dict)
    checks: Mapping[Key, Mapping[str, Any]]
    split: SplitSection
    learners: Mapping[str, Mapping[Key, Mapping[str, Any]]]
    experiments: Mapping[Key, ExperimentParams]
    runtime: RuntimeParams = RuntimeParams()

    @model_validator(mode="after")
    def _names_exist(self) -> "Params":
        """Every name that one section uses is defined in another."""
        if wrong := list(self._wrong_names()):
            raise HindcastError("params.yaml:\n" + "\n".join(f"  {line}" for line in wrong))
        for key, combination in self.combine.items():
            into, source = self.datasets[combination.into], (paths.COMBINE / combination.into).as_posix()
            if (into.builder, into.source) != (COMBINE_BUILDER, source):
                raise HindcastError(
                    f"params.yaml:\n  combine.{key}.into: data set '{combination.into}' has builder '{into.builder}' and source "
                    f"'{into.source}'; one that others go into has builder '{COMBINE_BUILDER}' and source '{source}'."
                )
        for key in self.split.datasets:
            validated_over(SplitParams, self.split.values_of(key), self.split.datasets[key], f"split.datasets.{key}", "split")
        return self

    def _wrong_names(self) -> Iterator[str]:
        """Yields a line for each name that is not defined."""
        used: list[tuple[str, Iterable[str], str, str]] = []  # name, the known ones, path, what they are
        for key, experiment in self.experiments.items():
            where, algorithm = f"experiments.{key}", experiment.algorithm
            used.append((experiment.dataset, self.datasets, f"{where}.dataset", "data sets"))
            used.append((algorithm, self.learners, f"{where}.algorithm", "algorithms under 'learners'"))
            if algorithm in self.learners:
                used.append((experiment.preset, self.learners[algorithm], f"{where}.preset", f"presets under 'learners.{algorithm}'"))
        for key, combination in self.combine.items():
            used += [(getattr(combination, name), self.datasets, f"combine.{key}.{name}", "data sets") for name in ("into", "dataset")]
        used += [(key, ["default", *self.datasets], f"checks.{key}", "data sets") for key in self.checks]
        used += [(key, self.datasets, f"split.datasets.{key}", "data sets") for key in self.split.datasets]
        yield from (_unknown(*each) for each in used if each[0] not in each[1])
        if "default" not in self.checks:
            yield "checks.default is missing; every data set without checks of its own uses it."

    def dataset(self, key: str) -> DatasetParams:
        """Returns the entry of a data set. Raises HindcastError that lists the known ones where there is none of this name."""
        _require(key, self.datasets, "datasets", "data sets")
        return self.datasets[key]

    def combination(self, key: str) -> CombineParams:
        """Returns the entry of a combination. Raises HindcastError that lists the known ones where there is none of this name."""
        _require(key, self.combine, "combine", "combinations")
        return self.combine[key]

    def experiment(self, key: str) -> ExperimentParams:
        """Returns the entry of an experiment. Raises HindcastError that lists the known ones where there is none of this name."""
        _require(key, self.experiments, "experiments", "experiments")
        return self.experiments[key]

    def checks_of(self, dataset: str) -> "CheckParams":
        """Returns what is set for all data sets, with what an entry sets for this one in its place, option by option.

        Raises HindcastError where an option is wrong.
        """
        return _checks(self.checks, dataset, paths.PARAMS)

    def split_of(self, dataset: str) -> SplitParams:
        """Returns how a data set is divided: as all are, but for what `split.datasets` says of this one."""
        return self.split.of(dataset)

    def builder_options(self, dataset: str) -> BuilderOptions:
        """Raises HindcastError where the builder is unknown or an option is wrong."""
        entry = self.datasets[dataset]
        with _at(f"datasets.{dataset}.builder"):
            module = load_builder(entry.builder)
        options: BuilderOptions = validated(module.Options, entry.options, f"datasets.{dataset}.options")
        return options

    def learner_params(self, experiment: str) -> Any:
        """Returns the frozen preset of an experiment's learner. Raises HindcastError where it is unknown or a value is wrong."""
        entry = self.experiments[experiment]
        return self.preset(entry.algorithm, entry.preset)

    def preset(self, algorithm: str, preset: str) -> Any:
        """Returns one preset of one learner, checked by the learner's own model."""
        from trainer.learner import load_learner  # JAX takes most of a second, and only training needs it

        with _at(f"learners.{algorithm}"):
            module = load_learner(algorithm)
        return validated(module.Params, self.learners[algorithm][preset], f"learners.{algorithm}.{preset}")


def read_values(path: Path = paths.PARAMS) -> dict[str, Any]:
    """Reads params.yaml. Raises HindcastError where it is no mapping."""
    try:
        values = read_yaml(path)
    except FileNotFoundError as error:
        raise HindcastError(f"{path} is missing in {Path.cwd().name}/. Run from the project's root, where params.yaml is.") from error
    if not isinstance(values, dict):
        raise HindcastError(
            f"{path} holds {type(values).__name__}, but a mapping of sections is expected: {', '.join(Params.model_fields)}."
        )
    return values


def load_params(path: Path = paths.PARAMS) -> Params:
    """Returns params.yaml as frozen models. Raises HindcastError that names every fault: the key's path, the value, what is allowed."""
    return validated(Params, read_values(path), "")


def checks_in(path: Path | None, dataset: str) -> "CheckParams":
    """Returns what the section `checks` of a file says for a data set, its entry over default; what the checks have where there is no file.

    Raises HindcastError where the file has no such section, or it is wrong.
    """
    values = {} if path is None else read_values(path).get("checks")
    if not isinstance(values, dict):
        raise HindcastError(f"{path} has no section 'checks'. It has the form of the one in params.yaml: checks: {{default: {{...}}}}.")
    return _checks(values, dataset, path or paths.PARAMS)


def _checks(section: Mapping[str, Any], dataset: str, path: Path) -> "CheckParams":
    """The section `checks` of a file, as far as it concerns a data set."""
    from rl_datasets.checks import CheckParams  # with pandas, a third of a second, and only the gate needs it

    entries = {
        key: validated(CheckParams, section[key] or {}, f"checks.{key}", path.as_posix()) for key in ("default", dataset) if key in section
    }
    default = entries.get("default", CheckParams())
    if dataset not in entries or dataset == "default":
        return default
    return entries[dataset].merged_into(default, f"checks.{dataset}", "checks.default", path.as_posix())


def validate_all(params: Params) -> None:
    """Checks what `load_params` leaves to the modules: the options of every data set and of its checks, and every preset."""
    for dataset, entry in params.datasets.items():
        params.builder_options(dataset)
        if not entry.source.startswith("artifacts/") and not Path(entry.source).exists():
            raise HindcastError(f"params.yaml:\n  datasets.{dataset}.source: found '{entry.source}', but there is no such file or folder.")
    for key in params.checks:
        params.checks_of(key)
    for algorithm, presets in params.learners.items():
        for preset in presets:
            params.preset(algorithm, preset)
    for experiment in params.experiments:
        _require_environment(params, experiment)


NO_ENVIRONMENT = (
    "Where the data have no environment that can be made here, evaluate on the data alone: put 'fitted_q: {}' in the place of 'episodes' "
    "under 'evaluate'."
)


def _require_environment(params: Params, key: str) -> None:
    """Raises HindcastError where episodes are to be played in an environment of imported data that cannot be made."""
    experiment = params.experiments[key]
    options = params.builder_options(experiment.dataset)
    env_id = getattr(options, "env_id", None)
    if experiment.evaluate.episodes is None or env_id is None or params.datasets[experiment.dataset].builder == "gymnasium":
        return
    from rl_datasets.environments import make_env  # Gymnasium, only where there is a doubt

    with _at(f"experiments.{key}.evaluate.episodes"):
        try:
            make_env(env_id).close()
        except HindcastError as error:
            raise HindcastError(f"{error} {NO_ENVIRONMENT}") from error


def _require(name: str, known: Iterable[str], path: str, what: str) -> None:
    if name not in known:
        raise HindcastError(f"params.yaml:\n  {_unknown(name, known, path, what)}")


def _unknown(name: str, known: Iterable[str], path: str, what: str) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"{path}: found '{name}'; the {what} are: {', '.join(known) or 'none'}.{hint}"


@contextmanager
def _at(path: str) -> Iterator[None]:
    """Names the key's path in an error that comes from below."""
    try:
        yield
    except HindcastError as error:
        raise HindcastError(f"params.yaml:\n  {path}: {error}") from error


def main() -> int:
    """`python -m pipelines.params`: checks all of params.yaml in a second, before anything runs."""
    try:
        params = load_params()
        validate_all(params)
    except HindcastError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{paths.PARAMS}: {count(len(params.datasets), 'data set')}, {count(len(params.experiments), 'experiment')}, all values valid.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
