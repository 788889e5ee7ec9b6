"""EDAC and SAC-N in NumPy, after An, Moon, Kim and Song (2021)."""

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity import tape
from tests.trainer.fidelity.networks import Network, linear
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.reference import Metrics, spread
from tests.trainer.fidelity.sac import SoftActor
from tests.trainer.fidelity.tape import Var


def action_gradient(critic: Network, observation: np.ndarray, action: np.ndarray) -> Var:
    """The gradient of a ReLU critic by its action, [B, A], worked out by the chain rule, itself to be differentiated by the weights."""
    assert all("scale" not in layer for layer in critic["hidden"]), "worked out for layers without LayerNorm"
    x, slopes = tape.concatenate([observation, action], -1), []
    for layer in critic["hidden"]:
        before = linear(layer, x)
        slopes.append((before.value > 0).astype(float))
        x = tape.relu(before)
    gradient = tape.var(np.ones((len(action), 1))) @ tape.var(critic["out"]["kernel"]).T
    for layer, slope in zip(reversed(critic["hidden"]), reversed(slopes), strict=True):
        gradient = (gradient * slope) @ tape.var(layer["kernel"]).T
    return gradient[:, observation.shape[1] :]


class EDAC(SoftActor):
    def likeness(self, critics: list[Network], batch: Transition) -> Var:
        """The mean of the sum over i != j of the cosine between critics i and j's gradients by the action, over N - 1 (eq. 4)."""
        gradients = [action_gradient(critic, batch.observation, self.data_action(batch)) for critic in critics]
        directions = [g / (((g**2).sum(1) + 1e-20) ** 0.5)[:, None] for g in gradients]
        pairs = [(a * b).sum(1) for i, a in enumerate(directions) for j, b in enumerate(directions) if i != j]
        return tape.stack(pairs).sum(0).mean() / (len(critics) - 1)

    def bellman(self, batch: Transition, noise: np.ndarray) -> np.ndarray:
        """r + gamma d (min_i q_target_i(s', a') - alpha log pi(a'|s')), the entropy perhaps left out."""
        action, log_prob = self.draw(self.weights["policy"], batch.next_observation, noise)
        next_v = self.q(self.target, batch.next_observation, action).value.min(0)
        if self.p.backup_entropy:
            next_v = next_v - np.exp(self.weights["log_alpha"]) * log_prob.value
        return batch.reward + self.p.gamma * batch.discount * next_v  # type: ignore[no-any-return]

    def data_q(self, critics: list[Network], batch: Transition) -> Var:
        return self.q(critics, batch.observation, self.data_action(batch))

    def td_loss(self, critics: list[Network], batch: Transition, target: np.ndarray) -> Var:
        return ((self.data_q(critics, batch) - target) ** 2).mean(1).sum()

    def critic_loss(self, critics: list[Network], batch: Transition, target: np.ndarray) -> Var:
        if self.p.eta == 0:
            return self.td_loss(critics, batch, target)
        return self.td_loss(critics, batch, target) + self.likeness(critics, batch) * self.p.eta

    def report(self, batch: Transition, policy_noise: np.ndarray, target_noise: np.ndarray) -> Metrics:
        critics, target = self.weights["critic"], self.bellman(batch, target_noise)
        q = self.data_q(critics, batch).value
        action, _ = self.draw(self.weights["policy"], batch.observation, policy_noise)
        v = self.q(critics, batch.observation, action).value.min(0)
        metrics = {
            "critic_loss": float(self.critic_loss(critics, batch, target).value),
            "td_loss": float(self.td_loss(critics, batch, target).value),
            "q_spread": float(q.std(0).mean()),
            **self.actor_metrics(batch, policy_noise),
            **spread("q", q),
            **spread("target", target),
            **spread("v", v),
            **spread("advantage", q.min(0) - v),
        }
        if self.p.eta > 0:
            metrics["likeness"] = float(self.likeness(critics, batch).value)
        return {"loss": metrics["critic_loss"] + metrics["policy_loss"] + metrics["alpha_loss"], **metrics}

    def noise(self, batch: Transition, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
        """For the policy's loss, and for the target."""
        shape = (len(batch.reward), self.action.shape[0])
        return draws.take(*shape), draws.take(*shape)

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        return self.report(batch, *self.noise(batch, draws))

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        policy_noise, target_noise = self.noise(batch, draws)
        metrics, target = self.report(batch, policy_noise, target_noise), self.bellman(batch, target_noise)
        _, gradient = tape.gradient(lambda critics: self.critic_loss(critics, batch, target), self.weights["critic"])
        norms = self.descend({"critic": gradient, **self.actor_gradients(batch, policy_noise)})
        self.finish()
        return {**metrics, **norms}
