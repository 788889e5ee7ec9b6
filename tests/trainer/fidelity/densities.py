"""Log-densities of the policies' actions, by their definitions. Means and deviations are [..., A], logits [B, actions]."""

import math

import numpy as np

from tests.trainer.fidelity import tape
from tests.trainer.fidelity.tape import Var


def normal(mean: Var, log_std: Var, x: Var | np.ndarray) -> Var:
    """A Gaussian with independent coordinates at x: [...]."""
    z = (tape.var(x) - mean) / tape.exp(log_std)
    return (z**2 * -0.5 - log_std - math.log(math.sqrt(2 * math.pi))).sum(-1)


def squashed(mean: Var, log_std: Var, u: Var) -> Var:
    """tanh(u), u from the Gaussian: its density by the change of variables, log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2u))."""
    return normal(mean, log_std, u) - ((math.log(2) - u - tape.softplus(-2.0 * u)) * 2.0).sum(-1)


def squashed_sample(mean: Var, log_std: Var, noise: np.ndarray) -> tuple[Var, Var]:
    """Actions tanh(mean + std * noise), [..., B, A] as the noise, and their log-densities [..., B]."""
    u = mean + tape.exp(log_std) * noise
    return tape.tanh(u), squashed(mean, log_std, u)


def squashed_data(mean: Var, log_std: Var, action: np.ndarray) -> Var:
    """An action of the data, moved 1e-5 inside the bounds, where its density is finite."""
    return squashed(mean, log_std, tape.var(np.arctanh(np.clip(action, -1 + 1e-5, 1 - 1e-5))))


def log_softmax(logits: Var) -> Var:
    return logits - tape.logsumexp(logits, -1)[:, None]


def categorical(logits: Var, action: np.ndarray) -> Var:
    return log_softmax(logits)[np.arange(len(action)), action]
