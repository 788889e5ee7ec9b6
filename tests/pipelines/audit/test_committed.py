"""Records are written once: however a commit, a merge or the index hides another content, the bytes on disk are compared with history."""

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from pipelines.lineage.audit.contents import Workspace
from pipelines.lineage.audit.findings import Finding, broken, holds, note
from pipelines.lineage.audit.history import History
from pipelines.lineage.audit.output import audit_lines
from pipelines.lineage.audit.scene import Scene
from pipelines.lineage.execution import code_state, inputs
from pipelines.lineage.graph import Graph
from pipelines.lineage.kept import blob_name
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import GitTree, WorkingTree, is_bare
from tests.pipelines.audit.small_project import commit, git

FOLDER = "artifacts/records"
RECORD = f"{FOLDER}/train@a/20200101T000000-0000aaaa.json"
LATER = f"{FOLDER}/train@a/20200102T000000-0000bbbb.json"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project lies in a folder of its repository."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    git("init", "-q", "-b", "main", str(tmp_path))
    write(RECORD, "first")
    commit("A run")
    return root


def write(path: str, content: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps({"eventType": content}))


def found(revision: str = "") -> list[tuple[str, str]]:
    if not revision:
        return [(gone.path, gone.how) for gone in History().departures(FOLDER, WorkingTree().read)]
    with GitTree(revision) as tree:
        return [(gone.path, gone.how) for gone in History(revision).departures(FOLDER, tree.read)]


def assert_found(how: str, subject: str) -> None:
    for revision in ("", "HEAD"):
        ((path, words),) = found(revision)
        assert (path, words.startswith(f"{how} in commit "), words.endswith(f"Ada: {subject})")) == (RECORD, True, True)


def test_a_name_is_gits(repository: Path) -> None:
    assert blob_name(Path(RECORD).read_bytes(), "0" * 40) == git("hash-object", RECORD)
    # printf 'blob 0\0' | sha256sum
    assert blob_name(b"", "0" * 64) == "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"


def test_what_is_as_it_was_committed_and_what_is_new(repository: Path) -> None:
    write(LATER, "not committed yet")
    assert found() == []
    assert found("HEAD") == []


def test_an_edit_in_a_commit_and_its_restoration(repository: Path) -> None:
    write(RECORD, "second")
    assert found() == [(RECORD, "edited and not committed")]
    assert found("HEAD") == []
    commit("An edit")
    assert_found("edited", "An edit")
    git("checkout", "-q", "HEAD~", "--", RECORD)
    commit("As it was")
    assert found() == []


def test_a_removal_and_another_content_added_later(repository: Path) -> None:
    git("rm", "-q", RECORD)
    commit("Tidy")
    assert_found("removed", "Tidy")
    write(RECORD, "second")
    commit("Tidy again")
    assert_found("edited", "Tidy again")
    write(RECORD, "first")
    commit("As it was")
    assert found() == []


@pytest.mark.parametrize("removes", [False, True])
def test_an_edit_that_only_a_merge_has(repository: Path, removes: bool) -> None:
    git("checkout", "-qb", "side")
    commit("On a side")
    git("checkout", "-q", "main")
    commit("On main")
    git("merge", "-q", "--no-commit", "--no-ff", "side")
    git("rm", "-q", RECORD) if removes else write(RECORD, "second")
    commit("A merge")
    assert not git("log", "--format=", "--name-status", "--diff-filter=MD")
    assert_found("removed" if removes else "edited", "A merge")


def test_a_content_that_comes_from_a_history_of_its_own(repository: Path) -> None:
    git("checkout", "-q", "--orphan", "other")
    write(RECORD, "second")
    commit("As if it came first")
    git("checkout", "-q", "main")
    git("merge", "-q", "--allow-unrelated-histories", "--no-edit", "-X", "theirs", "other")
    ((path, how),) = found()
    assert path == RECORD
    assert how.startswith(("edited in", "committed with one content in"))


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_an_edit_that_the_index_is_told_to_overlook(repository: Path, flag: str) -> None:
    write(RECORD, "other")
    git("update-index", flag, RECORD)
    assert not git("status", "--porcelain")
    assert found() == [(RECORD, "edited and not committed")]
    assert History().is_changed(RECORD)
    Path(RECORD).unlink()
    assert found() == [(RECORD, "removed and not committed")]


def test_a_commit_replaced_by_git_replace(repository: Path) -> None:
    write(RECORD, "second")
    edited = commit("An edit")
    git("checkout", "-q", "--orphan", "other")
    git("replace", edited, commit("As if it came first"))
    git("checkout", "-q", "main")
    assert_found("edited", "An edit")


