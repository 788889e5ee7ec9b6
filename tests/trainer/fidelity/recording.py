"""The random numbers that a learner drew, for a reference to use the same ones.

While a call is recorded, the functions of `jax.random` that make arrays of numbers hand on what they return, in the order
of the calls. Keys are split as ever. Recording works inside `jit`: the draws become outputs of the compiled function.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import jax
import numpy as np

DRAWING = ("normal", "uniform", "bernoulli", "truncated_normal", "gumbel", "categorical", "randint", "permutation", "choice")


@contextmanager
def recorded(draws: list[Any]) -> Iterator[None]:
    def recording(draw: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            draws.append(draw(*args, **options))
            return draws[-1]

        return call

    with patch.multiple(jax.random, **{name: recording(getattr(jax.random, name)) for name in DRAWING}):
        yield


def with_draws(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, returning what it drew as well: (result, [array, ...])."""

    def call(*args: Any) -> tuple[Any, list[Any]]:
        draws: list[Any] = []
        with recorded(draws):
            result = function(*args)
        return result, draws

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
