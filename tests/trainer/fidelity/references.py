"""Every learner's reference and settings, by the learner's name and the kind of action."""

from collections.abc import Mapping

from tests.trainer.fidelity import cases
from tests.trainer.fidelity.bc import BC
from tests.trainer.fidelity.comparison import Case
from tests.trainer.fidelity.cql import ContinuousCQL, DiscreteCQL
from tests.trainer.fidelity.iql import IQL
from tests.trainer.fidelity.reference import Reference

CASES: Mapping[str, Mapping[str, Case]] = {"bc": cases.BC, "iql": cases.IQL, "cql": cases.CQL}


def reference_of(algorithm: str, case: Case) -> type[Reference]:
    by_name: Mapping[str, type[Reference]] = {"bc": BC, "iql": IQL, "cql": DiscreteCQL if case.action == "discrete" else ContinuousCQL}
    return by_name[algorithm]
