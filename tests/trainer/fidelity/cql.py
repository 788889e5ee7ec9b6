"""Conservative Q-learning in NumPy, CQL(H) of Kumar et al. (2020): on soft actor-critic, and on double DQN for discrete actions."""

from functools import partial
from typing import Any

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity import densities, tape
from tests.trainer.fidelity.networks import Network, values
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.reference import Metrics, Reference, spread
from tests.trainer.fidelity.sac import SoftActor
from tests.trainer.fidelity.tape import Var


class CQL(Reference):
    """What both kinds of action share: the critic's loss from the values of the data and of the set of other actions."""

    default_weight: float

    def data_q(self, critics: list[Network], batch: Transition) -> Var:
        return self.q(critics, batch.observation, self.data_action(batch))

    def difference(self, critics: list[Network], batch: Transition, q_set: Var) -> Var:
        """Of each critic, the mean over the batch of temp logsumexp(q / temp) over the set [critics, C, B], minus q(s, a)."""
        temperature = self.p.conservative_temperature
        difference = tape.logsumexp(q_set / temperature, 1) * temperature - self.data_q(critics, batch)
        if self.p.difference_clip is not None:
            low, high = self.p.difference_clip
            difference = tape.clip(difference, -np.inf if low is None else low, np.inf if high is None else high)
        return difference.mean(1)

    def bellman(self, critics: list[Network], batch: Transition, target: np.ndarray) -> Var:
        """The sum over the critics of the mean squared error."""
        return ((self.data_q(critics, batch) - target) ** 2).mean(1).sum()

    @property
    def weight(self) -> float:
        return self.default_weight if self.p.min_q_weight is None else self.p.min_q_weight

    def alpha_prime(self, log_alpha_prime: Any) -> Var:
        return tape.clip(tape.exp(tape.var(log_alpha_prime)), 0.0, 1e6)

    def critic_loss(self, critics: list[Network], batch: Transition, target: np.ndarray, q_set: Var) -> Var:
        difference = self.difference(critics, batch, q_set)
        if self.p.lagrange_gap is None:
            return self.bellman(critics, batch, target) + self.weight * difference.sum()
        alpha_prime = self.alpha_prime(self.weights["log_alpha_prime"]).value
        return self.bellman(critics, batch, target) + alpha_prime * (self.weight * (difference - self.p.lagrange_gap)).sum()

    def alpha_prime_loss(self, log_alpha_prime: Any, gap: np.ndarray) -> Var:
        """alpha' climbs while the mean over the critics of the weighted difference is above its gap."""
        return -self.alpha_prime(log_alpha_prime) * float(gap.mean())

    def critic_report(self, batch: Transition, target: np.ndarray, q_set: Var, v: np.ndarray) -> Metrics:
        critics = self.weights["critic"]
        q, difference = self.data_q(critics, batch).value, self.difference(critics, batch, q_set).value
        metrics = {
            "td_loss": float(self.bellman(critics, batch, target).value),
            "critic_loss": float(self.critic_loss(critics, batch, target, q_set).value),
            "difference": float(difference.mean()),
            **spread("q", q),
            **spread("v", v),
            **spread("target", target),
            **spread("advantage", q.min(0) - v),
        }
        if self.p.lagrange_gap is not None:
            log_alpha_prime, gap = self.weights["log_alpha_prime"], self.weight * (difference - self.p.lagrange_gap)
            metrics["alpha_prime"] = float(self.alpha_prime(log_alpha_prime).value)
            metrics["alpha_prime_loss"] = float(self.alpha_prime_loss(log_alpha_prime, gap).value)
        return metrics

    def alpha_prime_gradient(self, batch: Transition, q_set: Var) -> dict[str, Any]:
        if self.p.lagrange_gap is None:
            return {}
        gap = self.weight * (self.difference(self.weights["critic"], batch, q_set).value - self.p.lagrange_gap)
        return {"log_alpha_prime": tape.gradient(partial(self.alpha_prime_loss, gap=gap), self.weights["log_alpha_prime"])[1]}


class DiscreteCQL(CQL):
    """On double DQN (van Hasselt et al. 2016); the set is all actions."""

    default_weight = 1.0

    def target_values(self, batch: Transition) -> np.ndarray:
        chosen = self.min_values(self.weights["critic"], batch.next_observation).argmax(1)
        next_v = self.min_values(self.target, batch.next_observation)[np.arange(len(chosen)), chosen]
        return batch.reward + self.p.gamma * batch.discount * next_v

    def q_set(self, critics: list[Network], batch: Transition) -> Var:
        """[critics, actions, B]"""
        one = [np.full(len(batch.reward), action) for action in range(self.action.num_values or 0)]
        return tape.concatenate([self.q(critics, batch.observation, action)[:, None] for action in one], 1)

    def min_values(self, critics: list[Network], observation: np.ndarray) -> np.ndarray:
        """min_i q_i(s, .), [B, actions]"""
        return np.min([values(critic, self.style("critic"), observation).value for critic in critics], axis=0)  # type: ignore[no-any-return]

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        critics, target = self.weights["critic"], self.target_values(batch)
        metrics = self.critic_report(batch, target, self.q_set(critics, batch), self.min_values(critics, batch.observation).max(1))
        return {"loss": metrics["critic_loss"] + metrics.get("alpha_prime_loss", 0.0), **metrics}

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        metrics, target = self.losses(batch, draws), self.target_values(batch)

        def loss(critics: list[Network]) -> Var:
            return self.critic_loss(critics, batch, target, self.q_set(critics, batch))

        critics = self.weights["critic"]
        gradients = self.alpha_prime_gradient(batch, self.q_set(critics, batch))
        norms = self.descend({"critic": tape.gradient(loss, critics)[1], **gradients})
        self.finish(acting="critic")
        return {**metrics, **norms}


