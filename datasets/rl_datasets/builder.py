"""What a dataset builder is, and how one is found by name.

A builder is a module `datasets/rl_datasets/builders/<name>.py` with three names: `Options`, the frozen pydantic model of `options`
in the data set's entry in params.yaml; `Builder`, which meets the protocol below; and `example`, a function that returns the options
of a data set of a second's work, after writing whatever files it needs into the folder that it is given, for the contract tests.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

import rl_datasets.builders
from rl_datasets.errors import HindcastError, describe_raise
from rl_datasets.manifest import Input
from rl_datasets.schema import EnvSpec, Episode, ReferenceReturns, Tree

RAW_SPLIT = "raw"  # the one split of a data set as its builder made it


class BuilderOptions(BaseModel):
    """The base of every builder's `Options`: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class References(BuilderOptions):
    """Returns that scores are normalised by, and where they come from."""

    random: float
    expert: float
    source: str = Field(min_length=1)

    def value(self) -> ReferenceReturns:
        return ReferenceReturns(self.random, self.expert, self.source)


class BatchPolicy(Protocol):
    """A trained policy as a builder sees it. It must pickle, for it is handed to worker processes."""

    @property
    def digest(self) -> str:
        """Of its content: the same digest, the same policy."""
        ...

    def act(self, observation: Tree) -> Any:
        """Deterministic actions [N, ...] for raw observations [N, ...]."""
        ...


@dataclass(frozen=True)
class Context:
    """What the collect stage hands to a builder beside its options. None of it may change the bytes of the episodes."""

    name: str  # the data set's key in params.yaml
    workers: int = 0  # processes beside this one; 0 where this one does the work
    load_policy: Callable[[Path], BatchPolicy] | None = None  # loads a policy bundle; None where the trainer is absent
    source: Path | None = None  # the path that the data set is made from, as its entry says


class DatasetBuilder(Protocol):
    """Builder(options, context). A builder reports what it assumed in `notes`, which is complete once `episodes` is exhausted."""

    def __init__(self, options: Any, context: Context) -> None: ...

    @property
    def notes(self) -> Sequence[str]:
        """One sentence for each cast, assumption, loss or repair."""
        ...

    @property
    def inputs(self) -> Sequence[Input]:
        """Files that were read, with the digest of their content."""
        ...

    @property
    def packages(self) -> Sequence[str]:
        """Names of the distributions whose version can change the episodes (the simulator's, a parser's)."""
        ...

    @property
    def expected_episodes(self) -> int | None:
        """For the progress bar; None where it is not known."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """For the manifest, beside episodes and transitions: what was lost or dropped."""
        ...

    def spec(self) -> EnvSpec: ...

    def episodes(self, seed: int) -> Iterator[Episode]:
        """Yields episodes with unique ids in a fixed order: same options and seed, same episodes, for any context."""
        ...


class BuilderBase:
    """A builder with nothing to report yet: derive from it, write `spec` and `episodes`, and add to what it reports."""

    def __init__(self, options: Any, context: Context) -> None:
        self.options, self.context = options, context
        self.notes: list[str] = []
        self.inputs: list[Input] = []
        self.packages: list[str] = []
        self.counts: dict[str, int] = {}
        self.expected_episodes: int | None = None


def known_builders() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(rl_datasets.builders.__path__))


def load_builder(name: str) -> ModuleType:
    """Returns the module of a builder. Raises HindcastError that lists the known ones where there is none of this name."""
    if name not in known_builders():
        raise HindcastError(
            f"There is no builder '{name}'. Known: {', '.join(known_builders())}. "
            "A builder is a file datasets/rl_datasets/builders/<name>.py; datasets/README.md shows how to write one."
        )
    try:
        return importlib.import_module(f"rl_datasets.builders.{name}")
    except Exception as error:  # whatever a file that a user wrote raises
        raise HindcastError(f"The builder '{name}' cannot be imported: {describe_raise(error)}. Mend its file.") from error
