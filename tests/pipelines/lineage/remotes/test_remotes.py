"""Remotes with real servers: what is pushed, cut off, damaged or lost there is told by a pull, and by the audit of the remote."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.lineage.audit.findings import Finding, Verdict
from pipelines.lineage.audit.remote import Remote, check_remote
from pipelines.lineage.graph import Graph
from pipelines.lineage.lockfile import parse_lock
from pipelines.lineage.stages import read_project
from pipelines.lineage.tree import WorkingTree
from rl_datasets.errors import HindcastError
from tests.pipelines.lineage.remotes.servers import PLACES, Folder, Place
from tests.pipelines.lineage.small_project import History, copy, edit, git, reproduce, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:_NoneStep:DeprecationWarning",  # DVC's use of pygtrie
        "ignore::DeprecationWarning:(moto|botocore|aiobotocore|werkzeug|flask|s3fs|asyncssh).*",
        "ignore::ResourceWarning",
    ),
]
MANY = 20  # files of one output: enough for a push to be cut off amid them
TABLE = "artifacts/splits/walks/1.0.0/episodes.csv"
METRICS = "artifacts/evals/walks_iql/metrics.json"
DVC = str(Path(sys.executable).parent / "dvc")


@pytest.fixture(params=PLACES)
def place(request, tmp_path) -> Iterator[Place]:
    root = tmp_path / "place"
    root.mkdir()
    with PLACES[request.param](root) as found:
        yield found


@pytest.fixture(scope="session")
def many_files(history: History, tmp_path_factory) -> History:
    """A project whose collect stage also makes many files."""
    root = copy(history, tmp_path_factory.mktemp("many") / "project").root
    many = f'    for n in range({MANY}):\n        write(folder / "many" / f"{{n:03}}", f"{{n}}")\n'
    edit(root / "make.py", "def split(", f"{many}\ndef split(")
    reproduce(root, "Make many files")
    return replace(history, root=root)


@pytest.fixture
def project(many_files: History, place: Place, tmp_path, monkeypatch) -> Path:
    """One whose remote is set up as the documentation says."""
    root = copy(many_files, tmp_path / "project").root
    monkeypatch.chdir(root)
    dvc("remote", "add", "--default", "store", place.url)
    dvc("remote", "modify", "store", "verify", "true")
    git("commit", "-qam", "Set up the remote", root=root)
    let_in(place)
    return root


def let_in(place: Place) -> None:
    """Writes what 'dvc remote modify --local' would, once a setting, take seconds for."""
    lines = "".join(f"    {key} = {value}\n" for key, value in place.settings.items())
    Path(".dvc/config.local").write_text(f"['remote \"store\"']\n{lines}")


def dvc(*arguments: str, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    result = subprocess.run([DVC, *arguments], capture_output=True, text=True, cwd=cwd, check=False)
    assert not check or result.returncode == 0, result.stderr + result.stdout
    return result


def findings() -> list[Finding]:
    project = read_project(WorkingTree())
    return list(check_remote(project, Graph(project.stages), list(project.stages), Remote()))


def broken() -> list[str]:
    return [finding.detail for finding in findings() if finding.verdict is Verdict.BROKEN]


def clone(project: Path, to: Path, place: Place, monkeypatch) -> Path:
    """A clone with a cache of its own, as on another machine."""
    git("clone", "-q", str(project), str(to), root=project)
    monkeypatch.chdir(to)
    let_in(place)
    return to


def objects_of(stage: str) -> dict[str, str]:
    return {out["path"]: out["md5"] for out in parse_lock(Path("dvc.lock").read_bytes())[stage]["outs"]}


def md5_of(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def cut_off_a_push(place: Place) -> None:
    """A push that is done before it can be cut off is taken back, and made again."""
    for _ in range(9):
        pushing = subprocess.Popen([DVC, "push", "-j", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        end = time.monotonic() + 60
        while len(place.objects()) < 5 and time.monotonic() < end and pushing.poll() is None:
            time.sleep(0.005)
        os.killpg(pushing.pid, signal.SIGKILL)
        pushing.wait()
        if len(place.objects()) < MANY:
            return
        for name in place.objects():
            place.remove(name)


def test_a_push_that_is_cut_off_is_resumed_and_what_is_damaged_or_lost_is_found(project: Path, place: Place, tmp_path, monkeypatch):
    cut_off_a_push(place)
    assert 0 < len(place.objects()) < MANY
    assert any("is missing" in detail for detail in broken())

    dvc("push")
    assert {finding.verdict for finding in findings()} == {Verdict.HOLDS}
    there = clone(project, tmp_path / "there", place, monkeypatch)
    dvc("pull")
    assert (there / "artifacts/evals/walks_iql/metrics.json").read_bytes() == (
        project / "artifacts/evals/walks_iql/metrics.json"
    ).read_bytes()

    (metrics,), lost = objects_of("evaluate@walks_iql").values(), md5_of(project / TABLE)
    place.damage(metrics)
    place.remove(lost)
    numbers, table = sorted(broken())
    assert f"{TABLE} is missing" in table
    assert f"{METRICS} has md5 " in numbers
    assert f"dvc push -r store {METRICS}" in numbers
    clone(project, tmp_path / "damaged", place, monkeypatch)
    assert dvc("pull", check=False).returncode != 0
    assert not Path(METRICS).exists()
    assert not Path(TABLE).exists()
    place.remove(metrics)  # where the pull has not done so: DVC removes what it finds damaged
    monkeypatch.chdir(project)
    (listing,) = objects_of("split@walks").values()
    assert f"remove {place.url}/files/md5/{listing[:2]}/{listing[2:]} there" in table or isinstance(place, Folder)
    place.remove(listing)  # the remedy
    dvc("push")
    assert broken() == []

    (raw,) = objects_of("collect@walks").values()
    place.damage(raw)  # the listing of a folder
    (detail,) = broken()
    assert "artifacts/raw/walks has md5 " in detail


def test_without_verify_a_damaged_object_is_handed_over_and_the_audit_says_so(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "project").root
    monkeypatch.chdir(root)
    with PLACES["ssh"](tmp_path) as place:
        dvc("remote", "add", "--default", "store", place.url)
        git("commit", "-qam", "Set up a remote without verify", root=root)
        let_in(place)
        dvc("push")
        (metrics,) = objects_of("evaluate@walks_iql").values()
        place.damage(metrics)
        assert any("'dvc remote modify store verify true'" in finding.detail for finding in findings() if finding.verdict is Verdict.NOTE)
        assert len(broken()) == 1
        there = clone(root, tmp_path / "there", place, monkeypatch)
        assert dvc("pull", check=False).returncode == 0
        assert (there / "artifacts/evals/walks_iql/metrics.json").read_bytes() != (
            root / "artifacts/evals/walks_iql/metrics.json"
        ).read_bytes()


def test_sources_that_dvc_keeps_are_needed_too(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "project").root
    monkeypatch.chdir(root)
    git("rm", "-q", "--cached", "data/walks.csv", root=root)
    dvc("add", "data/walks.csv")
    git("add", "-A", root=root)
    git("commit", "-qm", "Keep the source with DVC", root=root)
    with PLACES["folder"](tmp_path) as place:
        dvc("remote", "add", "--default", "store", place.url)
        dvc("push", "artifacts/splits/walks", "artifacts/models/walks_iql/policies", METRICS)
        assert [detail.partition(" is missing")[0].rpartition(" ")[2] for detail in broken()] == ["artifacts/raw/walks", "data/walks.csv"]
        dvc("push")
        assert broken() == []


def test_a_remote_that_cannot_be_used_or_reached_is_told(history: History, tmp_path, monkeypatch):
    root = copy(history, tmp_path / "project").root
    monkeypatch.chdir(root)
    with pytest.raises(HindcastError, match=r"The remote 'default' cannot be used: .*no remote specified.*docs/how-to/remotes\.md"):
        findings()
    with pytest.raises(HindcastError, match="The remote 'nosuch' cannot be used"):
        Remote("nosuch")
    write(root / "not_a_folder", "")
    dvc("remote", "add", "--default", "store", str(root / "not_a_folder"))
    assert {finding.verdict for finding in findings() if finding.stage} == {Verdict.UNKNOWN}
