"""The quality gate: what every data set is checked for before anything is made from it."""

from rl_datasets.checks.check import Severity
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.findings import Finding
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.report import Report
from rl_datasets.checks.run import run_checks

__all__ = ["CheckParams", "Expected", "Finding", "Report", "Severity", "run_checks"]
