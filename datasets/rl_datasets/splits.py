"""Which split an episode belongs to: a hash of its group's key decides, so adding episodes moves none."""

import hashlib
import math
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rl_datasets.errors import HindcastError

ALMOST_SURE = 0.999  # the probability with which the advised number of episodes leaves no split empty


class Fractions(BaseModel):
    """The share of each split, in the order in which they divide the hash's range. A split of fraction 0 isn't made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: float = Field(0.8, gt=0, le=1)
    validation: float = Field(0.1, ge=0, lt=1)
    test: float = Field(0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _whole(self) -> "Fractions":
        total = math.fsum(self.positive().values())
        if not math.isclose(total, 1, abs_tol=1e-9):
            raise ValueError(f"the fractions sum to {total:.6g}, but must sum to 1")
        return self

    def positive(self) -> dict[str, float]:
        """Returns the splits that are made, with their fractions."""
        return {name: value for name, value in (("train", self.train), ("validation", self.validation), ("test", self.test)) if value > 0}


class SplitParams(BaseModel):
    """The section `split` of params.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fractions: Fractions = Fractions()
    seed: int = Field(0, ge=0, lt=2**31)


def assign_split(group: str, fractions: Fractions, seed: int) -> str:
    """Returns the split of a group of episodes. Depends on its arguments alone, so adding episodes moves none."""
    digest = hashlib.sha256(f"{seed}/{group}".encode()).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64  # uniform in [0, 1]
    names = fractions.positive()
    end = 0.0
    for name, fraction in names.items():
        end += fraction
        if position < end:
            return name
    return name  # the sum of the fractions may fall short of 1 by rounding


def episodes_needed(fractions: Fractions) -> int:
    """Returns how many different episodes leave no split empty with probability ALMOST_SURE or more.

    By the union bound over the splits, each empty with probability (1 - fraction) ** episodes; at least one a split.
    """
    shares = fractions.positive().values()
    if len(shares) == 1:
        return 1
    allowed = (1 - ALMOST_SURE) / len(shares)
    return max(math.ceil(math.log(allowed) / math.log1p(-share)) for share in shares)


def require_episodes(groups: Mapping[str, int], fractions: Fractions) -> None:
    """Raises HindcastError where a split has got no group of episodes; `groups` counts the groups of each split."""
    empty = [name for name in fractions.positive() if not groups.get(name)]
    if empty:
        found, needed = sum(groups.values()), episodes_needed(fractions)
        shares = ", ".join(f"{name} {share:g}" for name, share in fractions.positive().items())
        raise HindcastError(
            f"Split {' and '.join(repr(name) for name in empty)} would be empty: {found} different episodes were divided by "
            f"split.fractions ({shares}), and an episode's split is drawn by a hash of its content. About {needed} different episodes "
            f"are needed ({ALMOST_SURE:.1%} sure to leave none empty). Collect more, or set that split's fraction higher or to 0."
        )
