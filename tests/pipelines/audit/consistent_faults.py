"""Forgeries that agree with themselves: the content is changed, and every digest, dvc.lock and DVC's cache are brought to agree with it."""

import csv
import hashlib
import io
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.tree import WorkingTree
from rl_datasets.manifest import FILE_NAME, values_digest
from tests.pipelines.audit.faults import Expected, kind, some_file
from tests.pipelines.audit.world import World

SPLITS = ("artifacts/splits/carts/1.0.0", "artifacts/splits/logged/2.1.0", "artifacts/splits/all/1.0.0")
RAWS = ("artifacts/raw/carts/1.0.0", "artifacts/raw/logged/2.1.0", "artifacts/raw/all/1.0.0")


@kind
def a_manifest_of_another_content(world: World, rng: random.Random) -> Expected:
    folder = some_file(world, rng, f"artifacts/**/{FILE_NAME}").rpartition("/")[0]
    world.reseal(folder, digest=f"{rng.getrandbits(256):064x}")
    world.relock()
    return Expected(world.maker(f"{folder}/{FILE_NAME}"), (folder,))


@kind
def a_manifest_with_other_words(world: World, rng: random.Random) -> Expected:
    folder = some_file(world, rng, f"artifacts/**/{FILE_NAME}").rpartition("/")[0]
    world.reseal(folder, **rng.choice([{"notes": ["All is well."]}, {"packages": {"numpy": "1.0"}}, {"counts": {"episodes": 7}}]))
    world.relock()
    return Expected(world.maker(f"{folder}/{FILE_NAME}"), (folder,))


@kind
def a_bit_in_a_shard_with_the_lock_renewed(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, "artifacts/raw/**/*tfrecord*", "artifacts/splits/**/*tfrecord*")
    world.flip(file, rng)
    world.relock()
    return Expected(world.maker(file), (file,))


@kind
def a_shard_deleted_with_the_lock_renewed(world: World, rng: random.Random) -> Expected:
    file = some_file(world, rng, "artifacts/raw/**/*tfrecord*", "artifacts/splits/**/*tfrecord*")
    world.remove(file)
    world.relock()
    return Expected(world.maker(file), (file,))


@kind
def statistics_rewritten(world: World, rng: random.Random) -> Expected:
    folder = rng.choice(SPLITS)
    statistics = json.loads(Path(folder, "stats.json").read_bytes())
    statistics[rng.choice(["reward", "episode_return"])]["std"] += 0.01
    world.write_json(f"{folder}/stats.json", statistics)
    world.reseal(folder)
    world.relock()
    return Expected(world.maker(folder), (folder,))


@kind
def metrics_rewritten(world: World, rng: random.Random) -> Expected:
    folder = f"artifacts/evals/{rng.choice(['carts_bc', 'all_bc'])}"
    metrics = json.loads(Path(folder, "metrics.json").read_bytes())
    name = rng.choice(["return_mean", "iqm", "iqm_low", "worst_seed_mean", "behaviour_return_mean", "normalized_score", "success_rate"])
    metrics[name] = 0.5 + (metrics[name] or 0.0)
    world.write_json(f"{folder}/metrics.json", metrics)
    world.reseal(folder)
    world.relock()
    return Expected(world.maker(f"{folder}/metrics.json"), (folder,))


@kind
def episodes_of_an_evaluation_rewritten(world: World, rng: random.Random) -> Expected:
    folder = f"artifacts/evals/{rng.choice(['carts_bc', 'all_bc'])}"
    rows = list(csv.reader(io.StringIO(Path(folder, "episodes.csv").read_text())))
    row = rng.choice(rows[1:])
    place = rows[0].index("episode_return")
    row[place] = str(float(row[place]) + 10)
    world.write(f"{folder}/episodes.csv", "\n".join(",".join(row) for row in rows) + "\n")
    digest = Workspace(WorkingTree(), deep=True).sha256(f"{folder}/episodes.csv")
    world.reseal(folder, digest=digest)
    world.relock()
    return Expected(world.maker(f"{folder}/metrics.json"), (folder,))


@kind
def an_evaluation_in_chosen_environments(world: World, rng: random.Random) -> Expected:
    folder = f"artifacts/evals/{rng.choice(['carts_bc', 'all_bc'])}"
    rows = list(csv.reader(io.StringIO(Path(folder, "episodes.csv").read_text())))
    rng.choice(rows[1:])[rows[0].index("environment_seed")] = str(rng.randrange(2**31))
    world.write(f"{folder}/episodes.csv", "\n".join(",".join(row) for row in rows) + "\n")
    tables = [Path(folder, name).read_bytes() for name in ("episodes.csv", "fitted_q.csv")]
    filled = b"".join(table for table in tables if table.count(b"\n") > 1)
    world.reseal(folder, digest=hashlib.sha256(filled).hexdigest())
    world.relock()
    return Expected(world.maker(f"{folder}/metrics.json"), (folder,))


@kind
def values_of_an_estimate_rewritten(world: World, rng: random.Random) -> Expected:
    """With a digest that agrees: the metrics do not."""
    folder = "artifacts/evals/all_bc"
    rows = list(csv.reader(io.StringIO(Path(folder, "fitted_q.csv").read_text())))
    place = rows[0].index(rng.choice(["seed_1", "behaviour_return", "behaviour_value"]))
    row = rng.choice(rows[1:])
    row[place] = str(float(row[place]) + 10)
    text = "\n".join(",".join(row) for row in rows) + "\n"
    world.write(f"{folder}/fitted_q.csv", text)
    world.reseal(folder, digest=hashlib.sha256(Path(folder, "episodes.csv").read_bytes() + text.encode()).hexdigest())
    world.relock()
    return Expected(world.maker(f"{folder}/metrics.json"), (folder,))


