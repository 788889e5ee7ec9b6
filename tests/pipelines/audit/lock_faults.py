"""Kinds of damage to dvc.lock. See faults.py."""

import random
import re
from pathlib import Path
from typing import Any

from pipelines.lineage.audit import Verdict
from tests.pipelines.audit.faults import Expected, kind
from tests.pipelines.audit.world import LOCK, World


def some_entry(world: World, rng: random.Random) -> tuple[dict[str, Any], str, str, dict[str, Any]]:
    """All stages, and of a random one its name, "deps" or "outs", and an entry of these."""
    stages = world.lock()
    stage = rng.choice(sorted(stages))
    which = rng.choice(["deps", "outs"])
    return stages, stage, which, rng.choice(stages[stage][which])


def edit_hash(world: World, rng: random.Random) -> Expected:
    stages, stage, which, entry = some_entry(world, rng)
    digit = rng.randrange(32)
    other = f"{(int(entry['md5'][digit], 16) + rng.randrange(1, 16)) % 16:x}"
    entry["md5"] = entry["md5"][:digit] + other + entry["md5"][digit + 1 :]
    world.write_lock(stages)
    return Expected(stage, (f"{LOCK}/{stage}/{which}", entry["path"]))


@kind
def a_hash_in_the_lock_edited(world: World, rng: random.Random) -> Expected:
    expected = edit_hash(world, rng)
    return Expected(expected.stage, expected.paths[:1])


@kind
def a_hash_in_the_lock_edited_and_committed(world: World, rng: random.Random) -> Expected:
    expected = edit_hash(world, rng)
    world.commit()
    return Expected("*", expected.paths)


@kind
def a_size_in_the_lock_edited(world: World, rng: random.Random) -> Expected:
    stages, stage, which, entry = some_entry(world, rng)
    name = rng.choice([name for name in ("size", "nfiles") if name in entry])
    entry[name] += rng.randrange(1, 9)
    world.write_lock(stages)
    return Expected(stage, (f"{LOCK}/{stage}/{which}",))


@kind
def a_parameter_in_the_lock_edited(world: World, rng: random.Random) -> Expected:
    stages = world.lock()
    stage = rng.choice([name for name in sorted(stages) if name.startswith(("collect", "train", "evaluate", "split"))])
    params = stages[stage]["params"]["params.yaml"]
    key = rng.choice(sorted(params))
    params[key] = {**params[key], "seed": 77} if isinstance(params[key], dict) else "9.9.9"
    world.write_lock(stages)
    return Expected(stage, (f"{LOCK}/{stage}/params",))


@kind
def a_command_in_the_lock_edited(world: World, rng: random.Random) -> Expected:
    stages, stage, *_ = some_entry(world, rng)
    stages[stage]["cmd"] += " --again"
    world.write_lock(stages)
    return Expected(stage, (f"dvc.yaml/{stage}",))


@kind
def a_stage_lost_from_the_lock(world: World, rng: random.Random) -> Expected:
    stages, stage, *_ = some_entry(world, rng)
    del stages[stage]
    world.write_lock(stages)
    return Expected(stage, (f"{LOCK}/{stage}",))


@kind
def a_stage_with_the_lines_of_another(world: World, rng: random.Random) -> Expected:
    stages = world.lock()
    first, second = rng.choice([("train@carts_bc", "train@all_bc"), ("split@carts", "split@all"), ("check@all", "check@logged")])
    stages[first] = stages[second]
    world.write_lock(stages)
    return Expected(first)


@kind
def hashes_of_another_run_in_the_lock(world: World, rng: random.Random) -> Expected:
    """As in a dvc.lock from another commit: it agrees with itself, and not with what is here."""
    stages = world.lock()
    path = rng.choice(["artifacts/raw/carts", "artifacts/splits/all", "artifacts/models/carts_bc/policies", "artifacts/checks/logged"])
    md5 = next(entry["md5"] for stage in stages.values() for entry in stage["outs"] if entry["path"] == path)
    world.write(LOCK, Path(LOCK).read_text().replace(md5, f"{rng.getrandbits(128):032x}.dir"))
    world.commit()
    return Expected(world.maker(path), (path,))


@kind
def a_merge_marker(world: World, rng: random.Random) -> Expected:
    lines = Path(LOCK).read_text().splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines)), rng.choice(["<<<<<<< HEAD\n", "=======\n", ">>>>>>> other\n"]))
    world.write(LOCK, "".join(lines))
    return Expected("", (LOCK,))


@kind
def a_stage_twice_in_the_lock(world: World, rng: random.Random) -> Expected:
    text = Path(LOCK).read_text()
    blocks = re.findall(r"^  \S+:\n(?:    .*\n)+", text, re.MULTILINE)
    world.write(LOCK, text + rng.choice(blocks))
    return Expected("", (LOCK,))


@kind
def a_ghost_in_the_lock(world: World, rng: random.Random) -> Expected:
    stages, stage, *_ = some_entry(world, rng)
    stages["train@gone"] = stages[stage]
    world.write_lock(stages)
    return Expected("", (f"{LOCK}/train@gone",), Verdict.UNKNOWN)
