"""Reverse-mode differentiation over NumPy arrays in float64: what the references take their gradients with.

A `Var` remembers what it was computed from. The primitives stand first; whatever else a loss needs is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

Pull = Callable[[np.ndarray], np.ndarray]  # the gradient of the result -> the gradient of one input


class Var:
    """An array [any shape] and how gradients flow from it to its inputs."""

    __array_ufunc__ = None  # so that array + Var comes here

    def __init__(self, value: Any, *inputs: tuple[Var, Pull]) -> None:
        self.value = np.asarray(value, np.float64)
        self.inputs = inputs
        self.grad = np.zeros_like(self.value)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def __add__(self, other: Any) -> Var:
        b = var(other)
        return Var(self.value + b.value, (self, fit(self)), (b, fit(b)))

    def __mul__(self, other: Any) -> Var:
        b = var(other)
        return Var(self.value * b.value, (self, fit(self, b.value)), (b, fit(b, self.value)))

    def __pow__(self, power: float) -> Var:
        return Var(self.value**power, (self, fit(self, power * self.value ** (power - 1))))

    def __matmul__(self, other: Any) -> Var:
        """[..., n] @ [n, m]."""
        b = var(other)
        rows = self.value.reshape(-1, b.shape[0])
        return Var(self.value @ b.value, (self, lambda g: g @ b.value.T), (b, lambda g: rows.T @ g.reshape(-1, b.shape[1])))

    def __getitem__(self, index: Any) -> Var:
        def pull(g: np.ndarray) -> np.ndarray:
            out = np.zeros_like(self.value)
            np.add.at(out, index, g)
            return out

        return Var(self.value[index], (self, pull))

    @property
    def T(self) -> Var:  # noqa: N802
        return Var(self.value.T, (self, lambda g: g.T))

    def sum(self, axis: int | None = None, keepdims: bool = False) -> Var:
        def pull(g: np.ndarray) -> np.ndarray:
            return np.broadcast_to(g if axis is None or keepdims else np.expand_dims(g, axis), self.shape)

        return Var(self.value.sum(axis=axis, keepdims=keepdims), (self, pull))

    def mean(self, axis: int | None = None, keepdims: bool = False) -> Var:
        return self.sum(axis, keepdims) / (self.value.size if axis is None else self.shape[axis])

    def __neg__(self) -> Var:
        return self * -1.0

    def __sub__(self, other: Any) -> Var:
        return self + -var(other)

    def __truediv__(self, other: Any) -> Var:
        return self * var(other) ** -1.0

    def __rsub__(self, other: Any) -> Var:
        return var(other) - self

    __radd__, __rmul__ = __add__, __mul__


def var(x: Any) -> Var:
    return x if isinstance(x, Var) else Var(x)


def fit(x: Var, factor: Any = 1.0) -> Pull:
    """Pulls the gradient times a factor back to the shape that `x` was broadcast from."""

    def pull(g: np.ndarray) -> np.ndarray:
        g = g * factor
        g = g.sum(axis=tuple(range(g.ndim - len(x.shape))))
        return g.sum(axis=tuple(i for i, size in enumerate(x.shape) if size == 1 != g.shape[i]), keepdims=True)

    return pull


def exp(x: Var) -> Var:
    value = np.exp(x.value)
    return Var(value, (x, lambda g: g * value))


def log(x: Var) -> Var:
    return Var(np.log(x.value), (x, lambda g: g / x.value))


def tanh(x: Var) -> Var:
    value = np.tanh(x.value)
    return Var(value, (x, lambda g: g * (1 - value**2)))


def where(condition: np.ndarray, a: Any, b: Any) -> Var:
    a, b = var(a), var(b)
    return Var(np.where(condition, a.value, b.value), (a, fit(a, condition)), (b, fit(b, ~condition)))


def concatenate(parts: Sequence[Any], axis: int) -> Var:
    parts = [var(part) for part in parts]
    ends = np.cumsum([part.shape[axis] for part in parts])

    def pull(start: int, end: int) -> Pull:
        return lambda g: np.take(g, np.arange(start, end), axis)

    inputs = [(part, pull(end - part.shape[axis], end)) for part, end in zip(parts, ends, strict=True)]
    return Var(np.concatenate([part.value for part in parts], axis), *inputs)


def stop(x: Any) -> Var:
    """The value alone: no gradient passes."""
    return Var(var(x).value)


def stack(parts: Sequence[Var]) -> Var:
    return concatenate([part[None] for part in parts], 0)


def relu(x: Var) -> Var:
    return where(x.value > 0, x, 0.0)


def minimum(a: Var, b: Any) -> Var:
    return where(a.value < var(b).value, a, b)


def clip(x: Var, low: float, high: float) -> Var:
    return where(x.value < low, low, where(x.value > high, high, x))


def smallest(x: Var) -> Var:
    """The minimum over the first axis; its gradient goes to where it is."""
    return x[(np.argmin(x.value, axis=0), *np.indices(x.shape[1:]))]


def largest(x: Var) -> Var:
    return -smallest(-x)


def logsumexp(x: Var, axis: int) -> Var:
    top = x.value.max(axis=axis, keepdims=True)
    return log(exp(x - top).sum(axis)) + np.squeeze(top, axis)


def softplus(x: Var) -> Var:
    """log(1 + e^x), without overflow."""
    return where(x.value > 0, x + log(exp(where(x.value > 0, -x, 0.0)) + 1.0), log(exp(where(x.value > 0, 0.0, x)) + 1.0))


def gradient(loss: Callable[[Any], Var], weights: Any) -> tuple[float, Any]:
    """The loss at the weights, a pytree of arrays, and its gradient, a pytree of the same structure."""
    variables = jax.tree.map(Var, weights)
    result = loss(variables)
    result.grad = np.ones_like(result.value)
    for node in reversed(_in_order(result)):
        for source, pull in node.inputs:
            source.grad = source.grad + pull(node.grad)
    return float(result.value), jax.tree.map(lambda v: v.grad, variables)


def _in_order(result: Var) -> list[Var]:
    """Everything that the result was computed from, inputs before what uses them."""
    order: list[Var] = []
    seen: set[int] = set()
    pending = [(result, False)]
    while pending:
        node, done = pending.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            pending.append((node, True))
            pending.extend((source, False) for source, _ in node.inputs)
    return order