@pytest.mark.parametrize(("variable", "place"), [("GIT_DIR", ".git"), ("GIT_WORK_TREE", ""), ("GIT_INDEX_FILE", ".git/index")])
def test_variables_that_name_another_repository(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, variable: str, place: str
) -> None:
    write(RECORD, "second")
    Path("code.py").write_text("one = 1\n")
    Path("log.csv").write_text("a,b\n")
    commit("An edit")
    Path("code.py").write_text("one = 2\n")
    other = tmp_path_factory.mktemp("other")
    git("init", "-q", "-b", "main", str(other))
    git("-C", str(other), "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "Another's")
    expected = History().uncommitted(), code_state(), inputs(["log.csv"])
    monkeypatch.setenv(variable, str(other / place))
    assert_found("edited", "An edit")
    assert (History().uncommitted(), code_state(), inputs(["log.csv"])) == expected
    assert (expected[0], expected[2][0].keeper) == (["code.py"], "git")


def test_a_source_that_was_committed_or_added_after_it_was_read_is_kept(repository: Path) -> None:
    Path("params.yaml").write_text("{}")
    Path("dvc.yaml").write_text("stages: {}")
    Path("log.csv").write_text("a,b\n")
    md5 = hashlib.md5(b"a,b\n", usedforsecurity=False).hexdigest()

    def is_kept(revision: str = "", was: str = md5) -> bool:
        with GitTree(revision) if revision else nullcontext(WorkingTree()) as tree:
            project = read_project(tree)
            return Scene(project, Graph(project.stages), Workspace(tree, deep=False), History(revision)).is_kept("log.csv", was)

    assert not is_kept()
    commit("The source")
    assert (is_kept(), is_kept("HEAD")) == (True, True)
    assert not is_kept(was=hashlib.md5(b"another", usedforsecurity=False).hexdigest())
    assert not is_kept(was="")  # of what was too large to be hashed for the record
    git("rm", "-q", "--cached", "log.csv")
    git("commit", "-qm", "Not any more")
    Path("log.csv.dvc").write_text(f"outs: [{{md5: {md5}, path: log.csv}}]")
    assert (is_kept(), is_kept("HEAD"), is_kept("HEAD~")) == (True, False, True)


def test_a_history_cut_by_a_graft(repository: Path) -> None:
    write(RECORD, "second")
    edited = commit("An edit")
    Path(git("rev-parse", "--git-dir"), "info/grafts").write_text(f"{edited}\n")
    assert_found("edited", "An edit")


def cut_by_the_graph_of_commits(edited: str) -> None:
    """Rewrites git's cached graph of commits, in which a commit is 36 bytes: its tree, the places of two parents, its time."""
    git("commit-graph", "write", "--reachable")
    graph = Path(git("rev-parse", "--git-path", "objects/info/commit-graph"))
    content = bytearray(graph.read_bytes())
    tree = bytes.fromhex(git("rev-parse", f"{edited}^{{tree}}"))
    place = content.rindex(tree) + len(tree)
    content[place : place + 4] = bytes.fromhex("70000000")  # no parent
    content[-20:] = hashlib.sha1(content[:-20], usedforsecurity=False).digest()
    graph.chmod(0o644)
    graph.write_bytes(content)
    assert git("rev-list", "--count", "HEAD") == "1"


def cut_by_a_file_of_shallow_clones(edited: str) -> None:
    Path(git("rev-parse", "--git-path", "shallow")).write_text(f"{edited}\n")
    assert git("rev-list", "--count", "HEAD") == "1"


@pytest.mark.parametrize("cut", [cut_by_the_graph_of_commits, cut_by_a_file_of_shallow_clones])
def test_a_history_that_only_says_that_it_is_cut(repository: Path, cut: Callable[[str], None]) -> None:
    write(RECORD, "second")
    cut(commit("An edit"))
    assert_found("edited", "An edit")
    assert (History().is_whole, History().fault(deep=True)) == (True, "")


def test_a_history_that_git_cannot_read(repository: Path) -> None:
    write(RECORD, "second")
    commit("An edit")
    assert History().fault(deep=True) == ""
    lost = git("rev-parse", "HEAD~:./")
    place = Path(git("rev-parse", "--git-path", f"objects/{lost[:2]}/{lost[2:]}"))
    place.unlink()
    assert "git says: " in History().fault(deep=False)


def test_a_content_that_git_keeps_is_damaged(repository: Path) -> None:
    name = git("rev-parse", f"HEAD:./{RECORD}")
    place = Path(git("rev-parse", "--git-path", f"objects/{name[:2]}/{name[2:]}"))
    place.chmod(0o644)
    place.write_bytes(zlib.compress(b"blob 3\0bad"))
    assert "hash mismatch" in History().fault(deep=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"core.checkStat": "minimal", "core.trustctime": "false"},
        {"filter.hide.clean": "git cat-file blob HEAD:%f"},
        {"core.fsmonitor": "printf x"},
    ],
)
def test_an_edit_that_settings_hide_from_git(repository: Path, settings: dict[str, str]) -> None:
    Path("code.py").write_text("honest = 1\n")
    commit("Code")
    time = Path("code.py").stat().st_mtime_ns
    for name, value in settings.items():
        git("config", name, value)
    Path(git("rev-parse", "--git-path", "info/attributes")).write_text("*.py filter=hide\n")
    git("status")
    Path("code.py").write_text("honest = 0\n")
    os.utime("code.py", ns=(time, time))
    assert History().uncommitted() == ["code.py"]
    assert code_state()["changed"] == ["code.py"]
    Path("code.py").write_bytes(b"honest = 1\r\n")
    assert History().uncommitted() == []


