"""The policies in NumPy: what a network's weights say of actions."""

import math
from typing import Any

import numpy as np

from tests.trainer.fidelity import densities, tape
from tests.trainer.fidelity.networks import Network, Style, linear, mlp, torso
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.tape import Var

Kept = list[np.ndarray]  # the units that dropout leaves, bool [B, units], layer by layer; empty without dropout
Gaussian = tuple[Var, Var]  # mean and log-deviation, each [B, A]


def gaussian(network: Network, style: Style, params: Any, observation: np.ndarray, bounded: bool, kept: Kept) -> Gaussian:
    """The mean through tanh where that is asked for and the action has bounds; the log-deviation in its range, of the state or not."""
    hidden = torso(network, style, observation, kept=kept)
    mean = linear(network["out"], hidden)
    log_std = linear(network["log_std"], hidden) if params.state_dependent_std else tape.var(network["log_std"])
    mean = tape.tanh(mean) if params.squash_mean and bounded else mean
    return mean, tape.clip(log_std, *params.log_std_range) + np.zeros(mean.shape)


def squashed_gaussian(network: Network, style: Style, params: Any, observation: np.ndarray) -> Gaussian:
    """Before tanh: half of the outputs are the mean, half the log-deviation, perhaps scaled and shifted, in its range."""
    output = mlp(network, style, observation)
    size = output.shape[-1] // 2
    log_std = output[:, size:]
    if params.log_std_affine is not None:
        log_std = network["affine"][0] * log_std + network["affine"][1]
    return output[:, :size], tape.clip(log_std, *params.log_std_range)


def gaussian_metrics(log_std: Var) -> dict[str, float]:
    entropy = (log_std.value + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)
    return {"entropy": float(entropy.mean()), "log_std": float(log_std.value.mean())}


def categorical_metrics(logits: Var) -> dict[str, float]:
    log_prob = densities.log_softmax(logits).value
    return {"entropy": float(-(np.exp(log_prob) * log_prob).sum(-1).mean())}


def kept_units(network: Network, size: int, dropout: float, draws: Draws) -> Kept:
    """What was drawn for dropout on a batch of that size."""
    return [draws.take(size, len(layer["bias"])) for layer in network["hidden"]] if dropout else []
