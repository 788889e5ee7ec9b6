"""Findings: which damage explains which, what a reader is told, and what is remembered of files that were read."""

import os
import time
from pathlib import Path

import pytest

from pipelines.lineage.audit.findings import Attribution, Finding, Verdict, broken, compared, holds, shown, unknown
from pipelines.lineage.audit.memory import Memory
from pipelines.lineage.hashing import Digests, Ignored, digests_of, folder_md5
from pipelines.lineage.lockfile import parse_lock
from rl_datasets.errors import HindcastError


def test_a_break_is_named_once_and_what_follows_from_it_is_affected() -> None:
    findings = [
        holds("a", "code"),
        broken("a", "output", "out/a/file", found="x", mend="do"),
        broken("b", "input", "out/a", found="x", mend="do"),  # a folder around the damage
        broken("b", "manifest", "out/b/manifest.json", found="x", mend="do", related="out/a/file"),
        broken("b", "output", "out/b", found="x", mend="do"),  # around what was merely affected: a break of its own
        broken("c", "output", "out/a/fil", found="x", mend="do"),  # no path around it
        unknown("c", "input", "out/a", found="gone"),
    ]
    found = list(Attribution().sort(findings))
    assert [finding.verdict for finding in found] == [
        Verdict.HOLDS, Verdict.BROKEN, Verdict.AFFECTED, Verdict.AFFECTED, Verdict.BROKEN, Verdict.BROKEN, Verdict.UNKNOWN,
    ]  # fmt: skip
    assert found[2].mend == "mend this first: a: output"


def test_a_finding_says_what_was_found_expected_since_and_what_to_do() -> None:
    finding = compared("a", "seed", "params.yaml/seed", expected=1, found=2, mend="restore it")
    assert finding.detail == "found 2, expected 1; restore it"
    assert Finding("a", Verdict.BROKEN, "x", found="gone", since="commit 1").detail == "gone; since commit 1"
    assert compared("a", "seed", "p", expected=[1], found=[1], mend="") == holds("a", "seed", "p")
    assert (shown("0" * 64), shown("z" * 64), len(shown("z" * 999))) == ("0" * 12, "z" * 64, 300)


def test_a_file_is_remembered_while_it_looks_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".dvc").mkdir()
    Path("file").write_bytes(b"one")
    memory = Memory()
    looked = memory.looks("file")
    memory.keep("file", Digests("md5", ""), looked)
    assert memory.recall("file", with_sha256=False) is None  # it may change again within one tick of the clock
    monkeypatch.setattr(time, "time", lambda: 4e9)
    memory.keep("file", Digests("md5", ""), looked)
    assert memory.recall("file", with_sha256=True) is None
    memory.save()
    memory = Memory()
    assert memory.recall("file", with_sha256=False) == Digests("md5", "")
    assert memory.oldest == 4e9
    times = os.stat("file")
    Path("file").write_bytes(b"two")
    os.utime("file", ns=(times.st_atime_ns, times.st_mtime_ns))  # size and time kept
    assert memory.recall("file", with_sha256=False) is None
    Path(".dvc/tmp/hindcast/read.json").write_text("[")
    assert Memory().recall("file", with_sha256=False) is None


def test_folders_are_hashed_as_dvc_does_without_what_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("code/a.py", "code/__pycache__/a.pyc", "code/deep/b.py", "code/deep/.c.partial/d", "code/own/e", "code/own/f"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    Path(".dvcignore").write_text("# ours\n__pycache__\n.*.partial\n")
    Path("code/own/.dvcignore").write_text("/f\n")
    assert Ignored().files("code") == ["code/a.py", "code/deep/b.py", "code/own/.dvcignore", "code/own/e"]
    assert Ignored().files("code/a.py") == ["code/a.py"]
    assert Ignored().files("nothing") == []
    Path("empty").write_bytes(b"")
    assert digests_of(Path("empty"), with_sha256=True) == Digests(
        "d41d8cd98f00b204e9800998ecf8427e", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
    # echo -n '[{"md5": "x", "relpath": "a"}, {"md5": "y", "relpath": "b"}]' | md5sum
    assert folder_md5({"b": "y", "a": "x"}) == "0bc47082cb51ad158566b64c92e60eab.dir"


def test_a_lock_with_a_stage_twice_is_refused() -> None:
    block = "  a@b:\n    cmd: x\n"
    with pytest.raises(HindcastError, match=r"dvc\.lock has the stage a@b twice, as a merge may leave it"):
        parse_lock(f"schema: '2.0'\nstages:\n{block}  c:\n    cmd: y\n{block}".encode())