@kind
def a_number_in_the_report_rewritten(world: World, rng: random.Random) -> Expected:
    path = "artifacts/report/summary.json"
    rows = json.loads(Path(path).read_bytes())
    rng.choice(rows)[rng.choice(["return_mean", "iqm", "iqm_high"])] += 1.0
    world.write_json(path, rows)
    world.relock()
    return Expected("report", (path,))


@kind
def a_page_of_the_report_rewritten(world: World, rng: random.Random) -> Expected:
    path = "artifacts/report/index.html"
    text = Path(path).read_text()
    places = [place for place, mark in enumerate(text) if mark.isdecimal()]
    place = rng.choice(places)
    world.write(path, text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
    world.relock()
    return Expected("report", (path,))


@kind
def a_verdict_of_the_gate_rewritten(world: World, rng: random.Random) -> Expected:
    folder = f"artifacts/checks/{rng.choice(['carts', 'logged', 'all'])}"
    report = json.loads(Path(folder, "report.json").read_bytes())
    report["verdict"] = "warn" if report["verdict"] == "pass" else "pass"
    world.write_json(f"{folder}/report.json", report)
    world.reseal(folder)
    world.relock()
    return Expected(world.maker(folder), (folder,))


@kind
def an_episode_moved_in_the_table(world: World, rng: random.Random) -> Expected:
    folder = rng.choice(SPLITS)
    lines = Path(folder, "episodes.csv").read_text().splitlines(keepends=True)
    place = rng.choice([number for number, line in enumerate(lines) if ",train," in line])
    lines[place] = lines[place].replace(",train,", ",test,")
    world.write(f"{folder}/episodes.csv", "".join(lines))
    world.reseal(folder)
    world.relock()
    return Expected(world.maker(folder), (folder,))


@kind
def an_episode_in_two_splits(world: World, rng: random.Random) -> Expected:
    from rl_datasets.rlds import RldsReader, write_rlds

    folder = rng.choice(SPLITS)
    reader = RldsReader(Path(folder))
    episodes = {split: list(reader.episodes_of(reader.shards(split))) for split in reader.splits}
    stolen = rng.choice(episodes["train"])
    episodes["test"].append(type(stolen)(f"{stolen.episode_id}_again", *list(vars(stolen).values())[1:]))
    name, version = folder.split("/")[-2:]
    with tempfile.TemporaryDirectory() as made:
        written = write_rlds(Path(made, "data"), name, version, reader.spec, episodes, versions=reader.metadata.get("versions"))
        replace_files(world, folder, Path(made, "data"))
    lines = Path(folder, "episodes.csv").read_text().splitlines(keepends=True)
    row = next(line for line in lines if line.startswith(f"{stolen.episode_id},"))
    added = row.replace(",train,", ",test,").replace(stolen.episode_id, f"{stolen.episode_id}_again", 1)
    world.write(f"{folder}/episodes.csv", "".join([*lines, added]))
    counts = {f"{split}_episodes": count for split, count in written.episodes.items()}
    counts |= {f"{split}_transitions": count for split, count in written.transitions.items()}
    world.reseal(folder, digest=written.digest, counts=counts)
    world.relock()
    return Expected(world.maker(folder), (folder,))


@kind
def a_data_set_under_another_version(world: World, rng: random.Random) -> Expected:
    folder = rng.choice((*RAWS, *SPLITS))
    world.rename(folder, f"{folder.rpartition('/')[0]}/9.9.9")
    world.relock()
    return Expected(world.maker(folder), (folder.rpartition("/")[0],))


@kind
def a_model_of_another_data_set(world: World, rng: random.Random) -> Expected:
    model = rng.choice(["artifacts/models/carts_bc", "artifacts/models/all_bc"])
    bundle = some_file(world, rng, f"{model}/policies/*/bundle.json")
    description = json.loads(Path(bundle).read_bytes())
    others = {"digest": f"{rng.getrandbits(256):064x}"}, {"name": "logged", "version": "2.1.0"}
    description["dataset"] |= rng.choice(others)
    world.write_json(bundle, resealed(description))
    world.reseal(model)
    world.relock()
    return Expected(world.maker(f"{model}/policies"), (model,))


@kind
def a_policy_removed(world: World, rng: random.Random) -> Expected:
    folder = f"artifacts/models/carts_bc/policies/{rng.choice(['seed_0', 'seed_3'])}"
    world.remove_folder(folder)
    world.reseal("artifacts/models/carts_bc")
    world.relock()
    return Expected("train@carts_bc", ("artifacts/models/carts_bc",))


@kind
def weights_rewritten(world: World, rng: random.Random) -> Expected:
    model = rng.choice(["artifacts/models/carts_bc", "artifacts/models/all_bc"])
    weights = some_file(world, rng, f"{model}/policies/*/policy.safetensors")
    world.flip(weights, rng)
    world.reseal(model)
    world.relock()
    return Expected(world.maker(f"{model}/policies"), (model,))


@kind
def a_link_to_another_content(world: World, rng: random.Random) -> Expected:
    link = some_file(world, rng, "artifacts/combine/all/*.json")
    values = json.loads(Path(link).read_bytes())
    world.write_json(link, {**values, "digest": f"{rng.getrandbits(256):064x}"})
    world.relock()
    return Expected(world.maker(link), (link,))


def replace_files(world: World, folder: str, made: Path) -> None:
    for file in world.files(f"{folder}/*tfrecord*"):
        world.remove(file)
    for file in sorted(made.iterdir()):
        world.write(f"{folder}/{file.name}", file.read_bytes())
    shutil.rmtree(made)


def resealed(description: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in description.items() if key != "digest"}
    return {**rest, "digest": values_digest(rest)}
