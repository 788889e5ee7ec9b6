"""Spaces as specs, and what a user reads when an environment cannot be made."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rl_datasets.environments import cast_notes, env_spec, make_env, space_spec
from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec


class Shell(gym.Env[Any, Any]):
    """An environment of nothing but its spaces."""

    def __init__(self, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation, action


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Box(-1, 1, (2,), np.float64), ArraySpec((2,), "float32", -1.0, 1.0)),
        (
            spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, 2], np.float32)),
            ArraySpec((2,), "float32", (-1.0, -np.inf), (1.0, 2.0)),
        ),
        (spaces.Box(0, 255, (4, 4, 3), np.uint8), ArraySpec((4, 4, 3), "uint8", 0.0, 255.0)),
        (spaces.Box(-3, 3, (), np.int32), ArraySpec((), "int32", -3.0, 3.0)),
        (spaces.Discrete(3, start=5), ArraySpec((), "int64", 5.0, 7.0, num_values=3)),
        (spaces.MultiBinary([2, 3]), ArraySpec((2, 3), "int8", 0.0, 1.0)),
        (spaces.MultiDiscrete([2, 5]), ArraySpec((2,), "int64", 0.0, (1.0, 4.0))),
        (
            spaces.Dict({"b": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(1))), "a": spaces.Box(0, 1, (1,), np.float32)}),
            {
                "b": (ArraySpec((), "int64", 0.0, 1.0, num_values=2), ArraySpec((1,), "int8", 0.0, 1.0)),
                "a": ArraySpec((1,), "float32", 0.0, 1.0),
            },
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_space_has_its_spec(space: spaces.Space[Any], expected: Any) -> None:
    assert space_spec(space, "observation") == expected


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Dict({"note": spaces.Text(5)}), "observation/note has the space Text"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Sequence(spaces.Discrete(2)))), "observation/1 has the space Sequence"),
        (spaces.Graph(spaces.Discrete(2), None), "Supported: Box, Discrete, MultiBinary, MultiDiscrete, and Dict and Tuple"),
        (spaces.Dict({}), "not empty"),
        (spaces.Dict({"a/b": spaces.Discrete(2)}), r"keys \['a/b'\]; a key must be a string without '/'"),
    ],
)
def test_a_space_without_fixed_arrays_is_refused(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(HindcastError, match=message):
        env_spec(Shell(space, spaces.Discrete(2)), "Shell-v0")


def test_an_action_that_is_neither_box_nor_discrete_is_refused() -> None:
    with pytest.raises(HindcastError, match=r"the action space is MultiDiscrete.*only Box and Discrete"):
        env_spec(Shell(spaces.Discrete(2), spaces.MultiDiscrete([2, 2])), "Shell-v0")


def test_casts_are_noted() -> None:
    observation = spaces.Dict(
        {"speed": spaces.Box(0, 1, (1,), np.float64), "gear": spaces.Discrete(5), "lamp": spaces.Discrete(2, dtype=np.int32)}
    )
    assert sorted(cast_notes(Shell(observation, spaces.Box(0, 1, (1,), np.float64)))) == [
        "action: the environment's float64 is stored as float32.",
        "observation/lamp: the environment's int32 is stored as int64.",
        "observation/speed: the environment's float64 is stored as float32.",
        "reward: the environment's float64 is stored as float32.",
    ]


def test_the_spec_of_pendulum_names_bounds_time_limit_and_keywords() -> None:
    env = make_env("Pendulum-v1", {"g": 9.81})
    assert env_spec(env, "Pendulum-v1", {"g": 9.81}) == EnvSpec(
        env_id="Pendulum-v1",
        observation=ArraySpec((3,), "float32", (-1.0, -1.0, -8.0), (1.0, 1.0, 8.0)),
        action=ArraySpec((1,), "float32", -2.0, 2.0),
        env_kwargs={"g": 9.81},
        max_episode_steps=200,
    )
    assert env.unwrapped.g == 9.81  # type: ignore[attr-defined]
    assert env.render_mode is None
    assert env_spec(make_env("Pendulum-v1", {}, 7), "Pendulum-v1").max_episode_steps == 7


@pytest.fixture
def registered() -> Any:
    """Registers environments for one test."""
    before = dict(gym.registry)
    yield gym.register
    gym.registry.clear()
    gym.registry.update(before)


def _raise(error: Exception) -> Any:
    def make(*_: Any, **__: Any) -> gym.Env[Any, Any]:
        raise error

    return make


def test_an_unknown_id_names_near_ones() -> None:
    with pytest.raises(HindcastError, match=r"no environment 'CartPoole-v1' here. Near matches: CartPole-v1.*module:EnvId-v0"):
        make_env("CartPoole-v1")


@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
@pytest.mark.parametrize(
    ("env_id", "newest"),
    [("CartPole-v9", "CartPole-v1"), ("HalfCheetah-v2", "HalfCheetah-v5"), ("Ant-v3", "Ant-v5"), ("LunarLander-v2", "LunarLander-v3")],
)
def test_a_version_that_cannot_be_made_names_the_newest_one(env_id: str, newest: str) -> None:
    with pytest.raises(HindcastError, match=rf"'{env_id}'.*( newest version is '{newest}'\.|Use '{newest}', its newest version\.)"):
        make_env(env_id)


@pytest.mark.parametrize(
    ("env_id", "package", "module"),
    [
        ("ALE/Pong-v5", "ale-py", "ale_py"),
        ("PongNoFrameskip-v4", "ale-py", "ale_py"),
        ("dm_control/cartpole-swingup-v0", r"shimmy\[dm-control\]", "shimmy"),
        ("MiniGrid-Empty-5x5-v0", "minigrid", "minigrid"),
        ("FetchReach-v3", "gymnasium-robotics", "gymnasium_robotics"),
    ],
)
def test_an_environment_of_another_package_names_that(env_id: str, package: str, module: str) -> None:
    message = rf"no environment '{env_id}' here\. The package {package} has it: pip install '{package}', and write '{module}:{env_id}'"
    with pytest.raises(HindcastError, match=message):
        make_env(env_id)


def test_a_missing_dependency_says_what_to_install(registered: Any) -> None:
    with pytest.raises(HindcastError, match=r"needs a module that cannot be imported: No module named 'no_such_simulator'.*[Ii]nstall"):
        make_env("no_such_simulator:Robot-v0")
    registered("Missing-v0", entry_point=_raise(gym.error.DependencyNotInstalled("MuJoCo is not installed")))
    with pytest.raises(HindcastError, match=r"'Missing-v0' exists, but its dependency is missing: MuJoCo is not installed\. Install"):
        make_env("Missing-v0")
    registered("Absent-v0", entry_point="absent_module:Robot")
    with pytest.raises(HindcastError, match=r"'Absent-v0' needs a module that cannot be imported: No module named 'absent_module'"):
        make_env("Absent-v0")


def test_the_extra_of_gymnasium_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym, "make", _raise(gym.error.DependencyNotInstalled("Box2D is not installed")))
    with pytest.raises(HindcastError, match=r"pip install 'gymnasium\[box2d\]'"):
        make_env("LunarLander-v3")


def test_a_wrong_keyword_is_named() -> None:
    with pytest.raises(
        HindcastError, match=r"'CartPole-v1' could not be made with env_kwargs \{'gravity': 3\}.*unexpected keyword argument 'gravity'"
    ):
        make_env("CartPole-v1", {"gravity": 3})
