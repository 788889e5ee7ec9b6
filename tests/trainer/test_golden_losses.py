"""IQL, CQL and BC against plain NumPy in float64, written from the papers' equations: losses, gradients and one whole update."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from trainer.learner import load_learner

pytestmark = pytest.mark.slow
SMALL: dict[str, Any] = {"hidden_sizes": (4, 3), "learning_rate": 1e-3, "gamma": 0.9}
OBSERVATION = ArraySpec((2,), "float32")
DISCRETE = EnvSpec("Toy-v0", OBSERVATION, ArraySpec((), "int64", 1, 3, num_values=3))
CONTINUOUS = EnvSpec("Toy-v0", OBSERVATION, ArraySpec((2,), "float32", (-2.0, 0.0), (2.0, 10.0)))
SPECS = [pytest.param(DISCRETE, id="discrete"), pytest.param(CONTINUOUS, id="continuous")]
B, N = 5, 4
Weights = dict[str, Any]


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def batch_of(spec: EnvSpec) -> Transition:
    rng = np.random.default_rng(3)
    action = rng.integers(1, 4, B) if spec is DISCRETE else rng.uniform((-2, 0), (2, 10), (B, 2))
    discount = np.asarray([1.0, 0.0, 1.0, 1.0, 0.0])
    return Transition(rng.normal(size=(B, 2)), action, rng.normal(size=B), discount, rng.normal(size=(B, 2)))


def learner_and_state(algorithm: str, spec: EnvSpec, **params: Any) -> tuple[Any, Any]:
    """The state's weights are shifted at random, so that no bias is zero and no target equals its network."""
    module = load_learner(algorithm)
    learner = module.Learner(module.Params(**SMALL, **params), spec, 10)
    state = learner.init(jax.random.key(0))
    rng = np.random.default_rng(4)
    shifted = jax.tree.map(lambda x: x + rng.normal(0, 0.3, x.shape), state.params)
    state = state._replace(params=shifted)
    if hasattr(state, "target"):
        state = state._replace(target=jax.tree.map(lambda x: x + rng.normal(0, 0.3, x.shape), state.target))
    return learner, state


def network(weights: Weights, *inputs: np.ndarray, member: int | None = None) -> np.ndarray:
    """A ReLU network on the concatenated inputs [..., features]; `member` picks one of stacked critics."""
    w = jax.tree.map(lambda x: np.asarray(x) if member is None else np.asarray(x)[member], weights["params"])
    torso, head = w["Torso_0"], w["Dense_0"]
    hidden = np.maximum(np.concatenate(inputs, -1) @ torso["kernel"] + torso["bias"], 0)
    hidden = np.maximum(hidden @ torso["Dense_0"]["kernel"] + torso["Dense_0"]["bias"], 0)
    return hidden @ head["kernel"] + head["bias"]  # type: ignore[no-any-return]


def scaled(batch: Transition) -> np.ndarray:
    return (batch.action - np.asarray([0.0, 5.0])) / np.asarray([2.0, 5.0])  # type: ignore[no-any-return]


def q_of_data(critic: Weights, batch: Transition, spec: EnvSpec) -> np.ndarray:
    if spec is DISCRETE:
        return np.stack([network(critic, batch.observation, member=i)[np.arange(B), batch.action - 1] for i in range(2)])
    return np.stack([network(critic, batch.observation, scaled(batch), member=i)[:, 0] for i in range(2)])


def normal_log_prob(mean: np.ndarray, log_std: np.ndarray, x: np.ndarray) -> np.ndarray:
    return (-((x - mean) ** 2) / (2 * np.exp(2 * log_std)) - log_std - np.log(np.sqrt(2 * np.pi))).sum(-1)  # type: ignore[no-any-return]


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))  # type: ignore[no-any-return]


def policy_log_prob(policy: Weights, batch: Transition, spec: EnvSpec) -> np.ndarray:
    output = network(policy, batch.observation)
    if spec is DISCRETE:
        return log_softmax(output)[np.arange(B), batch.action - 1]  # type: ignore[no-any-return]
    return normal_log_prob(np.tanh(output), np.asarray(policy["params"]["log_std"]), scaled(batch))


def gradient(loss: Callable[[Any], float], weights: Any) -> Any:
    """Central differences, one weight after another."""
    leaves, structure = jax.tree.flatten(jax.tree.map(lambda x: np.array(x), weights))
    grads = [np.zeros_like(leaf) for leaf in leaves]
    for leaf, grad in zip(leaves, grads, strict=True):
        for index in np.ndindex(leaf.shape):
            value, ends = leaf[index], []
            for sign in (1, -1):
                leaf[index] = value + sign * 1e-6
                ends.append(loss(jax.tree.unflatten(structure, leaves)))
            leaf[index] = value
            grad[index] = (ends[0] - ends[1]) / 2e-6
    return jax.tree.unflatten(structure, grads)


def adam_step(weights: Any, grad: Any, rate: float = 1e-3) -> Any:
    """Adam's first step: both moments, corrected for their bias, are the gradient and its square."""
    return jax.tree.map(lambda w, g: np.asarray(w) - rate * g / (np.abs(g) + 1e-8), weights, grad)


