"""Which split an episode belongs to, and the section `split` of params.yaml.

A group of episodes stays together: those of equal content, those that a metadata column puts together, and those that are nearly the
same. Nothing here looks ahead: an episode's split follows from itself and from the episodes before it, so adding episodes moves none.
"""

import hashlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rl_datasets.errors import HindcastError

ALMOST_SURE = 0.999  # the probability with which the advised number of episodes leaves no split empty
LEAST = 0.5  # episodes that a fraction must be of
GOLDEN = (math.sqrt(5) - 1) / 2  # multiples of it fill the unit interval evenly (Weyl's sequence)
Stamp = int | float | str  # a time as metadata hold it: a number, or text in ISO 8601


class Fractions(BaseModel):
    """The share of each split, in the order in which they divide the unit interval. A split of fraction 0 isn't made."""

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


class TimeOrder(BaseModel):
    """The earliest episodes train, the latest test.

    `time` is the metadata column of an episode's time. The others are the times at which validation and test begin; where they are not
    given they follow from the fractions, and then move when episodes are added.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: str = Field(min_length=1)
    validation_from: Stamp | None = None
    test_from: Stamp | None = None

    @field_validator("validation_from", "test_from")
    @classmethod
    def _a_time(cls, value: Stamp | None) -> Stamp | None:
        if value is not None:
            try:
                timestamp(value, "")
            except HindcastError as error:
                raise ValueError("a number or a time as 2026-01-31T12:00:00 is expected") from error
        return value

    @model_validator(mode="after")
    def _in_order(self) -> "TimeOrder":
        begins = [timestamp(value, "") for value in (self.validation_from, self.test_from) if value is not None]
        if begins != sorted(begins):
            raise ValueError("test begins before validation does: mend validation_from or test_from")
        return self


class SplitParams(BaseModel):
    """How one data set is divided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fractions: Fractions = Fractions()
    seed: int = Field(0, ge=0, lt=2**31)
    unit: str = "episode"
    group: str | None = Field(None, min_length=1)  # the metadata column whose value keeps episodes together, such as a driver
    near_duplicates: bool = True  # whether episodes that are nearly the same stay together
    stratify: Literal["return", "policy"] | None = None  # what each split shall have in the same shares
    order: TimeOrder | None = None
    set_aside_limit: float = Field(0.05, ge=0, le=1)  # the share of episodes that may fit no split without a leak

    @field_validator("unit")
    @classmethod
    def _episodes(cls, unit: str) -> str:
        if unit != "episode":
            raise ValueError(
                "only 'episode' is possible. The transitions of one episode follow from one another: divided among splits, validation "
                "would hold the states between those of train, and its losses would say nothing of new episodes"
            )
        return unit

    @model_validator(mode="after")
    def _one_order(self) -> "SplitParams":
        if self.stratify and self.order:
            raise ValueError("give either 'stratify' or 'order': a split by time has the shares that the times have")
        if self.order and self.order.test_from is not None and self.order.validation_from is None and self.fractions.validation > 0:
            raise ValueError("order.test_from needs order.validation_from, or fractions.validation of 0")
        if self.order and self.order.validation_from is not None and self.order.test_from is None and self.fractions.test > 0:
            raise ValueError("order.validation_from needs order.test_from, or fractions.test of 0")
        return self


class SplitSection(SplitParams):
    """The section `split` of params.yaml: how data sets are divided, and under `datasets` what is otherwise for one of them.

    `datasets` is not validated here, but by `of`.
    """

    datasets: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)

    def of(self, dataset: str) -> SplitParams:
        """Returns the parameters of one data set: its own, and for the rest those of all."""
        return SplitParams.model_validate(self.values_of(dataset), strict=True)

    def key_of(self, dataset: str, field: str) -> str:
        """Returns the path of the key in params.yaml that sets a field for a data set."""
        return f"split.datasets.{dataset}.{field}" if field in self.datasets.get(dataset, {}) else f"split.{field}"

    def values_of(self, dataset: str) -> dict[str, Any]:
        """Returns what `of` validates, as it would be written for this data set alone."""
        common = self.model_dump(mode="json", exclude={"datasets"}, exclude_unset=True)
        return {**common, **self.datasets.get(dataset, {})}


def assign_split(group: str, fractions: Fractions, seed: int) -> str:
    """Returns the split of a group of episodes. Depends on its arguments alone, so adding episodes moves none."""
    return split_at(uniform(f"{seed}/{group}"), fractions)


def uniform(text: str) -> float:
    """Returns a number in [0, 1] that looks drawn at random and follows from the text alone."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def split_at(position: float, fractions: Fractions) -> str:
    """Returns the split that has a place of the unit interval."""
    names = fractions.positive()
    end = 0.0
    for name, fraction in names.items():
        end += fraction
        if position < end:
            return name
    return name  # the sum of the fractions may fall short of 1 by rounding


def stratified_split(stratum: str, number: int, fractions: Fractions, seed: int) -> str:
    """Returns the split of a stratum's group of this number, counted from 0 in the order of the data.

    Of the first n groups of a stratum, a split has its fraction give or take few, whatever n; the first is in train.
    """
    start = uniform(f"{seed}/stratum/{stratum}") * fractions.train
    return split_at((start + number * GOLDEN) % 1, fractions)


def timestamp(value: Stamp, where: str) -> float:
    """Returns a time as a number: seconds where the text is ISO 8601, of UTC where it names no zone. `where` begins an error's message."""
    if not isinstance(value, str):
        return float(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise HindcastError(f"{where} is the time {value!r}, but a number or a time as 2026-01-31T12:00:00 is expected.") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def episodes_needed(fractions: Fractions) -> int:
    """Returns how many different episodes leave no split empty with probability ALMOST_SURE or more.

    By the union bound over the splits, each empty with probability (1 - fraction) ** episodes; at least one a split.
    """
    shares = fractions.positive().values()
    if len(shares) == 1:
        return 1
    allowed = (1 - ALMOST_SURE) / len(shares)
    return max(math.ceil(math.log(allowed) / math.log1p(-share)) for share in shares)


def require_episodes(groups: Mapping[str, int], fractions: Fractions, drawn: bool = True, group: str | None = None) -> None:
    """Raises HindcastError where a split has got no group of episodes, or one by luck; `groups` counts the groups of each split.

    `drawn` says whether a hash decides, which needs more than one group a split to be sure; `group` is the column that groups, if one does.
    """
    found = sum(groups.values())
    empty = [name for name in fractions.positive() if not groups.get(name)]
    small = [name for name, fraction in fractions.positive().items() if drawn and fraction * found < LEAST and name not in empty]
    if not empty and not small:
        return
    different = "different episodes" if group is None else f"groups of episodes, by '{group}' (group),"
    needed = "different episodes" if group is None else "groups"
    remedy = "Collect more" if group is None else "Group by a column of more values, or by none, collect more"
    shares = ", ".join(f"{name} {share:g}" for name, share in fractions.positive().items())
    what = "would be empty" if empty else "is there by luck alone, for its fraction is of less than one episode"
    how = (
        f", and an episode's split is drawn by a hash of its content or group. About {episodes_needed(fractions)} {needed} "
        f"are needed ({ALMOST_SURE:.1%} sure to leave none empty)"
    )
    raise HindcastError(
        f"Split {' and '.join(repr(name) for name in empty or small)} {what}: {found} {different} were divided by "
        f"split.fractions ({shares}){how if drawn else ''}. {remedy}, or set that split's fraction higher or to 0."
    )
