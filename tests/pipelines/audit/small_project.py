"""A small project that the real stages made: three data sets, two experiments and a report, with DVC's own lock and cache, committed.

The stages run in this process, one after the other as DVC would run them, for a process each would take minutes.
"""

import contextlib
import csv
import importlib
import os
import shutil
import subprocess
from pathlib import Path

import gymnasium as gym
import pytest
from dvc.repo import Repo

from pipelines.lineage.record import recording
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from pipelines.params import load_params

ROOT = Path(__file__).parents[3]
CODE = ("datasets/rl_datasets", "pipelines", "trainer")
FILES = ("dvc.yaml", "requirements.lock", ".dvcignore", ".gitignore", ".gitattributes")
PARAMS = """\
datasets:
  carts:
    builder: gymnasium
    version: 1.0.0
    seed: 0
    source: requirements.lock
    options: {env_id: CartPole-v1, episodes: 70, policy: {kind: random}}
  logged:
    builder: table
    version: 2.1.0
    seed: 0
    source: data/logged.csv
    options:
      env_id: CartPole-v1
      observation: [place, speed, angle, turn]
      action: push
      reward: reward
      terminal: fell
      ends: {kind: ids, column: drive, sequence: tick}
  all:
    builder: combine
    version: 1.0.0
    seed: 0
    source: artifacts/combine/all
    options: {ids: prefix}
combine:
  all_carts: {into: all, dataset: carts}
  all_logged: {into: all, dataset: logged}
checks:
  default: {}
split:
  fractions: {train: 0.7, validation: 0.15, test: 0.15}
  seed: 0
learners:
  bc:
    small: {hidden_sizes: [8]}
experiments:
  carts_bc:
    dataset: carts
    algorithm: bc
    preset: small
    train: {seeds: [0, 3], updates: 20, batch_size: 32, log_every: 10}
    evaluate: {episodes: 4, seed: 0}
  all_bc:
    dataset: all
    algorithm: bc
    preset: small
    train: {seeds: [1], updates: 10, batch_size: 32, log_every: 10}
    evaluate: {episodes: 4, seed: 0, fitted_q: {updates: 20, hidden_sizes: [8]}}
runtime: {workers: 1, readers: 1}
"""


def make_project(root: Path) -> None:
    """Makes the folder, runs every stage once, and commits all of it."""
    for folder in CODE:
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for file in FILES:
        shutil.copy(ROOT / file, root / file)
    (root / "params.yaml").write_text(PARAMS)
    write_log(root / "data/logged.csv")
    with contextlib.chdir(root):
        git("init", "-q", "-b", "main")
        with Repo.init("."):
            pass
        Path(".dvc/config").write_text("[core]\n    analytics = false\n[cache]\n    type = copy\n")
        commit("The code and the parameters")
        for name in order():
            run_stage(name)
        commit_to_dvc()
        commit("A run of all stages")


def order() -> list[str]:
    """The stages, each after those that it depends on."""
    from pipelines.lineage.graph import Graph

    stages = read_project(WorkingTree()).stages
    return Graph(stages).upstream(list(stages))


def run_stage(name: str) -> None:
    """Runs one stage as DVC does, its record included."""
    kind, _, key = name.partition("@")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_STAGE", name)
        patch.setattr("sys.argv", [f"{kind}.py", key] if key else [f"{kind}.py"])
        with recording(name) as outcome:
            outcome.written.append(importlib.import_module(f"pipelines.{kind}").run(key, load_params()))


def commit_to_dvc() -> None:
    """Has DVC hash all that the stages read and wrote, into dvc.lock and its cache."""
    with Repo(".") as repo:
        repo.commit(force=True)


def commit(subject: str) -> str:
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", subject)
    return git("rev-parse", "HEAD")


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def write_log(path: Path) -> None:
    """Random episodes of CartPole as a person may log them."""
    path.parent.mkdir(parents=True)
    env = gym.make("CartPole-v1")
    env.action_space.seed(0)
    with path.open("w", newline="") as file:
        log = csv.writer(file)
        log.writerow(["drive", "tick", "place", "speed", "angle", "turn", "push", "reward", "fell"])
        for drive in range(40):
            observation, _ = env.reset(seed=1000 + drive)
            for tick in range(500):
                push = int(env.action_space.sample())
                following, reward, fell, _, _ = env.step(push)
                log.writerow([drive, tick, *map(float, observation), push, float(reward), int(fell)])
                observation = following
                if fell:
                    break
    env.close()


if __name__ == "__main__":
    import sys
    import tempfile

    os.environ.setdefault("DVC_SITE_CACHE_DIR", tempfile.mkdtemp())
    make_project(Path(sys.argv[1]))
