"""Each loss reaches its own network alone: what only one loss reads changes the gradient of no other network, not by one bit.

One compiled update serves all changes of a setting, so that equal numbers stay equal to the last bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.trainer.fidelity.comparison import LENGTH, Case, batch_of, start
from trainer.learner import known_learners, load_learner

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Setting:
    """A learner, and the hyper-parameters that enter the compiled update as numbers, so that they can change."""

    algorithm: str
    case: Case
    numbers: Mapping[str, float] = field(default_factory=dict)


SETTINGS = {
    "iql": Setting("iql", Case("continuous", {"order": "joint"}), {"expectile": 0.7, "temperature": 3.0, "gamma": 0.9}),
    "iql-discrete": Setting("iql", Case("discrete", {"order": "joint"}), {"expectile": 0.7, "temperature": 3.0, "gamma": 0.9}),
    "cql": Setting(
        "cql",
        Case("continuous", {"n_actions": 3, "bc_warmup": 2}),
        {"lagrange_gap": 1.0, "min_q_weight": 5.0, "target_entropy": -2.0, "gamma": 0.9},
    ),
    "td3_bc": Setting("td3_bc", Case("continuous", {"order": "joint"}), {"alpha": 2.5, "gamma": 0.9}),
    "rebrac": Setting(
        "rebrac", Case("continuous", {"order": "joint"}, next_action=True), {"actor_bc": 1.0, "critic_bc": 1.0, "gamma": 0.9}
    ),
    "awac": Setting("awac", Case("continuous", {"order": "joint"}), {"temperature": 2.0, "gamma": 0.9}),
    "edac": Setting("edac", Case("continuous", {"num_critics": 3, "backup_entropy": False}), {"target_entropy": -2.0, "gamma": 0.9}),
    "cql-discrete": Setting("cql", Case("discrete"), {"lagrange_gap": 1.0, "gamma": 0.9}),
}
REACHES = {  # setting, what is changed: the networks whose loss reads it
    ("iql", "reward"): {"critic"},
    ("iql", "gamma"): {"critic"},
    ("iql", "expectile"): {"value"},
    ("iql", "temperature"): {"policy"},
    ("iql-discrete", "reward"): {"critic"},
    ("iql-discrete", "gamma"): {"critic"},
    ("iql-discrete", "expectile"): {"value"},
    ("iql-discrete", "temperature"): {"policy"},
    ("cql", "reward"): {"critic"},
    ("cql", "gamma"): {"critic"},
    ("cql", "min_q_weight"): {"critic", "log_alpha_prime"},
    ("cql", "log_alpha_prime"): {"critic", "log_alpha_prime"},
    ("cql", "lagrange_gap"): {"log_alpha_prime"},
    ("cql", "log_alpha"): {"policy"},
    ("cql", "step"): {"policy"},  # the end of its warm-up
    ("cql", "target_entropy"): {"log_alpha"},
    ("td3_bc", "reward"): {"critic"},
    ("td3_bc", "gamma"): {"critic"},
    ("td3_bc", "alpha"): {"policy"},
    ("rebrac", "reward"): {"critic"},
    ("rebrac", "critic_bc"): {"critic"},
    ("rebrac", "actor_bc"): {"policy"},
    ("awac", "reward"): {"critic"},
    ("awac", "gamma"): {"critic"},
    ("awac", "temperature"): {"policy"},
    ("edac", "reward"): {"critic"},
    ("edac", "gamma"): {"critic"},
    ("edac", "log_alpha"): {"policy"},
    ("edac", "target_entropy"): {"log_alpha"},
    ("cql-discrete", "reward"): {"critic"},
    ("cql-discrete", "gamma"): {"critic"},
    ("cql-discrete", "lagrange_gap"): {"log_alpha_prime"},
}


@cache
def gradients_of(name: str) -> Any:
    """(state, batch, numbers) -> Adam's first moments after one update from none: a tenth of each network's gradient."""
    setting = SETTINGS[name]
    module = load_learner(setting.algorithm)
    fixed = start(module, with_numbers(setting))[0].params

    def gradients(state: Any, batch: Any, numbers: dict[str, Any]) -> dict[str, Any]:
        params = fixed.model_copy(update=numbers)
        after, _ = module.Learner(params, setting.case.spec, LENGTH).update(state, batch)
        return {name: optax.tree.get(after.opt_state[name], "mu") for name in state.params}

    return jax.jit(gradients)


def with_numbers(setting: Setting) -> Case:
    return Case(setting.case.action, {**setting.case.params, **setting.numbers})


def changed(what: str, state: Any, batch: Any, numbers: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    if what == "reward":
        return state, batch._replace(reward=batch.reward * 7 + 1), numbers
    if what == "step":
        return state._replace(step=state.step + 5), batch, numbers
    if what in state.params:
        return state._replace(params={**state.params, what: state.params[what] + 1}), batch, numbers
    return state, batch, {**numbers, what: numbers[what] * 0.8}


@pytest.mark.parametrize(("name", "what"), [row for row in REACHES if SETTINGS[row[0]].algorithm in known_learners()])
def test_what_one_loss_reads_changes_the_gradient_of_its_network_alone(name: str, what: str) -> None:
    setting = SETTINGS[name]
    _, state = start(load_learner(setting.algorithm), with_numbers(setting))
    inputs = (state, jax.tree.map(jnp.asarray, batch_of(setting.case, 0, "float32")), dict(setting.numbers))
    before, after = gradients_of(name)(*inputs), gradients_of(name)(*changed(what, *inputs))
    for network in before:
        pairs = zip(jax.tree.leaves(before[network]), jax.tree.leaves(after[network]), strict=True)
        same = all(np.array_equal(a, b) for a, b in pairs)
        assert same == (network not in REACHES[name, what]), network
