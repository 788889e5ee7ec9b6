"""`Report`: what the checks found, as a verdict, findings and a summary."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd

from rl_datasets.checks.findings import Finding
from rl_datasets.checks.params import Severity

Verdict = Literal["pass", "warn", "fail"]


@dataclass(frozen=True)
class CheckResult:
    """Of one check: how many faults it found, and the first `max_findings` of them."""

    severity: Severity
    faults: int
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict | Literal["off"]:
        if self.severity == "off":
            return "off"
        return self.severity if self.faults else "pass"


@dataclass(frozen=True)
class Report:
    """`results` by check; `summary` is plain JSON; `table` has one row an episode, with the columns of EpisodeRow."""

    results: Mapping[str, CheckResult]
    summary: Mapping[str, Any]
    table: pd.DataFrame

    @property
    def verdict(self) -> Verdict:
        verdicts = {result.verdict for result in self.results.values()}
        return "fail" if "fail" in verdicts else "warn" if "warn" in verdicts else "pass"

    def findings(self) -> Iterator[Finding]:
        """Yields what is written out, failures first, in the order of the checks."""
        for severity in ("fail", "warn"):
            for result in self.results.values():
                if result.severity == severity:
                    yield from result.findings

    def faults(self, severity: Severity) -> int:
        return sum(result.faults for result in self.results.values() if result.severity == severity)

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "checks": {name: {"severity": result.severity, "faults": result.faults} for name, result in self.results.items()},
            "findings": [asdict(finding) for finding in self.findings()],
            "summary": dict(self.summary),
        }
