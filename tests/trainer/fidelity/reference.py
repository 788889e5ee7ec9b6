"""What the references share: the state of one, and its step of every optimiser."""

from typing import Any

import numpy as np

from rl_datasets.schema import ArraySpec, Transition
from tests.trainer.fidelity import optimizer
from tests.trainer.fidelity.networks import Network, Style, moved, q_of
from tests.trainer.fidelity.optimizer import Adam, Moments
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.tape import Var

Metrics = dict[str, float]


class Reference:
    """A learner in float64. A subclass says what its losses are in `update`, and which loss each network descends."""

    def __init__(self, params: Any, action: ArraySpec, updates: int, weights: dict[str, Any], target: Any, average: Any) -> None:
        """`params` are the learner's own hyper-parameters. Weights, targets and average are laid out as in networks.py, or None."""
        self.p, self.action, self.updates = params, action, updates
        self.weights, self.target, self.average = dict(weights), target, average
        self.moments: dict[str, Moments] = {name: optimizer.no_moments(tree) for name, tree in weights.items()}
        self.step = 0

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        """What is reported of a batch, without an update."""
        raise NotImplementedError

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        raise NotImplementedError

    def optimizer(self, network: str) -> Adam:
        """A policy may have a rate of its own, which the temperature shares; a learnt number does not decay as weights do."""
        rated = "policy" if network == "log_alpha" else network
        own = self.p.policy_learning_rate if rated == "policy" else None
        decay = self.p.decay_shape if rated in self.p.decay else None
        weight_decay = 0.0 if network.startswith("log_alpha") else self.p.weight_decay
        return Adam(own or self.p.learning_rate, weight_decay, self.p.max_grad_norm, self.p.warmup, decay, self.updates)

    def style(self, network: str) -> Style:
        own = self.p.networks.get(network)
        chosen = {name: getattr(self.p, name) for name in ("activation", "residual")}
        chosen |= {name: getattr(own, name) for name in chosen if getattr(own, name, None) is not None}
        return Style(**chosen, keep=1 - getattr(self.p, "dropout", 0.0) if network == "policy" else 1.0)

    def descend(self, gradients: dict[str, Any]) -> Metrics:
        """Moves each network along its gradient, and returns the norms."""
        for name, gradient in gradients.items():
            adam = self.optimizer(name)
            clipped = optimizer.clipped(gradient, adam.max_norm)
            self.weights[name], self.moments[name] = optimizer.step(adam, self.weights[name], clipped, self.moments[name])
        return {f"{name}_grad_norm": optimizer.norm(gradient) for name, gradient in gradients.items()}

    def finish(self, acting: str = "policy") -> None:
        """After the optimisers: the target critics follow, and the average of the network that it acts by."""
        if self.target is not None:
            self.target = moved(self.target, self.weights["critic"], self.p.tau)
        self.move_average(acting)
        self.step += 1

    def move_average(self, acting: str = "policy") -> None:
        if self.p.ema_decay is not None:
            self.average = moved(self.average, self.weights[acting], 1 - self.p.ema_decay)

    def q(self, critics: list[Network], observation: np.ndarray, action: Any) -> Var:
        """Of every critic: [critics, B] for indices [B], [critics, ..., B] for actions [..., B, A]."""
        return q_of(critics, self.style("critic"), observation, action)

    def data_action(self, batch: Transition) -> np.ndarray:
        return self.inner(batch.action)

    def inner(self, action: Any) -> np.ndarray:
        """Actions of the data from zero, [B], or scaled from their bounds to [-1, 1], [B, A]."""
        low, high = self.action.bounds()
        if self.action.is_discrete:
            return np.asarray(action) - int(low)
        action = np.asarray(action, np.float64)
        if not self.action.is_bounded:
            return action
        limit = self.p.action_clip or np.inf
        return np.clip(2 * (action - low) / (high - low) - 1, -limit, limit)


def spread(name: str, x: np.ndarray) -> Metrics:
    return {f"{name}_mean": float(np.mean(x)), f"{name}_std": float(np.std(x))}
