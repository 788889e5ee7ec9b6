"""Matrix products laid out so that a CPU computes them at full speed.

XLA's fast products on a CPU want the axis that is summed over to be the last one of the first factor. Forwards it is, and on the way
back to a layer's input. For the gradient of a layer's weights, x^T dz, it is not: that product takes a third longer, and transposing
x in memory is no faster. Where x comes out of a thin first layer, however, x^T is cheap to compute anew, transposed from the start.
On two cores an update of CQL takes about 5 % less time by it; with IQL the gain is too small to be told from noise.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def with_transposed(across: Array) -> Callable[..., Array]:
    """Returns x @ kernel in the form of `jax.lax.dot_general`: of x [..., I], kernel [I, O], and `across` [I, rows], x transposed.

    The gradient of the kernel is across @ dz. `across` has no gradient, so a second one by the kernel is not to be had.
    """

    def product(x: Array, kernel: Array, dimension_numbers: Any, precision: Any = None) -> Array:
        assert dimension_numbers == (((x.ndim - 1,), (0,)), ((), ())), dimension_numbers
        return _product(precision, x, kernel, jax.lax.stop_gradient(across))

    return product


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _product(precision: Any, x: Array, kernel: Array, across: Array) -> Array:  # noqa: ARG001
    return jnp.matmul(x, kernel, precision=precision)


def _forward(precision: Any, x: Array, kernel: Array, across: Array) -> tuple[Array, tuple[Array, Array]]:
    return _product(precision, x, kernel, across), (kernel, across)


def _backward(precision: Any, kept: tuple[Array, Array], grad: Array) -> tuple[Array, Array, Array]:
    kernel, across = kept
    rows = grad.reshape(-1, grad.shape[-1])
    return jnp.matmul(grad, kernel.T, precision=precision), jnp.matmul(across, rows, precision=precision), jnp.zeros_like(across)


_product.defvjp(_forward, _backward)
