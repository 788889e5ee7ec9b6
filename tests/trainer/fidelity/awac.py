"""AWAC in NumPy, after Nair, Gupta, Dalal and Levine (2020) and, for weights that sum to the batch's size, the authors' code."""

from functools import partial

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity import densities, tape
from tests.trainer.fidelity.bc import Cloning
from tests.trainer.fidelity.networks import Network, values
from tests.trainer.fidelity.policies import Kept
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.reference import Metrics, spread
from tests.trainer.fidelity.tape import Var


class AWAC(Cloning):
    def data_q(self, critics: list[Network], batch: Transition) -> Var:
        return self.q(critics, batch.observation, self.data_action(batch))

    def v(self, critics: list[Network], batch: Transition, observation: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The mean of min_i q_i(s, a) over the policy's actions, [B]: all of them where discrete, else those of the noise [N, B, A]."""
        policy, at = self.weights["policy"], batch._replace(observation=observation)
        if self.action.is_discrete:
            probability = np.exp(densities.log_softmax(self.logits(policy, at, [])).value)
            q = np.min([values(critic, self.style("critic"), observation).value for critic in critics], axis=0)
            return (probability * q).sum(1)  # type: ignore[no-any-return]
        mean, log_std = (x.value for x in self.gaussian(policy, at, []))
        limit = 1 if self.action.is_bounded else np.inf
        action = np.clip(mean + np.exp(log_std) * noise, -limit, limit)
        return self.q(critics, observation, action).value.min(0).mean(0)  # type: ignore[no-any-return]

    def bellman(self, batch: Transition, noise: np.ndarray) -> np.ndarray:
        return batch.reward + self.p.gamma * batch.discount * self.v(self.target, batch, batch.next_observation, noise)  # type: ignore[no-any-return]

    def critic_loss(self, critics: list[Network], batch: Transition, target: np.ndarray) -> Var:
        return ((self.data_q(critics, batch) - target) ** 2).mean(1).sum()

    def advantage(self, critics: list[Network], batch: Transition, noise: np.ndarray) -> np.ndarray:
        return self.data_q(critics, batch).value.min(0) - self.v(critics, batch, batch.observation, noise)  # type: ignore[no-any-return]

    def weight(self, advantage: np.ndarray) -> np.ndarray:
        """exp(A / lambda), at most so much, or over its mean in the batch."""
        weight = np.exp(advantage / self.p.temperature)
        return weight / weight.mean() if self.p.weights == "softmax" else np.minimum(weight, self.p.max_weight)

    def policy_loss(self, policy: Network, advantage: np.ndarray, batch: Transition, kept: Kept) -> Var:
        return -(self.log_prob(policy, batch, kept) * self.weight(advantage)).mean()

    def noise(self, batch: Transition, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
        """For the target, and for v(s)."""
        if self.action.is_discrete:
            return np.zeros(0), np.zeros(0)
        shape = (len(batch.reward), self.action.shape[0])
        return draws.take(1, *shape), draws.take(self.p.n_actions, *shape)

    def report(
        self, old: list[Network], seen: list[Network], batch: Transition, target: np.ndarray, value_noise: np.ndarray, kept: Kept
    ) -> Metrics:
        """The metrics of the old critics, and of the present policy by the critics that its loss sees."""
        policy, advantage = self.weights["policy"], self.advantage(seen, batch, value_noise)
        losses = {
            "critic_loss": float(self.critic_loss(old, batch, target).value),
            "policy_loss": float(self.policy_loss(policy, advantage, batch, kept).value),
        }
        return {
            **losses,
            "loss": sum(losses.values()),
            "clipped_weight_share": float(np.mean(np.exp(advantage / self.p.temperature) >= self.p.max_weight)),
            **spread("q", self.data_q(old, batch).value),
            **spread("target", target),
            **spread("v", self.v(seen, batch, batch.observation, value_noise)),
            **spread("advantage", advantage),
            **self.policy_metrics(policy, batch, kept),
        }

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        target_noise, value_noise = self.noise(batch, draws)
        critics = self.weights["critic"]
        return self.report(critics, critics, batch, self.bellman(batch, target_noise), value_noise, [])

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        target_noise, value_noise = self.noise(batch, draws)
        kept, old, target = self.kept_units(batch, draws), self.weights["critic"], self.bellman(batch, target_noise)
        norms = self.descend({"critic": tape.gradient(partial(self.critic_loss, batch=batch, target=target), old)[1]})
        seen = self.weights["critic"] if self.p.order == "sequential" else old
        metrics = self.report(old, seen, batch, target, value_noise, kept)
        policy_loss = partial(self.policy_loss, advantage=self.advantage(seen, batch, value_noise), batch=batch, kept=kept)
        norms |= self.descend({"policy": tape.gradient(policy_loss, self.weights["policy"])[1]})
        self.finish()
        return {**metrics, **norms}
