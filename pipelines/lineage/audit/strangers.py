"""Files that nothing accounts for: in no manifest, hidden from DVC, in the place of other code, or elsewhere than it seems."""

import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from importlib.metadata import packages_distributions
from pathlib import Path

from pipelines import paths
from pipelines.lineage.audit.contents import ARTIFACTS, Workspace
from pipelines.lineage.audit.findings import Finding, broken, holds, note
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.graph import overlap
from pipelines.lineage.hashing import IGNORE_FILE
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import CODE, PIPELINE, Stage, is_code
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, SHARD

DESCRIPTION = "dataset_info.json"
NAMED = 3
OWN = (f"{paths.RECORDS}/", f"{paths.CHECKPOINTS}/")
DRAWING = f"{paths.REPORT}/lineage.html"
COMPILED = (".so", ".pyd")
ENDINGS = (".py", ".pyc", *COMPILED)
SOURCES = "datasets/"  # a folder in which Python looks for packages
AT_THE_START = {"sitecustomize", "usercustomize"}


def check_strangers(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That every file of an output is one that a manifest names, or a shard that the description of a data set names.

    What lies beside a manifest and is no shard, `check_manifests` looks at; of a stage without manifests, its record names each file.
    """
    folders = scene.manifests(stage)
    if stage.locked is None or not folders:
        return
    known = {folder: _shards(scene, folder) for folder in folders}
    files = [file for output in stage.outputs for file in scene.contents.files(output)]
    strangers = []
    for file in files:
        around = max((folder for folder in folders if file.startswith(f"{folder}/")), key=len, default="")
        if not around or (SHARD in file[len(around) :] and file[len(around) + 1 :] not in known[around]):
            strangers.append(file)
    link = "files of the outputs are accounted for"
    if strangers:
        found = f"{', '.join(strangers[:NAMED])}{f' and {len(strangers) - NAMED} more' if len(strangers) > NAMED else ''}"
        expected = f"files that {FILE_NAME} or {DESCRIPTION} names"
        mend = f"no run wrote it: remove it, and restore {LOCK} with git where that has it, or run 'dvc repro --force {stage.name}'"
        yield broken(stage.name, link, tuple(strangers), expected=expected, found=found, mend=mend)
    else:
        yield holds(stage.name, link, stage.outputs)


def check_hidden(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That DVC sees every file of the code that a stage depends on; what Python makes of it does not count."""
    for path in stage.dependencies if isinstance(scene.contents, Workspace) else ():
        if is_code(path) and os.path.isdir(path):
            hidden, link = scene.once(f"hidden in {path}", partial(_hidden, scene, path)), f"all of {path} is hashed"
            if hidden:
                found = f"{', '.join(hidden[:NAMED])}, which {IGNORE_FILE} hides, so that no hash in {LOCK} covers it"
                mend = f"remove it, or its line in {IGNORE_FILE}, and run 'dvc repro {stage.name}'"
                yield broken(stage.name, link, tuple(hidden), found=found, mend=mend)
            else:
                yield holds(stage.name, link, path)


def check_modules(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That Python finds the code which a stage depends on, and no file that takes the place of it or of an installed package."""
    if not isinstance(scene.contents, Workspace) or not any(map(is_code, stage.dependencies)):
        return
    found = [
        *scene.once("modules at the root", lambda: list(_at_the_root(stage))),
        *scene.once("modules beside others", lambda: list(_beside(scene.graph.stages.values()))),
    ]
    link = "modules in the place of others"
    if found:
        expected, mend = f"only code that {LOCK} names", "remove it, or give it another name: no hash covers what is run in that place"
        yield broken(stage.name, link, tuple(found), expected=expected, found=", ".join(found[:NAMED]), mend=mend)
    else:
        yield holds(stage.name, link)


def check_places(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """Of outputs and inputs that lead to another place than the project and DVC's cache, that they do; whoever clones has not got it."""
    if not isinstance(scene.contents, Workspace):
        return
    inputs = [path for path in stage.dependencies if not path.startswith(ARTIFACTS)]
    for path in (*inputs, *stage.outputs):
        away = scene.once(f"place of {path}", partial(_away, scene, path))
        if away:
            found = f"{', '.join(away[:NAMED])} {'is' if len(away) == 1 else 'are'} outside of the project, by a symbolic link"
            mend = "its bytes were read there; replace the link by what it leads to"
            yield note(stage.name, f"place of {path}", path, found=found, mend=mend)


def unmade(scene: Scene) -> Iterator[Finding]:
    """Tells of files among the artifacts that no stage makes, or that are hidden from DVC: they may look like results, and are none."""
    if not isinstance(scene.contents, Workspace):
        return
    files = (path.as_posix() for path in Path(ARTIFACTS).rglob("*") if path.is_file())
    counted = {file for stage in scene.graph.stages.values() for output in stage.outputs for file in scene.contents.files(output)}
    found = sorted(file for file in files if not (file.startswith(OWN) or file in counted or file == DRAWING or _is_by_product(file)))
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        mend = "nothing that the audit says is about them: move them elsewhere, or remove them"
        yield note("", "files that no stage makes", tuple(found), found=f"{', '.join(found[:NAMED])}{more}", mend=mend)


def drawing(scene: Scene) -> Iterator[Finding]:
    """Tells that the page of lineage is a drawing of some earlier moment: it is nobody's output, and nothing is compared with it."""
    if isinstance(scene.contents, Workspace) and Path(DRAWING).is_file():
        mend = "'hindcast lineage --format html' draws it anew; believe no other"
        yield note("", "page of lineage", DRAWING, found=f"{DRAWING} is no stage's output, and was not looked at", mend=mend)


def uncommitted_code(scene: Scene) -> Iterator[Finding]:
    """Tells of modules in the project's packages that the last commit does not have and no stage declares: no hash covers them."""
    if not isinstance(scene.contents, Workspace) or not scene.history.has(PIPELINE):
        return
    declared = {path for stage in scene.graph.stages.values() for path in stage.dependencies}
    kept = scene.history.blobs(".")
    modules = (path.as_posix() for folder in CODE for path in Path(folder).rglob("*") if path.name.endswith(ENDINGS))
    strange = sorted(path for path in modules if path not in kept and "__pycache__" not in path.split("/"))
    found = [path for path in strange if not any(overlap(path, other) for other in declared)]
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        mend = "no stage declares them, so nothing tells what they do in a run: commit or remove them"
        yield note("", "code that no commit has", tuple(found), found=f"{', '.join(found[:NAMED])}{more}", mend=mend)


def _at_the_root(stage: Stage) -> Iterator[str]:
    """The modules in the project's folder that Python takes for those of an installed package or its own, or runs at its start."""
    own = {path.split("/")[0].removesuffix(".py") for path in stage.dependencies}
    inside = {path.split("/")[1] for path in stage.dependencies if path.startswith(SOURCES) and path.count("/") > 1}
    places = {path: name for path in sorted(os.listdir()) if (name := _module(path)) and name not in own}
    if os.path.isdir(SOURCES):
        found = (f"{SOURCES}{path}" for path in sorted(os.listdir(SOURCES)))
        places |= {path: name for path in found if (name := _module(path)) and name not in inside}
    if places:
        known = (sys.stdlib_module_names - {"test"}) | _installed() | AT_THE_START
        yield from (path for path, name in places.items() if name in known or (name in inside and not path.startswith(SOURCES)))


@lru_cache(maxsize=1)
def _installed() -> frozenset[str]:
    """The names of installed modules and packages, which take a third of a second to list."""
    return frozenset(packages_distributions())


def _module(path: str) -> str:
    """The name that a file or folder is imported by; "" where it is none that Python prefers to what it finds later."""
    name = Path(path).name.split(".")[0]
    return name if path.endswith(ENDINGS) or _is_package(path) else ""


def _beside(stages: Iterable[Stage]) -> Iterator[str]:
    """Packages and compiled modules that Python prefers to a file of code of their name, of the project's packages or declared."""
    declared = {path for stage in stages for path in stage.dependencies if is_code(path) and path.endswith(".py")}
    modules = sorted(declared | {path.as_posix() for folder in CODE for path in Path(folder).rglob("*.py")})
    folders = {os.path.dirname(module) for module in modules}
    listed = {folder: os.listdir(folder or ".") for folder in folders if os.path.isdir(folder or ".")}
    for module in modules:
        folder, name = os.path.dirname(module), os.path.basename(module).removesuffix(".py")
        beside = sorted(other for other in listed.get(folder, ()) if other.startswith(name) and other != f"{name}.py")
        for other in beside:
            path = os.path.join(folder, other)
            if (other == name and _is_package(path)) or (other.startswith(f"{name}.") and other.endswith(COMPILED)):
                yield path


def _is_package(path: str) -> bool:
    return any(os.path.exists(f"{path}/__init__{ending}") for ending in ENDINGS)


def _shards(scene: Scene, folder: str) -> set[str]:
    """The names of the shards that a data set's description in the folder states; none where it has none."""
    try:
        description = scene.json(f"{folder}/{DESCRIPTION}")
    except HindcastError:
        return set()
    names = set()
    for split in (description or {}).get("splits", ()):
        count, name = len(split.get("shardLengths", ())), f"{description['name']}-{split['name']}"
        names |= {f"{name}.{description.get('fileFormat', 'tfrecord')}-{shard:05d}-of-{count:05d}" for shard in range(count)}
    return names


def _hidden(scene: Scene, path: str) -> list[str]:
    seen = set(scene.contents.files(path))
    found = (f"{folder}/{name}" for folder, _, names in os.walk(path, followlinks=True) for name in names)
    return sorted(file for file in found if file not in seen and not _is_by_product(file))


def _is_by_product(file: str) -> bool:
    """What Python compiled, and what is being written."""
    *folders, name = file.split("/")
    return ("__pycache__" in folders and not name.endswith(".py")) or (name.startswith(".") and name.endswith(".partial"))


def _away(scene: Scene, path: str) -> list[str]:
    """The targets, outside of the project and of DVC's cache, of a path or of the files and folders in it."""
    within = tuple(f"{os.path.realpath(place)}/" for place in (".", scene.store.cache))
    files = scene.contents.files(path)
    places = {path, *(os.path.dirname(file) for file in files), *(file for file in files if os.path.islink(file))}
    targets = {os.path.realpath(place) for place in places if os.path.exists(place)}
    return sorted(place for place in targets if not f"{place}/".startswith(within))
