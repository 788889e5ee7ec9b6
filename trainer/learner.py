"""What a learner is, and how one is found by name.

A learner is a module `trainer/learners/<algorithm>.py` with two names: `Params`, the frozen pydantic model of its preset in
params.yaml, and `Learner`, which meets the protocol below.
"""

import importlib
import pkgutil
from types import ModuleType
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from jax import Array
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

import trainer.learners
from rl_datasets.errors import HindcastError, describe_raise
from rl_datasets.schema import EnvSpec, Transition, Tree

State = TypeVar("State")
Metrics = dict[str, Array]  # scalars, float32


class LearnerParams(BaseModel):
    """What every learner's preset holds. A learner's own `Params` derives from this and adds what its paper names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    gamma: float = Field(0.99, ge=0, lt=1)
    hidden_sizes: tuple[PositiveInt, ...] = Field((256, 256), min_length=1)
    learning_rate: float = Field(3e-4, gt=0)
    max_grad_norm: float | None = Field(None, gt=0)
    normalize_observations: Literal["none", "standardize", "whiten"] = "standardize"  # by the train split; see trainer/preprocessing.py
    reward_scale: float = 1.0
    reward_shift: float = 0.0
    reward_scaling: Literal["none", "return_range"] = "none"  # D4RL's 1000 / (max - min episode return) of the train split


class Learner(Protocol[State]):
    """Learner(params, spec, updates): immutable and hashable; pure methods over pytrees; the caller jits and vmaps.

    Observations arrive as the spec nests them, leaves [B, ...]: float leaves normalised, categories and images as stored.
    Actions arrive and leave as the environment takes them: [B, ...] in the spec's bounds. Rewards arrive transformed.
    A state is a NamedTuple with at least `step` (int32 scalar) and `key` (a typed PRNG key).
    """

    Params: ClassVar[type[LearnerParams]]

    def __init__(self, params: Any, spec: EnvSpec, updates: int) -> None:
        """`updates` is the length of the whole run, for schedules. Raises HindcastError where the spec cannot be learnt."""

    def init(self, key: Array) -> State: ...

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        """One step of every optimiser. The metrics hold `loss`, all that is minimised, and whatever else is worth a curve."""
        ...

    def losses(self, state: State, batch: Transition) -> Metrics:
        """The metrics of `update` without one: for validation. Uses the state's key, and returns no state."""
        ...

    def policy(self, state: State) -> Tree:
        """Returns the part of the state that `act` and `sample` need: what a policy bundle stores."""
        ...

    def act(self, policy: Tree, observation: Tree) -> Array:
        """The deterministic action, [B, ...]."""
        ...

    def sample(self, policy: Tree, key: Array, observation: Tree) -> Array:
        """An action drawn from the policy, [B, ...]."""
        ...


def known_learners() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(trainer.learners.__path__))


def load_learner(algorithm: str) -> ModuleType:
    """Returns the module of a learner. Raises HindcastError that lists the known ones where there is none of this name."""
    if algorithm not in known_learners():
        raise HindcastError(
            f"There is no learner '{algorithm}'. Known: {', '.join(known_learners())}. A learner is a file trainer/learners/<name>.py."
        )
    try:
        return importlib.import_module(f"trainer.learners.{algorithm}")
    except Exception as error:  # whatever a file that a user wrote raises
        raise HindcastError(f"The learner '{algorithm}' cannot be imported: {describe_raise(error)}. Mend its file.") from error
