"""Implicit Q-learning in NumPy, after Kostrikov, Nair and Levine (2021) and, for the order of the steps, the authors' code."""

from functools import partial

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity import tape
from tests.trainer.fidelity.bc import Cloning
from tests.trainer.fidelity.networks import Network, mlp
from tests.trainer.fidelity.policies import Kept
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.reference import Metrics, spread
from tests.trainer.fidelity.tape import Var


class IQL(Cloning):
    def v(self, value: Network, observation: np.ndarray) -> Var:
        return mlp(value, self.style("value"), observation)[..., 0]

    def data_q(self, critics: list[Network], batch: Transition) -> Var:
        return self.q(critics, batch.observation, self.data_action(batch))

    def value_loss(self, value: Network, batch: Transition) -> Var:
        """The mean of |expectile - 1(u < 0)| u^2, u = min_i q_target_i(s, a) - v(s)."""
        u = self.data_q(self.target, batch).value.min(0) - self.v(value, batch.observation)
        return (tape.where(u.value < 0, 1 - self.p.expectile, self.p.expectile) * u**2).mean()

    def critic_loss(self, critics: list[Network], value: Network, batch: Transition) -> Var:
        """The sum over the critics, or their mean, of the mean of (q_i(s, a) - r - gamma d v(s'))^2."""
        losses = ((self.data_q(critics, batch) - self.bellman(value, batch)) ** 2).mean(1)
        return losses.sum() if self.p.critic_loss == "sum" else losses.mean()

    def policy_loss(self, policy: Network, value: Network, batch: Transition, kept: Kept) -> Var:
        """Minus the mean of min(exp(beta (min_i q_target_i(s, a) - v(s))), 100) log pi(a|s), or of that weight times |mean - a|^2."""
        squared = self.p.policy_loss == "squared_error"
        fit = self.squared_error(policy, batch, kept) if squared else -self.log_prob(policy, batch, kept)
        return (self.weight(value, batch) * fit).mean()

    def bellman(self, value: Network, batch: Transition) -> np.ndarray:
        return batch.reward + self.p.gamma * batch.discount * self.v(value, batch.next_observation).value  # type: ignore[no-any-return]

    def advantage(self, value: Network, batch: Transition) -> np.ndarray:
        critics = self.target if self.p.advantage == "target" else self.weights["critic"]
        return self.data_q(critics, batch).value.min(0) - self.v(value, batch.observation).value  # type: ignore[no-any-return]

    def weight(self, value: Network, batch: Transition) -> np.ndarray:
        return np.minimum(np.exp(self.p.temperature * self.advantage(value, batch)), self.p.max_weight)

    def report(self, value_old: Network, value_seen: Network, batch: Transition, kept: Kept) -> Metrics:
        """The metrics at the present policy and critics; `value_seen` is the value in their losses."""
        policy, critics = self.weights["policy"], self.weights["critic"]
        losses = {
            "value_loss": float(self.value_loss(value_old, batch).value),
            "critic_loss": float(self.critic_loss(critics, value_seen, batch).value),
            "policy_loss": float(self.policy_loss(policy, value_seen, batch, kept).value),
        }
        return {
            **losses,
            "loss": sum(losses.values()),
            "clipped_weight_share": float(np.mean(self.weight(value_seen, batch) >= self.p.max_weight)),
            **spread("q", self.data_q(critics, batch).value),
            **spread("v", self.v(value_old, batch.observation).value),
            **spread("target", self.bellman(value_seen, batch)),
            **spread("advantage", self.advantage(value_seen, batch)),
            **self.policy_metrics(policy, batch, kept),
        }

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        return self.report(self.weights["value"], self.weights["value"], batch, [])

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        kept, value_old, norms = self.kept_units(batch, draws), self.weights["value"], {}
        _, value_gradient = tape.gradient(partial(self.value_loss, batch=batch), value_old)
        if self.p.order == "sequential":
            norms |= self.descend({"value": value_gradient})
        value_seen = self.weights["value"]
        metrics = self.report(value_old, value_seen, batch, kept)
        policy_loss = partial(self.policy_loss, value=value_seen, batch=batch, kept=kept)
        critic_loss = partial(self.critic_loss, value=value_seen, batch=batch)
        gradients = {
            "policy": tape.gradient(policy_loss, self.weights["policy"])[1],
            "critic": tape.gradient(critic_loss, self.weights["critic"])[1],
        }
        if self.p.order == "joint":
            gradients["value"] = value_gradient
        norms |= self.descend(gradients)
        self.finish()
        return {**metrics, **norms}
