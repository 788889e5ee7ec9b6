"""`Finding`: a fault with what a reader needs beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rl_datasets.checks.check import Severity


@dataclass(frozen=True)
class Finding:
    """A fault, with the check that found it, how severe that is, and what to do."""

    check: str
    severity: Severity
    episode_id: str
    step: int | None
    found: str
    expected: str
    remedy: str
    evidence: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: found {self.found}; expected {self.expected}. {self.remedy}"

    @property
    def where(self) -> str:
        if not self.episode_id:
            return "data set"
        return f"episode '{self.episode_id}'" + ("" if self.step is None else f", step {self.step}")
