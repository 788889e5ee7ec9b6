"""DVC's cache: every object against the hash that its name says. Only a deep audit reads it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipelines.lineage.audit.findings import Finding, broken, holds, note
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.hashing import digests_of, same_bytes, with_all_cores
from pipelines.lineage.stages import Stage
from pipelines.lineage.store import FOLDER

NAMED = 3
OBJECT = re.compile(r"[0-9a-f]{32}(\.dir)?")  # what has another name is not finished, or not DVC's


def check_cache(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That the objects of a stage's outputs, as far as the cache has them, are what their names say."""
    for path, md5 in stage.locked_hashes("outs").items():
        link = f"cache of {path}"
        names = _objects(scene, path, md5)
        present = [name for name in names if name in scene.cached]
        spoilt = [name for name in present if not scene.cached[name]]
        if spoilt:
            places = tuple(scene.store.cached(name).as_posix() for name in spoilt)
            mend = f"remove it, then 'dvc commit {path}' puts it back from the workspace where that holds, or 'dvc fetch' from a remote"
            yield broken(stage.name, link, places, expected="content of the hash in its name", found=f"another in {places[0]}", mend=mend)
        elif present:
            yield holds(stage.name, link, scene.store.cached(present[0]).as_posix())
        if present and len(present) < len(names):
            found = f"{len(names) - len(present)} of {len(names)} objects are not in it, so that 'dvc checkout' cannot restore them"
            yield note(stage.name, link, path, found=found, mend=f"'dvc commit {path}' or 'dvc fetch' completes it")


def unreferenced(scene: Scene) -> Iterator[Finding]:
    """Of objects that no output of now has, as those of older runs, the ones that are not what their names say."""
    outputs = [entry for stage in scene.graph.stages.values() for entry in stage.locked_hashes("outs").items()]
    used = {name for path, md5 in outputs for name in _objects(scene, path, md5)}
    spoilt = sorted(name for name, is_sound in scene.cached.items() if not is_sound and name not in used)
    if spoilt:
        places = tuple(scene.store.cached(name).as_posix() for name in spoilt)
        found = f"another in {', '.join(places[:NAMED])}{' and more' if len(places) > NAMED else ''}"
        mend = "it belongs to another revision: remove it, and 'dvc fetch --all-commits' brings it back from a remote"
        yield broken("", "cache of older runs", places, expected="content of the hash in its name", found=found, mend=mend)


def read_cache(folder: Path, known: Mapping[str, Path]) -> dict[str, bool]:
    """Returns the hash in the name of each object in a cache, with whether its content has it. Reads them all, with all cores.

    known: files whose bytes were just hashed, by that md5. An object that has the same bytes has the same hash, and bytes are compared
    in a fraction of the time.
    """
    files = sorted(
        path for path in (folder / "files" / "md5").glob("??/*") if OBJECT.fullmatch(path.parent.name + path.name) and path.is_file()
    )
    names = [path.parent.name + path.name for path in files]

    def is_sound(named: tuple[str, Path]) -> bool:
        name, path = named
        return (name in known and same_bytes(known[name], path)) or digests_of(path).md5 == name.removesuffix(FOLDER)

    return dict(zip(names, map(bool, with_all_cores(is_sound, zip(names, files, strict=True), spare=1)), strict=True))


def _objects(scene: Scene, path: str, md5: str) -> list[str]:
    listing = scene.store.listing(path) if md5.endswith(FOLDER) else None
    return [md5, *dict.fromkeys((listing or {}).values())]
