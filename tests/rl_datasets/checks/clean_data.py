"""Clean data sets of many kinds, small and the same on every run, in which no check may find an error."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.builder import Context, load_builder
from rl_datasets.schema import ArraySpec, EnvSpec, Episode


@dataclass(frozen=True)
class Clean:
    spec: EnvSpec
    episodes: tuple[Episode, ...]


def recorded(index: int, observation: Any, action: Any, reward: Any, is_terminal: bool, **metadata: str | int | float) -> Episode:
    """An episode of T transitions from T + 1 observations, T actions and T rewards."""
    actions, rewards = np.asarray(action), np.asarray(reward, np.float32)
    discount = np.ones(len(rewards) + 1, np.float32)
    discount[-1] = 0
    if is_terminal:
        discount[-2] = 0
    action_rows, reward_rows = (np.concatenate([array, np.zeros_like(array[:1])]) for array in (actions, rewards))
    known = {"seed": index, "policy": "one", "environment": "Toy-v0", **metadata}
    return Episode(f"toy-{index:03d}", observation, action_rows, reward_rows, discount, is_terminal, known)


@cache
def pole() -> Clean:
    """Discrete: a pole on a cart that moves to one of two sides at random, until it falls; no time limit. The reward tells how upright."""
    spec = EnvSpec("Pole-v0", ArraySpec((4,), "float32", -100.0, 100.0), ArraySpec((), "int64", 0, 1, 2), reward_range=(-1.0, 1.0))
    episodes = []
    for index in range(60):
        rng = np.random.default_rng(index)
        state = rng.uniform(-0.1, 0.1, 4)
        states, actions = [state], []
        while abs(state[2]) < 0.4 and len(actions) < 400:
            action = int(rng.integers(2))
            push = 10.0 * (2 * action - 1) * 0.6
            fall = (9.8 * np.sin(state[2]) - np.cos(state[2]) * push / 1.1) / 0.8
            state = state + 0.02 * np.array([state[1], push / 1.1, state[3], fall])
            states.append(state)
            actions.append(action)
        observation = np.array(states, np.float32)
        episodes.append(recorded(index, observation, np.array(actions), np.cos(3 * observation[:-1, 2]), True))
    return Clean(spec, tuple(episodes))


@cache
def swing() -> Clean:
    """Continuous: a damped pendulum under a noisy controller, every episode cut at its limit of 120. The reward is a height less a cost."""
    bounds = ArraySpec((3,), "float32", (-1.0, -1.0, -20.0), (1.0, 1.0, 20.0))
    spec = EnvSpec("Swing-v0", bounds, ArraySpec((1,), "float32", -2.0, 2.0), reward_range=(-30.0, 1.0), max_episode_steps=120)
    return Clean(spec, tuple(swing_episode(index, 120) for index in range(24)))


def swing_episode(index: int, length: int, gain: float = -0.3, policy: str = "one", **metadata: str | int | float) -> Episode:
    rng = np.random.default_rng(index)
    angle, speed = rng.uniform(-3, 3), rng.uniform(-1, 1)
    states, actions, rewards = [(angle, speed)], [], []
    for _ in range(length):
        torque = float(np.clip(gain * speed + rng.normal(0, 0.8), -1.9, 1.9))
        rewards.append(np.cos(angle) - 0.02 * speed**2 - 0.1 * torque**2)
        speed += 0.05 * (15 * np.sin(angle) + 3 * torque - 0.5 * speed)
        angle += 0.05 * speed
        states.append((angle, speed))
        actions.append([torque])
    angles, speeds = np.array(states).T
    observation = np.stack([np.cos(angles), np.sin(angles), speeds], axis=1).astype(np.float32)
    return recorded(index, observation, np.float32(actions), rewards, False, policy=policy, **metadata)


@cache
def camera() -> Clean:
    """Image: a bright spot on a patterned ground, moved to one of four sides; the episode ends at the middle or after 40 steps."""
    spec = EnvSpec("Camera-v0", ArraySpec((12, 12, 3), "uint8", 0, 255), ArraySpec((), "int64", 0, 3, 4), max_episode_steps=40)
    return Clean(spec, tuple(_spot(index)[0] for index in range(30)))


def _spot(index: int) -> tuple[Episode, np.ndarray]:
    """The episode, and where the spot is in every step, [T + 1, 2]."""
    rng = np.random.default_rng(index)
    ground, place = rng.integers(20, 80, (12, 12, 3)), rng.integers(0, 12, 2)
    places, actions, rewards = [place], [], []
    while len(actions) < 40 and (len(actions) < 3 or tuple(place) != (6, 6)):
        action = int(rng.integers(4))
        place = np.clip(place + [(0, 1), (0, -1), (1, 0), (-1, 0)][action], 0, 11)
        places.append(place)
        actions.append(action)
        rewards.append(-float(np.abs(place - 6).sum()) / 12)
    frames = np.stack([ground] * len(places)) + rng.integers(0, 20, (len(places), 12, 12, 3))
    for frame, (row, column) in zip(frames, places, strict=True):
        frame[row, column] = 250
    episode = recorded(index, frames.astype(np.uint8), np.array(actions), rewards, tuple(place) == (6, 6))
    return episode, np.array(places)


@cache
def nested() -> Clean:
    """An image beside a vector and a clock."""
    leaves = {"eye": ArraySpec((12, 12, 3), "uint8", 0, 255), "place": ArraySpec((2,), "float32"), "time": ArraySpec((), "float32")}
    episodes = []
    for index in range(30):
        episode, places = _spot(index)
        times = np.cumsum(np.random.default_rng(index).uniform(0.09, 0.11, len(places)))
        observation = {"eye": episode.observation, "place": places.astype(np.float32), "time": times.astype(np.float32)}
        episodes.append(Episode(**{**vars(episode), "observation": observation}))
    return Clean(EnvSpec("Nested-v0", leaves, ArraySpec((), "int64", 0, 3, 4), max_episode_steps=40), tuple(episodes))


@cache
def grid() -> Clean:
    """Discrete states and actions; a sparse reward at the goal, or truncated after 60 steps."""
    spec = EnvSpec("Grid-v0", ArraySpec((), "int64", 0, 35, 36), ArraySpec((), "int64", 0, 3, 4), max_episode_steps=60)
    episodes = []
    for index in range(200):
        rng, place, places, actions = np.random.default_rng(index), np.array([0, 0]), [0], []
        while len(actions) < 60 and places[-1] != 35:
            action = int(rng.choice(4, p=[0.3, 0.2, 0.3, 0.2]))
            place = np.clip(place + [(0, 1), (0, -1), (1, 0), (-1, 0)][action], 0, 5)
            actions.append(action)
            places.append(int(place @ [6, 1]))
        success = places[-1] == 35
        episodes.append(recorded(index, np.array(places), np.array(actions), [0] * (len(actions) - 1) + [int(success)], success))
    return Clean(spec, tuple(episodes))


@cache
def bandit() -> Clean:
    """Episodes of one transition: a context, an arm, a noisy payment."""
    rng = np.random.default_rng(0)
    episodes = []
    for index in range(500):
        context, arm = rng.normal(size=(2, 5)).astype(np.float32), rng.integers(0, 6, 1)
        episodes.append(recorded(index, context, arm, [context[0, 0] * arm[0] + rng.normal()], True))
    return Clean(EnvSpec("Bandit", ArraySpec((5,), "float32"), ArraySpec((), "int64", 0, 5, 6)), tuple(episodes))


@cache
def exogenous() -> Clean:
    """A market that does not react: the policy follows what it sees, and changes nothing. No seed, no bounds."""
    episodes = []
    for index in range(20):
        rng = np.random.default_rng(index)
        prices = np.cumsum(rng.normal(0, 1, (151, 3)), axis=0)
        action = np.tanh(np.diff(prices, axis=0, prepend=prices[:1])[:150, :2]) + rng.normal(0, 0.1, (150, 2))
        reward = (action * np.diff(prices, axis=0)[:, :2]).sum(axis=1)
        episodes.append(recorded(index, prices.astype(np.float32), action.astype(np.float32), reward, False, seed=-1))
    return Clean(EnvSpec("Market", ArraySpec((3,), "float32"), ArraySpec((2,), "float32")), tuple(episodes))


@cache
def two_policies() -> Clean:
    """A tuple of observations, from two named policies of very different returns."""
    spec = EnvSpec("Pair-v0", (ArraySpec((2,), "float32"), ArraySpec((), "float32")), ArraySpec((1,), "float32", -2.0, 2.0))
    made = [swing_episode(index, 80, *((-0.3, "calm") if index % 2 else (0.9, "wild"))) for index in range(50)]
    pairs = [Episode(**{**vars(episode), "observation": (episode.observation[:, :2], episode.observation[:, 2])}) for episode in made]
    return Clean(spec, tuple(pairs))


@cache
def bang_bang() -> Clean:
    """Actions at a bound in most steps, and states that rest against a wall."""
    episodes = []
    for index in range(30):
        rng, place, speed, places, actions = np.random.default_rng(index), 0.0, 0.0, [], []
        for step in range(100):
            places.append((place, speed))
            action = float(np.sign(np.sin(step / (5 + index / 5) + index))) if rng.random() < 0.9 else float(rng.uniform(-1, 1))
            actions.append([action])
            speed = float(np.clip(0.9 * speed + 0.1 * action, -0.4, 0.4))
            moved = place + speed
            place, speed = (float(np.clip(moved, -2, 2)), speed if abs(moved) < 2 else 0.0)
        places.append((place, speed))
        rewards = [-abs(each[0]) for each in places[1:]]
        episodes.append(recorded(index, np.float32(places), np.float32(actions), rewards, False))
    return Clean(EnvSpec("Wall-v0", ArraySpec((2,), "float32"), ArraySpec((1,), "float32", -1.0, 1.0)), tuple(episodes))


@cache
def long_ones() -> Clean:
    """Few and long: more steps than the sample keeps of an episode."""
    spec = EnvSpec("Long-v0", ArraySpec((3,), "float32"), ArraySpec((1,), "float32", -2.0, 2.0))
    return Clean(spec, tuple(swing_episode(index, 2500) for index in range(3)))


@cache
def many_short() -> Clean:
    """Two thousand episodes of one to seven transitions of integers."""
    episodes = []
    for index in range(2000):
        rng = np.random.default_rng(index)
        length = int(rng.integers(1, 8))
        observation, action = rng.integers(-50, 50, (length + 1, 4)).astype(np.int32), rng.integers(0, 4, (length, 2)).astype(np.int64)
        episodes.append(recorded(index, observation, action, rng.normal(size=length), bool(rng.random() < 0.5)))
    spec = EnvSpec("Short-v0", ArraySpec((4,), "int32"), ArraySpec((2,), "int64", 0, 3))
    return Clean(spec, tuple(episodes))


@cache
def sticky() -> Clean:
    """Discrete actions that are mostly kept, and an observation of which one column, a flag, hardly changes in an episode."""
    episodes = []
    for index in range(40):
        rng = np.random.default_rng(index)
        action = np.cumsum(rng.random(90) < 0.1) % 3
        place = np.concatenate([[0], np.cumsum(action - 1) * 0.1 + rng.normal(0, 0.02, 90)])
        flag = (np.arange(91) > rng.integers(20, 70)).astype(float)
        episodes.append(recorded(index, np.stack([place, flag], 1).astype(np.float32), action, place[1:] * flag[1:], False))
    return Clean(EnvSpec("Sticky-v0", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0, 2, 3)), tuple(episodes))


@cache
def crowded() -> Clean:
    """The swing, of which only the speed answers to the action within a step, among many columns that do not."""
    episodes = []
    for episode in swing().episodes:
        rng = np.random.default_rng(int(episode.metadata["seed"]))
        weather = np.cumsum(rng.normal(0, 1, (episode.length + 1, 9)), axis=0)
        observation = np.concatenate([weather[:, :5], episode.observation, weather[:, 5:]], axis=1).astype(np.float32)
        episodes.append(replace(episode, observation=observation))
    return Clean(replace(swing().spec, observation=ArraySpec((12,), "float32")), tuple(episodes))


@cache
def betting() -> Clean:
    """Bets on what is drawn independently in each step; only the reward tells what was bet."""
    episodes = []
    for index in range(30):
        rng = np.random.default_rng(index)
        observation, action = rng.normal(size=(61, 3)).astype(np.float32), rng.uniform(-1, 1, (60, 1)).astype(np.float32)
        reward = observation[:-1, 0] * action[:, 0] - 0.2 * action[:, 0] ** 2
        episodes.append(recorded(index, observation, action, reward, False))
    return Clean(EnvSpec("Bets", ArraySpec((3,), "float32"), ArraySpec((1,), "float32", -1.0, 1.0)), tuple(episodes))


def _gymnasium(env_id: str, episodes: int, **policy: Any) -> Callable[[], Clean]:
    @cache
    def collected() -> Clean:
        module = load_builder("gymnasium")
        options = {"env_id": env_id, "episodes": episodes, "policy": policy or {"kind": "random"}}
        builder = module.Builder(module.Options.model_validate(options), Context("toy", source=Path("requirements.lock")))
        return Clean(builder.spec(), tuple(builder.episodes(0)))

    return collected


CLEAN: Mapping[str, Callable[[], Clean]] = {
    "discrete": pole,
    "continuous": swing,
    "image": camera,
    "nested with an image and a clock": nested,
    "grid": grid,
    "bandit": bandit,
    "exogenous": exogenous,
    "two policies": two_policies,
    "bang-bang": bang_bang,
    "long": long_ones,
    "many short": many_short,
    "sticky": sticky,
    "crowded": crowded,
    "betting": betting,
    "CartPole-v1": _gymnasium("CartPole-v1", 100),
    "Pendulum-v1": _gymnasium("Pendulum-v1", 20),
    "MountainCarContinuous-v0": _gymnasium("MountainCarContinuous-v0", 4),
    "Acrobot-v1": _gymnasium("Acrobot-v1", 6),
    "FrozenLake-v1": _gymnasium("FrozenLake-v1", 100),
    "Pendulum-v1, a controller": _gymnasium(
        "Pendulum-v1", 20, kind="noise", std=0.5, base={"kind": "scripted", "name": "pendulum_swing_up"}
    ),
}
