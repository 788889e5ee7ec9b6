"""Checks of the shape of episodes: ids, lengths, nesting and dtypes, discounts, the last step."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import tree

from rl_datasets.checks.findings import Expected, Fault, and_more
from rl_datasets.schema import ArraySpec, Episode, named_leaves

SCALAR = ArraySpec((), "float32")
FLAGS = ("is_first", "is_last", "is_terminal")


def check_lengths(episode: Episode, expected: Expected) -> Iterator[Fault]:
    """At least one transition, and no more than the environment's step limit."""
    limit = expected.spec.max_episode_steps
    if episode.length < 1:
        yield Fault(None, f"{episode.length + 1} steps", "at least 2 steps, which make one transition")
    elif limit is not None and episode.length > limit:
        yield Fault(limit, f"{episode.length} transitions", f"at most {limit}, the environment's max_episode_steps")


def check_spec(episode: Episode, expected: Expected) -> Iterator[Fault]:
    """Observations nested as in the spec; every array of its shape and dtype, with one row a step."""
    try:
        tree.assert_same_structure(expected.spec.observation, episode.observation)
    except (TypeError, ValueError):
        found, wanted = (named_leaves(nest, "observation") for nest in (episode.observation, expected.spec.observation))
        yield Fault(None, f"observation with {_names(found)}", _names(wanted))
        return
    arrays = [*tree.flatten(episode.observation), episode.action, episode.reward, episode.discount]
    leaves = [*((leaf.name, leaf.spec) for leaf in expected.observation), ("action", expected.spec.action)]
    steps = len(episode.reward)
    for (name, spec), array in zip([*leaves, ("reward", SCALAR), ("discount", SCALAR)], arrays, strict=True):
        if array.shape != (steps, *spec.shape) or array.dtype != spec.dtype:
            yield Fault(None, f"{name} {_describe(array.dtype, array.shape)}", _describe(spec.dtype, (steps, *spec.shape)))


def check_flags(episode: Episode, flags: np.ndarray) -> Iterator[Fault]:
    """is_first on the first step only, is_last on the last only, is_terminal nowhere else. flags: bool [T+1, 3], as stored."""
    steps = len(episode.reward)
    if flags.shape != (steps, len(FLAGS)):
        yield Fault(None, f"flags of {len(flags)} steps", f"flags of {steps} steps")
        return
    wanted = np.zeros_like(flags)
    wanted[:1, 0] = wanted[-1:, 1] = True
    wanted[-1:, 2] = episode.is_terminal
    if (flags == wanted).all():
        return
    for name, found, right in zip(FLAGS, flags.T, wanted.T, strict=True):
        wrong = found != right
        if wrong.any():
            step = int(wrong.argmax())
            yield Fault(step, f"{name} {found[step]}{and_more(wrong)}", f"{right[step]} on step {step} of {steps}")


def check_discount(episode: Episode, expected: Expected) -> Iterator[Fault]:  # noqa: ARG001
    """0 exactly on the transition into a terminal state, 1 on every other, truncation included."""
    discount, last = episode.discount[:-1], episode.length - 1
    wanted = np.ones_like(discount)
    wanted[last] = 0 if episode.is_terminal else 1
    wrong = discount != wanted
    if wrong.any():
        step = int(wrong.argmax())
        end = "its transition leads into a terminal state" if wanted[step] == 0 else "its transition doesn't lead into a terminal state"
        yield Fault(step, f"discount {discount[step]:g}{and_more(wrong)}", f"{wanted[step]:g}, for {end}")


def check_last_step(episode: Episode, expected: Expected) -> Iterator[Fault]:  # noqa: ARG001
    """The last step holds only the last observation: its action, reward and discount are zero."""
    for name, array in (("action", episode.action), ("reward", episode.reward), ("discount", episode.discount)):
        if array[-1].any():  # NaN counts as well
            yield Fault(episode.length, f"{name} {array[-1].tolist()} on the last step", "zeros")


def check_any(table: pd.DataFrame, expected: Expected) -> Iterator[Fault]:  # noqa: ARG001
    """A data set holds at least one episode."""
    if table.empty:
        yield Fault(None, "no episode in the data set", "at least one")


def check_episode_ids(table: pd.DataFrame, expected: Expected) -> Iterator[Fault]:  # noqa: ARG001
    """None empty, none twice."""
    for _ in range(int((table["episode_id"] == "").sum())):
        yield Fault(None, "an empty id", "an id of its own for each episode")
    counts = table["episode_id"].value_counts(sort=False)
    for episode_id, count in counts[counts > 1].items():
        if episode_id:
            yield Fault(None, f"{count} episodes of this id", "an id of its own for each episode", str(episode_id))


def _describe(dtype: object, shape: tuple[int, ...]) -> str:
    return f"{dtype}{list(shape)}"


def _names(leaves: list[tuple[str, object]]) -> str:
    return "leaves " + ", ".join(name for name, _ in leaves) if leaves else "no leaves"
