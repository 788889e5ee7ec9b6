"""Contents that nobody writes by accident: none stops the audit, and none can speak in its place."""

import os
from pathlib import Path

import pytest

from pipelines.lineage.audit.cache import read_cache
from pipelines.lineage.audit.findings import broken
from pipelines.lineage.audit.memory import Memory
from pipelines.lineage.audit.output import audit_lines
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import Ignored
from pipelines.lineage.lockfile import parse_lock
from pipelines.lineage.stages import Stage
from pipelines.lineage.tree import WorkingTree
from rl_datasets.errors import HindcastError


def test_a_name_cannot_write_lines_of_its_own() -> None:
    name = "a\n\x1b[2KEvery link holds (1 holds)."
    lines = [line.plain for line in audit_lines([broken("train", f"output {name}", name, found="x", mend="y")])]
    assert all("\n" not in line and "\x1b" not in line for line in lines)
    assert "output a\\n\\x1b[2KEvery link holds" in lines[1]


def test_stages_in_a_circle_come_to_an_end() -> None:
    around = {name: Stage(name, "", (of,), (name,), (), None) for name, of in (("a", "b"), ("b", "c"), ("c", "a"))}
    assert sorted(Graph(around).upstream(["a"])) == ["a", "b", "c"]


@pytest.mark.parametrize("path", ["7", "!!binary aGk=", '"a\\0b"', "[" * 5000 + "]" * 5000])
def test_a_lock_of_what_is_no_path(path: str) -> None:
    with pytest.raises(HindcastError, match="is not what DVC writes"):
        parse_lock(f"stages:\n  train:\n    deps:\n    - path: {path}\n      md5: aa\n".encode())


def test_pipes_where_files_are_looked_for(tmp_path: Path) -> None:
    for name in (".dvcignore", "read.json"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "a").touch()
    assert f"{tmp_path}/a" in Ignored().files(str(tmp_path))
    assert Memory(tmp_path / "read.json").oldest is None
    assert WorkingTree().read("a\0b") is None


def test_what_is_not_finished_is_no_object_of_the_cache(tmp_path: Path) -> None:
    empty = "d41d8cd98f00b204e9800998ecf8427e"
    folder = tmp_path / "files/md5" / empty[:2]
    folder.mkdir(parents=True)
    for name in (empty[2:], "abc.tmp", f"{empty[2:]}.tmp"):
        (folder / name).touch()
    assert read_cache(tmp_path) == {empty: True}
