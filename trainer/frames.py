"""Frames of learners: what all share that have a policy network, and what all share that have critics and targets beside it.

A learner's own file keeps what its paper says: its losses, and the order in which its networks move. Frames of families stand on
these: soft actor-critic in trainer/soft.py, TD3 in trainer/deterministic.py.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from rl_datasets.schema import EnvSpec, Transition, Tree
from trainer.actions import encode_action, take
from trainer.construction import Critics, example, make_critics
from trainer.encoders import default_float
from trainer.learner import Metrics
from trainer.optimization import check_batch, make_optimizers, move_average, move_target, start_average
from trainer.policies import Policy
from trainer.products import finished

Init = Callable[[Array], Tree]  # key -> weights
Moved = tuple[dict[str, Tree], dict[str, Tree], Metrics]  # params, states of the optimisers, metrics


class State(NamedTuple):
    """Of a learner with critics."""

    step: Array
    key: Array
    params: dict[str, Tree]  # by network; beside these the numbers that are learnt, such as log_alpha
    target: Tree  # of the critic; with TD3 of all networks, by name
    opt_state: dict[str, Tree]
    average: Tree  # of the network that the learner acts by, with ema_decay


@dataclass(frozen=True)
class PolicyLearner(ABC):
    """What it acts by, and its optimisers. Its state holds `params` and `average`, which `start_average` and `move_average` keep."""

    params: Any
    spec: EnvSpec
    updates: int

    def __post_init__(self) -> None:
        """To be called after the learner's own checks. Raises HindcastError where a network does not fit."""
        _ = self._inits

    @property
    def actor(self) -> str:
        """The network that it acts by."""
        return "policy"

    @property
    @abstractmethod
    def _policy(self) -> Policy:
        """Made once: a cached property."""

    @cached_property
    def _inits(self) -> Mapping[str, Init]:
        """How each network starts, in the order of the preset's NETWORKS."""
        return {"policy": functools.partial(self._policy.init, observation=example(self.spec)[0])}

    @cached_property
    def _optimizers(self) -> Mapping[str, optax.GradientTransformation]:
        return make_optimizers(self.params, self.updates)

    def policy(self, state: Any) -> Tree:
        return state.params[self.actor] if self.params.ema_decay is None else state.average

    def act(self, policy: Tree, observation: Tree) -> Array:
        return self._policy.mode(self._policy.output(policy, observation))

    def sample(self, policy: Tree, key: Array, observation: Tree) -> Array:
        return self._policy.sample(self._policy.output(policy, observation), key)

    def _action(self, batch: Transition) -> Array:
        """The data's actions, encoded."""
        return encode_action(batch.action, self.spec.action, self.params.action_clip)


@dataclass(frozen=True)
class ActorCritic(PolicyLearner):
    """Critics, a target of theirs that follows them, and a policy. A learner says how they move, and its losses."""

    @abstractmethod
    def _move(self, state: State, batch: Transition, key: Array) -> Moved:
        """One step of every optimiser, in the paper's order."""

    @abstractmethod
    def _losses(self, state: State, batch: Transition) -> Metrics:
        """The metrics of `_move` without a step."""

    @cached_property
    def _critic(self) -> Critics:
        return make_critics(self.params, self.spec)

    @cached_property
    def _inits(self) -> Mapping[str, Init]:
        return {"critic": self._critic.init, **super()._inits}

    def _numbers(self) -> dict[str, float]:
        """Numbers that are learnt beside the networks, as they start."""
        return {}

    def init(self, key: Array) -> State:
        key, *keys = jax.random.split(key, 1 + len(self.params.NETWORKS))
        params = {name: start(k) for (name, start), k in zip(self._inits.items(), keys, strict=False)}
        params |= {name: jnp.asarray(value, default_float()) for name, value in self._numbers().items()}
        opt_state = {name: self._optimizers[name].init(params[name]) for name in params}
        # copies, because a caller that donates the state may not hand over one buffer twice
        target = jax.tree.map(jnp.copy, self._followed(params))
        return State(jnp.int32(0), key, params, target, opt_state, start_average(params[self.actor], self.params.ema_decay))

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        check_batch(batch, self.spec)
        key, move_key = jax.random.split(state.key)
        params, opt_state, metrics = self._move(state, batch, move_key)
        # the target moves behind all that reads it: XLA then orders the products so that a CPU is done with them sooner
        old, metrics = finished((state.target, metrics))
        target = self._moved_target(state._replace(target=old), params)
        average = move_average(state.average, params[self.actor], self.params.ema_decay)
        return State(state.step + 1, key, params, target, opt_state, average), metrics

    def losses(self, state: State, batch: Transition) -> Metrics:
        check_batch(batch, self.spec)
        return self._losses(state, batch)

    def _followed(self, params: dict[str, Tree]) -> Tree:
        """What the target follows."""
        return params["critic"]

    def _moved_target(self, state: State, params: dict[str, Tree]) -> Tree:
        """The target after the networks' step to `params`."""
        return move_target(state.target, self._followed(params), self.params.tau)

    def _q(self, critic: Tree, batch: Transition) -> Array:
        """q_i(s, a) of the data's actions, [critics, B]."""
        action = self._action(batch)
        if self.spec.action.is_discrete:
            return take(self._critic(critic, batch.observation), action)
        return self._critic(critic, batch.observation, action)

    def _min_q(self, critic: Tree, observation: Tree, action: Array | None = None) -> Array:
        """min_i q_i: [B, num_actions] without an action, [..., B] of an encoded action [..., B, A]."""
        return jnp.min(self._critic(critic, observation, action), axis=0)
