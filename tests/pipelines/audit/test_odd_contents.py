"""Contents that nobody writes by accident: none stops the audit, and none can speak in its place."""

import os
from pathlib import Path

import pytest

from pipelines.lineage.audit.cache import read_cache
from pipelines.lineage.audit.findings import broken
from pipelines.lineage.audit.memory import Memory
from pipelines.lineage.audit.output import audit_lines
from pipelines.lineage.graph import Graph
from pipelines.lineage.hashing import BLOCK, Ignored, same_bytes
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
    assert read_cache(tmp_path, {}) == {empty: True}


@pytest.mark.parametrize(("beside", "content", "is_sound"), [(b"ab", b"ab", True), (b"ab", b"ba", False), (b"ba", b"ab", True)])
def test_an_object_of_the_cache_counts_by_its_own_bytes(tmp_path: Path, beside: bytes, content: bytes, is_sound: bool) -> None:
    """Whatever the file has by now that had its hash."""
    md5 = "187ef4436122d1cc2f40dc2b92f0eba0"  # of b"ab"
    place, file = tmp_path / "files/md5" / md5[:2] / md5[2:], tmp_path / "file"
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    file.write_bytes(beside)
    assert read_cache(tmp_path, {md5: file}) == {md5: is_sound}


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_same_bytes(tmp_path: Path, size: int) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(content := bytes(range(256)) * (size // 256) + bytes(size % 256))
    other.write_bytes(content)
    assert same_bytes(one, other)
    for changed in (content + b"x", content[:-1] + b"x", b"x" + content[1:]):
        other.write_bytes(changed)
        assert not same_bytes(one, other)
    other.unlink()
    assert not same_bytes(one, other)
