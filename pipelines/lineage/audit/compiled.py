"""Compiled code: Python runs a file in __pycache__ in the place of its source, and DVC hashes the source alone."""

import glob
import importlib.util
import marshal
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.audit.findings import Finding, broken, holds, listed
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.graph import overlap
from pipelines.lineage.stages import CODE, Stage, is_code

HEAD = 16  # bytes before the code: Python's magic number, flags, and the time and size or the hash of the source
HASHED, CHECKED = 1, 2  # flags: it is told by a hash; Python compares that with the source
LINK, EXPECTED = "compiled code", "what its source compiles to"
MEND = "'find . -name __pycache__ -prune -exec rm -r {} +' removes all that is compiled, and Python makes it anew"


class Compiled(NamedTuple):
    """A compiled file that Python would run instead of reading its source."""

    path: str
    source: str
    is_unchecked: bool  # whatever the source holds


def check_compiled(scene: Scene, stage: Stage) -> Iterator[Finding]:
    """That what Python has compiled of a stage's code, and would run, is that code. Without `deep`, only what it never compares itself."""
    if isinstance(scene.contents, Workspace) and any(map(is_code, stage.dependencies)):
        mine = [one.path for one in _poisoned(scene) if any(overlap(one.source, path) for path in stage.dependencies)]
        if mine:
            yield broken(stage.name, LINK, tuple(mine), expected=EXPECTED, found=f"other code in {listed(mine)}", mend=MEND)
        else:
            yield holds(stage.name, LINK)


def compiled_beside(scene: Scene) -> Iterator[Finding]:
    """The same of the project's code that no stage declares."""
    declared = {path for stage in scene.graph.stages.values() for path in stage.dependencies}
    rest = [one.path for one in _poisoned(scene) if not any(overlap(one.source, path) for path in declared)]
    if rest:
        yield broken("", LINK, tuple(rest), expected=EXPECTED, found=f"other code in {listed(rest)}", mend=MEND)


def _poisoned(scene: Scene) -> list[Compiled]:
    def find() -> list[Compiled]:
        if not isinstance(scene.contents, Workspace):
            return []
        return [one for one in _compiled(scene) if (scene.deep or one.is_unchecked) and not _is_of_its_source(one)]

    found: list[Compiled] = scene.once("compiled code", find)
    return found


def _compiled(scene: Scene) -> Iterator[Compiled]:
    folders = {path.rpartition("/")[0] or "." for stage in scene.graph.stages.values() for path in stage.dependencies if is_code(path)}
    kept = {path.as_posix() for folder in CODE for path in Path(folder).rglob("__pycache__")}
    kept |= {path.as_posix() for folder in folders for path in Path(folder).glob("__pycache__")}
    for folder in sorted(kept):
        for file in sorted(Path(folder).glob(f"*.{glob.escape(_tag())}*.pyc")):
            source = file.parents[1] / f"{file.name.partition('.')[0]}.py"
            head = _read(file)[:HEAD]
            if source.is_file() and head[:4] == importlib.util.MAGIC_NUMBER and _is_taken(head, source):
                yield Compiled(file.as_posix(), source.as_posix(), head[4] & (HASHED | CHECKED) == HASHED)


def _tag() -> str:
    return Path(importlib.util.cache_from_source("x.py")).name.split(".")[1]


def _is_taken(head: bytes, source: Path) -> bool:
    """Whether Python runs what stands behind this head, as importlib decides it."""
    if head[4] & HASHED:
        return not head[4] & CHECKED or head[8:] == importlib.util.source_hash(_read(source))
    found = source.stat()
    stated = int.from_bytes(head[8:12], "little"), int.from_bytes(head[12:], "little")
    return stated == (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)


def _is_of_its_source(one: Compiled) -> bool:
    level = re.search(r"\.opt-([12])\.pyc$", one.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = compile(_read(Path(one.source)), one.source, "exec", dont_inherit=True, optimize=int(level[1]) if level else 0)
        return bool(marshal.loads(_read(Path(one.path))[HEAD:]) == made)  # noqa: S302  it is compared, never run
    except (EOFError, SyntaxError, TypeError, ValueError):
        return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""
