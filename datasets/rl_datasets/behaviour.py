"""What behaviour policies do: random, scripted, trained, perturbed, and mixtures of these. Their parameters are in policies.py.

A policy is bound to an environment once and started once an episode, with that episode's generator; nothing passes from one
episode to the next. A trained policy is handed in, for this package imports no learner.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.recording import describe_error
from rl_datasets.rollout import Act
from rl_datasets.schema import ArraySpec, EnvSpec, Tree

if TYPE_CHECKING:
    from rl_datasets.builder import BatchPolicy  # with what reads parameters, which a worker has no use for

Start = Callable[[np.random.Generator], tuple[str, Act]]  # at an episode's start: the name to record and what acts
Bundles = Mapping[str, "BatchPolicy"]  # by the path in the options
Options = Mapping[str, Any]  # of one policy, as in the parameters

BLOCK = 64  # random actions drawn at once: one call costs as much as drawing dozens


def bind(policy: Options, spec: EnvSpec, bundles: Bundles) -> Start:
    """Raises HindcastError where the policy is for another environment, or gives an action that the environment does not take."""
    return _KINDS[policy["kind"]](policy, spec, bundles)


def _random(policy: Options, spec: EnvSpec, bundles: Bundles) -> Start:
    del policy, bundles
    draw = random_actions(spec.action)
    return lambda rng: ("random", _acting(draw, rng))


def _scripted(policy: Options, spec: EnvSpec, bundles: Bundles) -> Start:
    del bundles
    name = policy["name"]
    act = _checked(SCRIPTED[name], spec, f"The scripted policy '{name}'")
    try:
        act(tree.map_structure(lambda leaf: leaf.zeros(), spec.observation))
    except (TypeError, ValueError) as error:
        raise HindcastError(
            f"The scripted policy '{name}' does not fit environment '{spec.env_id}', whose observation is {spec.observation} "
            f"({describe_error(error)}). Choose another policy."
        ) from error
    return lambda _: (name, act)


def _trained(policy: Options, spec: EnvSpec, bundles: Bundles) -> Start:
    path = policy["path"]
    bundle = bundles[path]

    def act(observation: Tree) -> Any:
        return bundle.act(tree.map_structure(lambda leaf: np.asarray(leaf)[np.newaxis], observation))[0]

    checked = _checked(act, spec, f"The policy bundle {path}")
    checked(tree.map_structure(lambda leaf: leaf.zeros(), spec.observation))  # one for another environment is an error now
    return lambda _: (path, checked)


def _epsilon_greedy(policy: Options, spec: EnvSpec, bundles: Bundles) -> Start:
    if not spec.action.is_discrete:
        raise HindcastError(f"Policy 'epsilon' is for Discrete actions, but '{spec.env_id}' has {spec.action}. Use kind: noise.")
    epsilon, start_base, draw = policy["epsilon"], bind(policy["base"], spec, bundles), random_actions(spec.action)

    def start(rng: np.random.Generator) -> tuple[str, Act]:
        name, base = start_base(rng)
        random = _acting(draw, rng)
        return f"epsilon({epsilon:g}, {name})", lambda nest: (random if rng.random() < epsilon else base)(nest)

    return start


def _gaussian_noise(policy: Options, spec: EnvSpec, bundles: Bundles) -> Start:
    if np.dtype(spec.action.dtype).kind != "f":
        raise HindcastError(f"Policy 'noise' is for Box actions of floats, but '{spec.env_id}' has {spec.action}. Use kind: epsilon.")
    std, start_base = policy["std"], bind(policy["base"], spec, bundles)
    low, high = action_bounds(spec.action)

    def start(rng: np.random.Generator) -> tuple[str, Act]:
        name, base = start_base(rng)

        def act(observation: Tree) -> Any:
            noisy = base(observation) + rng.normal(0, std, spec.action.shape)
            return np.minimum(np.maximum(noisy.astype(spec.action.dtype), low), high)

        return f"noise({std:g}, {name})", act

    return start


def _mixture(policy: Options, spec: EnvSpec, bundles: Bundles) -> Start:
    starts = [bind(part["policy"], spec, bundles) for part in policy["parts"]]
    upto = np.cumsum([part["weight"] for part in policy["parts"]])
    return lambda rng: starts[int(np.searchsorted(upto, rng.random() * upto[-1], side="right"))](rng)


_KINDS: Mapping[str, Callable[[Options, EnvSpec, Bundles], Start]] = {
    "random": _random,
    "scripted": _scripted,
    "bundle": _trained,
    "epsilon": _epsilon_greedy,
    "noise": _gaussian_noise,
    "mixture": _mixture,
}


def action_bounds(action: ArraySpec) -> tuple[np.ndarray, np.ndarray]:
    """Returns (minimum, maximum) in the action's own dtype, rounded inwards, so that no bound is passed by rounding."""
    low, high = action.bounds()
    if np.dtype(action.dtype).kind != "f":
        return low, high
    inner_low, inner_high = low.astype(action.dtype), high.astype(action.dtype)
    inner_low = np.where(inner_low < low, np.nextafter(inner_low, np.inf, dtype=action.dtype), inner_low)
    return inner_low, np.where(inner_high > high, np.nextafter(inner_high, -np.inf, dtype=action.dtype), inner_high)


