"""TD3+BC (Fujimoto and Gu 2021): TD3, and a policy that is also to stay near the data. TD3 itself is in trainer/deterministic.py.

The default is the authors' code (github.com/sfujim/TD3_BC), which CORL follows:

- the policy moves in updates 0, 2, 4 ..., the authors' in 1, 3, 5 ...;
- `initialization` is PyTorch's own, with which a policy starts in the middle of its bounds. One that starts at them may stay there, for
  tanh passes hardly any gradient, and critics err most where there are no data;
- the policy climbs the first critic alone, as in TD3, and the scale of its values is that critic's over the batch;
- the distance of the policy from the data is a mean over the elements of an action, the paper's a sum; `alpha` is the authors' for it;
- observations are standardised, as in the paper. The authors add 1e-3 to the deviations.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient
from pydantic import Field

from trainer.deterministic import DelayedParams, DeterministicLearner
from trainer.learner import CriticParams, Initialization, LearnerParams, Metrics


class TD3BCParams(LearnerParams, CriticParams, DelayedParams):
    NETWORKS: ClassVar[tuple[str, ...]] = ("critic", "policy")

    initialization: Initialization = Initialization(hidden="torch", output="torch")
    alpha: float = Field(2.5, ge=0)  # weight of the values against the cloning: the larger, the greedier


Params = TD3BCParams


def value_scale(q: Array, alpha: float) -> Array:
    """lambda = alpha / [ |q(s, pi(s))| ], q [B] (eq. 5)."""
    return stop_gradient(alpha / jnp.mean(jnp.abs(q)))


def policy_loss(q: Array, scale: Array, action: Array, data: Array) -> Array:
    """[ -lambda q(s, pi(s)) + |pi(s) - a|^2 ], q [B], actions [B, A], the distance a mean over A (eq. 4)."""
    return -scale * jnp.mean(q) + jnp.mean((action - data) ** 2)


@dataclass(frozen=True)
class Learner(DeterministicLearner):
    Params: ClassVar[type[LearnerParams]] = TD3BCParams
    NAME: ClassVar[str] = "td3_bc"

    params: TD3BCParams

    def _objective(self, action: Array, q: Array, data: Array) -> tuple[Array, Metrics]:
        scale = value_scale(q[0], self.params.alpha)
        return policy_loss(q[0], scale, action, data), {"value_scale": scale}
