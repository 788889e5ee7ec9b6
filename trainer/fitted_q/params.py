"""How fitted Q evaluation is done. Imports no JAX, so that params.yaml is read without it."""

import math

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

BEYOND = 0.05  # of a return's weight, that one may well leave to the estimator where episodes are cut


def gamma_within(steps: float) -> float:
    """Returns a gamma that leaves about BEYOND of the weight after that many steps, and no more; 1 - gamma has two digits."""
    missing = 1 - BEYOND ** (1 / steps)
    unit = 10.0 ** (math.floor(math.log10(missing)) - 1)
    return float(f"{1 - math.ceil(missing / unit) * unit:.12g}")


class FittedQParams(BaseModel):
    """The options of `evaluate.fitted_q`; none needs to be given."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    gamma: float = Field(0.99, ge=0, lt=1)  # of the return that is estimated; a learner's own is another matter
    updates: int = Field(10_000, gt=0)
    batch_size: int = Field(256, gt=0)  # all transitions where there are fewer
    hidden_sizes: tuple[PositiveInt, ...] = Field((64, 64), min_length=1)  # of the critics
    num_critics: int = Field(2, ge=1)  # an ensemble, each with a target of its own; the estimate is their mean
    learning_rate: float = Field(1e-3, gt=0)  # falls to zero over the run by a cosine
    tau: float = Field(0.05, gt=0, le=1)  # the target's step to the critics: values travel back a step of the data in 1 / tau updates
    layer_norm: bool = True  # before the activation of each hidden layer, which keeps critics from feeding on their own errors
