"""Networks whose shape is a choice, against the same sums in NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec
from trainer.encoders import Flat, LeafEncoder
from trainer.learner import Initialization, load_learner
from trainer.networks import (
    ACTIVATIONS,
    CategoricalNetwork,
    Critic,
    GaussianNetwork,
    SquashedGaussianNetwork,
    Style,
    Torso,
    Value,
    initializers,
    style_of,
)

LEAVES = (LeafEncoder(Flat),)
OBSERVATION = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
FLAT = ArraySpec((3,), "float32")
DISCRETE = EnvSpec("Toy-v0", FLAT, ArraySpec((), "int64", 0, 1, num_values=2))
CONTINUOUS = EnvSpec("Toy-v0", FLAT, ArraySpec((1,), "float32", -1, 1))


def affine(weights: Any, inputs: np.ndarray) -> np.ndarray:
    return inputs @ np.asarray(weights["kernel"]) + np.asarray(weights["bias"])


def normalised(hidden: np.ndarray) -> np.ndarray:
    return (hidden - hidden.mean(-1, keepdims=True)) / np.sqrt(hidden.var(-1, keepdims=True) + 1e-6)


def test_a_dueling_critic_is_a_value_plus_centred_linear_advantages() -> None:
    critic = Critic(LEAVES, Style((4,)), num_actions=3, advantage_sizes=())
    variables = critic.init(jax.random.key(1), OBSERVATION)
    weights = variables["params"]
    advantage = affine(weights["Dense_0"], OBSERVATION)
    value = affine(weights["Dense_1"], np.maximum(affine(weights["Torso_0"], OBSERVATION), 0))
    expected = value + advantage - advantage.mean(-1, keepdims=True)
    found = np.asarray(critic.apply(variables, OBSERVATION))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.mean(-1), value[:, 0], rtol=1e-5, atol=1e-6)


def test_advantages_may_have_layers() -> None:
    critic = Critic(LEAVES, Style((4,)), num_actions=3, advantage_sizes=(6,))
    weights = critic.init(jax.random.key(1), OBSERVATION)["params"]
    assert {name: w["kernel"].shape for name, w in weights.items()} == {
        "Torso_0": (3, 4), "Torso_1": (3, 6), "Dense_0": (6, 3), "Dense_1": (4, 1),
    }  # fmt: skip


def test_a_policy_without_layers_is_linear() -> None:
    policy = CategoricalNetwork(LEAVES, Style(()), 2)
    variables = policy.init(jax.random.key(2), OBSERVATION)
    np.testing.assert_allclose(
        policy.apply(variables, OBSERVATION), affine(variables["params"]["Dense_0"], OBSERVATION), rtol=1e-5, atol=1e-6
    )


def test_layer_norm_the_activation_and_the_residual_come_in_this_order() -> None:
    torso = Torso(Style((4, 4, 2), activation="tanh", layer_norm=True, residual=True))
    variables = torso.init(jax.random.key(3), OBSERVATION)
    w = variables["params"]
    first = np.tanh(normalised(affine(w, OBSERVATION)))
    second = np.tanh(normalised(affine(w["Dense_0"], first))) + first
    third = np.tanh(normalised(affine(w["Dense_1"], second)))  # narrower than its input, so nothing is added
    np.testing.assert_allclose(torso.apply(variables, OBSERVATION), third, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_is_the_one_named(activation: str) -> None:
    x = np.asarray([-2.0, -0.5, 0.0, 1.5], np.float32)
    expected = {
        "relu": np.maximum(x, 0),
        "gelu": 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "silu": x / (1 + np.exp(-x)),
        "tanh": np.tanh(x),
        "elu": np.where(x > 0, x, np.expm1(x)),
        "leaky_relu": np.where(x > 0, x, 0.01 * x),
    }
    np.testing.assert_allclose(ACTIVATIONS[activation](jnp.asarray(x)), expected[activation], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "gain", "bound", "bias"),
    [
        ("he_uniform", 1.0, np.sqrt(6 / 400), 0.0),
        ("lecun_uniform", 0.1, 0.1 * np.sqrt(3 / 400), 0.0),
        ("xavier_uniform", 0.01, 0.01 * np.sqrt(6 / 500), 0.0),
        ("torch", 1.0, 1 / 20, 1 / 20),
        ("uniform", 0.003, 0.003, 0.003),
        ("rlkit", 1.0, 1 / 10, None),  # by the outputs; biases of 0.1
    ],
)
def test_uniform_initialisations_reach_their_bounds(kind: str, gain: float, bound: float, bias: float | None) -> None:
    kernel_init, bias_init = initializers(kind, 400, gain)
    kernel = np.asarray(kernel_init(jax.random.key(0), (400, 100), jnp.float32))
    biases = np.asarray(bias_init(jax.random.key(1), (100,), jnp.float32))
    assert 0.999 * bound < np.abs(kernel).max() <= bound * (1 + 1e-6)
    assert abs(kernel.std() - bound / np.sqrt(3)) < 0.01 * bound
    if bias is None:
        assert (biases == np.float32(0.1)).all()
    else:
        assert 0.9 * bias <= np.abs(biases).max() <= bias


@pytest.mark.parametrize(("hidden", "output", "gains"), [("orthogonal", "orthogonal", (np.sqrt(2), 0.01))])
def test_orthogonal_weights_have_equal_singular_values(hidden: str, output: str, gains: tuple[float, float]) -> None:
    start = Initialization.model_validate({"hidden": hidden, "output": output, "output_gain": gains[1]})
    w = Value(LEAVES, Style((8, 6), initialization=start)).init(jax.random.key(0), OBSERVATION)["params"]
    for kernel, gain in (
        (w["Torso_0"]["kernel"], gains[0]),
        (w["Torso_0"]["Dense_0"]["kernel"], gains[0]),
        (w["Dense_0"]["kernel"], gains[1]),
    ):
        np.testing.assert_allclose(np.linalg.svd(kernel, compute_uv=False), gain, rtol=1e-5)


def test_a_deviation_may_depend_on_the_state() -> None:
    for depends, shape in ((False, (2,)), (True, (5, 2))):
        policy = GaussianNetwork(LEAVES, Style((4,)), 2, depends)
        variables = policy.init(jax.random.key(0), OBSERVATION)
        assert policy.apply(variables, OBSERVATION)[1].shape == shape


def test_the_deviation_of_a_squashed_gaussian_may_be_scaled_and_shifted_by_learnt_numbers() -> None:
    plain, scaled = (SquashedGaussianNetwork(LEAVES, Style((4,)), 2, affine) for affine in (None, (0.5, -1.0)))
    variables = scaled.init(jax.random.key(0), OBSERVATION)
    weights = dict(variables["params"])
    assert (weights.pop("log_std_multiplier"), weights.pop("log_std_offset")) == (0.5, -1.0)
    mean, log_std = plain.apply({"params": weights}, OBSERVATION)
    found = scaled.apply(variables, OBSERVATION)
    np.testing.assert_allclose(found[0], mean, rtol=1e-6)
    np.testing.assert_allclose(found[1], 0.5 * log_std - 1, rtol=1e-5)


def test_a_network_has_its_own_choices_or_those_for_all() -> None:
    params = load_learner("iql").Params(
        hidden_sizes=(8,), activation="gelu", layer_norm=True, networks={"value": {"layer_norm": False}, "policy": {"hidden_sizes": ()}}
    )
    assert style_of(params, "critic", params.layer_norm) == Style((8,), "gelu", layer_norm=True)
    assert style_of(params, "value", params.layer_norm) == Style((8,), "gelu")
    assert style_of(params, "policy", dropout=0.1) == Style((), "gelu", dropout=0.1)


@pytest.mark.slow
def test_iql_gives_its_policy_layers_of_its_own() -> None:
    module, shapes = load_learner("iql"), []
    for networks in ({}, {"policy": {"hidden_sizes": ()}}, {"policy": {"hidden_sizes": (5,)}}):
        learner = module.Learner(module.Params(hidden_sizes=(4,), networks=networks), DISCRETE, 10)
        policy = learner.init(jax.random.key(0)).params["policy"]["params"]
        shapes.append(policy["Dense_0"]["kernel"].shape)
    assert shapes == [(4, 2), (3, 2), (5, 2)]


@pytest.mark.parametrize("algorithm", ["iql", "cql"])
def test_a_dueling_critic_is_for_discrete_actions(algorithm: str) -> None:
    module = load_learner(algorithm)
    with pytest.raises(HindcastError, match=r"advantage_hidden_sizes is \(\), .*discrete actions, and environment 'Toy-v0' has none"):
        module.Learner(module.Params(advantage_hidden_sizes=()), CONTINUOUS, 10)


def test_a_networks_name_that_a_learner_does_not_have_is_refused() -> None:
    for options in ({"decay": ("actor",)}, {"networks": {"value": {"residual": True}}}):
        with pytest.raises(ValueError, match=r"there is no network (actor|value); this learner has: critic, policy"):
            load_learner("cql").Params(**options)
