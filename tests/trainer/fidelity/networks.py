"""The networks in NumPy, and the one place that knows how flax lays their weights out.

A network here is {"hidden": [{"kernel", "bias"} or with "scale" and "shift", ...], "out": {"kernel", "bias"}}. A dueling critic has
"advantage", another network, beside; a Gaussian "log_std", an array or another output layer, or "affine", two scalars. An ensemble is
a list of networks.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from tests.trainer.fidelity import tape
from tests.trainer.fidelity.tape import Var

Network = dict[str, Any]


class Style(NamedTuple):
    """What the weights do not tell of a network."""

    activation: str = "relu"
    residual: bool = False
    keep: float = 1.0  # the share of units that dropout leaves


def from_flax(tree: Any, critic: bool = False) -> Any:
    """A scalar as it is, any other tree of weights as a network."""
    if not isinstance(tree, dict):
        return np.asarray(tree, np.float64)
    weights = jax.tree.map(lambda x: np.asarray(x, np.float64), tree["params"])
    dueling = critic and "Dense_1" in weights  # the advantages' layer is called, and so counted, before that of v(s)
    network = _network(weights, "Torso_0", "Dense_1" if dueling else "Dense_0")
    if dueling:
        network["advantage"] = _network(weights, "Torso_1", "Dense_0")
    elif "Dense_1" in weights:
        network["log_std"] = dict(weights["Dense_1"])
    elif "log_std" in weights:
        network["log_std"] = weights["log_std"]
    elif "log_std_multiplier" in weights:
        network["affine"] = [weights["log_std_multiplier"], weights["log_std_offset"]]
    assert len(jax.tree.leaves(network)) == len(jax.tree.leaves(weights)), f"weights that the reference does not know: {list(weights)}"
    return network


def ensemble_from_flax(tree: Any) -> list[Network]:
    """Critics stacked along the first axis of every leaf."""
    size = len(jax.tree.leaves(tree)[0])
    return [from_flax(jax.tree.map(lambda x, i=i: x[i], tree), critic=True) for i in range(size)]


def _network(weights: dict[str, Any], torso: str, out: str) -> Network:
    layers = weights.get(torso, {})
    hidden = []
    for i in range(("kernel" in layers) + sum(name.startswith("Dense") for name in layers)):
        dense = {"kernel": layers["kernel"], "bias": layers["bias"]} if i == 0 else dict(layers[f"Dense_{i - 1}"])
        if f"LayerNorm_{i}" in layers:
            dense |= {"scale": layers[f"LayerNorm_{i}"]["scale"], "shift": layers[f"LayerNorm_{i}"]["bias"]}
        hidden.append(dense)
    return {"hidden": hidden, "out": dict(weights[out])}


def gelu(x: Var) -> Var:
    """Hendrycks and Gimpel (2016), in their approximation by tanh."""
    return x * (tape.tanh((x + x**3 * 0.044715) * math.sqrt(2 / math.pi)) + 1.0) * 0.5


ACTIVATIONS: Mapping[str, Callable[[Var], Var]] = {
    "relu": tape.relu,
    "gelu": gelu,
    "silu": lambda x: x / (tape.exp(-x) + 1.0),
    "tanh": tape.tanh,
    "elu": lambda x: tape.where(x.value > 0, x, tape.exp(tape.where(x.value > 0, 0.0, x)) - 1.0),
    "leaky_relu": lambda x: tape.where(x.value > 0, x, x * 0.01),
}


def layer_norm(x: Var) -> Var:
    """Ba et al. (2016), with flax's epsilon of 1e-6."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / ((centred**2).mean(-1, keepdims=True) + 1e-6) ** 0.5


def torso(network: Network, style: Style, *inputs: Var | np.ndarray, kept: list[np.ndarray] | None = None) -> Var:
    """The inputs [..., features] side by side through the hidden layers. `kept` are the units that dropout leaves, layer by layer."""
    x = tape.concatenate(inputs, -1)
    for i, layer in enumerate(network["hidden"]):
        before, x = x, x @ layer["kernel"] + layer["bias"]
        if "scale" in layer:
            x = layer_norm(x) * layer["scale"] + layer["shift"]
        x = ACTIVATIONS[style.activation](x)
        if kept:
            x = x * (kept[i] / style.keep)
        if style.residual and i > 0 and before.shape == x.shape:
            x = x + before
    return x


def linear(layer: dict[str, Any], x: Var) -> Var:
    return x @ layer["kernel"] + layer["bias"]


def mlp(network: Network, style: Style, *inputs: Var | np.ndarray, kept: list[np.ndarray] | None = None) -> Var:
    """[..., outputs]"""
    return linear(network["out"], torso(network, style, *inputs, kept=kept))


def values(network: Network, style: Style, observation: np.ndarray) -> Var:
    """q(s, .) of a discrete critic, [B, actions]; a dueling one is v(s) + advantage - mean advantage (Wang et al. 2016)."""
    if "advantage" not in network:
        return mlp(network, style, observation)
    advantage = mlp(network["advantage"], style, observation)
    return mlp(network, style, observation) + (advantage - advantage.mean(-1, keepdims=True))


def q_of(critics: list[Network], style: Style, observation: np.ndarray, action: Any) -> Var:
    """q_i(s, a) of every critic: [critics, B] for indices [B], [critics, ..., B] for actions [..., B, A]."""
    action = tape.var(action)
    if action.value.ndim == 1:
        index = (np.arange(len(observation)), action.value.astype(int))
        return tape.stack([values(critic, style, observation)[index] for critic in critics])
    observation = np.broadcast_to(observation, (*action.shape[:-1], observation.shape[-1]))
    return tape.stack([mlp(critic, style, observation, action)[..., 0] for critic in critics])


def moved(target: Any, weights: Any, tau: float) -> Any:
    return jax.tree.map(lambda t, w: t + tau * (w - t), target, weights)
