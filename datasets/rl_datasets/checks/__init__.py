"""The quality gate: what every data set is checked for before anything is made from it."""

from rl_datasets.checks.params import CheckParams, Severity

__all__ = ["CheckParams", "Severity"]
