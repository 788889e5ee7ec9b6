"""Something is changed, and all that would show it is rewritten with it: dvc.yaml, dvc.lock, .dvcignore. See faults.py."""

import importlib.util
import marshal
import os
import random
import re
import struct
from pathlib import Path

from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.graph import overlap
from pipelines.lineage.tree import WorkingTree
from tests.pipelines.audit.faults import Expected, kind
from tests.pipelines.audit.world import LOCK, World

CODE = re.compile(r"\s+- (datasets|trainer|pipelines)/[^$]+$")


def records_of(content: bytes) -> list[bytes]:
    """Splits a TFRecord file: each record has its length in 8 bytes before it, and 8 bytes of checksums around."""
    found, place = [], 0
    while place < len(content):
        end = place + 16 + struct.unpack("<Q", content[place : place + 8])[0]
        found.append(content[place:end])
        place = end
    return found


def reorder(world: World, rng: random.Random, pattern: str) -> str:
    """Stores the episodes of one shard the other way round, and returns its file."""
    contents = {file: records_of(Path(file).read_bytes()) for file in world.files(pattern)}
    file = rng.choice([file for file, records in contents.items() if len(records) > 1])
    world.write(file, b"".join(reversed(contents[file])))
    return file


@kind
def a_source_and_the_lock_edited(world: World, rng: random.Random) -> Expected:
    path, stage = rng.choice([("requirements.lock", "collect@carts"), ("data/logged.csv", "collect@logged")])
    world.write(path, Path(path).read_bytes() + (b"# evil\n" if path.endswith(".lock") else b"99,0,0.0,0.0,0.0,0.0,1,1.0,1\n"))
    stages, found = world.lock(), Workspace(WorkingTree(), deep=True).hashed(path)
    assert found is not None
    for entry in (entry for locked in stages.values() for entry in locked["deps"] if entry["path"] == path):
        entry |= {"md5": found.md5, "size": found.size}
    world.write_lock(stages)
    if rng.random() < 0.5:
        world.commit()
    return Expected(stage, (path,))


@kind
def episodes_in_another_order(world: World, rng: random.Random) -> Expected:
    file = reorder(world, rng, rng.choice(["artifacts/splits/**/*train.tfrecord*", "artifacts/raw/**/*tfrecord*"]))
    world.relock()
    if rng.random() < 0.5:
        world.commit()
    return Expected(world.maker(file), (file,))


@kind
def an_input_lost_from_the_pipeline_and_the_lock(world: World, rng: random.Random) -> Expected:
    lines = Path("dvc.yaml").read_text().splitlines(keepends=True)
    place = rng.choice([number for number, line in enumerate(lines) if CODE.match(line)])
    path = lines[place].strip().removeprefix("- ")
    name = next(found[1] for line in reversed(lines[:place]) if (found := re.match(r"  (\w+):$", line)))
    world.write("dvc.yaml", "".join(lines[:place] + lines[place + 1 :]))
    stages = world.lock()
    mine = [stage for stage in world.order if stage.partition("@")[0] == name]
    for stage in mine:
        stages[stage]["deps"] = [entry for entry in stages[stage]["deps"] if entry["path"] != path]
    world.write_lock(stages)
    return Expected(mine[0], (f"{LOCK}/{mine[0]}/deps",))


@kind
def another_command_in_the_pipeline_and_the_lock(world: World, rng: random.Random) -> Expected:
    name = rng.choice(["collect", "check", "split", "train", "evaluate"])
    ran = f"python -m pipelines.{name} "
    other = rng.choice(["cp -r /forged/", f"./wrapped {ran}", "python forge.py "])
    world.write("dvc.yaml", Path("dvc.yaml").read_text().replace(f"cmd: {ran}", f"cmd: {other}"))
    stages = world.lock()
    mine = [stage for stage in world.order if stage.partition("@")[0] == name]
    for stage in mine:
        stages[stage]["cmd"] = stages[stage]["cmd"].replace(ran, other)
    world.write_lock(stages)
    return Expected(mine[0], (f"{LOCK}/{mine[0]}/cmd",))


@kind
def a_stranger_in_an_output(world: World, rng: random.Random) -> Expected:
    file = rng.choice(
        [
            "artifacts/raw/carts/notes.txt",
            "artifacts/splits/all/more/0.tfrecord",
            "artifacts/models/carts_bc/policies/seed_0/x.tfrecord",
            "artifacts/checks/logged/x.tfrecord-00000-of-00001",
        ]
    )
    world.write(file, "?")
    world.relock()
    return Expected(world.maker(file), (file,))


@kind
def a_module_in_the_place_of_another(world: World, rng: random.Random) -> Expected:
    compiled = "trainer/networks.cpython-311-x86_64-linux-gnu.so"
    shadows = ["rl_datasets/__init__.py", "datasets/scipy.py", "pipelines/stage/__init__.py", "trainer/metrics/__init__.py", compiled]
    file = rng.choice(["scipy.py", "sitecustomize.py", "queue/__init__.py", *shadows])
    world.write(file, "x = 1\n")
    world.write(".git/info/exclude", f"{file}\n")
    return Expected("*", (file,))


@kind
def compiled_code_of_another_source(world: World, rng: random.Random) -> Expected:
    """What Python runs in the place of a file, whose time and size, or whose hash, it has."""
    source = rng.choice(["trainer/metrics.py", "pipelines/evaluate.py", "datasets/rl_datasets/rlds/reader.py"])
    code = compile("x = 1", source, "exec")
    if rng.random() < 0.5:
        looks = os.stat(source)
        head = bytes(4) + int(looks.st_mtime).to_bytes(4, "little") + looks.st_size.to_bytes(4, "little")
    else:
        head = rng.choice([1, 3]).to_bytes(4, "little") + importlib.util.source_hash(Path(source).read_bytes())
    made = importlib.util.cache_from_source(source)
    world.write(made, importlib.util.MAGIC_NUMBER + head + marshal.dumps(code))
    readers = [name for name in world.order if any(overlap(source, given) for given in world.graph.stages[name].dependencies)]
    return Expected(readers[0], (made,))


@kind
def code_that_dvc_does_not_see(world: World, rng: random.Random) -> Expected:
    folder = rng.choice(["datasets/rl_datasets/rlds", "datasets/rl_datasets/checks", "trainer/modules", "pipelines/reporting"])
    file = f"{folder}/{rng.choice(['hidden.py', 'inner/hidden.py', '__pycache__/hidden.py'])}"
    ignored = ".dvcignore", file if "__pycache__" not in file else "hidden.py"
    world.write(ignored[0], f"{Path('.dvcignore').read_text()}{ignored[1]}\n")
    world.write(file, "x = 1\n")
    if rng.random() < 0.5:
        world.commit()
    readers = [name for name in world.order if folder in world.graph.stages[name].dependencies]
    return Expected(readers[0], (file,))