def norm(grad: Any) -> float:
    return math.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(grad)))


def assert_close(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


class NumpyIQL:
    """The losses of one batch as functions of one network's weights, expectile 0.8, beta 2, weights clipped at 1.5."""

    def __init__(self, spec: EnvSpec, batch: Transition, target: Weights) -> None:
        self.spec, self.batch = spec, batch
        self.target_q = q_of_data(target, batch, spec).min(0)

    def value(self, value: Weights) -> float:
        u = self.target_q - network(value, self.batch.observation)[:, 0]
        return float(np.mean(np.where(u < 0, 0.2, 0.8) * u**2))

    def policy(self, policy: Weights, value: Weights) -> float:
        advantage = self.target_q - network(value, self.batch.observation)[:, 0]
        weight = np.minimum(np.exp(2 * advantage), 1.5)
        return float(-np.mean(weight * policy_log_prob(policy, self.batch, self.spec)))

    def critic(self, critic: Weights, value: Weights) -> float:
        target = self.batch.reward + 0.9 * self.batch.discount * network(value, self.batch.next_observation)[:, 0]
        return float(((q_of_data(critic, self.batch, self.spec) - target) ** 2).mean(-1).sum())


@pytest.mark.parametrize("order", ["sequential", "joint"])
@pytest.mark.parametrize("spec", SPECS)
def test_iql_equals_numpy_in_losses_and_one_update(spec: EnvSpec, order: str) -> None:
    learner, state = learner_and_state("iql", spec, expectile=0.8, temperature=2.0, max_weight=1.5, tau=0.1, order=order)
    batch = batch_of(spec)
    plain, old = NumpyIQL(spec, batch, state.target), state.params
    losses = learner.losses(state, batch)
    assert losses["value_loss"].dtype == jnp.float64
    assert_close(losses["value_loss"], plain.value(old["value"]), 1e-12)
    assert_close(losses["policy_loss"], plain.policy(old["policy"], old["value"]), 1e-12)
    assert_close(losses["critic_loss"], plain.critic(old["critic"], old["value"]), 1e-12)

    new, metrics = learner.update(state, batch)
    grads = {"value": gradient(plain.value, old["value"])}
    value = adam_step(old["value"], grads["value"])
    seen = value if order == "sequential" else old["value"]
    grads["policy"] = gradient(lambda weights: plain.policy(weights, seen), old["policy"])
    grads["critic"] = gradient(lambda weights: plain.critic(weights, seen), old["critic"])
    assert_close(metrics["policy_loss"], plain.policy(old["policy"], seen))
    assert_close(metrics["critic_loss"], plain.critic(old["critic"], seen))
    for name, grad in grads.items():
        assert_close(metrics[f"{name}_grad_norm"], norm(grad), 1e-5)
        assert_close(new.params[name], adam_step(old[name], grad), 1e-5)
    assert_close(new.target, jax.tree.map(lambda t, q: 0.9 * t + 0.1 * q, state.target, new.params["critic"]), 1e-12)


@pytest.mark.parametrize("spec", SPECS)
def test_bc_equals_numpy(spec: EnvSpec) -> None:
    learner, state = learner_and_state("bc", spec)
    batch, old = batch_of(spec), state.params["policy"]

    def loss(policy: Weights) -> float:
        return float(-policy_log_prob(policy, batch, spec).mean())

    new, metrics = learner.update(state, batch)
    assert_close(metrics["policy_loss"], loss(old), 1e-12)
    assert_close(new.params["policy"], adam_step(old, gradient(loss, old)), 1e-5)


def test_cql_on_discrete_actions_equals_numpy() -> None:
    learner, state = learner_and_state("cql", DISCRETE, min_q_weight=0.7, conservative_temperature=0.5)
    batch, old = batch_of(DISCRETE), state.params["critic"]
    ahead, target_ahead = (
        np.stack([network(weights, batch.next_observation, member=i) for i in range(2)]).min(0) for weights in (old, state.target)
    )
    target = batch.reward + 0.9 * batch.discount * target_ahead[np.arange(B), ahead.argmax(-1)]

    def loss(critic: Weights) -> float:
        q = q_of_data(critic, batch, DISCRETE)
        everything = np.stack([network(critic, batch.observation, member=i) for i in range(2)])
        difference = 0.5 * np.log(np.exp(everything / 0.5).sum(-1)) - q
        return float(((q - target) ** 2).mean(-1).sum() + 0.7 * difference.mean(-1).sum())

    new, metrics = learner.update(state, batch)
    grad = gradient(loss, old)
    assert_close(metrics["critic_loss"], loss(old), 1e-12)
    assert_close(metrics["critic_grad_norm"], norm(grad), 1e-5)
    assert_close(new.params["critic"], adam_step(old, grad), 1e-5)


class NumpyCQL:
    """Continuous CQL(H), the learner's own noise given: uniform actions and standard normal draws, by its keys."""

    def __init__(self, state: Any, batch: Transition) -> None:
        self.state, self.batch = state, batch
        _, loss_key = jax.random.split(state.key)
        policy_key, target_key, set_key = jax.random.split(loss_key, 3)
        uniform_key, current_key, next_key = jax.random.split(set_key, 3)
        self.policy_noise, self.target_noise = (np.asarray(jax.random.normal(key, (B, 2))) for key in (policy_key, target_key))
        self.uniform = np.asarray(jax.random.uniform(uniform_key, (N, B, 2), minval=-1, maxval=1))
        self.current_noise, self.next_noise = (np.asarray(jax.random.normal(key, (N, B, 2))) for key in (current_key, next_key))

    def draw(self, policy: Weights, observation: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        output = network(policy, observation)
        mean, log_std = output[:, :2], np.clip(output[:, 2:], -20, 2)
        u = mean + np.exp(log_std) * noise
        return np.tanh(u), normal_log_prob(mean, log_std, u) - np.log(1 - np.tanh(u) ** 2).sum(-1)

    def q(self, critic: Weights, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        observation = np.broadcast_to(observation, (*action.shape[:-1], 2))
        return np.stack([network(critic, observation, action, member=i)[..., 0] for i in range(2)])

    def policy(self, policy: Weights) -> float:
        action, log_prob = self.draw(policy, self.batch.observation, self.policy_noise)
        q = self.q(self.state.params["critic"], self.batch.observation, action).min(0)
        return float(np.mean(np.exp(self.state.params["log_alpha"]) * log_prob - q))

    def alpha(self, log_alpha: float) -> float:
        _, log_prob = self.draw(self.state.params["policy"], self.batch.observation, self.policy_noise)
        return float(-log_alpha * (log_prob.mean() - 2))

    def difference(self, critic: Weights) -> np.ndarray:
        """Of each critic, the mean over the batch."""
        policy, batch = self.state.params["policy"], self.batch
        current, current_log_prob = self.draw(policy, batch.observation, self.current_noise)
        following, following_log_prob = self.draw(policy, batch.next_observation, self.next_noise)
        terms = [
            self.q(critic, batch.observation, self.uniform) - 2 * math.log(0.5),
            self.q(critic, batch.observation, current) - current_log_prob,
            self.q(critic, batch.observation, following) - following_log_prob,
        ]
        soft = np.log(np.exp(np.concatenate(terms, axis=1)).sum(1))
        return (soft - q_of_data(critic, batch, CONTINUOUS)).mean(-1)  # type: ignore[no-any-return]

    def bellman(self, critic: Weights) -> float:
        action, _ = self.draw(self.state.params["policy"], self.batch.next_observation, self.target_noise)
        next_v = self.q(self.state.target, self.batch.next_observation, action).min(0)
        target = self.batch.reward + 0.9 * self.batch.discount * next_v
        return float(((q_of_data(critic, self.batch, CONTINUOUS) - target) ** 2).mean(-1).sum())


def test_cql_on_continuous_actions_equals_numpy_in_losses_and_one_update() -> None:
    learner, state = learner_and_state("cql", CONTINUOUS, n_actions=N, policy_learning_rate=5e-4)
    batch, old = batch_of(CONTINUOUS), state.params
    plain = NumpyCQL(state, batch)

    def critic_loss(critic: Weights) -> float:
        return float(plain.bellman(critic) + 5 * plain.difference(critic).sum())

    new, metrics = learner.update(state, batch)
    assert_close(metrics["policy_loss"], plain.policy(old["policy"]), 1e-9)
    assert_close(metrics["critic_loss"], critic_loss(old["critic"]), 1e-9)
    assert_close(metrics["alpha_loss"], plain.alpha(float(old["log_alpha"])), 1e-9)
    grads = {"policy": gradient(plain.policy, old["policy"]), "critic": gradient(critic_loss, old["critic"])}
    for name, rate in {"policy": 5e-4, "critic": 1e-3}.items():
        assert_close(metrics[f"{name}_grad_norm"], norm(grads[name]), 1e-4)
        assert_close(new.params[name], adam_step(old[name], grads[name], rate), 1e-5)
    step = -5e-4 * np.sign(plain.alpha(1.0) - plain.alpha(0.0))
    assert_close(new.params["log_alpha"], old["log_alpha"] + step)


def test_lagrange_weighs_the_difference_and_moves_against_the_gap() -> None:
    learner, state = learner_and_state("cql", CONTINUOUS, n_actions=N, lagrange_gap=100.0, min_q_weight=2.0)
    plain, old = NumpyCQL(state, batch_of(CONTINUOUS)), state.params
    new, metrics = learner.update(state, batch_of(CONTINUOUS))
    alpha_prime = math.exp(float(old["log_alpha_prime"]))
    expected = plain.bellman(old["critic"]) + alpha_prime * 2 * (plain.difference(old["critic"]) - 100).sum()
    assert_close(metrics["critic_loss"], expected, 1e-9)
    assert new.params["log_alpha_prime"] < old["log_alpha_prime"], "the difference is under the gap, so its weight falls"
