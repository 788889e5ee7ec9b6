"""What a check may know beside the data: the spec, where the data come from, and how to make their environment."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rl_datasets.checks.leaf import Leaf
from rl_datasets.checks.neighbours import Neighbours, neighbours
from rl_datasets.checks.sample import Sampler
from rl_datasets.manifest import Manifest
from rl_datasets.schema import EnvSpec, named_leaves


@dataclass(frozen=True)
class Expected:
    """The spec, unfolded once for all episodes, and what only some data have."""

    spec: EnvSpec
    observation: tuple[Leaf, ...]  # in the order of a block's
    action: Leaf
    manifest: Manifest | None = None  # of the data, with the packages that shaped them
    make_env: Callable[[], Any] | None = None  # makes the gymnasium environment that the data are of; raises HindcastError

    @cached_property
    def sampler(self) -> Sampler:
        """Gathers steps of the data for all checks of one run."""
        return Sampler(self.observation, self.action)

    @cached_property
    def neighbours(self) -> Neighbours | str:
        """The rows of the whole sample beside one another, or why there are none; to be asked for once all blocks are seen."""
        return neighbours(self.sampler.result(), self.observation, self.action)

    @classmethod
    def of(cls, spec: EnvSpec, manifest: Manifest | None = None, make_env: Callable[[], Any] | None = None) -> "Expected":
        leaves = tuple(Leaf(name, leaf) for name, leaf in named_leaves(spec.observation, "observation"))
        return cls(spec, leaves, Leaf("action", spec.action), manifest, make_env)
