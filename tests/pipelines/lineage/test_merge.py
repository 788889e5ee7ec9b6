"""The how-to page on merging dvc.lock, followed on a small project: what fits is taken from the cache, the rest is run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from dvc.repo import Repo
from typer.testing import CliRunner

from pipelines.cli import app
from tests.pipelines.lineage.small_project import History, copy, edit, git, reproduce

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep:DeprecationWarning")  # DVC's use of pygtrie
PAGE = Path(__file__).parents[3] / "docs/how-to/merge-a-lock.md"


def commands() -> list[str]:
    """The commands of the second block, which resolves the conflict."""
    return re.findall(r"^\$ (.*)$", PAGE.read_text().split("```console")[2], re.MULTILINE)


@pytest.fixture
def branched(history: History, tmp_path, monkeypatch) -> tuple[Path, bytes]:
    """The project on main, beside a branch `theirs` that ran another experiment; and the metrics that it made there."""
    root = copy(history, tmp_path / "copy").root
    monkeypatch.chdir(root)
    git("checkout", "-qb", "theirs", root=root)
    edit(root / "params.yaml", "experiments:\n", "experiments:\n  other_iql: {dataset: walks, algorithm: iql, preset: small}\n")
    reproduce(root, "Another experiment")
    theirs = (root / "artifacts/evals/other_iql/metrics.json").read_bytes()
    git("checkout", "-q", "main", root=root)
    return root, theirs


@pytest.mark.slow
def test_the_page_resolves_a_conflict(branched):
    root, theirs = branched
    edit(root / "trainer/iql.py", "# IQL", "# Implicit Q-learning")
    edit(root / "params.yaml", "expectile: 2", "expectile: 4")
    reproduce(root, "Tune again")
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "theirs", root=root)
    assert "<<<<<<<" in (root / "dvc.lock").read_text()
    for command in (["audit"], ["why", "walks_iql"], ["history", "walks_iql"], ["impact", "walks"], ["diff"]):
        result = CliRunner().invoke(app, command)
        assert result.exception is None or not isinstance(result.exception, (KeyError, TypeError, AttributeError)), command

    found = commands()
    assert found == [
        "git checkout --ours dvc.lock",
        "dvc repro",
        "git add dvc.lock artifacts/records",
        "git commit --no-edit",
        "hindcast audit",
    ]
    git("checkout", "--ours", "dvc.lock", root=root)
    output = subprocess.run([str(Path(sys.executable).parent / "dvc"), "repro"], check=True, capture_output=True, text=True).stdout
    assert "Running stage 'train@other_iql'" in output  # for the learner and its parameter are ours now
    assert "Running stage 'train@walks_iql'" not in output
    assert "Running stage 'collect@walks'" not in output
    git("add", "-A", root=root)
    git("commit", "--no-edit", root=root)
    assert (root / "artifacts/evals/other_iql/metrics.json").read_bytes() != theirs
    with Repo(".") as repo:
        assert repo.status() == {}
    assert "would not run" in CliRunner().invoke(app, ["why", "other_iql"]).output


@pytest.mark.slow
def test_a_run_of_the_other_side_that_fits_is_taken_from_the_cache(branched):
    root, theirs = branched
    git("merge", "-q", "--no-commit", "--no-ff", "theirs", root=root)
    git("checkout", "main", "--", "dvc.lock", root=root)
    (root / "artifacts/evals/other_iql/metrics.json").unlink()
    output = subprocess.run([str(Path(sys.executable).parent / "dvc"), "repro"], check=True, capture_output=True, text=True).stdout
    assert "Stage 'train@other_iql' is cached - skipping run, checking out outputs" in output
    assert "Running stage" not in output
    assert (root / "artifacts/evals/other_iql/metrics.json").read_bytes() == theirs
