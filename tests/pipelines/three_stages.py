"""A small project that DVC runs, without manifests or records: two data sets and a copy of one, in three stages."""

import subprocess
import sys
from pathlib import Path

DVC_YAML = """
stages:
  collect:
    foreach: ${datasets}
    do:
      cmd: python make.py ${item} artifacts/raw/${key}
      deps:
        - make.py
        - code
      params:
        - datasets.${key}
      outs:
        - artifacts/raw/${key}
  train:
    cmd: cp -r artifacts/raw/one artifacts/model
    deps:
      - artifacts/raw/one
    outs:
      - artifacts/model
"""
MAKE = """
import pathlib, sys
folder = pathlib.Path(sys.argv[2], "1.0.0")
folder.mkdir(parents=True)
for name in ("b", "a", "z/c"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(name + sys.argv[1])
"""


def run(*command: str) -> None:
    subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)


def make_three_stages() -> None:
    """Makes the project in the current folder, which is empty, and runs it."""
    subprocess.run(["git", "init", "-q"], check=True)
    Path("dvc.yaml").write_text(DVC_YAML)
    Path("params.yaml").write_text("datasets: {one: 1, two: 2}\n")
    Path("make.py").write_text(MAKE)
    for name in ("b.py", "a.py", "__pycache__/a.pyc"):
        Path("code", name).parent.mkdir(parents=True, exist_ok=True)
        Path("code", name).write_text(name)
    run("dvc", "init", "-q")
    Path(".dvcignore").write_text("__pycache__\n")
    run("dvc", "repro", "-q")
