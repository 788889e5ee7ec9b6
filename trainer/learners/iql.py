"""Implicit Q-learning (Kostrikov, Nair and Levine 2021): values by expectile regression, the policy by weighted cloning.

Published implementations differ; here
- the critic's loss is the sum over the critics, as the authors' code has it;
- `order: sequential` is the authors' code: the value first, then policy and critic with the new value, the target last.
  `order: joint` takes all gradients at the old parameters. The two differ by one step of the value, and joint is faster;
- `decay` names the networks whose learning rate decays by a cosine to zero over the run: the authors', the policy alone;
- the mean of a continuous policy passes through tanh and the log-deviation stays in [-5, 2], as in the authors' code;
- `layer_norm` normalises critic and value (JAX-CORL); observations are normalised by the pipeline unless the preset says no;
- a discrete action has a categorical policy and critics with one output an action;
- `advantage_hidden_sizes` makes the critic of discrete actions a dueling one, `policy_hidden_sizes` gives the policy layers of
  its own. Few layers there, or none, are right where data are rich along few directions: a network that is free along the others
  carries its initialisation into the policy.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import Array
from pydantic import Field, PositiveInt

from rl_datasets.schema import EnvSpec, Transition, Tree
from trainer.actions import Policy, encode_action, make_policy, require_discrete, require_learnable, take
from trainer.learner import LearnerParams, Metrics
from trainer.networks import Value, critic_ensemble, leaf_specs
from trainer.optimization import OptimizerParams, check_batch, descend, make_optimizer, mean_and_std, move_target

NetworkName = Literal["value", "critic", "policy"]


class IQLParams(LearnerParams):
    expectile: float = Field(0.7, gt=0, lt=1)
    temperature: float = Field(3.0, ge=0)  # the inverse temperature, beta: the larger, the greedier
    max_weight: float = Field(100.0, gt=0)
    tau: float = Field(0.005, gt=0, le=1)
    order: Literal["sequential", "joint"] = "sequential"
    decay: tuple[NetworkName, ...] = ("policy",)
    policy_learning_rate: float | None = Field(None, gt=0)  # learning_rate where absent
    weight_decay: float = Field(0.0, ge=0)  # decoupled, times the learning rate (AdamW)
    num_critics: int = Field(2, ge=1)
    layer_norm: bool = False
    policy_hidden_sizes: tuple[PositiveInt, ...] | None = None  # hidden_sizes where absent; linear where empty
    advantage_hidden_sizes: tuple[PositiveInt, ...] | None = None  # of a dueling critic for discrete actions, see networks.Critic
    dropout: float = Field(0.0, ge=0, lt=1)  # of the policy
    squash_mean: bool = True
    log_std_range: tuple[float, float] = (-5.0, 2.0)


Params = IQLParams


class State(NamedTuple):
    step: Array
    key: Array
    params: dict[str, Tree]  # value, critic, policy
    target: Tree  # of the critic
    opt_state: dict[str, Tree]


def expectile_loss(advantage: Array, expectile: float) -> Array:
    """Asymmetric L2, |expectile - 1(advantage < 0)| * advantage**2, elementwise (eq. 5)."""
    return jnp.abs(expectile - (advantage < 0)) * advantage**2


def value_loss(v: Array, target_q: Array, expectile: float) -> Array:
    """[ L_e( min_i q_target_i(s, a) - v(s) ) ], v [B], target_q [critics, B]."""
    return jnp.mean(expectile_loss(jnp.min(target_q, axis=0) - v, expectile))


def critic_target(reward: Array, discount: Array, next_v: Array, gamma: float) -> Array:
    """r + gamma d v(s'), all [B]."""
    return jax.lax.stop_gradient(reward + gamma * discount * next_v)


def critic_loss(q: Array, target: Array) -> Array:
    """The sum over the critics of [ (q_i(s, a) - target)^2 ], q [critics, B], target [B]."""
    return jnp.sum(jnp.mean((q - jnp.expand_dims(target, 0)) ** 2, axis=-1))


def policy_weight(advantage: Array, temperature: float, max_weight: float) -> Array:
    """min(exp(beta * advantage), max_weight), [B] (eq. 7)."""
    return jnp.minimum(jnp.exp(temperature * advantage), max_weight)


def policy_loss(log_prob: Array, weight: Array) -> Array:
    """- [ weight * log pi(a|s) ], both [B]."""
    return -jnp.mean(jax.lax.stop_gradient(weight) * log_prob)


def with_total(metrics: Metrics) -> Metrics:
    """The metrics and `loss`, the sum of the three losses."""
    return {"loss": metrics["value_loss"] + metrics["policy_loss"] + metrics["critic_loss"], **metrics}


@dataclass(frozen=True)
class Learner:
    Params: ClassVar[type[LearnerParams]] = IQLParams

    params: IQLParams
    spec: EnvSpec
    updates: int

    def __post_init__(self) -> None:
        require_learnable(self.spec, "iql")
        require_discrete(self.spec, self.params.advantage_hidden_sizes, "advantage_hidden_sizes")

    @cached_property
    def _value(self) -> Value:
        return Value(leaf_specs(self.spec.observation), self.params.hidden_sizes, self.params.layer_norm)

    @cached_property
    def _critic(self) -> nn.Module:
        p, num_actions = self.params, self.spec.action.num_values
        return critic_ensemble(
            p.num_critics, leaf_specs(self.spec.observation), p.hidden_sizes, p.layer_norm, num_actions, p.advantage_hidden_sizes
        )

    @cached_property
    def _policy(self) -> Policy:
        p = self.params
        sizes = p.hidden_sizes if p.policy_hidden_sizes is None else p.policy_hidden_sizes
        return make_policy(self.spec, sizes, p.log_std_range, p.squash_mean, p.dropout)

    @cached_property
    def _optimizers(self) -> dict[str, optax.GradientTransformation]:
        p = self.params
        rates = {"value": p.learning_rate, "critic": p.learning_rate, "policy": p.policy_learning_rate or p.learning_rate}
        return {
            name: make_optimizer(OptimizerParams(rate, name in p.decay, self.updates, p.max_grad_norm, p.weight_decay))
            for name, rate in rates.items()
        }

    def init(self, key: Array) -> State:
        key, value_key, critic_key, policy_key = jax.random.split(key, 4)
        observation = jax.tree.map(lambda leaf: leaf.zeros(1), self.spec.observation)
        action = encode_action(jnp.asarray(self.spec.action.zeros(1)), self.spec.action)
        critic_input = (observation,) if self.spec.action.is_discrete else (observation, action)
        params = {
            "value": self._value.init(value_key, observation),
            "critic": self._critic.init(critic_key, *critic_input),
            "policy": self._policy.init(policy_key, observation),
        }
        opt_state = {name: optimizer.init(params[name]) for name, optimizer in self._optimizers.items()}
        # copies, because a caller that donates the state may not hand over one buffer twice
        target = jax.tree.map(jnp.copy, params["critic"])
        return State(jnp.int32(0), key, params, target, opt_state)

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        check_batch(batch, self.spec)
        key, dropout_key = jax.random.split(state.key)
        value_grad, value_metrics = jax.grad(self._value_loss, has_aux=True)(state.params["value"], state.target, batch)
        params, opt_state = state.params, state.opt_state
        norms: Metrics = {}
        if self.params.order == "sequential":
            params, opt_state, norms = descend(self._optimizers, {"value": value_grad}, params, opt_state)
        policy_grad, policy_metrics = jax.grad(self._policy_loss, has_aux=True)(
            params["policy"], params["value"], state.target, batch, dropout_key
        )
        critic_grad, critic_metrics = jax.grad(self._critic_loss, has_aux=True)(params["critic"], params["value"], batch)
        grads = {"policy": policy_grad, "critic": critic_grad}
        if self.params.order == "joint":
            grads["value"] = value_grad
        params, opt_state, more_norms = descend(self._optimizers, grads, params, opt_state)
        target = move_target(state.target, params["critic"], self.params.tau)
        metrics = {**with_total({**value_metrics, **policy_metrics, **critic_metrics}), **norms, **more_norms}
        return State(state.step + 1, key, params, target, opt_state), metrics

    def losses(self, state: State, batch: Transition) -> Metrics:
        check_batch(batch, self.spec)
        params = state.params
        value_metrics = self._value_loss(params["value"], state.target, batch)[1]
        policy_metrics = self._policy_loss(params["policy"], params["value"], state.target, batch, None)[1]
        critic_metrics = self._critic_loss(params["critic"], params["value"], batch)[1]
        return with_total({**value_metrics, **policy_metrics, **critic_metrics})

    def policy(self, state: State) -> Tree:
        return state.params["policy"]

    def act(self, policy: Tree, observation: Tree) -> Array:
        return self._policy.mode(self._policy.output(policy, observation))

    def sample(self, policy: Tree, key: Array, observation: Tree) -> Array:
        return self._policy.sample(self._policy.output(policy, observation), key)

    def _value_loss(self, value: Tree, target: Tree, batch: Transition) -> tuple[Array, Metrics]:
        v: Any = self._value.apply(value, batch.observation)
        loss = value_loss(v, self._q(target, batch), self.params.expectile)
        return loss, {"value_loss": loss, **mean_and_std("v", v)}

    def _critic_loss(self, critic: Tree, value: Tree, batch: Transition) -> tuple[Array, Metrics]:
        next_v: Any = self._value.apply(value, batch.next_observation)
        target = critic_target(batch.reward, batch.discount, next_v, self.params.gamma)
        q = self._q(critic, batch)
        loss = critic_loss(q, target)
        return loss, {"critic_loss": loss, **mean_and_std("q", q), **mean_and_std("target", target)}

    def _policy_loss(self, policy: Tree, value: Tree, target: Tree, batch: Transition, dropout_key: Array | None) -> tuple[Array, Metrics]:
        p = self.params
        v: Any = self._value.apply(value, batch.observation)
        advantage = jnp.min(self._q(target, batch), axis=0) - v
        weight = policy_weight(advantage, p.temperature, p.max_weight)
        output = self._policy.output(policy, batch.observation, dropout_key)
        log_prob = self._policy.log_prob(output, encode_action(batch.action, self.spec.action))
        loss = policy_loss(log_prob, weight)
        metrics = {"policy_loss": loss, "clipped_weight_share": jnp.mean(weight >= p.max_weight), "log_prob": jnp.mean(log_prob)}
        return loss, {**metrics, **mean_and_std("advantage", advantage), **self._policy.spread(output)}

    def _q(self, critic: Tree, batch: Transition) -> Array:
        """q_i(s, a) of the data's actions, [critics, B]."""
        action = encode_action(batch.action, self.spec.action)
        if self.spec.action.is_discrete:
            values: Any = self._critic.apply(critic, batch.observation)
            return take(values, action)
        q: Array = self._critic.apply(critic, batch.observation, action)  # type: ignore[assignment]
        return q
