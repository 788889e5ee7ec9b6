"""A small project that DVC runs, without manifests or records: two data sets and a copy of one, in three stages."""

import contextlib
import subprocess
from pathlib import Path

from dvc.repo import Repo

DVC_YAML = """
stages:
  collect:
    foreach: ${datasets}
    do:
      cmd: python3 make.py ${item} artifacts/raw/${key}
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


def make_three_stages(root: Path) -> None:
    """Makes the project in a folder that is empty, and runs it."""
    with contextlib.chdir(root):
        subprocess.run(["git", "init", "-q"], check=True)
        Path("dvc.yaml").write_text(DVC_YAML)
        Path("params.yaml").write_text("datasets: {one: 1, two: 2}\n")
        Path("make.py").write_text(MAKE)
        for name in ("b.py", "a.py", "__pycache__/a.pyc"):
            Path("code", name).parent.mkdir(parents=True, exist_ok=True)
            Path("code", name).write_text(name)
        Repo.init(".").close()
        Path(".dvcignore").write_text("__pycache__\n")
        with Repo(".") as repo:
            repo.reproduce()
