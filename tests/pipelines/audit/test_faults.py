"""Faults planted one at a time at random places of a real run: a deep audit finds every one, and names the first broken link."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.lineage.audit import Finding, Verdict, audit_project, exit_code
from tests.pipelines.audit import (  # noqa: F401  whose kinds join those of `faults`
    consistent_faults,
    faults,
    lock_faults,
    record_faults,
    release_faults,
    rewritten_faults,
)
from tests.pipelines.audit.faults import Fault
from tests.pipelines.audit.world import World, is_clean

EACH = 3  # faults of a kind
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(real_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root = tmp_path_factory.mktemp("world") / "project"
    shutil.copytree(real_project, root, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert not troubles(audit_project(deep=True))  # nothing that holds is called broken
        yield World()
        assert not troubles(audit_project(deep=True))


def troubles(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.verdict in (Verdict.BROKEN, Verdict.UNKNOWN)]


def test_there_are_enough_of_them() -> None:
    assert len(faults.KINDS) >= 25
    assert len(faults.KINDS) * EACH >= 200


@pytest.mark.parametrize("fault", faults.KINDS, ids=lambda fault: fault.__name__)
def test_every_fault_is_found_and_the_first_broken_link_named(world: World, fault: Fault) -> None:
    for seed in range(EACH):
        expected = fault(world, random.Random(f"{fault.__name__}/{seed}"))
        try:
            found = [finding for finding in audit_project(deep=True) if finding.verdict is expected.verdict]
        finally:
            world.restore()
        assert found, f"{fault.__name__}, {seed}: {expected} was not found"
        assert expected.names(found[0].stage, found[0].subjects), f"{seed}: {expected}, but {found[0]}"
        assert exit_code(found) == (1 if expected.verdict is Verdict.BROKEN else 2)
        assert found[0].found
        assert found[0].mend
    assert is_clean()


def test_data_that_are_read_while_they_are_hashed_are_read_as_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.lineage.audit.datasets.LARGE", 0)
    monkeypatch.setattr("pipelines.lineage.audit.datasets._known", {})
    assert not troubles(audit_project(deep=True))
    expected = consistent_faults.a_bit_in_a_shard_with_the_lock_renewed(world, random.Random(0))
    try:
        found = [finding for finding in audit_project(deep=True) if finding.verdict is Verdict.BROKEN]
    finally:
        world.restore()
    assert expected.names(found[0].stage, found[0].subjects)
