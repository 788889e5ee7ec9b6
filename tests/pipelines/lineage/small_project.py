"""A project of a few seconds: one data set from a CSV, one experiment, stages of plain Python that DVC itself runs, and four commits.

Its numbers can be worked out by hand: an episode's return is the sum of its rewards, and the IQM is the sum of the train split's
returns times `expectile`. An episode is in the test split where its id ends in an even digit.
"""

import contextlib
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from dvc.repo import Repo

DVC_YAML = """
stages:
  collect:
    foreach: ${datasets}
    do:
      cmd: python3 make.py collect ${key} ${item.version} ${item.source}
      deps: [make.py, "${item.source}"]
      params:
        - datasets.${key}
      outs: ["artifacts/raw/${key}"]
  split:
    foreach: ${datasets}
    do:
      cmd: python3 make.py split ${key} ${item.version}
      deps: [make.py, "artifacts/raw/${key}"]
      params:
        - datasets.${key}.version
      outs: ["artifacts/splits/${key}"]
  train:
    foreach: ${experiments}
    do:
      cmd: python3 make.py train ${key} ${item.dataset}
      deps: [make.py, trainer, "artifacts/splits/${item.dataset}"]
      params:
        - learners.iql.${item.preset}
        - datasets.${item.dataset}.version
      outs: ["artifacts/models/${key}/policies"]
  evaluate:
    foreach: ${experiments}
    do:
      cmd: python3 make.py evaluate ${key}
      deps: [make.py, "artifacts/models/${key}/policies"]
      metrics: ["artifacts/evals/${key}/metrics.json"]
"""
PARAMS = """\
datasets:
  walks: {builder: made, version: 1.0.0, seed: 0, source: data/walks.csv, options: {}}
learners:
  iql:
    small: {expectile: 0.5, hidden_sizes: [8, 8]}
experiments:
  walks_iql: {dataset: walks, algorithm: iql, preset: small}
"""
WALKS = "episode,reward\nw1,1\nw1,2\nw2,4\nw3,8\nw4,16\n"
MAKE = """
import csv, hashlib, json, pathlib, re, sys

def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))

def collect(key, version, source):
    text = pathlib.Path(source).read_text()
    folder = pathlib.Path("artifacts/raw", key, version)
    write(folder / "steps.csv", text)
    write(folder / "manifest.json", {"digest": hashlib.sha256(text.encode()).hexdigest(), "job": f"collect@{key}"})

def split(key, version):
    returns = {}
    for row in csv.DictReader(pathlib.Path("artifacts/raw", key, version, "steps.csv").open()):
        returns[row["episode"]] = returns.get(row["episode"], 0) + int(row["reward"])
    lines = [f"{name},{'train' if int(name[-1]) % 2 else 'test'},{value}" for name, value in returns.items()]
    write(pathlib.Path("artifacts/splits", key, version, "episodes.csv"), "\\n".join(["episode_id,split,episode_return", *lines, ""]))

def train(key, dataset):
    (table,) = pathlib.Path("artifacts/splits", dataset).glob("*/episodes.csv")
    expectile = re.search(r"expectile: ([0-9.]+)", pathlib.Path("params.yaml").read_text()).group(1)
    rows = csv.DictReader(table.open())
    total = sum(int(row["episode_return"]) for row in rows if row["split"] == "train")
    write(pathlib.Path("artifacts/models", key, "policies/seed_0/bundle.json"), {"value": total * float(expectile)})

def evaluate(key):
    value = json.loads(pathlib.Path("artifacts/models", key, "policies/seed_0/bundle.json").read_text())["value"]
    metrics = {"iqm": value, "iqm_low": value - 1, "iqm_high": value + 1, "return_mean": value}
    write(pathlib.Path("artifacts/evals", key, "metrics.json"), metrics)

globals()[sys.argv[1]](*sys.argv[2:])
"""


@dataclass(frozen=True)
class History:
    """The project's folder and the commits of its runs, in the order in which they were made.

    `first`; `tuned`: expectile 0.5 -> 2; `edited`: w2 removed, w3 rewarded 9 instead of 8, w5 added, the version kept;
    `commented`: a comment in the learner, and so the same outcome.
    """

    root: Path
    first: str
    tuned: str
    edited: str
    commented: str


def git(*arguments: str, root: Path) -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@localhost", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def make_history(root: Path) -> None:
    """Makes all that is in the folder, by four commits."""
    for name, text in (
        ("dvc.yaml", DVC_YAML),
        ("params.yaml", PARAMS),
        ("make.py", MAKE),
        ("data/walks.csv", WALKS),
        ("trainer/iql.py", "# IQL\n"),
    ):
        write(root / name, text)
    git("init", "-q", "-b", "main", root=root)
    with Repo.init(str(root)):
        pass
    (root / ".gitignore").write_text("/artifacts/*\n!/artifacts/records/\n")
    reproduce(root, "First run")
    edit(root / "params.yaml", "expectile: 0.5", "expectile: 2")
    reproduce(root, "Tune the learner")
    write(root / "data/walks.csv", WALKS.replace("w2,4\n", "").replace("w3,8", "w3,9") + "w5,32\n")
    reproduce(root, "Edit the data")
    edit(root / "trainer/iql.py", "# IQL", "# IQL (Kostrikov et al. 2021)")
    reproduce(root, "Say where it is from")


def reproduce(root: Path, subject: str) -> str:
    """Runs what has changed, commits all of it, and returns the commit."""
    with contextlib.chdir(root), Repo(".") as repo:  # DVC runs what the current folder asks for
        repo.reproduce()
    git("add", "-A", root=root)
    git("commit", "-qm", subject, root=root)
    return git("rev-parse", "HEAD", root=root)


def copy(history: History, root: Path) -> History:
    """Returns the same history in a folder of its own, for a test that changes it."""
    shutil.copytree(history.root, root, symlinks=True)
    return replace(history, root=root)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
