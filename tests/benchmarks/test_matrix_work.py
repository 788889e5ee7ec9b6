"""The count of matrix products that the speed of learning is measured by."""

from itertools import pairwise

import jax
import jax.numpy as jnp

from tests.benchmarks import matrix_work
from tests.benchmarks.matrix_work import Shapes

ONES = Shapes(batch=1, observation=1, action=1, hidden=(1, 1))


def test_layers_by_hand() -> None:
    assert matrix_work.forward(2, (3, 4, 5)) == 2 * 2 * (3 * 4 + 4 * 5)
    assert matrix_work.backward(2, (3, 4, 5)) == 2 * 2 * (3 * 4 + 4 * 5 + 4 * 5)


def test_a_network_as_xla_counts_it() -> None:
    def loss(weights: list[jax.Array], batch: jax.Array) -> jax.Array:
        return jnp.sum((batch @ weights[0] @ weights[1]) ** 2)

    sizes = (170, 320, 10)
    weights = [jnp.zeros(shape) for shape in pairwise(sizes)]
    counted = jax.jit(jax.grad(loss)).lower(weights, jnp.zeros((64, 170))).compile().cost_analysis()["flops"]
    expected = matrix_work.forward(64, sizes) + matrix_work.backward(64, sizes)
    assert expected <= counted <= 1.01 * expected


def test_learners_by_hand() -> None:
    """Layers of 3 products with one input, of 4 with two; backwards 5 and 6, each product 2 operations."""
    assert matrix_work.bc(ONES) == 2 * (3 + 5)
    assert matrix_work.iql(ONES, "joint") == 2 * ((3 + 3 + 5) + 2 * (4 + 4 + 6) + (3 + 5))
    assert matrix_work.iql(ONES, "sequential") - matrix_work.iql(ONES, "joint") == 2 * 3
    policies = 2 * 4 + 7  # the output has two numbers an element of the action
    sets, target, to_action = 4 * (3 + 5) + 2, 4, 4 + 3
    assert matrix_work.cql(ONES, n_actions=1) == 2 * (policies + 2 * (sets + target + to_action))
