"""The critics of a policy that stays as it is: what `loop.fit` drives, one policy in the place of each seed.

Departures from the papers: a target follows the critics by Polyak averaging after each update, where Le et al. fit to the end before
the target moves; each critic of an ensemble has a target of its own, none is the least of them, and the estimate is their mean.

Transitions arrive raw. Critics see observations standardised by the train split and rewards divided by the size that returns may
have, so that what they learn is near one; values leave in the unit of the logged rewards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.lax import stop_gradient

from rl_datasets.errors import HindcastError
from rl_datasets.schema import EnvSpec, NextAction, Transition, Tree
from trainer.actions import encode_action, require_learnable, take
from trainer.construction import Critics, make_critics
from trainer.fitted_q.params import FittedQParams
from trainer.learner import CriticParams, Learner, LearnerParams, Metrics
from trainer.optimization import check_batch, descend, make_optimizers, mean_and_std, move_target
from trainer.preprocessing import Preprocessor


class FitParams(LearnerParams, CriticParams):
    """The options of critics and optimisers, as learners have them."""

    NETWORKS = ("critic",)
    NEXT_ACTION = True


class Subject(NamedTuple):
    """Whose actions are valued: those of a policy, or the data's own."""

    preprocessor: Preprocessor  # the policy's
    policy: Tree  # its weights
    is_behaviour: Any  # [] bool: the data's actions; the policy then counts for nothing


class State(NamedTuple):
    step: Array
    key: Array
    params: dict[str, Tree]  # critic
    target: Tree
    opt_state: dict[str, Tree]
    subject: Subject


def fitted_target(reward: Array, discount: Array, next_q: Array, gamma: float) -> Array:
    """r + gamma d q_target_i(s', a'), [critics, B]; reward and discount [B], next_q [critics, B] (Le et al. 2019, alg. 3)."""
    return stop_gradient(jnp.expand_dims(reward, 0) + gamma * jnp.expand_dims(discount, 0) * next_q)


def fitted_loss(q: Array, target: Array, weight: Array) -> Array:
    """The sum over the critics of the mean of (q_i(s, a) - target_i)^2, of transitions by weight [B]; zero where none counts."""
    squares = jnp.expand_dims(weight, 0) * (q - target) ** 2
    return jnp.sum(squares) / jnp.maximum(jnp.sum(weight), 1.0)


def counts(next_action: NextAction, discount: Array) -> Array:
    """[B] float: 1 where the data tell what the behaviour did next, or nothing came after; 0 where an episode was cut."""
    return jnp.where(discount == 0, jnp.ones_like(next_action.exists), next_action.exists)


@dataclass(frozen=True, eq=False)
class FittedQ:
    """`actor` is the learner whose policies are valued, `scaling` what critics see of a transition."""

    params: FitParams
    spec: EnvSpec
    updates: int
    actor: Learner[Any]
    scaling: Preprocessor

    def __post_init__(self) -> None:
        require_learnable(self.spec, "fitted Q evaluation")
        _ = self._critic

    @cached_property
    def _critic(self) -> Critics:
        return make_critics(self.params, self.spec)

    @cached_property
    def _optimizers(self) -> Mapping[str, optax.GradientTransformation]:
        return make_optimizers(self.params, self.updates)

    def init(self, key: Array, *given: Subject) -> State:
        key, critic_key = jax.random.split(key)
        critic = self._critic.init(critic_key)
        opt_state = {"critic": self._optimizers["critic"].init(critic)}
        # copies, because a caller that donates the state may not hand over one buffer twice, nor what the caller keeps
        return State(jnp.int32(0), key, {"critic": critic}, _copy(critic), opt_state, _copy(given[0]))

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        check_batch(batch, self.spec)
        grad, metrics = jax.grad(self._loss, has_aux=True)(state.params["critic"], state.target, state.subject, batch)
        params, opt_state, norms = descend(self._optimizers, {"critic": grad}, state.params, state.opt_state)
        target = move_target(state.target, params["critic"], self.params.tau)
        moved = state._replace(step=state.step + 1, params=params, target=target, opt_state=opt_state)
        return moved, {**metrics, **norms}

    def losses(self, state: State, batch: Transition) -> Metrics:
        """`value`, the mean over a batch of states of what `values` gives: on initial states, the estimate so far."""
        return {"value": jnp.mean(self.values(state.target, state.subject, batch.observation, batch.action))}

    def policy(self, state: State) -> Tree:
        """The target critics, which average over the last updates."""
        return state.target

    def values(self, critic: Tree, subject: Subject, observation: Tree, action: Array) -> Array:
        """q_i(s, pi(s)) of raw observations [B, ...], [critics, B] in the unit of rewards; of the behaviour q_i(s, a) of `action`."""
        chosen = self._chosen(subject, observation, action)
        values: Array = self._q(critic, self.scaling.observation(observation), chosen) / self.scaling.reward_scale
        return values

    def _loss(self, critic: Tree, target: Tree, subject: Subject, batch: Transition) -> tuple[Array, Metrics]:
        if not isinstance(batch.next_action, NextAction):
            raise HindcastError("Fitted Q evaluation needs the data's next actions. Open the stream with next_action=True.")
        seen = self.scaling.transition(batch)
        next_action = self._chosen(subject, batch.next_observation, batch.next_action.action)
        next_q = self._q(target, seen.next_observation, next_action)
        y = fitted_target(seen.reward, seen.discount, next_q, self.params.gamma)
        q = self._q(critic, seen.observation, encode_action(batch.action, self.spec.action))
        known = counts(batch.next_action, batch.discount)
        loss = fitted_loss(q, y, jnp.where(subject.is_behaviour, known, jnp.ones_like(known)))
        return loss, {"loss": loss, **mean_and_std("q", q), **mean_and_std("target", y)}

    def _chosen(self, subject: Subject, observation: Tree, logged: Array) -> Array:
        """Encoded: the policy's action at raw observations, or of the behaviour the logged one."""
        action = self.actor.act(subject.policy, subject.preprocessor.observation(observation))
        return encode_action(jnp.where(subject.is_behaviour, logged, action.astype(logged.dtype)), self.spec.action)

    def _q(self, critic: Tree, observation: Tree, action: Array) -> Array:
        """q_i(s, a), [critics, B], of an encoded action."""
        if self.spec.action.is_discrete:
            return take(self._critic(critic, observation), action)
        return self._critic(critic, observation, action)


def make_fitted_q(params: FittedQParams, spec: EnvSpec, actor: Learner[Any], scaling: Preprocessor) -> FittedQ:
    """Raises HindcastError where no critic can be made for the spec."""
    own = params.model_dump(exclude={"updates", "batch_size"})
    return FittedQ(FitParams(**own, decay=("critic",)), spec, params.updates, actor, scaling)


def _copy(tree: Tree) -> Tree:
    return jax.tree.map(jnp.copy, tree)
