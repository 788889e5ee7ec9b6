"""What the report shows, read from the artifacts of all experiments and data sets in params.yaml.

Each reader checks that an artifact is whole and was made with the parameters that are asked for now, so a report never mixes old and new.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pipelines import paths
from pipelines.inputs import read_input
from pipelines.params import ExperimentParams, Params
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json
from rl_datasets.leakage import SKETCHES, Shared, read_contents, shared
from rl_datasets.manifest import Input
from rl_datasets.words import count
from trainer.fitted_q.summary import FLAG, PREFIX

BEHAVIOUR_SPLIT = "train"  # what the policies learnt from, and so what they are compared with
CURVE_KEYS = ("step", "seed", "split")
EPISODE_COLUMNS = ("episode_id", "split", "length", "episode_return", "is_terminal", "policy", "seed")
VALUE_COLUMNS = ("episode_id", "behaviour_return", "behaviour_rest", "behaviour_value")
EVALUATION_COLUMNS = ("training_seed", "episode", "environment_seed", "episode_return", "length", "is_terminal")


@dataclass(frozen=True)
class DatasetResult:
    """One data set. `episodes` has a row an episode of every split (columns EPISODE_COLUMNS)."""

    name: str
    version: str
    check: Mapping[str, Any]  # report.json of the quality gate
    episodes: pd.DataFrame
    digest: str

    @property
    def verdict(self) -> tuple[str, str]:
        """The quality gate's: one word, "passed", "warned" or "failed", and the same for a reader."""
        warnings = sum(check["faults"] for check in self.check["checks"].values() if check["severity"] == "warn")
        match self.check["verdict"]:
            case "pass":
                return "passed", "passed"
            case "warn":
                return "warned", f"passed with {warnings:,} {'warning' if warnings == 1 else 'warnings'}"
        return "failed", "failed"

    @property
    def behaviour_returns(self) -> np.ndarray:
        return self.episodes.loc[self.episodes["split"] == BEHAVIOUR_SPLIT, "episode_return"].to_numpy()


PLAYED = ("return_mean", "return_std", "iqm", "iqm_low", "iqm_high", "normalized_score")
ESTIMATED = (
    *(f"{PREFIX}{name}{end}" for name in ("value", "behaviour", "difference", "calibration") for end in ("", "_low", "_high")),
    f"{PREFIX}far_share",
    f"{PREFIX}flags",
    "discounted_return_mean",
)


@dataclass(frozen=True)
class ExperimentResult:
    """One experiment: its evaluation, its learning curves, and what they were made from."""

    name: str
    params: ExperimentParams
    metrics: Mapping[str, Any]  # metrics.json of the evaluation
    returns: np.ndarray | None  # [S, E], training seeds in the order of params.yaml; None where nothing was played
    curves: pd.DataFrame  # columns CURVE_KEYS, then one a metric
    transitions: int  # in the split that was learnt from
    notes: Sequence[str]
    training_notes: Sequence[str]  # what was chosen, and the signs of divergence or collapse
    inputs: Sequence[Input]
    values: pd.DataFrame | None = None  # fitted_q.csv of the fitted Q evaluation, where there is one
    discounted: np.ndarray | None = None  # the returns by its gamma, where there are both

    def summary(self) -> dict[str, Any]:
        """Returns the experiment's object in summary.json. `seeds` counts training runs, `episodes` evaluation episodes of all of them."""
        shown = (*(PLAYED if self.returns is not None else ()), *(ESTIMATED if self.values is not None else ()))
        return {
            "experiment": self.name,
            "dataset": self.params.dataset,
            "algorithm": self.params.algorithm,
            "seeds": len(self.params.train.seeds),
            **({} if self.returns is None else {"episodes": self.returns.size}),
            "updates": self.params.train.updates,
            "transitions": self.transitions,
            "behaviour_return_mean": self.metrics["behaviour_return_mean"],
            **{key: self.metrics[key] for key in shown if key in self.metrics},
        }

    @property
    def flags(self) -> list[str]:
        """The signs that the fitted Q evaluation may be wrong, each a sentence."""
        return [note.removeprefix(FLAG) for note in self.notes if note.startswith(FLAG)]


class Results(NamedTuple):
    """All that a page shows, each in the order of params.yaml."""

    datasets: Mapping[str, DatasetResult]
    experiments: Sequence[ExperimentResult]
    shared: Sequence[str]  # a sentence for each two data sets that share episodes


def read_results(params: Params) -> Results:
    """Raises HindcastError where a piece is missing or was made with other parameters."""
    experiments = read_experiments(params)
    return Results(read_datasets(params), experiments, read_shared(params))


def read_datasets(params: Params) -> dict[str, DatasetResult]:
    """Reads every data set that an experiment uses, in the order of params.yaml. Raises HindcastError where a piece is missing."""
    used = {experiment.dataset for experiment in params.experiments.values()}
    return {name: read_dataset(name, params) for name in params.datasets if name in used}


