"""`hindcast new-dataset`: an entry in params.yaml, a builder where one is needed, and a first test; tried before they count as written."""

import importlib
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from ruamel.yaml import YAML

from pipelines import paths
from pipelines.commands import templates
from pipelines.commands.inspect import given_roles, source_of
from pipelines.commands.params_text import EXPERIMENTS, insert_entry
from pipelines.params import DatasetParams, load_params
from rl_datasets.builder import Context, load_builder
from rl_datasets.checks import CheckParams, Expected, run_checks
from rl_datasets.errors import HindcastError
from rl_datasets.files import write_text
from rl_datasets.inspection.inspect import inspect
from rl_datasets.words import count

BUILDERS, TESTS = Path("datasets/rl_datasets/builders"), Path("tests/rl_datasets")
_KEY = r"[a-z][a-z0-9_]*"
_SHOWN = 5  # faults


class Tried(NamedTuple):
    """What a build of the entry gave, and what the quality gate would stop at."""

    episodes: int
    transitions: int
    terminals: int
    faults: list[str]


def run(name: str, file: Path | None, env_id: str, roles: Sequence[str], console: Console) -> None:
    """Writes all of it or nothing. Raises HindcastError where the name is taken, or what would be written does not build."""
    _require_free(name)
    text = paths.PARAMS.read_text(encoding="utf-8")
    written: list[Path] = []
    try:
        if file is not None:
            entry = _from_file(name, file, env_id, roles, console)
        elif env_id:
            entry = templates.ENVIRONMENT_ENTRY.format(name=name, env_id=env_id)
        else:
            entry = templates.BUILDER_ENTRY.format(name=name)
            written.append(_write(BUILDERS / f"{name}.py", templates.BUILDER.format(env_id=_camel(name))))
        changed = insert_entry(text, name, entry)
        tried = try_entry(name, entry, file)
        counts = {"episodes": tried.episodes, "transitions": tried.transitions, "terminals": tried.terminals}
        experiment = templates.experiment_entry(name, entry, counts) if file is not None else ""
        if experiment:
            changed = insert_entry(changed, templates.experiment_name(name), experiment, EXPERIMENTS)
        written.append(_write(TESTS / f"test_{name}.py", templates.TEST.format(name=name, **counts)))
        write_text(paths.PARAMS, changed)
        load_params()
    except BaseException:
        for path in written:
            with suppress(OSError):
                path.unlink()
        if paths.PARAMS.read_text(encoding="utf-8") != text:
            write_text(paths.PARAMS, text)
        raise
    _tell(name, written, tried, file, experiment, console)


def try_entry(name: str, entry: str, file: Path | None = None) -> Tried:
    """Builds the entry's episodes and runs the quality gate on them; `file` is read in place of a source that is not there yet."""
    values = DatasetParams.model_validate(YAML(typ="safe", pure=True).load(entry)[name])
    importlib.invalidate_caches()  # the builder may have been written just now
    module = load_builder(values.builder)
    source = Path(values.source) if file is None or Path(values.source).exists() else file
    builder = module.Builder(module.Options.model_validate(values.options), Context(name, source=source))
    report = run_checks(builder.episodes(values.seed), Expected.of(builder.spec()), CheckParams())
    faults = [str(finding) for finding in report.findings() if finding.severity == "fail"]
    return Tried(len(report.table), int(report.table.length.sum()), int(report.table.is_terminal.sum()), faults)


def _from_file(name: str, file: Path, env_id: str, roles: Sequence[str], console: Console) -> str:
    source, comment = source_of(file)
    found = inspect(file, given_roles(roles), name=name, source=source, source_comment=comment, env_id=env_id)
    for oddity in found.oddities:
        console.print(f"{oddity.kind}: {oddity.evidence} {oddity.answer}", markup=False, highlight=False, soft_wrap=True)
    if found.fault:
        raise HindcastError(
            f"Nothing was written, for {file} does not import yet. {found.fault} 'hindcast inspect {file}' shows all of it."
        )
    return found.entry


def _require_free(name: str) -> None:
    if not re.fullmatch(_KEY, name):
        raise HindcastError(f"'{name}' is no name of a data set; expected small letters, digits and '_', a letter first.")
    for path in (TESTS / f"test_{name}.py", BUILDERS / f"{name}.py"):
        if path.exists():
            raise HindcastError(f"{path} exists already. Choose another name, or remove it.")


def _write(path: Path, text: str) -> Path:
    write_text(path, text)
    return path


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _tell(name: str, written: Sequence[Path], tried: Tried, file: Path | None, experiment: str, console: Console) -> None:
    counts = f"{count(tried.episodes, 'episode')}, {count(tried.transitions, 'transition')}, {tried.terminals:,} of the ends terminal"
    trained = templates.experiment_name(name)
    lines = [
        f"Wrote the entry datasets.{name} in {paths.PARAMS}",
        *([f"Wrote experiments.{trained} there"] if experiment else []),
        *(f"Wrote {path}" for path in written),
        f"Tried: {counts}.",
    ]
    if tried.faults:
        more = f" ... and {len(tried.faults) - _SHOWN:,} more" if len(tried.faults) > _SHOWN else ""
        lines += ["The quality gate will stop it:", *(f"  {fault}" for fault in tried.faults[:_SHOWN]), *([more] if more else [])]
        lines += [f"Mend the entry or the data, or say under checks.{name} in {paths.PARAMS} what may pass."]
    source = source_of(file) if file is not None else ("", "")
    copy = [f"  {source[1].partition(': ')[2]}"] if source[1] else []
    lines += [
        "Next:",
        *copy,
        *(_trained(name, trained) if experiment else _made(name)),
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _trained(name: str, experiment: str) -> list[str]:
    return [
        f"  dvc repro evaluate@{experiment}",
        f"  dvc metrics show artifacts/evals/{experiment}/metrics.json",
        f"What was read, kept and assumed is then in artifacts/checks/{name}/card.html.",
    ]


def _made(name: str) -> list[str]:
    return [
        f"  dvc repro collect@{name} check@{name} split@{name}",
        f"  and to train on it, an entry under 'experiments' with dataset: {name}",
    ]
