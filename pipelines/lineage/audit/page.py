"""The report, made again: from the artifacts and with the code that are here, it must be the one that is there.

Whatever records say of it, it is put to the test. What its inputs are is the business of other checks, so nothing is said where
these are not those of the run.
"""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pipelines
from pipelines import paths
from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.audit.findings import Finding, broken, holds, unknown
from pipelines.lineage.audit.scene import COMPLETE, Scene
from pipelines.lineage.stages import Stage, is_code
from rl_datasets.files import json_text

PAGE, SUMMARY = f"{paths.REPORT.as_posix()}/index.html", f"{paths.REPORT.as_posix()}/summary.json"
SHAPING = ("numpy", "pandas")  # packages that compute what is drawn
_made: dict[str, dict[str, str]] = {}  # by what it was made from: the last one, for an audit after another meets the same


def check_page(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """Only a deep audit of what is on disk comes here, for that is where a report can be made."""
    if PAGE not in stage.outputs or not isinstance(scene.contents, Workspace) or not _is_of_the_run(scene, stage):
        return
    for path, made in _report(stage).items():
        stored = scene.contents.read(path)
        link = f"{path} as it is made again"
        if stored is None or made.encode() == stored:
            yield from () if stored is None else [holds(stage.name, link, path)]
        elif other := _other_packages(scene, stage):
            found = f"another one, but it was made with {other}, and those are not installed here"
            yield unknown(stage.name, link, path, found=found, mend="install what its record names, and audit again")
        else:
            lines = zip(made.splitlines(), stored.decode("utf-8", "replace").splitlines(), strict=False)
            differing = next((place for place, (expected, found) in enumerate(lines, start=1) if expected != found), "the last")
            yield broken(
                stage.name,
                link,
                path,
                expected="what is made of the artifacts here",
                found=f"another one, from line {differing} on",
                mend=scene.mend(path, stage.name),
                related=tuple(stage.dependencies),
            )


def _is_of_the_run(scene: Scene, stage: Stage) -> bool:
    """Whether inputs, code and parameters are those of the run in dvc.lock, and the code is also what runs here."""
    locked = stage.locked_hashes("deps")
    for path in stage.dependencies:
        hashed = scene.contents.hashed(path)
        if hashed is None or hashed.md5 != locked.get(path):
            return False
    if any(scene.project.parameter(key) != value for key, value in stage.locked_parameters().items()):
        return False
    return all(_is_running(file) for path in stage.dependencies if is_code(path) for file in scene.contents.files(path))


def _is_running(file: str) -> bool:
    """Whether a file of the project's code is that of the program which is running, as it is unless it was installed from elsewhere."""
    own = Path(*pipelines.__path__).parent / file
    return own.is_file() and own.read_bytes() == Path(file).read_bytes()


def _report(stage: Stage) -> dict[str, str]:
    """Returns the texts of the report by path. Raises HindcastError where the artifacts cannot be read as a report."""
    source = repr((stage.locked_hashes("deps"), stage.locked_parameters()))
    if source not in _made:
        from pipelines.params import load_params
        from pipelines.reporting.page import render_page  # pandas and SciPy, a second
        from pipelines.reporting.results import read_results

        results = read_results(load_params())
        summary = json_text([experiment.summary() for experiment in results.experiments])
        _made.clear()
        _made[source] = {PAGE: render_page(*results), SUMMARY: summary}
    return _made[source]


def _other_packages(scene: Scene, stage: Stage) -> str:
    """The packages that drew the page, where a record says that they had other versions than here."""
    complete = [record for record in scene.records(stage.name) if record.outcome == COMPLETE]
    ran = complete[-1].packages if complete else {}
    return ", ".join(f"{name} {ran[name]}" for name in SHAPING if name in ran and ran[name] != _installed(name))


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
