"""Networks whose shape is a choice, against the same sums in NumPy."""

import jax
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec
from trainer.learner import load_learner
from trainer.networks import CategoricalNetwork, Critic, leaf_specs

LEAVES = leaf_specs(ArraySpec((3,), "float32"))
OBSERVATION = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def affine(weights: dict, inputs: np.ndarray) -> np.ndarray:
    return inputs @ np.asarray(weights["kernel"]) + np.asarray(weights["bias"])


def test_a_dueling_critic_is_a_value_plus_centred_linear_advantages():
    critic = Critic(LEAVES, (4,), num_actions=3, advantage_sizes=())
    variables = critic.init(jax.random.key(1), OBSERVATION)
    weights = variables["params"]
    advantage = affine(weights["Dense_0"], OBSERVATION)
    value = affine(weights["Dense_1"], np.maximum(affine(weights["Torso_0"], OBSERVATION), 0))
    expected = value + advantage - advantage.mean(-1, keepdims=True)
    found = np.asarray(critic.apply(variables, OBSERVATION))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.mean(-1), value[:, 0], rtol=1e-5, atol=1e-6)


def test_advantages_may_have_layers():
    critic = Critic(LEAVES, (4,), num_actions=3, advantage_sizes=(6,))
    weights = critic.init(jax.random.key(1), OBSERVATION)["params"]
    assert {name: w["kernel"].shape for name, w in weights.items()} == {
        "Torso_0": (3, 4), "Torso_1": (3, 6), "Dense_0": (6, 3), "Dense_1": (4, 1),
    }  # fmt: skip


def test_a_policy_without_layers_is_linear():
    policy = CategoricalNetwork(LEAVES, (), 2)
    variables = policy.init(jax.random.key(2), OBSERVATION)
    np.testing.assert_allclose(
        policy.apply(variables, OBSERVATION), affine(variables["params"]["Dense_0"], OBSERVATION), rtol=1e-5, atol=1e-6
    )


@pytest.mark.slow
def test_iql_gives_its_policy_layers_of_its_own():
    module = load_learner("iql")
    spec = EnvSpec("Toy-v0", ArraySpec((3,), "float32"), ArraySpec((), "int64", 0, 1, num_values=2))
    shapes = []
    for sizes in (None, (), (5,)):
        learner = module.Learner(module.Params(hidden_sizes=(4,), policy_hidden_sizes=sizes), spec, 10)
        policy = learner.init(jax.random.key(0)).params["policy"]["params"]
        shapes.append(policy["Dense_0"]["kernel"].shape)
    assert shapes == [(4, 2), (3, 2), (5, 2)]


@pytest.mark.parametrize("algorithm", ["iql", "cql"])
def test_a_dueling_critic_is_for_discrete_actions(algorithm):
    module = load_learner(algorithm)
    spec = EnvSpec("Toy-v0", ArraySpec((3,), "float32"), ArraySpec((1,), "float32", -1, 1))
    with pytest.raises(HindcastError, match=r"advantage_hidden_sizes is \(\), .*discrete actions, and environment 'Toy-v0' has none"):
        module.Learner(module.Params(advantage_hidden_sizes=()), spec, 10)
