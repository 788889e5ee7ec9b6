"""Kinds of damage to records. See faults.py."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from pipelines.lineage.records import INTEGRITY, digest_of
from tests.pipelines.audit.faults import RECORDS, Expected, kind, some_file
from tests.pipelines.audit.small_project import git
from tests.pipelines.audit.world import LOCK, World


def seal(event: dict[str, Any]) -> dict[str, Any]:
    event["run"]["facets"][INTEGRITY]["digest"] = digest_of(event)
    return event


def forge(world: World, rng: random.Random) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A record's path and content, and the facet of one of its outputs, with another hash already."""
    path = some_file(world, rng, RECORDS)
    event = json.loads(Path(path).read_bytes())
    facet = rng.choice(event["outputs"])["facets"]["hindcast_content"]
    name = rng.choice(sorted(facet["files"]))
    facet["files"][name] = f"{rng.getrandbits(128):032x}"
    return path, event, facet


def invent(world: World, rng: random.Random, path: str, event: dict[str, Any]) -> str:
    """Writes a record of another run beside the one at `path`, and returns its path."""
    run = f"{rng.getrandbits(32):08x}"
    event["run"]["runId"] = run + event["run"]["runId"][8:]
    invented = f"{path.rpartition('-')[0]}-{run}.json"
    world.write_json(invented, seal(event))
    return invented


@kind
def a_record_forged(world: World, rng: random.Random) -> Expected:
    path, event, _ = forge(world, rng)
    world.write_json(path, seal(event))
    return Expected(path.split("/")[-2], (path,))


@kind
def a_record_forged_and_committed(world: World, rng: random.Random) -> Expected:
    path, event, _ = forge(world, rng)
    world.write_json(path, seal(event))
    world.commit()
    return Expected(path.split("/")[-2], (path,))


@kind
def a_record_invented(world: World, rng: random.Random) -> Expected:
    """A run that never was, of the same causes and with other outputs."""
    path, event, _ = forge(world, rng)
    return Expected(path.split("/")[-2], (invent(world, rng, path, event), path))


@kind
def a_record_invented_on_a_later_commit(world: World, rng: random.Random) -> Expected:
    """A run that never was, when all code was still the same."""
    path, event, _ = forge(world, rng)
    world.write("README.md", "Words that shape no bytes.")
    world.commit()
    event["run"]["facets"]["hindcast_code"]["commit"] = git("rev-parse", "HEAD")
    return Expected(path.split("/")[-2], (invent(world, rng, path, event), path))


@kind
def a_record_that_its_commit_denies(world: World, rng: random.Random) -> Expected:
    """A run that never was, of code or with parameters that its commit does not have."""
    path, event, _ = forge(world, rng)
    facets = event["run"]["facets"]
    code, parameters = facets["hindcast_code"]["files"], facets["hindcast_parameters"]["values"]
    if rng.random() < 0.5:
        code[rng.choice(sorted(code))] = f"{rng.getrandbits(128):032x}"
    else:
        parameters[rng.choice(sorted(parameters))] = {"seed": 99}
    return Expected(path.split("/")[-2], (invent(world, rng, path, event),))


@kind
def a_record_that_cannot_be_so(world: World, rng: random.Random) -> Expected:
    """A run that never was, whose end its own words deny, or whose times the commit that it names, or the clock."""
    path = some_file(world, rng, RECORDS)
    event = json.loads(Path(path).read_bytes())
    run = event["run"]["facets"]["hindcast_run"]
    change = rng.choice(
        [
            lambda: event.update(eventType="FAIL"),
            lambda: event["run"]["facets"].update(errorMessage={"message": "ValueError: nan"}),
            lambda: event.update(eventTime="2999-01-01T00:00:00.000+00:00"),
            lambda: run.update(started=run["started"].replace("20", "19", 1)),
        ]
    )
    change()
    started = "".join(mark for mark in run["started"][:19] if mark not in "-:")
    place = f"{path.rpartition('/')[0]}/{started}-0.json"
    return Expected(path.split("/")[-2], (invent(world, rng, place, event),))


@kind
def a_record_of_a_former_stage_edited(world: World, rng: random.Random) -> Expected:
    path = some_file(world, rng, RECORDS)
    event = json.loads(Path(path).read_bytes())
    event["job"]["name"] = "train@gone"
    former = f"artifacts/records/train@gone/{Path(path).name}"
    world.write_json(former, seal(event))
    world.commit()
    event["run"]["facets"]["hindcast_machine"]["cores"] = rng.randrange(100, 200)
    world.write_json(former, seal(event))
    world.commit()
    return Expected("", (former,))


