"""What a learner is, what every learner's preset holds, and how a learner is found by name.

A learner is a module `trainer/learners/<algorithm>.py` with two names: `Params`, the frozen pydantic model of its preset in
params.yaml, and `Learner`, which meets the protocol below. `Params` is put together from the groups of options here, each of which
stands in one place: `LearnerParams` in every learner, `CriticParams` and the policies' where there are such networks.
"""

import importlib
import pkgutil
from types import ModuleType
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar

from jax import Array
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, field_validator, model_validator

import trainer.learners
from rl_datasets.errors import HindcastError, describe_raise
from rl_datasets.schema import EnvSpec, Transition, Tree

State = TypeVar("State")
Metrics = dict[str, Array]  # scalars, float32
Sizes = tuple[PositiveInt, ...]
Activation = Literal["relu", "gelu", "silu", "tanh", "elu", "leaky_relu"]


class Group(BaseModel):
    """Options that belong together: frozen, hashable, closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # an option of a module may be a list or a mapping


class ModuleParams(Group):
    """A flax module by name: a built-in one where there are such, else `<import path>:<class>`; see trainer/custom.py."""

    module: str
    options: dict[str, Any] = Field(default_factory=dict)  # keyword arguments of its constructor


def _named(value: Any) -> Any:
    return {"module": value} if isinstance(value, str) else value


EncoderParams = Annotated[ModuleParams, BeforeValidator(_named)]  # a name alone, or with options


class Initialization(Group):
    """How weights start, see `networks.initializers`. The default keeps the variance through ReLU layers and starts outputs near 1."""

    hidden: Literal["he_uniform", "lecun_normal", "orthogonal", "torch", "rlkit"] = "he_uniform"
    output: Literal["lecun_uniform", "lecun_normal", "orthogonal", "torch", "xavier_uniform", "uniform"] = "lecun_uniform"
    output_gain: float = Field(1.0, gt=0)  # times the weights of the output layer


class NetworkParams(Group):
    """What one network has of its own. What is absent is as the preset says for all; with a `module`, nothing else counts."""

    module: str | None = None  # `<import path>:<class>` of a flax module, see trainer/custom.py
    options: dict[str, Any] = Field(default_factory=dict)
    hidden_sizes: Sizes | None = None  # linear where empty
    activation: Activation | None = None
    layer_norm: bool | None = None
    residual: bool | None = None
    initialization: Initialization | None = None

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        given = sorted(name for name, value in self if name not in ("module", "options") and value is not None)
        if self.module and given:
            raise ValueError(f"{', '.join(given)} are for the built-in networks, but module {self.module} takes their place")
        if self.options and not self.module:
            raise ValueError("options are those of a module, but no module is named")
        return self


class LearnerParams(Group):
    """What every learner's preset holds. A learner's own `Params` derives from this and adds what its paper names.

    A learner that decays rates or takes networks of its own lists the names of its networks as `NETWORKS`.
    """

    NETWORKS: ClassVar[tuple[str, ...]] = ("policy",)
    NEXT_ACTION: ClassVar[bool] = False  # whether its batches are to hold the data's next actions

    gamma: float = Field(0.99, ge=0, lt=1)
    # what the data enter as; see trainer/preprocessing.py
    normalize_observations: Literal["none", "standardize", "whiten"] = "standardize"  # by the train split
    reward_scale: float = 1.0
    reward_shift: float = 0.0
    reward_scaling: Literal["none", "return_range"] = "none"  # D4RL's 1000 / (max - min episode return) of the train split
    action_clip: float | None = Field(None, gt=0, le=1)  # continuous actions of the data, in [-1, 1], are clipped to +-this (IQL's authors)
    # the networks; see trainer/networks.py
    hidden_sizes: Sizes = Field((256, 256), min_length=1)
    activation: Activation = "relu"
    residual: bool = False  # a layer after the first, as wide as its input, adds it to its output (He et al. 2016)
    initialization: Initialization = Initialization()
    encoders: dict[str, EncoderParams] = Field(default_factory=dict)  # of leaves, such as observation/camera; see trainer/encoders.py
    networks: dict[str, NetworkParams] = Field(default_factory=dict)  # by the network's name
    # optimisation; see trainer/optimization.py
    learning_rate: float = Field(3e-4, gt=0)
    policy_learning_rate: float | None = Field(None, gt=0)  # learning_rate where absent
    decay: tuple[str, ...] = ()  # the networks whose rate falls to zero over the run
    decay_shape: Literal["cosine", "linear"] = "cosine"
    warmup: int = Field(0, ge=0)  # first updates, in which every rate rises linearly
    max_grad_norm: float | None = Field(None, gt=0)  # of each network's gradient
    weight_decay: float = Field(0.0, ge=0)  # decoupled, times the learning rate (AdamW)
    ema_decay: float | None = Field(None, gt=0, lt=1)  # act by the moving average of the policy's weights

    @field_validator("decay", "networks")
    @classmethod
    def _networks_exist(cls, named: Any) -> Any:
        unknown = sorted(set(named) - set(cls.NETWORKS))
        if unknown:
            raise ValueError(f"there is no network {', '.join(unknown)}; this learner has: {', '.join(cls.NETWORKS)}")
        return named


class CriticParams(Group):
    """Of learners with critics and their targets."""

    tau: float = Field(0.005, gt=0, le=1)  # the target's step towards the critics after each update
    num_critics: int = Field(2, ge=1)
    layer_norm: bool = False  # of values and critics, before the activation; a policy's own is networks.policy.layer_norm
    advantage_hidden_sizes: Sizes | None = None  # of a dueling critic for discrete actions, see networks.Critic


class GaussianParams(Group):
    """Of learners whose policy for continuous actions is a Gaussian, or categorical for discrete ones; see policies.make_policy."""

    dropout: float = Field(0.0, ge=0, lt=1)  # after each hidden layer of the policy
    squash_mean: bool = True  # the mean passes through tanh where the action has bounds; the density stays the Gaussian's
    log_std_range: tuple[float, float] = (-5.0, 2.0)
    state_dependent_std: bool = False


class SquashedGaussianParams(Group):
    """Of learners whose policy for continuous actions is a Gaussian that tanh squashes; see policies.make_squashed_policy."""

    log_std_range: tuple[float, float] = (-20.0, 2.0)
    log_std_affine: tuple[float, float] | None = None  # log_std becomes a * log_std + b, both learnt from these values (CORL: 1, -1)


class Trainable(Protocol[State]):
    """What `loop.fit` drives: immutable, with pure methods over pytrees; the caller jits and vmaps.

    Observations arrive as the spec nests them, leaves [B, ...]. Actions arrive as the environment takes them: [B, ...] in the
    spec's bounds. Rewards arrive transformed.
    A state is a NamedTuple with at least `step` (int32 scalar), `key` (a typed PRNG key) and `params` (weights by network).
    """

    def init(self, key: Array, *given: Tree) -> State:
        """The first state, from a key and, where the caller has such for each seed, what it is given."""
        ...

    def update(self, state: State, batch: Transition) -> tuple[State, Metrics]:
        """One step of every optimiser. The metrics hold `loss`, all that is minimised, and whatever else is worth a curve."""
        ...

    def losses(self, state: State, batch: Transition) -> Metrics:
        """The metrics of `update` without one: for validation. Uses the state's key, and returns no state."""
        ...

    def policy(self, state: State) -> Tree:
        """Returns what a run is for: of a learner, the part of the state that `act` and `sample` need, averaged with `ema_decay`."""
        ...


class Learner(Trainable[State], Protocol[State]):
    """Learner(params, spec, updates): what `fit` drives, hashable too, and a policy to act by.

    Float leaves of observations arrive normalised, categories and images as stored. Actions leave as they arrive.
    """

    Params: ClassVar[type[LearnerParams]]

    def __init__(self, params: Any, spec: EnvSpec, updates: int) -> None:
        """`updates` is the length of the whole run, for schedules.

        Raises HindcastError where the spec cannot be learnt, or a network that the preset names does not fit it.
        """

    def init(self, key: Array) -> State: ...

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
