"""Files that nothing accounts for: in an output and in no manifest, among code and hidden from DVC, or at another place than it seems."""

import os
from collections.abc import Iterator
from functools import partial

from pipelines.lineage.audit.contents import ARTIFACTS, Workspace
from pipelines.lineage.audit.findings import Finding, broken, holds, note
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.hashing import IGNORE_FILE
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.stages import Stage, is_code
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, SHARD

DESCRIPTION = "dataset_info.json"
NAMED = 3


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
