"""`estimate_returns`: what policies are worth, by fitted Q evaluation on an RLDS data set. All of them in one program."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl_datasets.errors import HindcastError
from rl_datasets.rlds import RldsReader
from rl_datasets.rlds.reader import read_splits
from rl_datasets.schema import EnvSpec, Transition, Tree
from rl_datasets.stream import open_stream
from trainer import loop
from trainer.actions import encode_action
from trainer.bundle import Bundle, require_alike
from trainer.data import training_feed
from trainer.feed import FeedName
from trainer.fitted_q import support
from trainer.fitted_q.fitting import FittedQ, Subject, make_fitted_q
from trainer.fitted_q.logged import Logged, every_nth, read_logged
from trainer.fitted_q.params import FittedQParams
from trainer.fitted_q.summary import Estimate, limits_of
from trainer.points import VALIDATION, Row
from trainer.preprocessing import Preprocessor

POINTS = 20  # of the estimate's way, over the updates
STATES = 4096  # valued at once


def estimate_returns(
    policies: Sequence[Bundle],
    path: Path,
    statistics: Mapping[str, Any],
    params: FittedQParams,
    *,
    seed: int,
    train: str,
    held_out: str,
    readers: int = 2,
    memory_cap_mb: int = 2048,
    feed: FeedName = "auto",
    report: Callable[[loop.Progress], None] | None = None,
) -> Estimate:
    """Fits critics of each policy, and of the behaviour, on the split `train`; values them at the initial states of `held_out`.

    The policies are of one experiment, of data with the same arrays as these. `statistics` is what stats.json says of `train`. Equal
    arguments give equal bits. Raises HindcastError where a split is missing or empty, the data are of other arrays, or critics diverge.
    """
    require_alike(policies)
    spec, reader = policies[0].spec, RldsReader(path)
    _require_split(reader, held_out)
    logged = read_logged(reader.episodes_of(reader.shards(held_out)), params.gamma)
    fitted_q = make_fitted_q(params, spec, policies[0].learner, _scaling(spec, statistics, params.gamma))
    subjects = [Subject(bundle.preprocessor, bundle.policy, np.bool_(False)) for bundle in policies]
    subjects.append(subjects[0]._replace(is_behaviour=np.bool_(True)))
    size = min(params.batch_size, read_splits(path)[train].transitions)
    stream = open_stream(path, train, batch_size=size, readers=readers, memory_cap_mb=memory_cap_mb, next_action=True)
    seeds = tuple(range(seed, seed + len(subjects)))
    try:
        fitted = loop.fit(
            fitted_q,
            _untouched(spec),
            training_feed(stream, spec, seeds, size, feed)[0],
            loop.Plan(seeds, params.updates, max(1, params.updates // POINTS)),
            given=subjects,
            validation=_initial(logged),
            hooks=loop.Hooks(report),
        )
    except HindcastError as error:
        raise HindcastError(f"Fitted Q evaluation (evaluate.fitted_q): {error}") from error
    values = _values(fitted_q, fitted.policies, subjects, logged)
    rewards = statistics["reward"]
    return Estimate(
        params=params,
        seed=seed,
        episodes=logged.ids,
        policies=logged.policies,
        length=logged.length,
        is_terminal=logged.is_terminal,
        values=values[:-1],
        behaviour_value=values[-1],
        behaviour_return=logged.episode_return,
        behaviour_rest=_rest(fitted_q, fitted.policies[-1], subjects[-1], logged),
        rest=logged.rest,
        moved=_moved(fitted.rows),
        far=_far(fitted_q, policies, reader, train, held_out),
        limits=limits_of(rewards["minimum"], rewards["maximum"], params.gamma, bool(logged.is_terminal.any())),
    )


def _scaling(spec: EnvSpec, statistics: Mapping[str, Any], gamma: float) -> Preprocessor:
    """What critics see: standardised observations, and rewards in units of what they add up to over an episode of mean length."""
    observation = {name: {"mean": entry["mean"], "std": entry["std"]} for name, entry in statistics["observation"].items()}
    reward, length = statistics["reward"], statistics["transitions"] / statistics["episodes"]
    horizon = (1 - gamma**length) / (1 - gamma)
    unit = (abs(reward["mean"]) + reward["std"]) * horizon
    return Preprocessor.from_json({"observation": observation, "reward": {"scale": 1 / unit if unit > 0 else 1.0, "shift": 0.0}}, spec)


def _untouched(spec: EnvSpec) -> Preprocessor:
    return Preprocessor.from_json({"observation": {}, "reward": {"scale": 1.0, "shift": 0.0}}, spec)


def _initial(logged: Logged) -> Transition:
    """The first held-out states as one batch [1, B, ...], at which the loop repeats the estimate over the updates."""
    zeros = np.zeros(min(STATES, logged.episodes), np.float32)
    observation, action = jax.tree.map(lambda leaf: leaf[:STATES], (logged.first_observation, logged.first_action))
    batch: Transition = jax.tree.map(lambda leaf: leaf[None], Transition(observation, action, zeros, zeros, observation))
    return batch


def _values(fitted_q: FittedQ, critics: Sequence[Tree], subjects: Sequence[Subject], logged: Logged) -> np.ndarray:
    """Means over each ensemble, [S + 1, E]."""
    initial = logged.first_observation, logged.first_action
    return np.stack([_value(fitted_q, critic, own, *initial) for critic, own in zip(critics, subjects, strict=True)])


def _rest(fitted_q: FittedQ, critic: Tree, behaviour: Subject, logged: Logged) -> np.ndarray:
    """What came after an episode's last reward, [E], by the behaviour's critics at its last action; zero where it ended."""
    last = _value(fitted_q, critic, behaviour, logged.last_observation, logged.last_action)
    rest: np.ndarray = logged.rest * (last - logged.last_reward)
    return rest


def _value(fitted_q: FittedQ, critic: Tree, subject: Subject, observation: Tree, action: np.ndarray) -> np.ndarray:
    """[E] float64."""
    values = jax.jit(fitted_q.values)
    parts = [
        np.asarray(values(critic, subject, *jax.tree.map(lambda leaf, b=begin: leaf[b : b + STATES], (observation, action))), np.float64)
        for begin in range(0, len(action), STATES)
    ]
    mean: np.ndarray = np.concatenate(parts, axis=1).mean(axis=0)
    return mean


def _moved(rows: Sequence[Row]) -> np.ndarray:
    """[S + 1]: the change of each estimate from where it was farthest from its end, of the points of the last half of the updates."""
    points = np.array([row.metrics["value"] for row in rows if row.split == VALIDATION], np.float64)
    changes = points[-1] - points[len(points) // 2 - 1 if len(points) > 1 else 0 :]
    farthest = np.abs(changes).argmax(axis=0)
    moved: np.ndarray = np.take_along_axis(changes, farthest[None], axis=0)[0]
    return moved


def _far(fitted_q: FittedQ, policies: Sequence[Bundle], reader: RldsReader, train: str, held_out: str) -> np.ndarray:
    """The share of far actions of each policy, [S]."""
    spec = fitted_q.spec
    width = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(spec.observation))
    transitions = read_splits(reader.path)
    taken, logged = (
        every_nth(reader.episodes_of(reader.shards(split)), transitions[split].transitions, limit)
        for split, limit in ((train, support.states_for(width)), (held_out, support.HELD_OUT_STATES))
    )
    flat = functools.partial(_flat, fitted_q.scaling)
    own = np.stack([_encoded(bundle.act(logged[0]), spec) for bundle in policies])
    return support.far_share(flat(taken[0]), _encoded(taken[1], spec), flat(logged[0]), _encoded(logged[1], spec), own)


def _encoded(action: np.ndarray, spec: EnvSpec) -> np.ndarray:
    return np.asarray(encode_action(jnp.asarray(action), spec.action))


def _flat(scaling: Preprocessor, observation: Tree) -> np.ndarray:
    """Standardised observations as rows, [n, D] float64."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(scaling.observation(observation))]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def _require_split(reader: RldsReader, held_out: str) -> None:
    if held_out not in reader.splits:
        raise HindcastError(
            f"Fitted Q evaluation values policies at the initial states of the split '{held_out}', but {reader.path} has only "
            f"{', '.join(reader.splits)}. Give it a share in split.fractions of params.yaml."
        )
