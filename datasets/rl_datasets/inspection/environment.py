"""Which environment of Gymnasium logged data may be from: by the file's name, if its arrays have the same shapes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec

_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Match:
    """`fits` says whether all values lie within its bounds, and all episodes within its step limit."""

    env_id: str
    spec: EnvSpec
    fits: bool


def match_environment(name: str, observation: np.ndarray, action: np.ndarray, is_category: bool, longest: int) -> Match | None:
    """Returns the environment whose name is in `name` and whose shapes are those of observation [n, d] and action [n, k], or None."""
    for env_id in _candidates(name):
        spec = _spec(env_id)
        if spec is None or not isinstance(spec.observation, ArraySpec) or spec.observation.shape != observation.shape[1:]:
            continue
        if spec.action.is_discrete != is_category or (not is_category and spec.action.shape != action.shape[1:]):
            continue
        within = _within(spec.observation, observation) and _within(spec.action, action[:, 0] if is_category else action)
        return Match(env_id, spec, within and (spec.max_episode_steps is None or longest <= spec.max_episode_steps))
    return None


def difference(env_id: str, observation: np.ndarray, action: np.ndarray, is_category: bool) -> str:
    """Says how an environment's arrays differ from observation [n, d] and action [n, k]; "" where they do not, or it cannot be made."""
    spec = _spec(env_id)
    if spec is None:
        return ""
    told = []
    if not isinstance(spec.observation, ArraySpec) or spec.observation.shape != observation.shape[1:]:
        shape = list(spec.observation.shape) if isinstance(spec.observation, ArraySpec) else "several arrays"
        told.append(f"observations of {env_id} are {shape}, those of the columns {list(observation.shape[1:])}")
    if spec.action.is_discrete != is_category:
        kinds = [f"one of {spec.action.num_values}" if spec.action.is_discrete else "numbers", "a category" if is_category else "numbers"]
        told.append(f"actions of {env_id} are {kinds[0]}, those of the columns {kinds[1]}")
    elif not is_category and spec.action.shape != action.shape[1:]:
        told.append(f"actions of {env_id} are {list(spec.action.shape)}, those of the columns {list(action.shape[1:])}")
    return "; ".join(told)


def _candidates(name: str) -> Sequence[str]:
    """Ids of the newest versions whose name is a part of this one, the longest name first."""
    import gymnasium as gym

    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    newest: dict[str, tuple[int, str]] = {}
    for env_id, known in gym.registry.items():
        stem = re.sub(r"[^a-z0-9]", "", known.name.lower())
        if known.namespace is None and len(stem) > 2 and stem in plain and known.version is not None:
            newest[stem] = max(newest.get(stem, (-1, "")), (known.version, env_id))
    return [newest[stem][1] for stem in sorted(newest, key=len, reverse=True)]


def _spec(env_id: str) -> EnvSpec | None:
    from rl_datasets.environments import env_spec, make_env

    try:
        env = make_env(env_id, {})
    except HindcastError:  # its simulator is not installed
        return None
    try:
        return env_spec(env, env_id, {})
    except HindcastError:
        return None
    finally:
        env.close()


def _within(spec: ArraySpec, values: np.ndarray) -> bool:
    low, high = spec.bounds()
    slack = _TOLERANCE * np.maximum(1, np.maximum(np.where(np.isfinite(low), np.abs(low), 0), np.where(np.isfinite(high), np.abs(high), 0)))
    return bool((values >= low - slack).all() and (values <= high + slack).all())
