"""Implicit Q-learning (Kostrikov, Nair and Levine 2021): values by expectile regression, the policy by weighted cloning.

Published implementations differ. The default is the authors' code (github.com/ikostrikov/implicit_q_learning) save for the weights'
start and the normalised observations; every difference is an option:

- `order: sequential`, the authors': the value first, then policy and critic with the new value, the target last. `joint` (CORL)
  takes all gradients at the old parameters. The two differ by one step of the value, and joint is faster;
- `critic_loss: sum` over the critics, the authors'; `mean` in CORL, which matters to Adam only beside clipping;
- `advantage: target`, from the target critics, the authors'; `online`, from the trained ones before their step (JAX-CORL);
- `policy_loss: log_likelihood`, the authors'; `squared_error`, of the mean (CORL's deterministic policy). Continuous actions only;
- `decay` names the networks whose learning rate falls to zero over the run: the authors', the policy alone;
- `squash_mean`: the mean of a continuous policy passes through tanh, the authors'; not in JAX-CORL. Its deviation does not depend on
  the state and stays in `log_std_range`, [-5, 2] the authors', [-20, 2] CORL's. `dropout` 0.1 on Adroit and Kitchen;
- `layer_norm` normalises critic and value; JAX-CORL the value alone (networks.value.layer_norm);
- `initialization` is orthogonal with the gain sqrt(2) everywhere in the authors' code and JAX-CORL, PyTorch's own in CORL;
- `action_clip` is 0.99999 in the authors' code and JAX-CORL;
- a discrete action has a categorical policy and critics with one output an action;
- `advantage_hidden_sizes` makes the critic of discrete actions a dueling one, `networks.policy.hidden_sizes` gives the policy layers
  of its own. Few layers there, or none, are right where data are rich along few directions: a network that is free along the others
  carries its initialisation into the policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field

from rl_datasets.schema import Transition, Tree
from trainer.actions import require_continuous, require_discrete, require_learnable
from trainer.construction import Values, make_value
from trainer.equations import advantage_weight, td_target, weighted_cloning_loss
from trainer.frames import ActorCritic, Init, Moved, State
from trainer.learner import CriticParams, GaussianParams, LearnerParams, Metrics
from trainer.optimization import descend, mean_and_std, with_total
from trainer.policies import Stochastic, make_policy


class IQLParams(LearnerParams, CriticParams, GaussianParams):
    NETWORKS: ClassVar[tuple[str, ...]] = ("value", "critic", "policy")

    expectile: float = Field(0.7, gt=0, lt=1)
    temperature: float = Field(3.0, ge=0)  # the inverse temperature, beta: the larger, the greedier
    max_weight: float = Field(100.0, gt=0)
    order: Literal["sequential", "joint"] = "sequential"
    critic_loss: Literal["sum", "mean"] = "sum"
    advantage: Literal["target", "online"] = "target"
    policy_loss: Literal["log_likelihood", "squared_error"] = "log_likelihood"
    decay: tuple[str, ...] = ("policy",)


Params = IQLParams


def expectile_loss(advantage: Array, expectile: float) -> Array:
    """Asymmetric L2, |expectile - 1(advantage < 0)| * advantage**2, elementwise (eq. 5)."""
    return jnp.abs(expectile - (advantage < 0)) * advantage**2


def value_loss(v: Array, target_q: Array, expectile: float) -> Array:
    """[ L_e( min_i q_target_i(s, a) - v(s) ) ], v [B], target_q [critics, B]."""
    return jnp.mean(expectile_loss(jnp.min(target_q, axis=0) - v, expectile))


def critic_losses(q: Array, target: Array) -> Array:
    """[ (q_i(s, a) - target)^2 ] of each critic, [critics]; q [critics, B], target [B]."""
    return jnp.mean((q - jnp.expand_dims(target, 0)) ** 2, axis=-1)


def policy_squared_error(mean: Array, action: Array, weight: Array) -> Array:
    """[ weight * |mean - a|^2 ], mean and action [B, A], weight [B]."""
    return jnp.mean(jax.lax.stop_gradient(weight) * jnp.sum((mean - action) ** 2, axis=-1))


@dataclass(frozen=True)
class Learner(ActorCritic):
    Params: ClassVar[type[LearnerParams]] = IQLParams

    params: IQLParams

    def __post_init__(self) -> None:
        require_learnable(self.spec, "iql")
        require_discrete(self.spec, self.params.advantage_hidden_sizes, "advantage_hidden_sizes")
        if self.params.policy_loss == "squared_error":
            require_continuous(self.spec, "squared_error", "policy_loss")
        super().__post_init__()

    @cached_property
    def _value(self) -> Values:
        return make_value(self.params, self.spec)

    @cached_property
    def _policy(self) -> Stochastic:
        return make_policy(self.params, self.spec)

    @cached_property
    def _inits(self) -> Mapping[str, Init]:
        return {"value": self._value.init, **super()._inits}

    def _move(self, state: State, batch: Transition, key: Array) -> Moved:
        params, opt_state = state.params, state.opt_state
        value_grad, value_metrics = jax.grad(self._value_loss, has_aux=True)(params["value"], state.target, batch)
        norms: Metrics = {}
        if self.params.order == "sequential":
            params, opt_state, norms = descend(self._optimizers, {"value": value_grad}, params, opt_state)
        critic = self._advantage_critic(state)
        policy_grad, policy_metrics = jax.grad(self._policy_loss, has_aux=True)(params["policy"], params["value"], critic, batch, key)
        critic_grad, critic_metrics = jax.grad(self._critic_loss, has_aux=True)(params["critic"], params["value"], batch)
        grads = {"policy": policy_grad, "critic": critic_grad}
        if self.params.order == "joint":
            grads["value"] = value_grad
        params, opt_state, more_norms = descend(self._optimizers, grads, params, opt_state)
        return params, opt_state, {**with_total({**value_metrics, **policy_metrics, **critic_metrics}), **norms, **more_norms}

    def _losses(self, state: State, batch: Transition) -> Metrics:
        params = state.params
        value_metrics = self._value_loss(params["value"], state.target, batch)[1]
        policy_metrics = self._policy_loss(params["policy"], params["value"], self._advantage_critic(state), batch, None)[1]
        critic_metrics = self._critic_loss(params["critic"], params["value"], batch)[1]
        return with_total({**value_metrics, **policy_metrics, **critic_metrics})

    def _advantage_critic(self, state: State) -> Tree:
        return state.target if self.params.advantage == "target" else state.params["critic"]

    def _value_loss(self, value: Tree, target: Tree, batch: Transition) -> tuple[Array, Metrics]:
        v = self._value(value, batch.observation)
        loss = value_loss(v, self._q(target, batch), self.params.expectile)
        return loss, {"value_loss": loss, **mean_and_std("v", v)}

    def _critic_loss(self, critic: Tree, value: Tree, batch: Transition) -> tuple[Array, Metrics]:
        next_v = self._value(value, batch.next_observation)
        target = td_target(batch.reward, batch.discount, next_v, self.params.gamma)
        q = self._q(critic, batch)
        losses = critic_losses(q, target)
        loss = jnp.sum(losses) if self.params.critic_loss == "sum" else jnp.mean(losses)
        return loss, {"critic_loss": loss, **mean_and_std("q", q), **mean_and_std("target", target)}

    def _policy_loss(self, policy: Tree, value: Tree, critic: Tree, batch: Transition, dropout_key: Array | None) -> tuple[Array, Metrics]:
        p = self.params
        v = self._value(value, batch.observation)
        advantage = jnp.min(self._q(critic, batch), axis=0) - v
        weight = advantage_weight(advantage, p.temperature, p.max_weight)
        output = self._policy.output(policy, batch.observation, dropout_key)
        action = self._action(batch)
        log_prob = self._policy.log_prob(output, action)
        loss = (
            policy_squared_error(output[0], action, weight) if p.policy_loss == "squared_error" else weighted_cloning_loss(log_prob, weight)
        )
        metrics = {"policy_loss": loss, "clipped_weight_share": jnp.mean(weight >= p.max_weight), "log_prob": jnp.mean(log_prob)}
        return loss, {**metrics, **mean_and_std("advantage", advantage), **self._policy.spread(output)}
