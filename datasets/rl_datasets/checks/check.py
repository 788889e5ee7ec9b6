"""What a check is: a name, what it says for itself, its options, and something that sees each block of episodes once and the table last.

A check without state is a function, adapted by `per_block` or `per_table`; one that must remember is a subclass of `Running`. Either is
declared as a `Check` beside it and listed in `catalogue`. It yields at most a few faults an episode, each at the first step at fault.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, model_validator

from rl_datasets.checks.block import Block, Misfit
from rl_datasets.checks.expected import Expected
from rl_datasets.checks.sample import Sample
from rl_datasets.recorded import Damage

Severity = Literal["fail", "quarantine", "warn", "off"]


class Options(BaseModel):
    """The options that every check has. A bare word stands for the severity: `duplicates: warn`.

    `fail` stops the pipeline; `quarantine` sets the episode aside, and stops it where no episode is named; `warn` is reported only;
    `off` is not looked for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    severity: Severity = "fail"

    @model_validator(mode="before")
    @classmethod
    def _of_word(cls, value: Any) -> Any:
        if value is False:  # what `off` means to readers of YAML 1.1
            value = "off"
        if value is None or isinstance(value, list | int | float):
            raise ValueError("a severity (fail, quarantine, warn or off) or options, such as {severity: warn}, are expected")
        return {"severity": value} if isinstance(value, str) else value


class Warns(Options):
    """Options of a check that warns where nothing else is said."""

    severity: Severity = "warn"


class Fault(NamedTuple):
    """One thing wrong: where, what was found, what was expected."""

    found: str
    expected: str
    episode: int | None = None  # its number in the data; None where no episode is at fault
    step: int | None = None  # None where no single step is
    evidence: Mapping[str, Any] | None = None  # small JSON
    set_aside: tuple[int, ...] | None = None  # numbers of the episodes that quarantine takes, where they are others than `episode`
    found_there: str = ""  # what was found in those; empty where it reads as `found`


class NotApplicable(NamedTuple):
    """That a check could not be made on these data, and why."""

    why: str


class Covered(NamedTuple):
    """How many episodes a check has looked at, where that may be a part of them."""

    episodes: int
    of: int


class Running:
    """One check on one data set. Memory is bounded: what it keeps does not grow with the number of steps."""

    def __init__(self, expected: Expected, options: Any) -> None:
        self.expected, self.options = expected, options

    @property
    def sample(self) -> Sample | None:
        """Steps of the blocks seen so far, the present one included; None where there is no step."""
        return self.expected.sampler.result()

    def damage(self, damage: Damage) -> Iterator[Fault]:  # noqa: ARG002
        """Looks at a file that could not be read, or has no place."""
        yield from ()

    def misfit(self, misfit: Misfit) -> Iterator[Fault]:  # noqa: ARG002
        """Looks at an episode that fits in no block."""
        yield from ()

    def block(self, block: Block) -> Iterator[Fault]:  # noqa: ARG002
        yield from ()

    def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable | Covered]:  # noqa: ARG002
        """Looks at the table of all episodes, misfits included, one row each in the order of the data, with the columns of EpisodeRow."""
        yield from ()


P = TypeVar("P", bound=Options)


@dataclass(frozen=True)
class Check(Generic[P]):
    """An entry of the catalogue; the three sentences are what a report and the page of checks say of it."""

    name: str
    finds: str
    why: str
    remedy: str
    options: type[P]
    make: Callable[[Expected, P], Running | NotApplicable]


class EpisodeRow(NamedTuple):
    """A row of the table of episodes, in the order of the data."""

    episode_id: str
    length: int
    episode_return: float
    is_terminal: bool
    policy: str
    seed: int
    environment: str
    content: int  # the fingerprint of all arrays and of is_terminal, 64 bits; 0 for a misfit


def per_block(function: Callable[[Block, Expected, P], Iterator[Fault]]) -> Callable[[Expected, P], Running]:
    """Makes a check of a function of one block."""

    class PerBlock(Running):
        def block(self, block: Block) -> Iterator[Fault]:
            return function(block, self.expected, self.options)

    return PerBlock


def per_table(function: Callable[[pd.DataFrame, Expected, P], Iterator[Fault | NotApplicable]]) -> Callable[[Expected, P], Running]:
    """Makes a check of a function of the table of episodes."""

    class PerTable(Running):
        def finish(self, table: pd.DataFrame) -> Iterator[Fault | NotApplicable]:
            return function(table, self.expected, self.options)

    return PerTable