class ContinuousCQL(CQL, SoftActor):
    """On soft actor-critic (Haarnoja et al. 2018)."""

    default_weight = 5.0

    def target_values(self, batch: Transition, noise: np.ndarray) -> np.ndarray:
        """r + gamma d v(s'): of one drawn action min_i q_target_i, of several the largest; less alpha log pi with `backup_entropy`."""
        action, log_prob = self.draw(self.weights["policy"], batch.next_observation, noise)
        next_v = self.q(self.target, batch.next_observation, action).value.min(0)
        if self.p.max_target_backup:
            next_v = next_v.max(0)
        elif self.p.backup_entropy:
            next_v = next_v - np.exp(self.weights["log_alpha"]) * log_prob.value
        return batch.reward + self.p.gamma * batch.discount * next_v  # type: ignore[no-any-return]

    def q_set(self, critics: list[Network], batch: Transition, uniform: np.ndarray, here: np.ndarray, there: np.ndarray) -> Var:
        """[critics, C, B]: every action at s, less the log-density that it was drawn with; or the data's action too, and no densities."""
        policy = self.weights["policy"]
        current, current_density = self.draw(policy, batch.observation, here)
        following, following_density = self.draw(policy, batch.next_observation, there)
        parts = [self.q(critics, batch.observation, action.value) for action in (tape.var(uniform), current, following)]
        if not self.p.importance_sampling:
            return tape.concatenate([self.data_q(critics, batch)[:, None], *parts], 1)
        uniform_density = np.log(0.5) * self.action.shape[0]
        taken = [
            part - density for part, density in zip(parts, (uniform_density, current_density.value, following_density.value), strict=True)
        ]
        return tape.concatenate(taken, 1)

    def policy_loss(self, policy: Network, batch: Transition, noise: np.ndarray) -> Var:
        """Soft actor-critic's; while it warms up, the mean of alpha log pi(a_pi|s) minus the data's log-density."""
        if self.step >= self.p.bc_warmup:
            return super().policy_loss(policy, batch, noise)
        _, log_prob = self.draw(policy, batch.observation, noise)
        cloned = densities.squashed_data(*self.policy(policy, batch.observation), self.data_action(batch))
        return (log_prob * np.exp(self.weights["log_alpha"]) - cloned).mean()

    def noise(self, batch: Transition, draws: Draws) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """For the policy's loss, for the target and for the set (uniform actions, at s, at s'), in the learner's order."""
        one = (len(batch.reward), self.action.shape[0])
        several = (self.p.n_actions, *one)
        policy, target = draws.take(*one), draws.take(*(several if self.p.max_target_backup else one))
        return policy, target, [draws.take(*several) for _ in range(3)]

    def report(self, batch: Transition, policy_noise: np.ndarray, target: np.ndarray, set_noise: list[np.ndarray]) -> Metrics:
        w = self.weights
        action, _ = self.draw(w["policy"], batch.observation, policy_noise)
        v = self.q(w["critic"], batch.observation, action).value.min(0)
        metrics = {
            **self.critic_report(batch, target, self.q_set(w["critic"], batch, *set_noise), v),
            **self.actor_metrics(batch, policy_noise),
        }
        if self.p.bc_warmup:
            metrics["clipped_action_share"] = float(np.mean(np.abs(self.data_action(batch)) > 1 - 1e-5))
        losses = ("critic_loss", "policy_loss", "alpha_loss", "alpha_prime_loss")
        return {"loss": sum(metrics.get(name, 0.0) for name in losses), **metrics}

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        policy_noise, target_noise, set_noise = self.noise(batch, draws)
        return self.report(batch, policy_noise, self.target_values(batch, target_noise), set_noise)

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        policy_noise, target_noise, set_noise = self.noise(batch, draws)
        target, w = self.target_values(batch, target_noise), self.weights
        metrics = self.report(batch, policy_noise, target, set_noise)

        def critic_loss(critics: list[Network]) -> Var:
            return self.critic_loss(critics, batch, target, self.q_set(critics, batch, *set_noise))

        gradients = {
            "critic": tape.gradient(critic_loss, w["critic"])[1],
            **self.actor_gradients(batch, policy_noise),
            **self.alpha_prime_gradient(batch, self.q_set(w["critic"], batch, *set_noise)),
        }
        norms = self.descend(gradients)
        self.finish()
        return {**metrics, **norms}
