"""Soft actor-critic in NumPy (Haarnoja et al. 2018): the squashed policy and the temperature of the learners that build on it."""

from functools import partial
from typing import Any

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity import densities, policies, tape
from tests.trainer.fidelity.networks import Network
from tests.trainer.fidelity.reference import Metrics, Reference
from tests.trainer.fidelity.tape import Var


class SoftActor(Reference):
    def policy(self, policy: Network, observation: np.ndarray) -> policies.Gaussian:
        return policies.squashed_gaussian(policy, self.style("policy"), self.p, observation)

    def draw(self, policy: Network, observation: np.ndarray, noise: np.ndarray) -> tuple[Var, Var]:
        return densities.squashed_sample(*self.policy(policy, observation), noise)

    def policy_loss(self, policy: Network, batch: Transition, noise: np.ndarray) -> Var:
        """The mean of alpha log pi(a_pi|s) - min_i q_i(s, a_pi)."""
        action, log_prob = self.draw(policy, batch.observation, noise)
        q = self.q(self.weights["critic"], batch.observation, action)
        return (log_prob * np.exp(self.weights["log_alpha"]) - tape.smallest(q)).mean()

    def alpha_loss(self, log_alpha: Any, batch: Transition, noise: np.ndarray) -> Var:
        """log alpha falls where the entropy is above its target, minus the number of the action's coordinates by default."""
        target = -self.action.shape[0] if self.p.target_entropy is None else self.p.target_entropy
        _, log_prob = self.draw(self.weights["policy"], batch.observation, noise)
        return -tape.var(log_alpha) * float(log_prob.value.mean() + target) * float(self.p.learn_alpha)

    def actor_metrics(self, batch: Transition, noise: np.ndarray) -> Metrics:
        policy, log_alpha = self.weights["policy"], self.weights["log_alpha"]
        return {
            "policy_loss": float(self.policy_loss(policy, batch, noise).value),
            "alpha_loss": float(self.alpha_loss(log_alpha, batch, noise).value),
            "alpha": float(np.exp(log_alpha)),
            "entropy": -float(self.draw(policy, batch.observation, noise)[1].value.mean()),
            "log_std": float(self.policy(policy, batch.observation)[1].value.mean()),
        }

    def actor_gradients(self, batch: Transition, noise: np.ndarray) -> dict[str, Any]:
        return {
            "policy": tape.gradient(partial(self.policy_loss, batch=batch, noise=noise), self.weights["policy"])[1],
            "log_alpha": tape.gradient(partial(self.alpha_loss, batch=batch, noise=noise), self.weights["log_alpha"])[1],
        }
