"""`run_checks`: all checks in one pass over the episodes, then over the table of them, and the numbers for the data card."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from rl_datasets.checks.ahead import ahead, side_by_side
from rl_datasets.checks.block import Block, Misfit, blocks
from rl_datasets.checks.catalogue import CATALOGUE
from rl_datasets.checks.check import Covered, EpisodeRow, Fault, NotApplicable, Running
from rl_datasets.checks.consequences import LIMIT, REMEDY, Quarantine
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.findings import Finding
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.report import CheckResult, Report
from rl_datasets.checks.summary import RunningSummary
from rl_datasets.recorded import Damage, EndToEnd, Recorded
from rl_datasets.schema import Episode

LABELS: Mapping[str, str | int] = {"policy": "", "seed": -1, "environment": ""}  # the metadata in the table, and what stands for none


def run_checks(
    items: Iterable[Episode | Recorded | EndToEnd | Damage],
    expected: Expected,
    params: CheckParams,
    advance: Callable[[int], None] = lambda _: None,
) -> Report:
    """Checks all episodes in one pass; memory is that of two blocks and a row for each episode. Same input, same report.

    A second thread takes the items and fingerprints a block while the one before is checked; in the end the checks look at the table on
    both threads. An episode that doesn't meet the spec, or has no transition, is in no block: it is given to the checks as a Misfit, and
    is left out of the summary of arrays. `advance` is told of episodes.
    """
    expected = replace(expected)  # with a sample of its own
    tally, summary, rows = _Tally(params, expected), RunningSummary(expected.spec), _Rows()
    for item in ahead(_listed(blocks(items, expected.spec), rows)):
        if isinstance(item, Block):
            summary.add(item)
            expected.sampler.add(item)
        tally.see(item)
        if not isinstance(item, Damage):
            advance(1 if isinstance(item, Misfit) else len(item.number))
    table, _ = rows.table(), expected.sampler.result()  # which is joined once, before several checks ask for it at a time
    tally.finish(table)
    results = tally.results(table)
    return Report(results, summary.to_json(table), table, tally.quarantine.entries(table), expected.sampler.result())


def _listed(items: Iterable[Block | Misfit | Damage], rows: "_Rows") -> Iterator[Block | Misfit | Damage]:
    """Yields the items once the table knows them."""
    for item in items:
        if isinstance(item, Misfit):
            rows.add_misfit(item)
        elif isinstance(item, Block):
            rows.add(item)
        yield item


class _Tally:
    """The checks that are switched on, with the faults of each: how many, and the first few."""

    def __init__(self, params: CheckParams, expected: Expected) -> None:
        self._params = params
        made = {check.name: check.make(expected, params.of(check.name)) for check in CATALOGUE if self._is_on(check.name)}
        self._running = {name: check for name, check in made.items() if not isinstance(check, NotApplicable)}
        self._counts = {check.name: [0, 0] for check in CATALOGUE}  # all, and those that fail
        self._kept: dict[str, list[Fault]] = {check.name: [] for check in CATALOGUE}
        self._reasons = {name: check.why for name, check in made.items() if isinstance(check, NotApplicable)}
        self._covered: dict[str, Covered] = {}
        self.quarantine = Quarantine()

    def see(self, item: Block | Misfit | Damage) -> None:
        """Lets every check look at something."""
        for name, check in self._running.items():
            self._note(name, _look(check, item))

    def finish(self, table: pd.DataFrame) -> None:
        """Lets every check look at the table of episodes."""
        found = side_by_side([partial(_finished, check, table) for check in self._running.values()])
        for name, faults in zip(self._running, found, strict=True):
            self._note(name, faults)

    def _note(self, name: str, found: Iterable[Fault | NotApplicable | Covered]) -> None:
        for fault in found:
            if isinstance(fault, NotApplicable):
                self._reasons[name] = fault.why
            elif isinstance(fault, Covered):
                self._covered[name] = fault
            else:
                self._add(name, fault)

    def results(self, table: pd.DataFrame) -> dict[str, CheckResult]:
        results = {check.name: self._result(check.name, check.remedy, table) for check in CATALOGUE}
        excess = tuple(self.quarantine.faults(table, self._params.quarantine_limit))
        if excess:
            findings = tuple(Finding(LIMIT, "fail", "", None, fault.found, fault.expected, REMEDY) for fault in excess)
            results[LIMIT] = CheckResult("fail", len(excess), findings[: self._params.max_findings], len(excess))
        return results

    def _is_on(self, check: str) -> bool:
        return self._params.of(check).severity != "off"

    def _add(self, check: str, fault: Fault) -> None:
        severity, counts, kept = self._params.of(check).severity, self._counts[check], self._kept[check]
        counts[0] += 1
        counts[1] += severity == "fail" or (severity == "quarantine" and not self.quarantine.add(check, fault))
        if len(kept) < self._params.max_findings:
            kept.append(fault)

    def _result(self, check: str, remedy: str, table: pd.DataFrame) -> CheckResult:
        severity, (faults, fatal) = self._params.of(check).severity, self._counts[check]
        findings = []
        for fault in self._kept[check]:
            own = "fail" if severity == "quarantine" and fault.episode is None else severity
            episode_id = "" if fault.episode is None else str(table["episode_id"].iloc[fault.episode])
            findings.append(Finding(check, own, episode_id, fault.step, fault.found, fault.expected, remedy, fault.evidence))
        reason = self._reasons.get(check, "") if self._is_on(check) else ""
        return CheckResult(severity, faults, tuple(findings), fatal, reason, self._covered.get(check))


def _look(check: Running, item: Block | Misfit | Damage) -> Iterator[Fault]:
    match item:
        case Block():
            return check.block(item)
        case Misfit():
            return check.misfit(item)
    return check.damage(item)


def _finished(check: Running, table: pd.DataFrame) -> list[Fault | NotApplicable | Covered]:
    return list(check.finish(table))


def _word(value: object) -> str:
    """One text for all that are equal."""
    return sys.intern(str(value))


class _Rows:
    """The table of episodes, block by block."""

    def __init__(self) -> None:
        self._arrays: list[tuple[np.ndarray, ...]] = []  # (number, length, episode_return, is_terminal, content), a block each
        self._lists: tuple[list[Any], ...] = ([], [], [], [])  # of all blocks: episode_id, policy, seed, environment

    def add(self, block: Block) -> None:
        with np.errstate(invalid="ignore", over="ignore"):
            returns = np.add.reduceat(np.where(block.is_last, 0, block.reward.astype(np.float64)), block.starts[:-1])
        self._arrays.append((block.number, block.lengths, returns, block.is_terminal, block.content))
        self._add(block.episode_id, *(block.label(name, otherwise) for name, otherwise in LABELS.items()))

    def add_misfit(self, misfit: Misfit) -> None:
        episode = misfit.episode
        values = (misfit.number, episode.length, episode.episode_return, episode.is_terminal)
        self._arrays.append((*(np.array([value]) for value in values), np.zeros(1, np.uint64)))
        self._add([episode.episode_id], *([episode.metadata.get(name, otherwise)] for name, otherwise in LABELS.items()))

    def _add(self, *known: Sequence[Any]) -> None:
        """Adds the values of each of `_lists`."""
        readers: tuple[Callable[[Any], Any], ...] = (str, _word, int, _word)
        for kept, values, read in zip(self._lists, known, readers, strict=True):
            kept.extend(map(read, values))

    def table(self) -> pd.DataFrame:
        """In the order of the data, which is also its index."""
        if not self._arrays:
            return pd.DataFrame(columns=list(EpisodeRow._fields))
        number, lengths, returns, is_terminal, content = map(np.concatenate, zip(*self._arrays, strict=True))
        ids, policies, seeds, environments = self._lists
        columns = (ids, lengths, returns, is_terminal, policies, seeds, environments, content)
        return pd.DataFrame(dict(zip(EpisodeRow._fields, columns, strict=True)), index=number).sort_index()