def test_what_a_sparse_checkout_leaves_out_is_not_removed(repository: Path) -> None:
    Path("params.yaml").touch()
    commit("Parameters")
    assert History().left_out == set()
    git("-C", "..", "sparse-checkout", "set", "--no-cone", "/*", f"!/project/{RECORD}")
    assert not Path(RECORD).exists()
    assert (History().left_out, History().uncommitted()) == ({RECORD}, [])
    git("config", "--worktree", "core.sparseCheckout", "false")
    assert (History().left_out, History().uncommitted()) == (set(), [RECORD])


def test_what_only_says_that_it_is_bare_is_none(repository: Path) -> None:
    git("config", "core.bare", "true")
    assert is_bare()
    Path("params.yaml").touch()
    assert not is_bare()


def test_a_removal_says_what_was_removed_and_which_later_file_came(repository: Path) -> None:
    git("rm", "-q", RECORD)
    write(LATER, "later")
    write(f"{FOLDER}/train@b/30000101T000000-0000cccc.json", "of another stage")
    commit("Another run")
    (gone,) = History().departures(FOLDER, WorkingTree().read)
    assert (gone.is_gone, gone.later, json.loads(History().content(gone.removed))) == (True, LATER, {"eventType": "first"})
    git("rm", "-q", LATER)
    commit("Tidy")
    assert [gone.later for gone in History().departures(FOLDER, WorkingTree().read)] == [LATER, ""]


def test_whether_there_is_a_history(repository: Path) -> None:
    assert History().has(RECORD)
    assert not History().has("dvc.yaml")
    shutil.rmtree(repository.parent / ".git")
    assert not History().has(RECORD)
    assert found() == []


def test_a_break_is_since_the_commit_that_changed_the_lines_of_the_lock(repository: Path) -> None:
    Path("code.py").write_text("1")
    Path("dvc.lock").write_text("md5: aaaa\n")
    commit("A run of this code")
    finding = broken("train@a", "input code.py", "code.py", found="x", mend="y")
    Path("dvc.lock").write_text("md5: bbbb\n")
    commit("Another hash")
    assert History().since(finding, "bbbb").endswith("Ada: Another hash), which put this hash into dvc.lock")
    Path("code.py").write_text("2")
    commit("Another code")
    assert History().since(finding, "bbbb").endswith("Ada: Another code)")


def test_equal_notes_are_one_line_and_the_verdict_is_the_last() -> None:
    def ran(stage: str, words: str) -> Finding:
        return note(stage, "record", f"{stage}.json", found=f"{stage}.json: {words}", mend="commit first")

    findings = [holds("a", "x"), ran("a", "it ran dirty"), holds("b", "x"), ran("b", "it ran dirty"), ran("b", "it ran by hand")]
    lines = [line.plain for line in audit_lines(findings)]
    assert lines == [
        "holds       a  2 links",
        "holds       b  3 links",
        "  note: record: b.json: it ran by hand; commit first",
        "note        record, 2 times: it ran dirty; commit first ('hindcast audit --verbose' names each)",
        "Every link holds (2 holds, 3 note).",
    ]
    assert sum("it ran dirty" in line.plain for line in audit_lines(findings, verbose=True)) == 2


def test_what_holds_of_no_stage_is_counted_and_has_a_line_only_if_all_is_asked_for() -> None:
    kept = [holds("", f"record {name}.json", f"{name}.json") for name in "ab"]
    assert [line.plain for line in audit_lines(kept)] == ["Every link holds (2 holds)."]
    assert [line.plain for line in audit_lines(kept, verbose=True)][:-1] == [f"holds       record {name}.json: " for name in "ab"]


def test_what_many_deleted_stages_leave_behind_is_told_by_the_first_ones_and_a_number() -> None:
    gone = [note("", f"records of train@{name}, which is no stage now", f"{name}.json", found=f"{name}.json") for name in "abcdef"]
    told = [f"note        records of train@{name}, which is no stage now: {name}.json" for name in "abc"]
    more = "note        records of some stages, which is no stage now: 3 more (--verbose and --json show them)"
    assert [line.plain for line in audit_lines(gone)][:-1] == [*told, more]
    assert [line.plain.count(".json") for line in audit_lines(gone, verbose=True)][:-1] == [1] * 6
    assert [line.plain for line in audit_lines(gone[:4])][:-1] == [line.plain for line in audit_lines(gone[:4], verbose=True)][:-1]
