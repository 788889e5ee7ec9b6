"""Schedules, clipping and averages, by numbers worked out by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trainer.learner import load_learner
from trainer.optimization import block_size, learning_rate, make_optimizers, mean_by_blocks, move_average, start_average

UPDATES = 8


def params(**options: Any) -> Any:
    return load_learner("iql").Params(learning_rate=0.4, **options)


def rates(network: str, **options: Any) -> list[float]:
    rate = learning_rate(params(**options), network, UPDATES)
    return [float(rate(jnp.int32(step))) if callable(rate) else float(rate) for step in range(UPDATES)]


def test_a_rate_is_constant_unless_its_network_decays() -> None:
    assert rates("critic", decay=("policy",)) == [0.4] * UPDATES
    np.testing.assert_allclose(rates("policy", decay=("policy",)), [0.2 * (1 + np.cos(np.pi * k / 8)) for k in range(8)], rtol=1e-5)
    np.testing.assert_allclose(rates("value", decay=("value",), decay_shape="linear"), [0.4 * (1 - k / 8) for k in range(8)], rtol=1e-6)


def test_the_policy_may_have_a_rate_of_its_own() -> None:
    assert rates("policy", decay=(), policy_learning_rate=0.1) == [0.1] * UPDATES
    assert rates("value", decay=(), policy_learning_rate=0.1) == [0.4] * UPDATES


def test_a_rate_warms_up_in_equal_steps_whatever_its_shape() -> None:
    np.testing.assert_allclose(rates("critic", warmup=4), [0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4], rtol=1e-6)
    linear = [0.4 * (1 - k / 8) * min(1, (k + 1) / 4) for k in range(8)]
    np.testing.assert_allclose(rates("policy", decay_shape="linear", warmup=4), linear, rtol=1e-6)


def test_a_gradient_is_clipped_to_its_norm_before_adam_and_weights_fall_by_the_decay() -> None:
    """Adam's second step tells the scale of the two gradients apart, which its first does not."""
    weights = {"w": jnp.asarray([2.0, 0.0])}
    for clip, first in ((None, (30.0, 40.0)), (5.0, (3.0, 4.0))):
        optimizer = make_optimizers(params(max_grad_norm=clip, weight_decay=0.1), UPDATES)["critic"]
        state = optimizer.init(weights)
        _, state = optimizer.update({"w": jnp.asarray([30.0, 40.0])}, state, weights)
        step, _ = optimizer.update({"w": jnp.asarray([0.3, 0.4])}, state, weights)
        g, h = np.asarray(first), np.asarray([0.3, 0.4])
        mean, square = (0.9 * 0.1 * g + 0.1 * h) / (1 - 0.9**2), (0.999 * 0.001 * g**2 + 0.001 * h**2) / (1 - 0.999**2)
        expected = -0.4 * (mean / (np.sqrt(square) + 1e-8) + 0.1 * np.asarray([2.0, 0.0]))
        np.testing.assert_allclose(step["w"], expected, rtol=1e-4)


def test_an_average_starts_at_the_weights_and_takes_a_share_of_each_new_one() -> None:
    average = start_average({"w": jnp.asarray([1.0])}, 0.75)
    for new, expected in ((5.0, 2.0), (10.0, 4.0)):
        average = move_average(average, {"w": jnp.asarray([new])}, 0.75)
        assert average["w"] == pytest.approx(expected)
    assert start_average({"w": jnp.asarray([1.0])}, None) == ()
    assert move_average((), {"w": jnp.asarray([1.0])}, None) == ()


def test_blocks_change_neither_a_mean_nor_its_gradient() -> None:
    rows = (jnp.arange(12.0).reshape(6, 2), jnp.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0]))
    weights = {"w": jnp.array([0.5, -1.0])}

    def function(weights: dict[str, jax.Array], rows: tuple[jax.Array, jax.Array]) -> jax.Array:
        return (rows[0] @ weights["w"] - rows[1]) ** 2

    def twice(weights: dict[str, jax.Array], size: int) -> jax.Array:
        return 2 * mean_by_blocks(function, weights, rows, size)

    expected, expected_grad = jax.value_and_grad(lambda w: 2 * jnp.mean(function(w, rows)))(weights)
    for size in (1, 2, 3, 6):
        value, grad = jax.jit(jax.value_and_grad(twice), static_argnums=1)(weights, size)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        np.testing.assert_allclose(grad["w"], expected_grad["w"], rtol=1e-6)
        np.testing.assert_allclose(twice(weights, size), expected, rtol=1e-6)


def test_no_gradient_reaches_the_rows_of_blocks() -> None:
    def loss(x: jax.Array, size: int) -> jax.Array:
        return mean_by_blocks(lambda w, rows: w * rows, jnp.float32(2), x * jnp.arange(4.0), size)

    for size in (2, 4):
        assert jax.grad(loss)(jnp.float32(3), size) == 0


def test_a_block_divides_the_batch_and_fits_the_cache() -> None:
    assert block_size(states=256, bytes_each=4 * 31 * 256) == 32
    assert block_size(states=250, bytes_each=4 * 31 * 256) == 25
    assert block_size(states=256, bytes_each=4 * 13 * 64) == 256
    assert block_size(states=7, bytes_each=2**30) == 1
