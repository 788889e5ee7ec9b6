"""TD3 in NumPy (Fujimoto, van Hoof and Meger 2018): what the learners with a deterministic policy and delayed updates share."""

from functools import partial
from typing import Any

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity import tape
from tests.trainer.fidelity.networks import Network, mlp, moved
from tests.trainer.fidelity.optimizer import Adam
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.reference import Metrics, Reference, spread
from tests.trainer.fidelity.tape import Var


class TD3(Reference):
    """A subclass says what its policy descends. The target holds critics and policy."""

    def policy_loss(self, policy: Network, critics: list[Network], batch: Transition) -> Var:
        raise NotImplementedError

    def next_v(self, batch: Transition, action: np.ndarray) -> np.ndarray:
        """min_i q_target_i(s', a'), [B]"""
        return self.q(self.target["critic"], batch.next_observation, action).value.min(0)  # type: ignore[no-any-return]

    def own_metrics(self, q: np.ndarray) -> Metrics:
        """Of the critics' values of the policy's action, [critics, B]."""
        return {}

    def optimizer(self, network: str) -> Adam:
        """The policy's schedule is over its own updates."""
        adam = super().optimizer(network)
        return adam._replace(updates=-(-self.updates // self.p.policy_every)) if network == "policy" else adam

    def pi(self, policy: Network, observation: np.ndarray) -> Var:
        """tanh of the network's output, [B, A]"""
        return tape.tanh(mlp(policy, self.style("policy"), observation))

    def data_q(self, critics: list[Network], batch: Transition) -> Var:
        return self.q(critics, batch.observation, self.data_action(batch))

    def bellman(self, batch: Transition, noise: np.ndarray) -> np.ndarray:
        """r + gamma d v(s'), of the target policy's action with clipped noise, in its bounds."""
        noise = np.clip(self.p.policy_noise * noise, -self.p.noise_clip, self.p.noise_clip)
        action = np.clip(self.pi(self.target["policy"], batch.next_observation).value + noise, -1, 1)
        return batch.reward + self.p.gamma * batch.discount * self.next_v(batch, action)  # type: ignore[no-any-return]

    def critic_loss(self, critics: list[Network], batch: Transition, noise: np.ndarray) -> Var:
        return ((self.data_q(critics, batch) - self.bellman(batch, noise)) ** 2).mean(1).sum()

    def report(self, critics_old: list[Network], critics_seen: list[Network], batch: Transition, noise: np.ndarray) -> Metrics:
        """The metrics at the present policy; `critics_seen` are those in the policy's loss."""
        policy = self.weights["policy"]
        critic_loss = float(self.critic_loss(critics_old, batch, noise).value)
        policy_loss = float(self.policy_loss(policy, critics_seen, batch).value)
        action = self.pi(policy, batch.observation).value
        q = self.q(critics_seen, batch.observation, action).value
        return {
            "critic_loss": critic_loss,
            "policy_loss": policy_loss,
            "loss": critic_loss + policy_loss,
            **spread("q", self.data_q(critics_old, batch).value),
            **spread("target", self.bellman(batch, noise)),
            **spread("v", q.min(0)),
            **spread("advantage", self.data_q(critics_seen, batch).value.min(0) - q.min(0)),
            "squared_error": float(((action - self.data_action(batch)) ** 2).sum(1).mean()),
            **self.own_metrics(q),
        }

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        return self.report(self.weights["critic"], self.weights["critic"], batch, draws.take(len(batch.reward), self.action.shape[0]))

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        noise, critics_old = draws.take(len(batch.reward), self.action.shape[0]), self.weights["critic"]
        _, gradient = tape.gradient(partial(self.critic_loss, batch=batch, noise=noise), critics_old)
        norms = self.descend({"critic": gradient})
        critics_seen = self.weights["critic"] if self.p.order == "sequential" else critics_old
        metrics: dict[str, Any] = {**self.report(critics_old, critics_seen, batch, noise), "policy_grad_norm": 0.0}
        if self.step % self.p.policy_every == 0:
            _, gradient = tape.gradient(partial(self.policy_loss, critics=critics_seen, batch=batch), self.weights["policy"])
            norms |= self.descend({"policy": gradient})
            self.target = moved(self.target, self.weights, self.p.tau)
        self.move_average()
        self.step += 1
        return {**metrics, **norms}