def read_dataset(name: str, params: Params) -> DatasetResult:
    version = params.datasets[name].version
    folder, checks = paths.SPLITS / name / version, paths.CHECKS / name
    digest = read_input(folder, f"split@{name}", params, "episodes.csv", "stats.json", SKETCHES).digest
    read_input(checks, f"check@{name}", params, "report.json")
    episodes = read_table(folder / "episodes.csv", EPISODE_COLUMNS)
    if not (episodes["split"] == BEHAVIOUR_SPLIT).any():
        raise HindcastError(f"{folder / 'episodes.csv'} has no episode of the split '{BEHAVIOUR_SPLIT}'. Run 'dvc repro split@{name}'.")
    return DatasetResult(name, version, read_json(checks / "report.json", "verdict", "checks"), episodes, digest)


def read_shared(params: Params) -> list[str]:
    """Returns a sentence for each two data sets of params.yaml that share episodes, of those that have been divided."""
    folders = {name: paths.SPLITS / name / entry.version for name, entry in params.datasets.items()}
    contents = {name: read_contents(folder) for name, folder in folders.items() if (folder / SKETCHES).is_file()}
    pairs = ((a, b, shared(contents[a], contents[b])) for a, b in combinations(contents, 2))
    return [_shared_sentence(a, b, found, len(contents[a].entries)) for a, b, found in pairs if found]


def _shared_sentence(a: str, b: str, found: Shared, of: int) -> str:
    both = " and ".join(f"{count:,} {how}" for count, how in ((found.equal, "equal"), (found.near, "nearly the same")) if count)
    across = (
        f"{found.across:,} of them are in another split there, so that one data set's training holds what the other is measured on"
        if found.across
        else "each is in the same split of both"
    )
    example = found.example.first.episode_id
    return f"{found.equal + found.near:,} of {count(of, 'episode')} of '{a}' are in '{b}' too ({both}), such as '{example}'; {across}."


def read_experiments(params: Params) -> list[ExperimentResult]:
    """Reads every experiment's evaluation and curves, in the order of params.yaml. Raises HindcastError where a piece is missing or old."""
    return [read_experiment(name, params) for name in params.experiments]


def read_experiment(name: str, params: Params) -> ExperimentResult:
    entry, folder, model = params.experiments[name], paths.EVALS / name, paths.MODELS / name
    tables = {"episodes.csv": entry.evaluate.episodes, "fitted_q.csv": entry.evaluate.fitted_q}
    asked = [table for table, options in tables.items() if options is not None]
    manifest = read_input(folder, f"evaluate@{name}", params, *asked, "metrics.json")
    trained = read_input(model, f"train@{name}", params, "curves.csv")
    metrics = read_json(folder / "metrics.json", "behaviour_return_mean")
    episodes = None if entry.evaluate.episodes is None else read_table(folder / "episodes.csv", EVALUATION_COLUMNS)
    values = None if entry.evaluate.fitted_q is None else read_table(folder / "fitted_q.csv", VALUE_COLUMNS)
    returns = discounted = None
    if episodes is not None:
        returns = _return_matrix(episodes, "episode_return", entry, folder)
        discounted = _return_matrix(episodes, "discounted_return", entry, folder) if "discounted_return" in episodes else None
    curves = read_table(model / "curves.csv", CURVE_KEYS)
    split = paths.SPLITS / entry.dataset / params.datasets[entry.dataset].version
    statistics = read_json(split / "stats.json", "episode_return", "transitions")
    notes = manifest.notes, trained.notes
    return ExperimentResult(name, entry, metrics, returns, curves, statistics["transitions"], *notes, manifest.inputs, values, discounted)


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Reads a CSV. Raises HindcastError where it is missing, empty or lacks a column."""
    try:
        table = pd.read_csv(path)
    except FileNotFoundError as error:
        raise HindcastError(f"{path} is missing. Run the stage that makes it: 'dvc repro' runs all that are needed.") from error
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise HindcastError(
            f"{path} is not a table ({error}). Restore it with 'dvc checkout --force' or rebuild it with 'dvc repro'."
        ) from error
    missing = [column for column in columns if column not in table.columns]
    if missing or table.empty:
        found = f"lacks the columns {', '.join(missing)}" if missing else "has no rows"
        raise HindcastError(f"{path} {found}. Restore it with 'dvc checkout --force' or rebuild it with 'dvc repro'.")
    return table


def _return_matrix(episodes: pd.DataFrame, column: str, params: ExperimentParams, folder: Path) -> np.ndarray:
    """Returns [S, E] from the rows, whatever their order. Raises HindcastError where a seed's episode is missing or stands twice."""
    expected = [(seed, episode) for seed in params.train.seeds for episode in range(params.evaluate.episodes or 0)]
    rows = episodes.set_index(["training_seed", "episode"])[column]
    if sorted(rows.index) != sorted(expected):
        raise HindcastError(
            f"{folder / 'episodes.csv'} has {len(rows)} rows, but exactly one is expected for each of the {len(params.train.seeds)} "
            f"training seeds and {params.evaluate.episodes} episodes. "
            "Restore it with 'dvc checkout --force' or rebuild it with 'dvc repro'."
        )
    return rows.loc[expected].to_numpy(np.float64).reshape(len(params.train.seeds), -1)
