"""Every learner's reference and settings, by the learner's name and the kind of action."""

from collections.abc import Mapping

from tests.trainer.fidelity import cases
from tests.trainer.fidelity.awac import AWAC
from tests.trainer.fidelity.bc import BC
from tests.trainer.fidelity.comparison import Case
from tests.trainer.fidelity.cql import ContinuousCQL, DiscreteCQL
from tests.trainer.fidelity.edac import EDAC
from tests.trainer.fidelity.iql import IQL
from tests.trainer.fidelity.rebrac import ReBRAC
from tests.trainer.fidelity.reference import Reference
from tests.trainer.fidelity.td3_bc import TD3BC

CASES: Mapping[str, Mapping[str, Case]] = {
    "bc": cases.BC,
    "iql": cases.IQL,
    "cql": cases.CQL,
    "td3_bc": cases.TD3_BC,
    "awac": cases.AWAC,
    "edac": cases.EDAC,
    "rebrac": cases.REBRAC,
}


def reference_of(algorithm: str, case: Case) -> type[Reference]:
    by_name: Mapping[str, type[Reference]] = {
        "bc": BC,
        "iql": IQL,
        "cql": DiscreteCQL if case.action == "discrete" else ContinuousCQL,
        "td3_bc": TD3BC,
        "awac": AWAC,
        "edac": EDAC,
        "rebrac": ReBRAC,
    }
    return by_name[algorithm]
