"""Every kind of fault is found by the check that should find it, at its place; and clean data of many kinds are left in peace."""

import functools

import pytest

from rl_datasets.checks import CheckParams, Expected, Report, run_checks
from rl_datasets.checks.catalogue import CATALOGUE
from tests.rl_datasets.checks.clean_data import CLEAN, Clean
from tests.rl_datasets.checks.faults import FAULTS, Fault, Items


def checked(clean: Clean, items: Items) -> Report:
    return run_checks(items, Expected.of(clean.spec), CheckParams())


@functools.cache
def checked_clean(name: str) -> Report:
    return checked(CLEAN[name](), list(CLEAN[name]().episodes))


CASES = [pytest.param(fault, into, id=f"{fault.name}, {into}") for fault in FAULTS for into in fault.into]


@pytest.mark.parametrize(("fault", "into"), CASES)
def test_each_fault_is_found_where_it_was_put(fault: Fault, into: str) -> None:
    clean = CLEAN[into]()
    result = checked(clean, fault.put(list(clean.episodes))).results[fault.check]
    assert tuple(fault.place) in [(finding.episode_id, finding.step) for finding in result.findings], result.not_applicable
    assert len(result.findings) <= len(clean.episodes)


@pytest.mark.parametrize("name", CLEAN)
def test_no_error_is_raised_on_clean_data(name: str) -> None:
    assert [str(finding) for finding in checked_clean(name).findings() if finding.severity != "warn"] == []


def test_clean_data_have_fewer_than_one_warning_each() -> None:
    assert len(CLEAN) >= 12
    warnings = {name: checked_clean(name).faults("warn") for name in CLEAN}
    assert sum(warnings.values()) < len(CLEAN), warnings
    assert not any(warnings[name] for name in ("discrete", "continuous", "image")), warnings


def test_there_are_faults_of_every_theme() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40
    elsewhere = {"files", "replay"}  # tested where there are files, and an environment
    assert {check.name for check in CATALOGUE} - {fault.check for fault in FAULTS} <= elsewhere
