"""What a stage execution begins from: who started it, the commit and what differs from it, parameters, inputs, machine, packages.

It is gathered before the stage begins, for the code that runs and the parameters that count are those of that moment.
"""

import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from pipelines import paths
from pipelines.lineage.hashing import Hasher
from pipelines.lineage.kept import unlike
from pipelines.lineage.lockfile import LOCK
from pipelines.lineage.records import Content, Keeper, Launcher
from pipelines.lineage.stages import is_code, read_stage
from pipelines.lineage.tracked import tracked
from pipelines.lineage.tree import WorkingTree, git_or_none
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, read_manifest

LARGEST_HASHED = 64 << 20  # bytes of an input or output that are hashed for the record; DVC hashes all
_LEFT_OUT = ("__pycache__", ".partial")  # as .dvcignore has it


def launcher(job: str) -> dict[str, str]:
    """Returns who started the stage, and of an experiment its name and the commit that it began from.

    DVC tells a command the stage that it runs it for; a command that runs for another stage, or for none, was run by hand.
    """
    if os.environ.get("DVC_STAGE") != job:
        return {"launcher": Launcher.HAND, "experiment": "", "baseline": ""}
    name = os.environ.get("DVC_EXP_NAME", "")
    kind = Launcher.EXPERIMENT if name else Launcher.REPRO
    return {"launcher": kind, "experiment": name, "baseline": os.environ.get("DVC_EXP_BASELINE_REV", "")}


def records_folder(job: str) -> Path:
    """Where records go: in the project, also from the temporary copy of it that `dvc exp run --temp` and its queue run in."""
    root = os.environ.get("DVC_ROOT", "")
    return Path(root) / paths.RECORDS if root and launcher(job)["launcher"] is Launcher.EXPERIMENT else paths.RECORDS


def asked(job: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the dependencies of a stage and the parameters that DVC locks for it; none where dvc.yaml has no such stage."""
    with suppress(HindcastError):  # what is wrong with dvc.yaml or params.yaml, the stage itself says
        found = read_stage(WorkingTree(), job)
        if found is not None:
            return found[0].dependencies, found[1]
    return (), {}


def seeds_in(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns every parameter named `seed` or `seeds`, by its path."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("seed", "seeds") or name.endswith((".seed", ".seeds")):
            found[prefix + name] = value
        elif isinstance(value, Mapping):
            found |= seeds_in(value, f"{prefix}{name}.")
    return found


def code_state(base: str = "HEAD") -> dict[str, Any]:
    """Returns the commit of `base`, which tracked files differ from it, and the SHA-256 of what they are; empty outside of a git checkout.

    dvc.lock and records change while stages run, and are left out.
    """
    commit = git_or_none("rev-parse", base)
    here = {path: name for path, name in unlike(base).items() if path != LOCK and not path.startswith(f"{paths.RECORDS}/")}
    return {
        "commit": commit.decode().strip() if commit is not None else "",
        "difference": sha256(repr(sorted(here.items())).encode()).hexdigest() if here else "",
        "changed": sorted(here),
    }


def code(dependencies: Iterable[str]) -> dict[str, Any]:
    """Returns the md5 of each file and folder of code that a stage depends on, and those files of them that git does not keep."""
    given = sorted(path for path in dependencies if is_code(path))
    hash_of = Hasher()
    return {"files": {path: hash_of(path) or "" for path in given}, "untracked": _untracked(given)}


def inputs(dependencies: Iterable[str]) -> list[Content]:
    """Returns what else a stage depends on: artifacts by what their manifests state, the user's files by their md5.

    Of a folder of the user's, each file that neither git nor DVC keeps is an input too.
    """
    deps = sorted(path for path in dependencies if not is_code(path))
    given = [path for path in deps if not _is_artifact(path)]
    found = {entry.path: entry for path in deps if _is_artifact(path) for entry in _artifacts(Path(path))}
    untracked = _untracked(given)
    found |= {path: _given(path, path in untracked) for path in (*given, *untracked)}
    return [found[path] for path in sorted(found)]


def machine() -> dict[str, Any]:
    """Returns the platform, the processor, its cores that may be used, and the accelerators that JAX has begun to use; no host's name."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "accelerators": _accelerators(),
    }


def packages() -> dict[str, str]:
    """Returns every installed distribution with its version."""
    return dict(sorted((entry.metadata["Name"].lower(), entry.version) for entry in distributions()))


def hash_small(path: Path) -> str:
    """Returns DVC's md5 of a file or folder; "" where it is none, or larger than what is hashed for a record."""
    try:
        size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
        return (Hasher()(path.as_posix()) or "") if size <= LARGEST_HASHED else ""
    except OSError:
        return ""


def _is_artifact(path: str) -> bool:
    return path.startswith(f"{paths.ARTIFACTS}/")


def _artifacts(path: Path) -> Iterator[Content]:
    """What is below a path, and else what it lies in, by manifest; a file without one by its md5."""
    below = sorted(path.rglob(FILE_NAME)) if path.is_dir() else []
    around = [
        folder / FILE_NAME for folder in (path, *path.parents) if paths.ARTIFACTS in folder.parents and (folder / FILE_NAME).is_file()
    ]
    manifests = below or around[:1]
    for manifest in manifests:
        with suppress(HindcastError):  # a damaged manifest is the stage's to refuse
            yield Content(manifest.parent.as_posix(), read_manifest(manifest.parent).digest, hash_small(manifest), Keeper.DVC)
    if not manifests:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        yield from (Content(file.as_posix(), md5=hash_small(file), keeper=Keeper.DVC) for file in files)


def _given(path: str, is_untracked: bool) -> Content:
    if is_untracked:
        return Content(path, md5=hash_small(Path(path)), keeper=Keeper.NOBODY)
    has_git = git_or_none("rev-parse", "HEAD") is not None
    keeper = Keeper.DVC if tracked(WorkingTree(), path) is not None else Keeper.GIT if has_git else ""
    return Content(path, md5=hash_small(Path(path)), keeper=keeper)


def _untracked(given: list[str]) -> list[str]:
    """The files at or below these paths that git does not track and no `.dvc` file names, whether git ignores them or not."""
    found = _names(git_or_none("ls-files", "-z", "--others", "--", *given) or b"") if given else []
    wanted = [path for path in found if not any(part.endswith(_LEFT_OUT) for part in path.split("/"))]
    return sorted(path for path in wanted if tracked(WorkingTree(), path) is None)


def _names(listing: bytes) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") for name in listing.split(b"\0") if name]


def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        named = next((line for line in lines if line.startswith("model name")), "")
        if named:
            return " ".join(named.partition(":")[2].split())
    return platform.processor() or platform.machine()


def _accelerators() -> list[str]:
    """Only of a JAX that runs already: to start it takes most of a second, and some stages do without."""
    jax = sys.modules.get("jax")
    try:
        if jax is None or not sys.modules["jax._src.xla_bridge"].backends_are_initialized():
            return []
        return sorted(device.device_kind for device in jax.devices() if device.platform != "cpu")
    except (AttributeError, KeyError, RuntimeError):
        return []
