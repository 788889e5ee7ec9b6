"""Matrix products laid out so that a CPU computes them at full speed; elsewhere they are plain ones.

XLA's fast products on a CPU want row-major factors, the axis that is summed over last in the first, and with stacked weights every
member's factors at hand. Of a layer, x @ kernel, that is so forwards and on the way back to x, save where all members see one x: XLA
makes one product of theirs and takes it apart in memory. And it is not so for the gradient of the kernel, x^T dz: XLA takes every
transposition into the product, which then costs a third more, or five times as much where a factor is thin. Here x is handed to each
member, and the thinner factor is transposed in memory beforehand, behind a barrier. Where x comes out of a thin first layer, x^T is
cheaper to compute anew, transposed from the start.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def product(x: Array, kernel: Array, across: Array | None = None) -> Array:
    """x @ kernel, of x [..., I] and kernel [I, O].

    With `across`, which is x transposed, [I, rows], the gradient of the kernel is across @ dz. `across` has no gradient, so a second
    one by the kernel is then not to be had.
    """
    if not on_cpu():
        return jnp.matmul(x, kernel)
    outputs: Array = _product(x, kernel, jax.lax.stop_gradient(across))
    return outputs


def in_layers(across: Array | None = None) -> Callable[..., Array]:
    """`product` in the form of `jax.lax.dot_general`, for flax's layers."""

    def dot_general(x: Array, kernel: Array, dimension_numbers: Any, precision: Any = None) -> Array:
        assert dimension_numbers == (((x.ndim - 1,), (0,)), ((), ())), dimension_numbers
        assert precision is None, "the precision of products is set for the whole program"
        return product(x, kernel, across)

    return dot_general


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def transposed(matrix: Array) -> Array:
    """In memory, so that XLA does not take it into a product."""
    rows: Array = finished(matrix.T)
    return rows


def finished(values: Any) -> Any:
    """Returns arrays as they are, all of them there before any is used: XLA takes nothing across, and a product stays one."""
    return jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]


@jax.custom_vjp
def _product(x: Array, kernel: Array, across: Array | None) -> Array:  # noqa: ARG001
    outputs: Array = _matmul(x, kernel)
    return outputs


def _forward(x: Array, kernel: Array, across: Array | None) -> tuple[Array, tuple[Array, Array, Array | None]]:
    return _product(x, kernel, across), (x, kernel, across)


def _backward(kept: tuple[Array, Array, Array | None], grad: Array) -> tuple[Array, Array, Array | None]:
    x, kernel, across = kept
    rows, grads = (array.reshape(-1, array.shape[-1]) for array in (x, grad))
    by_x = _product(grad, kernel.T, None)
    if across is not None:
        return *finished((by_x, _product(across, grads, None))), jnp.zeros_like(across)
    if grads.shape[1] < rows.shape[1]:
        return by_x, finished(_product(transposed(grads), rows, None)).T, None
    return by_x, _product(transposed(rows), grads, None), None


_product.defvjp(_forward, _backward)


@jax.custom_batching.custom_vmap
def _matmul(x: Array, kernel: Array) -> Array:
    return jnp.matmul(x, kernel)


@_matmul.def_vmap
def _matmul_of_members(size: int, batched: list[bool], x: Array, kernel: Array) -> tuple[Array, bool]:
    each = (a if has_axis else jnp.broadcast_to(a, (size, *a.shape)) for a, has_axis in zip((x, kernel), batched, strict=True))
    return jax.vmap(jnp.matmul)(*each), True
