"""Projects to be audited: one of a thousand stages and five thousand records, and one of a data set that is large beside all else."""

import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from pipelines.lineage import openlineage
from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.records import CODE, CONTENT, INTEGRITY, MACHINE, PACKAGES, PARAMETERS, RUN, digest_of, place_of
from pipelines.lineage.tree import WorkingTree
from rl_datasets.files import write_json
from rl_datasets.manifest import FILE_NAME, Input, Manifest, write_manifest
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import EnvSpec, Episode

INSTALLED = {f"package-{number}": "1.2.3" for number in range(200)}
PIPELINE = """
stages:
  collect:
    foreach: ${datasets}
    do:
      cmd: python -m pipelines.collect ${key}
      deps: [code/collect.py, code/shared.py]
      params: ["datasets.${key}"]
      outs: ["artifacts/raw/${key}"]
  train:
    foreach: ${experiments}
    do:
      cmd: python -m pipelines.train ${key}
      deps: [code/train.py, code/shared.py, "artifacts/raw/${item.dataset}"]
      params: ["experiments.${key}"]
      outs: ["artifacts/models/${key}"]
"""


def many_stages(stages: int, records: int) -> None:
    """Makes a project in the current folder: a fifth of the stages collect, the others train; each has `records` runs on record."""
    datasets = {f"data_{number}": {"version": "1.0.0", "seed": number} for number in range(stages // 5)}
    names = list(datasets)
    experiments = {f"run_{n}": {"dataset": names[n % len(names)], "train": {"seeds": [0, 1]}} for n in range(stages - len(datasets))}
    Path("params.yaml").write_text(json.dumps({"datasets": datasets, "experiments": experiments}))
    Path("dvc.yaml").write_text(PIPELINE)
    for name in ("collect", "train", "shared"):
        Path("code").mkdir(exist_ok=True)
        Path(f"code/{name}.py").write_text(f"# {name}\n")
    for name, entry in datasets.items():
        make_artifact(f"collect@{name}", f"artifacts/raw/{name}/1.0.0", entry, ())
    for name, entry in experiments.items():
        source = f"artifacts/raw/{entry['dataset']}/1.0.0"
        make_artifact(f"train@{name}", f"artifacts/models/{name}", entry, (Input("data", source, content_of(source)),))
    stages_ = [
        (f"collect@{name}", {f"datasets.{name}": given}, ["collect", "shared"], "", f"artifacts/raw/{name}")
        for name, given in datasets.items()
    ]
    for name, given in experiments.items():
        source, output = f"artifacts/raw/{given['dataset']}", f"artifacts/models/{name}"
        stages_.append((f"train@{name}", {f"experiments.{name}": given}, ["train", "shared"], source, output))
    locked = lock(stages_)
    for name, stage in locked.items():
        for number in range(records):
            make_record(name, stage, number)


def large_data(episodes: Iterable[Episode], spec: EnvSpec) -> list[Path]:
    """Makes a project of one collected data set in the current folder, with DVC's cache of it. Returns the files of both."""
    folder = Path("artifacts/raw/big/1.0.0")
    written = write_rlds(folder, "big", "1.0.0", spec, {"raw": episodes})
    counts = {"episodes": written.episodes["raw"], "transitions": written.transitions["raw"]}
    write_manifest(folder, Manifest("collect@big", written.digest, {"version": "1.0.0"}, counts=counts))
    Path("params.yaml").write_text('{"datasets": {"big": {"version": "1.0.0"}}, "experiments": {}}')
    Path("dvc.yaml").write_text(PIPELINE)
    Path("code").mkdir()
    for name in ("collect", "shared"):
        Path(f"code/{name}.py").write_text("")
    lock([("collect@big", {"datasets.big": {"version": "1.0.0"}}, ["collect", "shared"], "", "artifacts/raw/big")])
    found = Workspace(WorkingTree(), deep=True).hashed("artifacts/raw/big")
    assert found is not None
    assert found.listing is not None
    listing = json.dumps([{"md5": md5, "relpath": name} for name, md5 in sorted(found.listing.items())], sort_keys=True).encode()
    place(found.md5).write_bytes(listing)
    for name, md5 in found.listing.items():
        shutil.copy(f"artifacts/raw/big/{name}", place(md5))
    return [path for root in ("artifacts/raw", ".dvc/cache") for path in sorted(Path(root).rglob("*")) if path.is_file()]


def make_artifact(job: str, folder: str, parameters: dict[str, Any], inputs: tuple[Input, ...]) -> None:
    Path(folder).mkdir(parents=True)
    Path(folder, "content.txt").write_text(job)
    write_manifest(Path(folder), Manifest(job, hashlib.sha256(job.encode()).hexdigest(), parameters, inputs))


def content_of(folder: str) -> str:
    return str(json.loads(Path(folder, FILE_NAME).read_bytes())["digest"])


def lock(stages: list[tuple[str, dict[str, Any], list[str], str, str]]) -> dict[str, Any]:
    """Writes dvc.lock for (name, parameters, code, input, output) of each stage, and returns its stages."""
    contents, locked = Workspace(WorkingTree(), deep=True), {}
    for name, parameters, code, source, output in stages:
        deps = [f"code/{file}.py" for file in code] + ([source] if source else [])
        kind, _, key = name.partition("@")
        entries = {which: [entry(contents, path) for path in paths] for which, paths in (("deps", sorted(deps)), ("outs", [output]))}
        locked[name] = {"cmd": f"python -m pipelines.{kind} {key}", "params": {"params.yaml": parameters}, **entries}
    Path("dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": locked}, sort_keys=False))
    return locked