@kind
def a_record_under_the_name_of_another_stage(world: World, rng: random.Random) -> Expected:
    path = some_file(world, rng, RECORDS)
    event, stage = json.loads(Path(path).read_bytes()), rng.choice([name for name in world.order if name != path.split("/")[-2]])
    event["job"]["name"] = stage
    return Expected(stage, (invent(world, rng, path.replace(path.split("/")[-2], stage), event),))


@kind
def a_record_copied_to_no_stage(world: World, rng: random.Random) -> Expected:
    path = some_file(world, rng, RECORDS)
    copy = f"artifacts/records/train@c\N{CYRILLIC SMALL LETTER A}rts_bc/{Path(path).name}"
    world.write(copy, Path(path).read_bytes())
    return Expected("", (copy,))


@kind
def a_page_with_a_record_of_its_own(world: World, rng: random.Random) -> Expected:
    """An edited page, which dvc.lock, the cache, and the record of a run that never was name as it is."""
    page = "artifacts/report/index.html"
    lines = Path(page).read_text().splitlines(keepends=True)
    place = rng.randrange(len(lines))
    world.write(page, "".join([*lines[:place], "<p>All is well.</p>\n", *lines[place:]]))
    path = some_file(world, rng, "artifacts/records/report/*.json")
    event = json.loads(Path(path).read_bytes())
    run = f"{rng.getrandbits(32):08x}"
    event["run"]["runId"] = run + event["run"]["runId"][8:]
    event["run"]["facets"]["hindcast_code"]["commit"] = f"{rng.getrandbits(160):040x}"  # so that it has causes of its own
    for output in event["outputs"]:
        files = output["facets"]["hindcast_content"]["files"]
        files |= {name: hashlib.md5(Path(output["name"], name).read_bytes(), usedforsecurity=False).hexdigest() for name in files}
    world.write_json(f"{path.rpartition('-')[0]}-{run}.json", seal(event))
    world.relock()
    if rng.random() < 0.5:
        world.commit()
    return Expected("report", (page,))


@kind
def a_record_deleted(world: World, rng: random.Random) -> Expected:
    path = some_file(world, rng, RECORDS)
    world.remove(path)
    return Expected(path.split("/")[-2], (path,))


@kind
def a_record_deleted_and_committed(world: World, rng: random.Random) -> Expected:
    path = some_file(world, rng, RECORDS)
    world.remove(path)
    world.commit()
    return Expected(path.split("/")[-2], (path,))


@kind
def a_record_copied(world: World, rng: random.Random) -> Expected:
    path = some_file(world, rng, RECORDS)
    stage = rng.choice([name for name in world.order if name != path.split("/")[-2]])
    copy = f"artifacts/records/{stage}/{Path(path).name}"
    world.write(copy, Path(path).read_bytes())
    return Expected(stage, (copy,))


@kind
def a_record_copied_beside_itself(world: World, rng: random.Random) -> Expected:
    path = some_file(world, rng, RECORDS)
    copy = f"{path.rpartition('-')[0]}-{rng.getrandbits(32):08x}.json"
    world.write(copy, Path(path).read_bytes())
    return Expected(path.split("/")[-2], (copy,))


@kind
def a_version_not_raised(world: World, rng: random.Random) -> Expected:
    """An earlier commit had another content of the same version, from a run with another seed."""
    path = some_file(world, rng, "artifacts/records/collect@*/*.json")
    stage = path.split("/")[-2]
    key = f"datasets.{stage.partition('@')[2]}"
    event = json.loads(Path(path).read_bytes())
    run, started = f"{rng.getrandbits(32):08x}", "2020-01-02T03:04:05.000+00:00"
    facets = event["run"]["facets"]
    facets["hindcast_run"]["started"] = started
    facets["hindcast_code"]["commit"] = ""  # for git has none that is so old
    facets["hindcast_parameters"]["values"][key]["seed"] = 99
    event["run"]["runId"] = run + event["run"]["runId"][8:]
    content = event["outputs"][0]["facets"]["hindcast_content"]
    content["digest"], content["files"] = f"{rng.getrandbits(256):064x}", {"manifest.json": f"{rng.getrandbits(128):032x}"}
    world.write_json(f"artifacts/records/{stage}/20200102T030405-{run}.json", seal(event))
    lock, stages = Path(LOCK).read_text(), world.lock()
    stages[stage]["params"]["params.yaml"][key]["seed"] = 99
    world.write_lock(stages)
    world.commit()
    world.write(LOCK, lock)
    world.commit()
    return Expected(stage, (event["outputs"][0]["name"],))
