"""Whether episodes of one split of a directory are in another one too: what no check of single episodes sees."""

from collections.abc import Sequence
from typing import NamedTuple

from rl_datasets.checks.check import Severity
from rl_datasets.checks.findings import Finding
from rl_datasets.checks.report import CheckResult

CROSSING = "leakage"
CROSSING_TEXTS = (
    "Episodes of one split that are in another one too, equal or nearly the same.",
    "What is trained on is then tested on, and every score is too good.",
    "Divide the data anew, with equal and nearly equal episodes in one split; the split stage does so.",
)


class Crossing(NamedTuple):
    """An episode that is in another split too, in words, and whether it is equal there or nearly so."""

    episode_id: str
    words: str
    equal: bool


def crossing_result(found: Sequence[Crossing], max_findings: int) -> CheckResult:
    """Returns what leaks between splits: a failure where something is equal, else a warning."""
    severity: Severity = "fail" if any(each.equal for each in found) else "warn"
    findings = tuple(
        Finding(CROSSING, severity, each.episode_id, None, each.words, "content of its own in each split", CROSSING_TEXTS[2])
        for each in sorted(found, key=lambda each: not each.equal)[:max_findings]
    )
    return CheckResult(severity, len(found), findings, len(found) if severity == "fail" else 0)
