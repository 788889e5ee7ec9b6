"""Mistakes to plant in the learners' equations: a sign, an index, a gradient that is not stopped, a step in the wrong order.

Each is a fragment that stands once in the learner's file, or else once in what the learners share, and what a slip would make of it.
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    algorithm: str  # the learner in which it shows
    case: str  # the setting, in cases.py, in which it shows
    right: str
    wrong: str


MISTAKES = {
    # IQL
    "expectile mirrored": Mistake("iql", "default", "jnp.abs(expectile - (advantage < 0))", "jnp.abs(expectile - (advantage > 0))"),
    "value looks at v - q": Mistake("iql", "default", "jnp.min(target_q, axis=0) - v", "v - jnp.min(target_q, axis=0)"),
    "value takes the largest critic": Mistake("iql", "default", "jnp.min(target_q, axis=0)", "jnp.max(target_q, axis=0)"),
    "discount of the environment dropped": Mistake("iql", "default", "gamma * discount * next_v", "gamma * next_v"),
    "terminal counted as going on": Mistake("iql", "discrete", "gamma * discount", "gamma * (1 - discount)"),
    "value of s in place of s'": Mistake(
        "iql", "default", "self._value(value, batch.next_observation)", "self._value(value, batch.observation)"
    ),
    "advantage's sign": Mistake("iql", "joint", "jnp.exp(temperature * advantage)", "jnp.exp(-temperature * advantage)"),
    "value moves after the policy saw it": Mistake("iql", "default", 'order == "sequential"', 'order == "joint_"'),
    "target follows the old critics": Mistake(
        "iql",
        "default",
        "move_target(state.target, self._followed(params)",
        "move_target(state.target, self._followed(state.params)",
    ),
    "advantage from the trained critics": Mistake("iql", "discrete", 'advantage == "target"', 'advantage != "target"'),
    # BC, and what it shares with IQL
    "log-deviation's sign": Mistake("bc", "default", "-0.5 * z**2 - log_std", "-0.5 * z**2 + log_std"),
    "actions left in the environment's bounds": Mistake("bc", "squared-error", "(flat - middle) / half", "flat - middle"),
    # CQL on continuous actions
    "conservative part's sign": Mistake(
        "cql",
        "default",
        "soft_maximum(q_set, p.conservative_temperature) - q",
        "q - soft_maximum(q_set, p.conservative_temperature)",
    ),
    "density not taken off": Mistake("cql", "default", "values[:, 1:] - jnp.expand_dims(densities.T, 0)", "values[:, 1:]"),
    "critic's loss reaches the policy": Mistake("cql", "default", "rows = jax.lax.stop_gradient(rows)", "rows = rows"),
    "policy's loss reaches the critics": Mistake("cql", "default", 'stop_gradient(params["critic"])', 'params["critic"]'),
    "policy's loss reaches alpha": Mistake("cql", "default", "stop_gradient(alpha) * log_prob - q", "alpha * log_prob - q"),
    "alpha moves the wrong way": Mistake("cql", "default", "-log_alpha * stop_gradient", "log_alpha * stop_gradient"),
    "alpha' moves the wrong way": Mistake("cql", "lagrange", "-alpha_prime * stop_gradient", "alpha_prime * stop_gradient"),
    "critic's loss reaches alpha'": Mistake("cql", "lagrange", "stop_gradient(alpha_prime) * gap", "alpha_prime * gap"),
    "largest over critics, then smallest over actions": Mistake(
        "cql",
        "lagrange",
        "jnp.max(self._min_q(target, next_observation, actions), axis=0)",
        "jnp.min(self._min_q(target, next_observation, actions), axis=0)",
    ),
    "tanh's Jacobian added": Mistake(
        "cql", "default", "gaussian_log_prob(mean, log_std, u) - jnp.sum", "gaussian_log_prob(mean, log_std, u) + jnp.sum"
    ),
    # CQL on discrete actions
    "next action by the target critics": Mistake(
        "cql",
        "discrete",
        "jnp.argmax(self._min_q(critic, batch.next_observation), axis=-1)",
        "jnp.argmax(self._min_q(target, batch.next_observation), axis=-1)",
    ),
    # what all share
    "target stays where it should go": Mistake("cql", "discrete", "(1 - tau) * t + tau * p", "tau * t + (1 - tau) * p"),
    # TD3+BC and the frame of TD3
    "scale of the values not stopped": Mistake(
        "td3_bc", "default", "stop_gradient(alpha / jnp.mean(jnp.abs(q)))", "alpha / jnp.mean(jnp.abs(q))"
    ),
    "policy falls": Mistake("td3_bc", "default", "-scale * jnp.mean(q)", "scale * jnp.mean(q)"),
    "noise not clipped": Mistake("td3_bc", "joint", "jnp.clip(noise, -clip, clip)", "noise"),
    "next action of the trained policy": Mistake(
        "td3_bc",
        "default",
        'grad(self._critic_loss, has_aux=True)(state.params["critic"], state.target,',
        'grad(self._critic_loss, has_aux=True)(state.params["critic"], {**state.target, "policy": state.params["policy"]},',
    ),
    "policy moves in the other updates": Mistake("td3_bc", "default", "self.params.policy_every == 0", "self.params.policy_every == 1"),
    # AWAC
    "temperature multiplied": Mistake("awac", "default", "advantage / temperature", "advantage * temperature"),
    "weights not scaled by the batch": Mistake("awac", "default", "len(advantage) * jax.nn.softmax", "jax.nn.softmax"),
    "advantage turned round": Mistake(
        "awac", "options", "jnp.min(self._q(critic, batch), axis=0) - v", "v - jnp.min(self._q(critic, batch), axis=0)"
    ),
    # EDAC
    "pairs of a critic with itself": Mistake("edac", "default", "together - alone", "together"),
    "critics made alike": Mistake("edac", "default", "bellman + p.eta * alike", "bellman - p.eta * alike"),
    "entropy not taken from the target": Mistake("edac", "default", "next_v - alpha * log_prob", "next_v + alpha * log_prob"),
    # ReBRAC
    "penalty's sign": Mistake("rebrac", "default", "next_v - critic_bc * exists * distance", "next_v + critic_bc * exists * distance"),
    "penalty where the data end": Mistake("rebrac", "default", "critic_bc * exists * distance", "critic_bc * distance"),
    "size of the values not stopped": Mistake("rebrac", "default", "stop_gradient(1 / jnp.mean(jnp.abs(v)))", "1 / jnp.mean(jnp.abs(v))"),
}
