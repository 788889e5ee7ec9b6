"""Behaviour policies as params.yaml writes them: each class is its own entry there. What they do stands in behaviour.py, by `kind`."""

from typing import Annotated, Literal

from pydantic import Field

from rl_datasets.behaviour import Bundles, Start, bind
from rl_datasets.builder import BuilderOptions
from rl_datasets.schema import EnvSpec


class _Policy(BuilderOptions):
    def bind(self, spec: EnvSpec, bundles: Bundles) -> Start:
        """Raises HindcastError where the policy is for another environment."""
        return bind(self.model_dump(), spec, bundles)


class Random(_Policy):
    """Uniform within bounds; where there is no bound, as Gymnasium's Box samples (normal, or exponential from the one bound)."""

    kind: Literal["random"]


class Scripted(_Policy):
    """A controller of behaviour.py, by its name."""

    kind: Literal["scripted"]
    name: Literal["pendulum_swing_up", "cartpole_balance"]


class Trained(_Policy):
    """A policy bundle that training wrote, deterministic. `path` lies inside the data set's `source`."""

    kind: Literal["bundle"]
    path: str


class EpsilonGreedy(_Policy):
    """At each step, with probability `epsilon`, a random action instead of the base policy's. For Discrete actions."""

    kind: Literal["epsilon"]
    epsilon: float = Field(ge=0, le=1)
    base: "Policy"


class GaussianNoise(_Policy):
    """Adds normal noise of standard deviation `std`, in the action's units, and clips to the bounds. For float Box actions."""

    kind: Literal["noise"]
    std: float = Field(gt=0)
    base: "Policy"


class Part(BuilderOptions):
    weight: float = Field(gt=0)
    policy: "Policy"


class Mixture(_Policy):
    """One of several policies for a whole episode, drawn by weight; the name recorded is that of the one drawn."""

    kind: Literal["mixture"]
    parts: tuple[Part, ...] = Field(min_length=1)


Policy = Annotated[Random | Scripted | Trained | EpsilonGreedy | GaussianNoise | Mixture, Field(discriminator="kind")]
for _model in (EpsilonGreedy, GaussianNoise, Part, Mixture):  # they hold policies themselves
    _model.model_rebuild()


def bundle_paths(policy: Policy) -> list[str]:
    """Returns the paths of all bundles that a policy is made of, sorted."""
    match policy:
        case Trained():
            return [policy.path]
        case EpsilonGreedy() | GaussianNoise():
            return bundle_paths(policy.base)
        case Mixture():
            return sorted({path for part in policy.parts for path in bundle_paths(part.policy)})
    return []
