"""The random numbers that a learner drew, for a reference to use the same ones.

While a call is recorded, the functions of `jax.random` that make arrays of numbers hand on what they return, in the order of the
calls. Keys are split as ever. Recording works inside `jit`, where the draws become outputs of the compiled function, and inside
`vmap`, where a draw has the mapped axis first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import jax
import numpy as np

DRAWING = ("normal", "uniform", "bernoulli", "truncated_normal", "gumbel", "categorical", "randint", "permutation", "choice")


class Recorder:
    def __init__(self) -> None:
        self.lists: list[list[Any]] = [[]]  # the last is of the innermost mapping that is being traced

    def drawing(self, draw: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.lists[-1].append(draw(*args, **options))
            return self.lists[-1][-1]

        return call

    @contextmanager
    def apart(self) -> Iterator[list[Any]]:
        self.lists.append([])
        try:
            yield self.lists[-1]
        finally:
            self.lists.pop()

    def mapping(self, vmap: Callable[..., Any]) -> Callable[..., Any]:
        """`jax.vmap`, the draws in it being outputs of what is mapped."""

        def mapped(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, **options: Any) -> Callable[..., Any]:
            def with_inner(*args: Any) -> tuple[Any, list[Any]]:
                with self.apart() as inner:
                    return function(*args), inner

            def call(*args: Any) -> Any:
                result, drawn = vmap(with_inner, in_axes, (out_axes, 0), **options)(*args)
                self.lists[-1].extend(drawn)
                return result

            return call

        return mapped

    def shaping(self, eval_shape: Callable[..., Any]) -> Callable[..., Any]:
        """`jax.eval_shape`, in which nothing is drawn: flax looks by it at how weights would start."""

        def call(*args: Any, **options: Any) -> Any:
            with self.apart():
                return eval_shape(*args, **options)

        return call


def with_draws(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, returning what it drew as well: (result, [array, ...])."""

    def call(*args: Any) -> tuple[Any, list[Any]]:
        recorder = Recorder()
        changed: dict[str, Any] = {name: recorder.drawing(getattr(jax.random, name)) for name in DRAWING}
        around = {"vmap": recorder.mapping(jax.vmap), "eval_shape": recorder.shaping(jax.eval_shape)}
        with patch.multiple(jax.random, **changed), patch.multiple(jax, **around):
            return function(*args), recorder.lists[0]

    return call


class Draws:
    """What was recorded of one call, taken by the reference one by one, the shape of each checked."""

    def __init__(self, arrays: list[Any]) -> None:
        self.left = [np.asarray(array) for array in arrays]

    def take(self, *shape: int) -> np.ndarray:
        assert self.left, f"the equations need another draw of shape {shape}, but the learner drew no more"
        drawn = self.left.pop(0)
        assert drawn.shape == shape, f"the equations draw {shape} here, the learner {drawn.shape}, and {len(self.left)} more after it"
        return drawn if drawn.dtype == bool else drawn.astype(np.float64)

    def done(self) -> None:
        assert not self.left, f"the learner drew {len(self.left)} arrays more than the equations need: {[x.shape for x in self.left]}"
