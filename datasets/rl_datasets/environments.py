"""Gymnasium environments by their id: made with clear errors, and described as an EnvSpec.

What cannot be stored as it is gets cast, and `cast_notes` says so: floats become float32, Discrete becomes int64.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rl_datasets.errors import HindcastError, describe_raise
from rl_datasets.schema import ArraySpec, EnvSpec, ReferenceReturns, Tree, as_bound

# What an id tells of the package that has it: a pattern at its beginning, the package to install, the module that registers it.
OTHERS = (
    (r"ALE/|.+NoFrameskip-v", "ale-py", "ale_py"),
    (r"dm_control/", "shimmy[dm-control]", "shimmy"),
    (r"bsuite/", "shimmy[bsuite]", "shimmy"),
    (r"GymV2[16]Environment-v", "shimmy[gym-v21]", "shimmy"),
    (r"MiniGrid-|BabyAI-", "minigrid", "minigrid"),
    (r"MiniWorld-", "miniworld", "miniworld"),
    (r"Meta-World/", "metaworld", "metaworld"),
    (r"(Fetch|Hand|Adroit|AntMaze|PointMaze|FrankaKitchen)", "gymnasium-robotics", "gymnasium_robotics"),
)
_NO_KWARGS: Mapping[str, Any] = {}


def make_env(env_id: str, env_kwargs: Mapping[str, Any] = _NO_KWARGS, max_episode_steps: int | None = None) -> gym.Env[Any, Any]:
    """Makes one environment; `env_id` may be "module:EnvId-v0". Rendering stays off unless a keyword asks for it.

    Raises HindcastError where the id is unknown (with the nearest ones), its dependency is missing, or a keyword is wrong.
    """
    try:
        return gym.make(env_id, max_episode_steps=max_episode_steps, disable_env_checker=True, **env_kwargs)
    except ImportError as error:  # the module of "module:EnvId-v0", or a simulator that the environment imports
        raise HindcastError(f"Environment '{env_id}' needs a module that cannot be imported: {error}. {_how_to_install(env_id)}") from error
    except gym.error.DependencyNotInstalled as error:
        raise HindcastError(f"Environment '{env_id}' exists, but its dependency is missing: {error}. {_how_to_install(env_id)}") from error
    except (gym.error.UnregisteredEnv, gym.error.DeprecatedEnv) as error:
        raise HindcastError(f"There is no environment '{env_id}' here. {_where_to_find(env_id)}") from error
    except Exception as error:  # whatever an environment's own code raises
        where = describe_raise(error)
        raise HindcastError(f"Environment '{env_id}' could not be made with env_kwargs {dict(env_kwargs)}: {where}.") from error


def env_spec(
    env: gym.Env[Any, Any],
    env_id: str,
    env_kwargs: Mapping[str, Any] = _NO_KWARGS,
    reference_returns: ReferenceReturns | None = None,
) -> EnvSpec:
    """Raises HindcastError where a space is of a kind that has no place in a data set."""
    if not isinstance(env.action_space, spaces.Box | spaces.Discrete):
        raise HindcastError(f"Environment '{env_id}': the action space is {env.action_space}, but only Box and Discrete are supported.")
    return EnvSpec(
        env_id=env_id,
        env_kwargs=dict(env_kwargs),
        observation=space_spec(env.observation_space, f"Environment '{env_id}': observation"),
        action=space_spec(env.action_space, f"Environment '{env_id}': action"),
        max_episode_steps=env.spec.max_episode_steps if env.spec else None,
        reference_returns=reference_returns,
    )


def space_spec(space: gym.Space[Any], name: str) -> Tree:
    """Returns the ArraySpec of a space, or the nest of them. `name` begins the message of an error."""
    match space:
        case spaces.Box():
            return ArraySpec(space.shape, _stored_dtype(space.dtype), as_bound(space.low), as_bound(space.high))
        case spaces.Discrete():
            first, count = int(space.start), int(space.n)
            return ArraySpec((), "int64", float(first), float(first + count - 1), num_values=count)
        case spaces.MultiBinary():
            return ArraySpec(space.shape, "int8", 0.0, 1.0)
        case spaces.MultiDiscrete():
            return ArraySpec(space.shape, "int64", as_bound(space.start), as_bound(space.start + space.nvec - 1))
        case spaces.Dict() if space.spaces:
            if odd := [key for key in space.spaces if not isinstance(key, str) or "/" in key]:
                raise HindcastError(f"{name} has the keys {odd}; a key must be a string without '/'.")
            return {key: space_spec(part, f"{name}/{key}") for key, part in space.spaces.items()}
        case spaces.Tuple() if space.spaces:
            return tuple(space_spec(part, f"{name}/{index}") for index, part in enumerate(space.spaces))
    raise HindcastError(
        f"{name} has the space {space}, which cannot be stored as arrays of a fixed shape. Supported: Box, Discrete, MultiBinary, "
        "MultiDiscrete, and Dict and Tuple of these (not empty). Wrap the environment so that it gives one of them."
    )


def cast_notes(env: gym.Env[Any, Any]) -> list[str]:
    """One sentence for each cast between the environment and the data set."""
    casts = [*_casts(env.observation_space, "observation"), *_casts(env.action_space, "action")]
    return [*casts, "reward: the environment's float64 is stored as float32."]


def _casts(space: gym.Space[Any], name: str) -> list[str]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [note for key, part in parts for note in _casts(part, f"{name}/{key}")]
    stored = space_spec(space, name).dtype
    return [] if space.dtype == stored else [f"{name}: the environment's {space.dtype} is stored as {stored}."]


def _stored_dtype(dtype: np.dtype[Any]) -> str:
    return "float32" if dtype.kind == "f" else dtype.name


def _where_to_find(env_id: str) -> str:
    """Names the newer version, the package that has it, or the nearest names."""
    if newest := _newest_version(env_id):
        return f"Its newest version is '{newest}'."
    for pattern, package, module in OTHERS:
        if re.match(pattern, env_id):
            return f"The package {package} has it: pip install '{package}', and write '{module}:{env_id}', for that import registers it."
    near = difflib.get_close_matches(env_id, list(gym.registry), n=3)
    hint = f"Near matches: {', '.join(near)}." if near else "'gymnasium.pprint_registry()' lists the known ones."
    return f"{hint} One of another package is written 'module:EnvId-v0', where importing the module registers it."


def _newest_version(env_id: str) -> str | None:
    """The id of the newest registered version of the same name, where that is another one."""
    stem, _, _ = env_id.rpartition("-v")
    versions = [spec.version for name, spec in gym.registry.items() if name.rpartition("-v")[0] == stem and spec.version is not None]
    newest = f"{stem}-v{max(versions)}" if stem and versions else env_id
    return newest if newest != env_id else None


def _how_to_install(env_id: str) -> str:
    """Names a newer version that needs no such thing, or Gymnasium's own extra where it has one, else says where to look."""
    if newest := _newest_version(env_id):
        return f"Use '{newest}', its newest version."
    spec = gym.registry.get(env_id)
    entry_point = str(spec.entry_point) if spec else ""
    for folder, extra in (("mujoco", "mujoco"), ("box2d", "box2d"), ("toy_text", "toy-text"), ("classic_control", "classic-control")):
        if entry_point.startswith(f"gymnasium.envs.{folder}"):
            return f"Install it: pip install 'gymnasium[{extra}]'."
    return "Install the package that provides it (pip install <package>), or put the module on PYTHONPATH."
