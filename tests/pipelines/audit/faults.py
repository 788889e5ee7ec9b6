"""Kinds of damage. Each is a function that plants one fault at a random place, and returns what the audit must name as the first break.

Here are those of files and parameters; dvc.lock, records, and forgeries that agree with themselves have files of their own.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipelines.lineage.audit import Verdict
from pipelines.lineage.graph import overlap
from tests.pipelines.audit.world import World

RECORDS = "artifacts/records/*/*.json"
ANY_FILE = ("artifacts/raw/**/*", "artifacts/checks/**/*", "artifacts/splits/**/*", "artifacts/models/**/*", "artifacts/evals/**/*")
SHARDS = ("artifacts/raw/**/*tfrecord*", "artifacts/splits/**/*tfrecord*")


@dataclass(frozen=True)
class Expected:
    """The stage ("*": any) and the paths of which one is accused (none: whatever it is)."""

    stage: str
    paths: tuple[str, ...] = ()
    verdict: Verdict = Verdict.BROKEN

    def names(self, stage: str, subjects: tuple[str, ...]) -> bool:
        is_place = not self.paths or any(overlap(path, subject) for path in self.paths for subject in subjects)
        return self.stage in ("*", stage) and is_place


Fault = Callable[[World, random.Random], Expected]
KINDS: list[Fault] = []


def kind(fault: Fault) -> Fault:
    KINDS.append(fault)
    return fault


def some_file(world: World, rng: random.Random, *patterns: str) -> str:
    return rng.choice([file for file in world.files(*patterns) if Path(file).stat().st_size])


@kind
def a_bit_in_a_shard(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, *SHARDS)
    world.flip(file, rng)
    return Expected(world.maker(file), (file,))


@kind
def a_bit_with_time_and_size_kept(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, *ANY_FILE)
    world.flip(file, rng, keep_times=True)
    return Expected(world.maker(file), (file,))


@kind
def a_bit_in_the_cache(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, ".dvc/cache/files/md5/*/*")
    world.flip(file, rng, keep_times=True)
    return Expected("*", (file,))


@kind
def a_bit_in_the_weights(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, "artifacts/models/**/*.safetensors")
    world.flip(file, rng)
    return Expected(world.maker(file), (file,))


@kind
def a_bit_in_the_statistics(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, "artifacts/splits/**/stats.json")
    world.flip(file, rng)
    return Expected(world.maker(file), (file,))


@kind
def a_bit_in_the_report(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, "artifacts/report/index.html", "artifacts/report/summary.json")
    world.flip(file, rng)
    return Expected("report", (file,))


@kind
def a_bit_in_a_record(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, RECORDS)
    world.flip(file, rng)
    return Expected(file.split("/")[-2], (file,))


@kind
def a_file_cut_short(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, *ANY_FILE)
    world.write(file, Path(file).read_bytes()[: rng.randrange(Path(file).stat().st_size)])
    return Expected(world.maker(file), (file,))


@kind
def a_file_of_zeros(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, *ANY_FILE)
    world.write(file, bytes(Path(file).stat().st_size), keep_times=True)
    return Expected(world.maker(file), (file,))


@kind
def two_files_swapped(world: World, rng: random.Random) -> Expected:
    first = some_file(world, rng, *ANY_FILE)
    content = Path(first).read_bytes()
    others = [file for file in world.files(*ANY_FILE) if Path(file).suffix == Path(first).suffix and Path(file).read_bytes() != content]
    second = rng.choice(others)
    world.write(first, Path(second).read_bytes())
    world.write(second, content)
    return Expected(world.first(world.maker(first), world.maker(second)), (first, second))


@kind
def two_artifacts_swapped(world: World, rng: random.Random) -> Expected:
    kind_, pairs = rng.choice([("models", ("carts_bc", "all_bc")), ("evals", ("carts_bc", "all_bc")), ("checks", ("carts", "logged"))])
    first, second = (f"artifacts/{kind_}/{name}" for name in pairs)
    world.rename(first, "artifacts/aside")
    world.rename(second, first)
    world.rename("artifacts/aside", second)
    stage = {"models": "train", "evals": "evaluate", "checks": "check"}[kind_]
    return Expected(world.first(*(f"{stage}@{name}" for name in pairs)), (first, second))


@kind
def a_shard_deleted(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, *SHARDS)
    world.remove(file)
    return Expected(world.maker(file), (file,))


@kind
def a_shard_added(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, *SHARDS)
    added = re.sub(r"(\d{5})-of", lambda found: f"{int(found[1]) + 40:05d}-of", file)
    world.write(added, Path(file).read_bytes())
    return Expected(world.maker(file), (added,))


@kind
def an_output_deleted(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, "artifacts/evals/*/*", "artifacts/report/summary.json", "artifacts/models/*/curves.csv")
    world.remove(file)
    return Expected(world.maker(file), (file,), Verdict.UNKNOWN)


@kind
def a_data_set_moved(world: World, rng: random.Random) -> Expected:
    folder = rng.choice(["artifacts/raw/carts", "artifacts/raw/logged", "artifacts/splits/carts", "artifacts/splits/all"])
    world.rename(folder, f"{folder}_moved")
    return Expected(world.maker(folder), (folder,), Verdict.UNKNOWN)


def edit_parameter(world: World, rng: random.Random) -> Expected:
    values = yaml.safe_load(Path("params.yaml").read_text())
    key = rng.choice(
        ["datasets.carts.seed", "datasets.carts.options.episodes", "split.seed", "datasets.logged.seed", "learners.bc.small.hidden_sizes"]
        + [f"experiments.{name}.{rest}" for name in ("carts_bc", "all_bc") for rest in ("train.updates", "train.seeds", "evaluate.seed")]
    )
    *path, last = key.split(".")
    inner = values
    for part in path:
        inner = inner[part]
    inner[last] = [*inner[last], 9] if isinstance(inner[last], list) else inner[last] + 1
    world.write("params.yaml", yaml.safe_dump(values, sort_keys=False))
    readers = [name for name in world.order for given in world.graph.stages[name].locked_parameters() if overlap_keys(given, key)]
    return Expected(readers[0], (f"params.yaml/{key.replace('.', '/')}",))


def overlap_keys(first: str, second: str) -> bool:
    return overlap(first.replace(".", "/"), second.replace(".", "/"))


@kind
def a_parameter_edited(world: World, rng: random.Random) -> Expected:
    return edit_parameter(world, rng)


@kind
def a_parameter_edited_and_committed(world: World, rng: random.Random) -> Expected:
    expected = edit_parameter(world, rng)
    world.commit()
    return expected


def edit_code(world: World, rng: random.Random) -> Expected:
    stage = rng.choice(world.order)
    code = [path for path in world.graph.stages[stage].dependencies if not path.startswith(("artifacts/", "data/"))]
    path = rng.choice(code)
    file = rng.choice(world.files(f"{path}/**/*.py")) if Path(path).is_dir() else path
    world.write(file, Path(file).read_bytes() + b"\n# A change\n")
    readers = [name for name in world.order if any(overlap(file, given) for given in world.graph.stages[name].dependencies)]
    return Expected(readers[0], (file, path))


@kind
def code_edited(world: World, rng: random.Random) -> Expected:
    return edit_code(world, rng)


@kind
def code_edited_and_committed(world: World, rng: random.Random) -> Expected:
    expected = edit_code(world, rng)
    world.commit()
    return expected


@kind
def a_source_file_edited(world: World, rng: random.Random) -> Expected:
    lines = Path("data/logged.csv").read_text().splitlines(keepends=True)
    del lines[rng.randrange(1, len(lines))]
    world.write("data/logged.csv", "".join(lines))
    return Expected("collect@logged", ("data/logged.csv",))


@kind
def an_input_undeclared(world: World, rng: random.Random) -> Expected:
    lines = Path("dvc.yaml").read_text().splitlines(keepends=True)
    place = rng.choice([number for number, line in enumerate(lines) if re.match(r"\s+- (datasets|trainer|pipelines)/", line)])
    path = lines[place].strip().removeprefix("- ")
    name = next(found[1] for line in reversed(lines[:place]) if (found := re.match(r"  (\w+):$", line)))
    world.write("dvc.yaml", "".join(lines[:place] + lines[place + 1 :]))
    stages = [stage for stage in world.order if stage.partition("@")[0] == name]
    return Expected(stages[0], (f"dvc.yaml/{name}/deps",) if "$" not in path else ())
