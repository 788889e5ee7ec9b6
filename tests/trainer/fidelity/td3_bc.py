"""TD3+BC in NumPy, after Fujimoto and Gu (2021) and the authors' code."""

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity.networks import Network
from tests.trainer.fidelity.reference import Metrics
from tests.trainer.fidelity.tape import Var
from tests.trainer.fidelity.td3 import TD3


class TD3BC(TD3):
    def policy_loss(self, policy: Network, critics: list[Network], batch: Transition) -> Var:
        """The mean of -lambda q_1(s, pi(s)) + (pi(s) - a)^2, over the batch and, of the second, an action's elements."""
        action = self.pi(policy, batch.observation)
        q = self.q(critics, batch.observation, action)[0]
        return q.mean() * -self.scale(q.value) + ((action - self.data_action(batch)) ** 2).mean()

    def scale(self, q: np.ndarray) -> float:
        """lambda = alpha / the mean of |q_1(s, pi(s))|, no gradient through it."""
        return float(self.p.alpha / np.abs(q).mean())

    def own_metrics(self, q: np.ndarray) -> Metrics:
        return {"value_scale": self.scale(q[0])}
