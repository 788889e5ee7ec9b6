"""What leads out of the project is told, and the order of episodes is known even where no lock of before tells it."""

import os
import random
import shutil
from pathlib import Path

import pytest

from pipelines.lineage.audit import Finding, Verdict, audit_project, exit_code
from pipelines.lineage.audit.agreement import _program
from tests.pipelines.audit.rewritten_faults import reorder
from tests.pipelines.audit.world import World


def places(findings: list[Finding]) -> list[tuple[str, Verdict, tuple[str, ...]]]:
    return [(finding.stage, finding.verdict, finding.subjects) for finding in findings if finding.link.startswith("place of ")]


@pytest.mark.slow
def test_links_out_of_the_project_are_noted(project: Path, tmp_path: Path) -> None:
    assert places(audit_project()) == []
    for path, moved in (("artifacts/raw/carts", "data"), ("artifacts/evals/carts_bc/metrics.json", "file"), ("data", "logs")):
        shutil.move(path, tmp_path / moved)
        Path(path).symlink_to(tmp_path / moved)
    findings = audit_project(deep=True)
    assert exit_code(findings) == 0
    assert sorted(places(findings)) == [
        ("collect@carts", Verdict.NOTE, ("artifacts/raw/carts",)),
        ("collect@logged", Verdict.NOTE, ("data/logged.csv",)),
        ("evaluate@carts_bc", Verdict.NOTE, ("artifacts/evals/carts_bc/metrics.json",)),
    ]


@pytest.mark.slow
def test_a_pipe_or_a_loop_of_links_neither_stops_the_audit_nor_spreads(project: Path) -> None:
    Path("artifacts/raw/carts/1.0.0/loop").symlink_to("loop")  # leads nowhere, as the mark of an editor does
    Path("artifacts/checks/carts/up").symlink_to("..")
    (record,) = Path("artifacts/records/split@carts").iterdir()
    record.unlink()
    record.symlink_to(record.name)
    metrics = Path("artifacts/evals/carts_bc/metrics.json")
    metrics.unlink()
    os.mkfifo(metrics)
    findings = audit_project(deep=True)
    troubled = [(finding.stage, finding.link) for finding in findings if finding.verdict in (Verdict.BROKEN, Verdict.UNKNOWN)]
    assert troubled[:2] == [
        ("check@carts", "output artifacts/checks/carts"),
        ("split@carts", "input artifacts/checks/carts"),
    ]
    assert {stage for stage, _ in troubled} == {"check@carts", "split@carts", "evaluate@carts_bc", "report"}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["artifacts/splits/carts/**/*train.tfrecord*", "artifacts/raw/carts/**/*tfrecord*"])
def test_the_table_has_the_order_of_the_episodes(project: Path, pattern: str) -> None:
    shutil.rmtree(".git")
    world = World()
    file = reorder(world, random.Random(0), pattern)
    world.relock()
    found = [finding for finding in audit_project(deep=True) if finding.verdict is Verdict.BROKEN]
    folder = file.rpartition("/")[0]
    assert [(finding.link, finding.subjects) for finding in found] == [(f"order of the episodes of {folder}", (folder,))]


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python -m pipelines.train cartpole_iql", ["train.py", "cartpole_iql"]),
        ("python -W error -m pipelines.report", ["report.py"]),
        ("python scripts/make.py 'a b' --fast", ["make.py", "a b", "--fast"]),
        ("cp -r /forged artifacts", ["cp", "-r", "/forged", "artifacts"]),
        ("/usr/bin/make all", ["make", "all"]),
        ("python 'unclosed", ["python 'unclosed"]),
    ],
)
def test_a_command_as_its_program_sees_it(command: str, program: list[str]) -> None:
    assert _program(command) == program
