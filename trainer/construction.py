"""Values and critics, made from the preset and the spec in one place.

A custom value or critic, `networks: {critic: {module: ...}}`, is called with an observation (leaves [B, ...]) and, where it is a
critic of a continuous action, with the action [B, A] in [-1, 1]. A value returns [B]; so does such a critic; a critic of a discrete
action returns [B, num_actions]. It is one critic: the ensemble stacks `num_critics` of it, and an action with more leading axes is
mapped over them, what depends on the observation alone being computed once for each state.
"""

from dataclasses import dataclass
from typing import Any

import flax.linen as nn
import jax
from jax import Array

from rl_datasets.schema import EnvSpec, Tree
from trainer.actions import encode_action
from trainer.custom import batch_of, check_output, custom_module
from trainer.encoders import leaf_encoders
from trainer.learner import LearnerParams
from trainer.networks import Critic, Value, style_of


def example(spec: EnvSpec) -> tuple[Tree, Array]:
    """An observation and an encoded action of zeros, with a batch axis of 1: what networks are initialised with."""
    return batch_of(spec.observation, 1), encode_action(batch_of(spec.action, 1), spec.action)


@dataclass(frozen=True)
class Values:
    """v(s)."""

    network: nn.Module
    spec: EnvSpec

    def init(self, key: Array) -> Tree:
        return self.network.init(key, example(self.spec)[0])

    def __call__(self, params: Tree, observation: Tree) -> Array:
        """[B]."""
        v: Array = self.network.apply(params, observation)  # type: ignore[assignment]
        return v


@dataclass(frozen=True)
class Critics:
    """An ensemble of critics as one module with stacked parameters: leaves [critics, ...], one row a critic."""

    network: nn.Module
    apart: nn.Module  # the same, each critic with an action of its own
    spec: EnvSpec
    mapped: bool  # whether further axes of an action are mapped over; the built-in critics take them as they come

    def init(self, key: Array) -> Tree:
        observation, action = example(self.spec)
        return self.network.init(key, *((observation,) if self.spec.action.is_discrete else (observation, action)))

    def __call__(self, params: Tree, observation: Tree, action: Array | None = None) -> Array:
        """q(s, .) [critics, B, num_actions] without an action; q(s, a) [critics, ..., B] of an encoded action [..., B, A]."""
        if action is None:
            return self._apply(params, observation)
        apply, axes = self._apply, action.ndim - 2
        for _ in range(axes if self.mapped else 0):
            apply = jax.vmap(apply, in_axes=(None, None, 0), out_axes=1)
        return apply(params, observation, action)

    def of_own_actions(self, params: Tree, observation: Tree, action: Array) -> Array:
        """q_i(s, a_i) [critics, B] of an encoded action for each critic, [critics, B, A]."""
        q: Array = self.apart.apply(params, observation, action)  # type: ignore[assignment]
        return q

    def _apply(self, *inputs: Any) -> Array:
        q: Array = self.network.apply(*inputs)  # type: ignore[assignment]
        return q


def make_value(params: Any, spec: EnvSpec) -> Values:
    """`params` with `CriticParams`. Raises HindcastError where a custom module does not fit."""
    custom = _custom(params, spec, "value")
    if custom is None:
        return Values(Value(leaf_encoders(params, spec), style_of(params, "value", params.layer_norm)), spec)
    check_output(custom, (batch_of(spec.observation, 2),), ((2,),), "networks.value")
    return Values(custom, spec)


def make_critics(params: Any, spec: EnvSpec) -> Critics:
    """`params` with `CriticParams`. Raises HindcastError where a custom module does not fit."""
    num_actions, custom = spec.action.num_values, _custom(params, spec, "critic")
    if custom is None:
        style = style_of(params, "critic", params.layer_norm)
        built_in = (leaf_encoders(params, spec), style, num_actions, params.advantage_hidden_sizes)
        together, apart = (_stacked(params.num_critics, in_axes)(*built_in) for in_axes in (None, (None, 0)))
        return Critics(together, apart, spec, mapped=False)
    observation, action = batch_of(spec.observation, 2), encode_action(batch_of(spec.action, 2), spec.action)
    inputs, expected = ((observation, action), (2,)) if num_actions is None else ((observation,), (2, num_actions))
    check_output(custom, inputs, (expected,), "networks.critic")
    together, apart = (Ensemble(custom, params.num_critics, in_axes) for in_axes in (None, (None, 0)))
    return Critics(together, apart, spec, mapped=True)


class Ensemble(nn.Module):
    """`size` copies of a critic, each with weights of its own."""

    critic: nn.Module
    size: int
    in_axes: tuple[None, int] | None = None  # (None, 0): of an action for each critic

    @nn.compact
    def __call__(self, *inputs: Any) -> Array:
        def call(critic: nn.Module, *inputs: Any) -> Array:
            return critic(*inputs)  # type: ignore[no-any-return]

        q: Array = _stacked(self.size, self.in_axes, call)(self.critic, *inputs)
        return q


def _stacked(size: int, in_axes: tuple[None, int] | None, critic: Any = Critic) -> Any:
    options: dict[str, Any] = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}, "in_axes": in_axes, "out_axes": 0}
    return nn.vmap(critic, axis_size=size, **options)


def _custom(params: LearnerParams, spec: EnvSpec, name: str) -> nn.Module | None:
    own = params.networks.get(name)
    return None if own is None or own.module is None else custom_module(own.module, own.options, spec, f"networks.{name}")
