"""`Report`: what the checks found, as a verdict, findings, the episodes to set aside, and a summary."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import pandas as pd

from rl_datasets.checks.check import Covered, Severity
from rl_datasets.checks.findings import Finding
from rl_datasets.checks.sample import Sample

Verdict = Literal["pass", "warn", "fail"]
SEVERITIES: tuple[Severity, ...] = ("fail", "quarantine", "warn")  # the gravest first


class Quarantined(NamedTuple):
    """That a check sets an episode aside, and why: a row of quarantine.csv."""

    episode_id: str
    check: str
    step: int | None
    reason: str


@dataclass(frozen=True)
class CheckResult:
    """Of one check: how many faults it found, and the first `max_findings` of them; or why it could not be made."""

    severity: Severity
    faults: int
    findings: tuple[Finding, ...]
    fatal: int = 0  # of the faults: those that fail, which of severity "quarantine" are those that name no episode
    not_applicable: str = ""  # why
    covered: Covered | None = None  # of checks that look at a part of the episodes: how many

    @property
    def verdict(self) -> Severity | Literal["pass", "not applicable"]:
        if self.severity == "off":
            return "off"
        if self.fatal:
            return "fail"
        if self.faults:
            return self.severity
        return "not applicable" if self.not_applicable else "pass"

    def count(self, severity: Severity) -> int:
        """How many of the faults have this severity."""
        return self.fatal if severity == "fail" else self.faults - self.fatal if severity == self.severity else 0


@dataclass(frozen=True)
class Report:
    """`results` by check; `summary` is plain JSON; `table` has one row an episode, with the columns of EpisodeRow."""

    results: Mapping[str, CheckResult]
    summary: Mapping[str, Any]
    table: pd.DataFrame
    quarantine: tuple[Quarantined, ...] = ()  # in the order of the data
    sample: Sample | None = None  # of the steps; no part of the JSON

    @property
    def verdict(self) -> Verdict:
        """An episode that is set aside is a warning; what is left is fit for use."""
        verdicts = {result.verdict for result in self.results.values()}
        return "fail" if "fail" in verdicts else "warn" if verdicts & {"warn", "quarantine"} else "pass"

    def findings(self) -> Iterator[Finding]:
        """Yields what is written out, the gravest first, in the order of the checks."""
        for severity in SEVERITIES:
            for result in self.results.values():
                yield from (finding for finding in result.findings if finding.severity == severity)

    def faults(self, severity: Severity) -> int:
        return sum(result.count(severity) for result in self.results.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "checks": {name: _outcome(result) for name, result in self.results.items()},
            "findings": [asdict(finding) for finding in self.findings()],
            "quarantine": [entry._asdict() for entry in self.quarantine],
            "summary": dict(self.summary),
        }


def _outcome(result: CheckResult) -> dict[str, Any]:
    reason = {"not_applicable": result.not_applicable} if result.not_applicable else {}
    covered = {"covered": result.covered._asdict()} if result.covered else {}
    return {"severity": result.severity, "verdict": result.verdict, "faults": result.faults, **reason, **covered}
