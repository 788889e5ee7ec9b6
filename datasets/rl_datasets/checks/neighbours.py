"""`Neighbours`: rows of the sample with the rows beside them, and what rewards and changes of the observation follow from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from rl_datasets.checks.leaf import Leaf
from rl_datasets.checks.regression import cross_errors, joined
from rl_datasets.checks.sample import Sample

FIT_ROWS = 2048
FEWEST = 200  # rows that a model can be fitted on
OF_STRETCH = 64  # rows of one episode that are looked at
CATEGORIES = 64  # values of a category that are told apart
COLUMNS = 64  # of the observation, beyond which a model would need more rows
GUESSED = 0.3  # share of the actions' variance that the observation explains, from which on a policy may stand behind an effect

OWN = ("own", 0)
REWARDS = (("reward", -1), ("reward", 1))  # rewards that follow from the row before, or after
ACTIONS = (("action", -1), ("action", 1))  # things that follow from the action of the row before, or after
Hypothesis = tuple[str, int]
Question = Literal["reward", "change"]  # what is asked to follow from a window of rows


@dataclass(frozen=True)
class Neighbours:
    """Rows with a neighbour on both sides and one more after that: each array is [N, D] float64, in the order of the data."""

    observation: Mapping[int, np.ndarray]  # by offset, -1 to 2
    action: Mapping[int, np.ndarray]  # by offset, -1 to 1
    reward: np.ndarray  # [N, 1]
    owner: np.ndarray  # [N], the stretch of the sample
    step: np.ndarray  # [N]
    names: tuple[str, ...]  # of the observation's columns; a category has a column for each value

    def of(self, rows: np.ndarray) -> "Neighbours":
        """Returns some of the rows, given as booleans [N] or indices."""
        observation, action = ({offset: array[rows] for offset, array in part.items()} for part in (self.observation, self.action))
        return Neighbours(observation, action, self.reward[rows], self.owner[rows], self.step[rows], self.names)

    @cached_property
    def fitted(self) -> "Neighbours":
        """Every so many rows, that there are at most FIT_ROWS."""
        return self.of(every(len(self.owner), FIT_ROWS))

    @property
    def change(self) -> np.ndarray:
        change: np.ndarray = self.observation[1] - self.observation[0]
        return change

    def output(self, question: Question) -> np.ndarray:
        """Returns what is asked for, [N, K]: the reward, or the change of the observation."""
        return self.reward if question == "reward" else self.change

    def window(self, question: Question, hypothesis: Hypothesis) -> np.ndarray:
        """Returns what it would follow from: of a reward observation, action and next observation; of a change observation and action."""
        moved, offset = hypothesis
        if question == "change":
            return joined([self.observation[0], self.action[offset]])
        rows = 0 if moved == "action" else offset
        return joined([self.observation[rows], self.action[offset], self.observation[rows + 1]])

    def own_errors(self, question: Question) -> tuple[np.ndarray, np.ndarray]:
        """Returns the errors of the fitted rows by their own windows and regressions on other episodes, a full and a plain one, [N, K]."""
        if question not in self._own_errors:
            own = self.fitted
            self._own_errors[question] = own.both_errors(own.window(question, OWN), own.output(question))
        return self._own_errors[question]

    @cached_property
    def _own_errors(self) -> dict[Question, tuple[np.ndarray, np.ndarray]]:
        return {}

    @cached_property
    def reward_errors(self) -> dict[Hypothesis, float]:
        """How badly rewards follow from each window, as a share of their variance."""
        own = self.fitted
        others = {each: own.crossed(own.window("reward", each), own.reward) for each in (*REWARDS, *ACTIONS)}
        return {each: float(errors[0]) for each, errors in {OWN: _better(*self.own_errors("reward")), **others}.items()}

    @cached_property
    def narrow_errors(self) -> dict[Hypothesis, float]:
        """The same without the next observation, which in one window is what in another is the observation."""
        own, width = self.fitted, self.observation[0].shape[1]
        windows = {each: own.window("reward", each)[:, :-width] for each in (*REWARDS, *ACTIONS)}
        return {each: float(own.crossed(window, own.reward)[0]) for each, window in windows.items()}

    @cached_property
    def change_errors(self) -> dict[Hypothesis | None, np.ndarray]:
        """How badly the change of each column follows from the observation (None), and with an action beside it, each [D]."""
        own = self.fitted
        alone = {None: own.crossed(own.observation[0], own.change), OWN: _better(*self.own_errors("change"))}
        return {**alone, **{each: own.crossed(own.window("change", each), own.change) for each in ACTIONS}}

    @cached_property
    def is_reaction(self) -> bool:
        """Whether the action follows from the observation of its own row much better than from the one before: then it tells of the
        change that led there because a policy reacted to it, not because it caused it."""
        fit = self.fitted
        own, before = (fit.crossed(fit.observation[offset], fit.action[0]).mean() for offset in (0, -1))
        return bool(1 - own > GUESSED and own < before - 0.1)

    def crossed(self, inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Returns the error of each column by the better one of two regressions on other episodes, [K]."""
        return _better(*self.both_errors(inputs, outputs))

    def both_errors(self, inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the errors by a full and by a plain regression on other episodes, [N, K] each."""
        return cross_errors(inputs, outputs, self.owner, is_plain=False), cross_errors(inputs, outputs, self.owner, is_plain=True)


def neighbours(sample: Sample | None, leaves: Sequence[Leaf], action_leaf: Leaf) -> Neighbours | str:
    """Returns the rows of a sample that can be looked at; why there are none where that is so."""
    if sample is None:
        return "there are no steps"
    arrays = list(zip(leaves, sample.observation, strict=True))
    wide = [leaf.name for leaf, array in arrays if array is None or (leaf.spec.num_values or 0) > CATEGORIES]
    columns = [_numeric(leaf, array) for leaf, array in arrays if array is not None and leaf.name not in wide]
    names = [name for leaf, array in arrays if array is not None and leaf.name not in wide for name in _names(leaf)]
    if not columns:
        return f"the observation has only {', '.join(wide)}: images, or categories of more than {CATEGORIES} values"
    if (action_leaf.spec.num_values or 0) > CATEGORIES:
        return f"actions are a category of more than {CATEGORIES} values"
    observation, action = np.concatenate(columns, axis=1), _numeric(action_leaf, sample.action)
    if observation.shape[1] > COLUMNS:
        return f"the observation has {observation.shape[1]} columns, more than {COLUMNS}"
    at = np.flatnonzero(sample.owner[:-3] == sample.owner[3:]) + 1
    at = at[at - sample.starts[sample.owner[at]] <= OF_STRETCH]
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(joined([observation, action, sample.reward]).sum(axis=1))
    at = at[np.logical_and.reduce([finite[at + offset] for offset in (-1, 0, 1, 2)])] if len(at) else at
    if len(at) < FEWEST or len(np.unique(sample.owner[at])) < 2:
        return f"fewer than {FEWEST} steps with neighbours, or a single episode"
    return Neighbours(
        {offset: observation[at + offset] for offset in (-1, 0, 1, 2)},
        {offset: action[at + offset] for offset in (-1, 0, 1)},
        sample.reward[at].astype(np.float64),
        sample.owner[at],
        at - sample.starts[sample.owner[at]] + sample.first[sample.owner[at]],
        tuple(names),
    )


def every(rows: int, limit: int) -> np.ndarray:
    """Returns every so many of the indices of rows, that there are at most `limit`."""
    return np.arange(0, rows, -(-rows // limit))


def _numeric(leaf: Leaf, array: np.ndarray) -> np.ndarray:
    """Returns [N, D] float64: a category as one column a value."""
    if leaf.spec.num_values is None:
        return array.astype(np.float64)
    own: np.ndarray = array - int(leaf.spec.bounds()[0]) == np.arange(leaf.spec.num_values)
    return own.astype(np.float64)


def _names(leaf: Leaf) -> list[str]:
    return [leaf.column(place) for place in range(leaf.size)] if leaf.spec.num_values is None else [leaf.name] * leaf.spec.num_values


def _better(full: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """Returns the error of each column by the better one of two regressions, [K]. full, plain: [N, K]."""
    better: np.ndarray = np.minimum(_mean(full), _mean(plain))
    return better


def _mean(errors: np.ndarray) -> np.ndarray:
    """The mean of all but the greatest 5 % of each column, which a few odd rows may hold. errors: [N, K]."""
    means: np.ndarray = np.sort(errors, axis=0)[: max(int(0.95 * len(errors)), 1)].mean(axis=0)
    return means