def pendulum_swing_up(observation: np.ndarray) -> np.ndarray:
    """Pendulum-v1: pumps energy up to that of the upright rest, then balances. Torque [1] in N m, within 2.

    With unit mass and length and g = 10, the energy is thetadot**2 / 6 + 5 cos(theta), 5 J at the upright rest; torque along the
    velocity raises it (Astrom and Furuta 2000).
    """
    cosine, sine, velocity = observation
    if cosine > 0.9:
        torque = -12.0 * np.arctan2(sine, cosine) - 3.0 * velocity
    else:
        missing = 5.0 - (velocity**2 / 6 + 5 * cosine)
        torque = 2.0 * missing * (1.0 if velocity >= 0 else -1.0)
    return np.array([max(-2.0, min(2.0, torque))], np.float32)


def cartpole_balance(observation: np.ndarray) -> int:
    """CartPole-v1: pushes towards the side to which the pole leans and turns, and the cart back to the centre."""
    position, velocity, angle, angular_velocity = observation
    return int(0.1 * position + 0.2 * velocity + angle + 0.3 * angular_velocity > 0)


SCRIPTED: Mapping[str, Act] = {"pendulum_swing_up": pendulum_swing_up, "cartpole_balance": cartpole_balance}


def random_actions(action: ArraySpec) -> Callable[[np.random.Generator], Any]:
    """Returns a function that draws BLOCK actions at once, [BLOCK, ...]."""
    low, high = action_bounds(action)
    shape = (BLOCK, *action.shape)
    if np.dtype(action.dtype).kind != "f":
        first, last = low.astype(np.int64), high.astype(np.int64)
        return lambda rng: rng.integers(first, last, shape, endpoint=True).astype(action.dtype, copy=False)
    below, above = np.isfinite(low), np.isfinite(high)
    start, stop = np.where(below, low, 0), np.where(above, high, 0)
    if action.is_bounded:
        return lambda rng: np.clip((start + (stop - start) * rng.random(shape)).astype(action.dtype), low, high)

    def draw(rng: np.random.Generator) -> Any:
        uniform, exponential, normal = rng.random(shape), rng.exponential(size=shape), rng.normal(size=shape)
        cases = [start + (stop - start) * uniform, start + exponential, stop - exponential]
        return np.clip(np.select([below & above, below, above], cases, normal).astype(action.dtype), low, high)

    return draw


def _acting(draw: Callable[[np.random.Generator], Any], rng: np.random.Generator) -> Act:
    """Takes one action after another from blocks."""
    actions = itertools.chain.from_iterable(map(draw, itertools.repeat(rng)))
    return lambda _: next(actions)


def _checked(act: Act, spec: EnvSpec, name: str) -> Act:
    """Raises HindcastError where an action has the wrong shape or lies outside the bounds, before the environment sees it."""
    action = spec.action
    low, high = action_bounds(action)
    kinds = "iu" if action.is_discrete else "iuf"

    def checked(observation: Tree) -> Any:
        found = np.asarray(act(observation))
        if found.dtype.kind == "f" and not action.is_discrete:
            found = found.astype(action.dtype)
        if found.shape != action.shape or found.dtype.kind not in kinds or not ((low <= found) & (found <= high)).all():
            raise HindcastError(
                f"{name} gave the action {found.tolist()} ({found.dtype}{list(found.shape)}), but '{spec.env_id}' takes "
                f"{action.dtype}{list(action.shape)} within [{action.minimum}, {action.maximum}]. Choose another policy or mend this one."
            )
        return found.astype(action.dtype)[()]

    return checked
