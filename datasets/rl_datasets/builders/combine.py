"""One data set made of several: their episodes one after another, with their ids. Nothing but the new data set is read again for it.

In the pipeline, an entry under `combine` in params.yaml for each parent names the data set it goes into, whose source is then
artifacts/combine/<name>. Elsewhere, `parents` names their folders.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tree

from rl_datasets.builder import BuilderBase, BuilderOptions, Context
from rl_datasets.derived import Parent, find_parent, linked_parents
from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves
from rl_datasets.words import count

_ALWAYS = ("seed", "policy", "environment")


class Options(BuilderOptions):
    """`parents` are folders such as artifacts/raw/<name>; those that the source links to where nothing is said."""

    parents: tuple[str, ...] = ()
    ids: Literal["keep", "prefix"] = "keep"  # "prefix": the parent's name before each id, where parents number their episodes alike


class Builder(BuilderBase):
    options: Options

    def __init__(self, options: Options, context: Context) -> None:
        super().__init__(options, context)
        self.parents = [find_parent(Path(path)) for path in options.parents]
        if not self.parents and context.source is not None:
            self.parents = linked_parents(context.source)
        if not self.parents:
            raise HindcastError(
                f"Data set '{context.name}' is made of none. Add an entry under 'combine' in params.yaml for each that goes into it: "
                f"'<name>: {{into: {context.name}, dataset: <data set>}}', and set its source to artifacts/combine/{context.name}."
            )
        self.inputs = [parent.input for parent in self.parents]
        self.expected_episodes = sum(parent.manifest.counts["episodes"] for parent in self.parents)
        self._spec = joined_spec(self.parents)

    def spec(self) -> EnvSpec:
        return self._spec

    @cached_property
    def columns(self) -> frozenset[str]:
        """Metadata that all parents have."""
        return frozenset.intersection(*(frozenset(next(parent.episodes()).metadata) for parent in self.parents))

    def episodes(self, seed: int) -> Iterator[Episode]:
        """Raises HindcastError where an id is in two parents."""
        del seed
        seen: dict[str, Parent] = {}
        self.notes, self.counts = [], {}
        for parent in self.parents:
            for number, episode in enumerate(parent.episodes()):
                if number == 0 and (dropped := sorted(set(episode.metadata) - self.columns)):
                    self.notes.append(f"{parent.name}: metadata that not all parents have were left out: {', '.join(dropped)}.")
                if number == 0 and (dropped := sorted(set(episode.step_metadata) - set(self._spec.step_metadata))):
                    self.notes.append(f"{parent.name}: step metadata that not all parents have alike were left out: {', '.join(dropped)}.")
                episode_id = f"{parent.name}-{episode.episode_id}" if self.options.ids == "prefix" else episode.episode_id
                other = seen.setdefault(episode_id, parent)
                if other is not parent:
                    raise HindcastError(
                        f"The episode id '{episode_id}' is in '{other.name}' ({other.folder}) and in '{parent.name}' "
                        f"({parent.folder}). Ids are unique. Set 'ids: prefix' in its options to put a parent's name before its ids."
                    )
                metadata = {key: value for key, value in episode.metadata.items() if key in self.columns}
                kept = {name: episode.step_metadata[name] for name in self._spec.step_metadata}
                yield replace(episode, episode_id=episode_id, metadata=metadata, step_metadata=kept)
            self.notes.append(
                f"{count(number + 1, 'episode is', 'episodes are')} from '{parent.name}' (digest {parent.manifest.digest[:12]})."
            )
            self.counts[f"from_{parent.name}"] = number + 1


def joined_spec(parents: list[Parent]) -> EnvSpec:
    """Returns the spec that all parents' episodes meet: the widest bounds, and the step metadata that all have alike.

    Raises HindcastError where arrays or environments differ.
    """
    specs = [parent.spec() for parent in parents]
    first = specs[0]
    for parent, spec in zip(parents[1:], specs[1:], strict=True):
        for what, found, expected in (("environment", spec.env_id, first.env_id), ("arrays", _arrays(spec), _arrays(first))):
            if found != expected:
                raise HindcastError(
                    f"'{parent.name}' and '{parents[0].name}' differ in their {what}: {found} and {expected}. "
                    "Import them alike, or keep them as two data sets."
                )
    limits = [spec.max_episode_steps for spec in specs]
    ranges = np.array([spec.reward_range for spec in specs])
    return replace(
        first,
        observation=tree.map_structure(lambda *leaves: _widest(leaves), *(spec.observation for spec in specs)),
        action=_widest(tuple(spec.action for spec in specs)),
        max_episode_steps=None if None in limits else max(limit for limit in limits if limit is not None),
        reward_range=(float(ranges[:, 0].min()), float(ranges[:, 1].max())),
        step_metadata={name: leaf for name, leaf in first.step_metadata.items() if all(s.step_metadata.get(name) == leaf for s in specs)},
    )


def example(folder: Path) -> dict[str, Any]:
    """Options of a small data set, for the tests that every builder passes."""
    from rl_datasets.derived_example import write_parent

    return {"parents": [write_parent(folder, "north").as_posix(), write_parent(folder, "south").as_posix()]}


def _arrays(spec: EnvSpec) -> dict[str, tuple[str, tuple[int, ...], bool]]:
    leaves = [*named_leaves(spec.observation, "observation"), ("action", spec.action)]
    return {name: (leaf.dtype, leaf.shape, leaf.is_discrete) for name, leaf in leaves}


def _widest(leaves: tuple[ArraySpec, ...]) -> ArraySpec:
    bounds = [leaf.bounds() for leaf in leaves]
    low, high = np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)
    counts = [leaf.num_values for leaf in leaves if leaf.num_values is not None]
    return leaves[0].bounded(low, high, max(counts) if counts else None)
