"""Products that are laid out for a CPU: the same values and gradients as plain ones."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trainer.networks import Style, Torso
from trainer.products import product

LAST_WITH_FIRST = (((1,), (0,)), ((), ()))


def random(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def test_the_gradient_of_the_kernel_is_the_transposed_factor_times_the_outputs() -> None:
    x, kernel, across = random(0, 5, 3), random(1, 3, 2), random(2, 3, 5)  # not x transposed, so that it shows which one is taken
    value, back = jax.vjp(lambda x, kernel: product(x, kernel, across), x, kernel)
    np.testing.assert_allclose(value, np.asarray(x) @ np.asarray(kernel), rtol=1e-5)
    grad = random(3, 5, 2)
    by_x, by_kernel = back(grad)
    np.testing.assert_allclose(by_x, np.asarray(grad) @ np.asarray(kernel).T, rtol=1e-5)
    np.testing.assert_allclose(by_kernel, np.asarray(across) @ np.asarray(grad), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [2, 5], ids=["thin outputs", "wide outputs"])
@pytest.mark.parametrize("lead", [(4,), (3, 4)], ids=["rows", "sets of rows"])
@pytest.mark.parametrize("axis", [None, 0], ids=["one x for all", "an x for each"])
def test_stacked_products_have_the_gradients_of_plain_ones(outputs: int, lead: tuple[int, ...], axis: int | None) -> None:
    """The first ones and, of the gradient by x, the second ones by both."""
    members = 2
    x, kernel = random(0, *(() if axis is None else (members,)), *lead, 3), random(1, members, 3, outputs)

    def total(product: Callable[..., jax.Array], x: jax.Array, kernel: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(jax.vmap(product, in_axes=(axis, 0))(x, kernel)))

    def slope(product: Callable[..., jax.Array], x: jax.Array, kernel: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(total, 1)(product, x, kernel) ** 2)

    for function in (total, slope):
        found, expected = (jax.grad(function, (1, 2))(own, x, kernel) for own in (product, jnp.matmul))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def plain(weights: dict, features: jax.Array, action: jax.Array | None) -> jax.Array:
    """The torso of two layers, written down without any of its layouts."""
    if action is not None:
        features = jnp.concatenate([jnp.broadcast_to(features, (*action.shape[:-1], features.shape[-1])), action], axis=-1)
    hidden = jax.nn.gelu(jnp.matmul(features, weights["kernel"]) + weights["bias"][(None,) * (features.ndim - 1)])
    second = weights["Dense_0"]
    return jax.nn.gelu(jnp.matmul(hidden, second["kernel"]) + second["bias"][(None,) * (features.ndim - 1)])


@pytest.mark.slow
@pytest.mark.parametrize("lead", [None, (), (3,), (2, 3)], ids=["no action", "one action", "a set", "sets"])
@pytest.mark.parametrize("critics", [1, 2])
def test_a_torso_has_the_gradients_of_plain_products(lead: tuple[int, ...] | None, critics: int) -> None:
    torso = Torso(Style((6, 4), activation="gelu"))
    features, action = random(0, 5, 3), None if lead is None else random(1, *lead, 5, 2)
    init = jax.jit(jax.vmap(lambda key: torso.init(key, features, action)["params"]))
    weights = init(jax.random.split(jax.random.key(0), critics))
    weights = jax.tree.map(lambda w: w + 0.3 * random(2, *w.shape), weights)

    def loss(apply, weights: dict, features: jax.Array, action: jax.Array | None) -> jax.Array:
        return jnp.sum(jnp.sin(jax.vmap(lambda w: apply(w, features, action))(weights)))

    def own(weights: dict, features: jax.Array, action: jax.Array | None) -> jax.Array:
        return torso.apply({"params": weights}, features, action)  # type: ignore[return-value]

    inputs = (0, 1) if action is None else (0, 1, 2)
    found, expected = (jax.jit(jax.grad(lambda *x, f=f: loss(f, *x), inputs))(weights, features, action) for f in (own, plain))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)
