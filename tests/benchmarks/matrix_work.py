"""The matrix products that one update cannot do without, in floating-point operations counted from the shapes.

A product of [M, K] and [K, N] is 2 M K N operations. Backwards, every layer needs the gradient of its weights, and every layer
whose input depends on what is learnt the gradient of its input, each as much as the layer itself. Elementwise work is not counted.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple


class Shapes(NamedTuple):
    batch: int
    observation: int
    action: int
    hidden: tuple[int, ...]
    critics: int = 2


def forward(rows: int, sizes: Sequence[int]) -> int:
    """Of a network with layers sizes[0] -> sizes[1] -> ..."""
    return sum(2 * rows * inputs * outputs for inputs, outputs in pairwise(sizes))


def backward(rows: int, sizes: Sequence[int]) -> int:
    """Of the weights' gradients in every layer, and the inputs' in every layer but the first."""
    return forward(rows, sizes) + forward(rows, sizes[1:])


def bc(shapes: Shapes) -> int:
    sizes = (shapes.observation, *shapes.hidden, shapes.action)
    return forward(shapes.batch, sizes) + backward(shapes.batch, sizes)


def iql(shapes: Shapes, order: str) -> int:
    """v(s) and its step, v(s'), target critics, critics and policy; in the sequential order v(s) once more, with the new value."""
    batch, hidden = shapes.batch, shapes.hidden
    value, critic = (shapes.observation, *hidden, 1), (shapes.observation + shapes.action, *hidden, 1)
    values = (3 if order == "sequential" else 2) * forward(batch, value) + backward(batch, value)
    critics = shapes.critics * (2 * forward(batch, critic) + backward(batch, critic))
    return values + critics + bc(shapes)


def cql(shapes: Shapes, n_actions: int) -> int:
    """With importance sampling, every network run once for each input, and the critics' first layer once for each state.

    The policy at s with its step and at s'; the critics at the data's action and the set of 3 n_actions, with their step; the
    target critics at s'; the critics at the policy's action, and back to that action.
    """
    batch, hidden = shapes.batch, shapes.hidden
    policy, critic = (shapes.observation, *hidden, 2 * shapes.action), (shapes.observation + shapes.action, *hidden, 1)
    policies = 2 * forward(batch, policy) + backward(batch, policy)
    rows, states, actions = batch * (1 + 3 * n_actions), (shapes.observation, hidden[0]), (shapes.action, *hidden, 1)
    sets = forward(rows, actions) + backward(rows, actions) + 2 * forward(batch, states)
    to_action = forward(batch, critic) + forward(batch, critic[1:]) + forward(batch, (shapes.action, hidden[0]))
    return policies + shapes.critics * (sets + forward(batch, critic) + to_action)
