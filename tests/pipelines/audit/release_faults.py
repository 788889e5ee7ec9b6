"""Kinds of damage to what was released. See faults.py."""

import random
from pathlib import Path

from pipelines.lineage.audit import Finding, Verdict
from pipelines.lineage.release import tag_message, with_artifact
from pipelines.lineage.released import artifact_of, tag_name
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from tests.pipelines.audit.faults import Expected, kind
from tests.pipelines.audit.small_project import git
from tests.pipelines.audit.world import World

NAMES = {"carts_bc": "train@carts_bc", "all_bc": "train@all_bc", "carts": "split@carts"}


def release(world: World, name: str) -> tuple[str, str]:
    """Tags a data set or experiment as `hindcast release` does, and returns the tag and what it says."""
    project = read_project(WorkingTree())
    artifact, tag = artifact_of(project, name), tag_name(name, "1.0.0")
    message = tag_message(project, artifact, "1.0.0", [Finding(artifact.stage.name, Verdict.HOLDS, "")], git("rev-parse", "HEAD"))
    put(tag, message, "HEAD")
    world.undo.append(lambda: git("tag", "--delete", tag) and None)
    return tag, message


def put(tag: str, message: str, commit: str) -> None:
    git("tag", "--force", "--annotate", "--cleanup=verbatim", "--message", message, tag, commit)


@kind
def a_release_moved(world: World, rng: random.Random) -> Expected:
    name, stage = rng.choice(sorted(NAMES.items()))
    tag, message = release(world, name)
    world.write("README.md", "Words that shape no bytes.")
    world.commit()
    put(tag, message, rng.choice(["HEAD", "HEAD~2"]))  # one with the same dvc.lock, one with none
    return Expected(stage, (tag,))


@kind
def the_words_of_a_release_rewritten(world: World, rng: random.Random) -> Expected:
    name, stage = rng.choice(sorted(NAMES.items()))
    tag, message = release(world, name)
    lines = message.splitlines(keepends=True)
    place = rng.choice([number for number, line in enumerate(lines) if line.startswith("  ")])
    mark = rng.choice([index for index, letter in enumerate(lines[place]) if letter.isdecimal()])
    lines[place] = f"{lines[place][:mark]}{(int(lines[place][mark]) + 1) % 10}{lines[place][mark + 1 :]}"
    put(tag, "".join(lines), "HEAD")
    return Expected(stage, (tag,))


@kind
def another_output_under_the_name_of_an_artifact(world: World, rng: random.Random) -> Expected:
    text = with_artifact(Path("dvc.yaml").read_text(), artifact_of(read_project(WorkingTree()), "carts_bc"))
    world.write("dvc.yaml", text.replace('"artifacts/models/carts_bc/policies"', '"artifacts/models/all_bc/policies"'))
    return Expected("train@carts_bc", ("dvc.yaml/artifacts/carts_bc",))