def entry(contents: Workspace, path: str) -> dict[str, Any]:
    found = contents.hashed(path)
    assert found is not None
    described = {"path": path, "hash": "md5", "md5": found.md5, "size": found.size}
    return described if found.listing is None else {**described, "nfiles": len(found.listing)}


def make_record(stage: str, locked: dict[str, Any], number: int) -> None:
    """Writes a record of a complete run that wrote what is here."""
    output = locked["outs"][0]["path"] + ("/1.0.0" if stage.startswith("collect") else "")
    manifest = Path(output, FILE_NAME).read_bytes()
    md5 = hashlib.md5(manifest, usedforsecurity=False).hexdigest()
    time = f"2026-01-{number + 1:02d}T00:00:00.000+00:00"
    code = {entry["path"]: entry["md5"] for entry in locked["deps"] if entry["path"].startswith("code/")}
    kind, _, key = stage.partition("@")
    facets = {
        RUN: {"started": time, "command": [f"{kind}.py", key], "launcher": "dvc repro", "experiment": "", "baseline": "", "seconds": 1.0},
        CODE: {"commit": "", "difference": "", "changed": [], "files": code, "untracked": []},
        PARAMETERS: {"values": locked["params"]["params.yaml"], "seeds": {}},
        PACKAGES: {"packages": INSTALLED},
        MACHINE: {"platform": "Linux", "python": "3.11", "processor": "x", "cores": 2, "accelerators": []},
    }
    content = {"digest": json.loads(manifest)["digest"], "md5": "", "keeper": "dvc", "files": {FILE_NAME: md5}}
    run = f"{int(hashlib.sha256(f'{stage}/{number}'.encode()).hexdigest()[:32], 16):032x}"
    outputs = [openlineage.dataset(output, {CONTENT: content}, {})]
    event = openlineage.event("COMPLETE", time, f"{run[:8]}-{run[8:12]}-{run[12:16]}-{run[16:20]}-{run[20:]}", stage, facets, [], outputs)
    event["run"]["facets"] |= openlineage.facets("RunFacet", {INTEGRITY: {"digest": digest_of(event)}})
    write_json(Path("artifacts/records").joinpath(*place_of(event)), event)


def place(md5: str) -> Path:
    """Where DVC's cache has an object; its folder is made."""
    path = Path(".dvc/cache/files/md5", md5[:2], md5[2:])
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
