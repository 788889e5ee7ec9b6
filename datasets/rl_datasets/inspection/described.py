"""Data sets that say themselves what is what: RLDS and TFDS directories, and Minari's. Their own builder reads them."""

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rl_datasets.builder import Context, load_builder
from rl_datasets.importing.ends import find_episodes
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.parts import ArrayPart
from rl_datasets.importing.resolve import resolve
from rl_datasets.inspection.columns import Oddity, oddities_of_columns
from rl_datasets.inspection.draft import Draft
from rl_datasets.inspection.facts import Facts, facts_of
from rl_datasets.inspection.head import Head
from rl_datasets.inspection.oddities import Divided, oddities_of_rows
from rl_datasets.inspection.opening import rlds_folder
from rl_datasets.inspection.roles import Roles
from rl_datasets.schema import EnvSpec, Episode, named_leaves

_TOLD = (
    "constant",
    "actions_outside",
    "repeated_rows",
    "time_limit_terminal",
    "missing_values",
)  # the rest is about how files are laid out
_REPAIR = ("max_episode_steps", "time_limit")


class Described(NamedTuple):
    """What is known of such a directory, from its first episodes."""

    builder: str
    head: Head
    facts: Mapping[str, Facts]
    roles: Roles
    draft: Draft
    oddities: list[Oddity]
    counts: Mapping[str, int]
    is_whole: bool


def builder_of(path: Path) -> tuple[str, Path] | None:
    """Returns the builder for a directory that describes itself, and the folder that it takes; None for any other path."""
    if not path.is_dir():
        return None
    minari = sorted(file.parent for file in path.rglob("metadata.json") if (file.parent / "main_data.hdf5").is_file())
    if len(minari) == 1:
        return "minari", minari[0].parent if minari[0].name == "data" else minari[0]
    folder = rlds_folder(path)
    return None if folder is None else ("rlds", folder)


def describe_folder(builder: str, folder: Path, head_bytes: int) -> Described:
    """Builds the first episodes, of about so many bytes. Raises HindcastError where the directory is damaged."""
    module = load_builder(builder)
    made = module.Builder(module.Options.model_validate({"path": str(folder)}), Context("inspect"))
    spec, found = made.spec(), made.episodes(0)
    episodes = list(islice(found, _fitting(spec, head_bytes)))
    is_whole = next(iter(found), None) is None
    part = _as_part(str(folder), episodes)
    head = Head(part, 4 * head_bytes)
    facts = facts_of(head)
    roles = Roles()
    for name in part.columns:
        roles.add("terminal" if name == "is_terminal" else name.partition("/")[0], name, "as the data set says")
    draft = Draft({"observation": roles.of("observation"), "ends": {"kind": "groups"}, "rows": "extra_observation"})
    oddities = [*oddities_of_columns(head, facts, roles)]
    options = MappingOptions.model_validate(
        {**draft.options, "env_id": "inspect", "observation": {"entries": {str(i): n for i, n in enumerate(roles.of("observation"))}},
         "action": "action", "reward": "reward", "terminal": "is_terminal"}
    )  # fmt: skip
    rows, ordered = find_episodes(options, resolve(options, head), head)
    oddities += oddities_of_rows(head, roles, Divided(ordered, rows), draft)
    repair = {key: draft.options[key] for key in _REPAIR if key in draft.options}
    entry = Draft({"mapping": repair} if repair else {}, {"mapping": draft.comments["time_limit"]} if repair else {})
    counts = {"episodes": len(episodes), "transitions": sum(e.length for e in episodes), "terminals": sum(e.is_terminal for e in episodes)}
    return Described(builder, head, facts, roles, entry, [oddity for oddity in oddities if oddity.kind in _TOLD], counts, is_whole)


def _fitting(spec: EnvSpec, head_bytes: int) -> int:
    """How many episodes surely fit, taking them to be as long as the limit, or a thousand steps."""
    row: int = sum(leaf.zeros().nbytes for _, leaf in (*named_leaves(spec.observation, ""), ("", spec.action))) + 8
    return max(head_bytes // (row * (spec.max_episode_steps or 1000)), 1)


def _as_part(name: str, episodes: Iterable[Episode]) -> ArrayPart:
    """Arrays of all episodes end to end: T + 1 observations of each, T actions and rewards, and whether it is terminal."""
    pieces: dict[str, list[Any]] = {}
    ids = []
    for episode in episodes:
        ids.append(episode.episode_id)
        for key, values in named_leaves(episode.observation, "observation"):
            pieces.setdefault(key, []).append(values)
        pieces.setdefault("action", []).append(episode.action[:-1])
        pieces.setdefault("reward", []).append(episode.reward[:-1])
        pieces.setdefault("is_terminal", []).append(np.array([episode.is_terminal]))
    lengths = {key: np.array([len(piece) for piece in values]) for key, values in pieces.items()}
    return ArrayPart(name, "", {key: np.concatenate(values) for key, values in pieces.items()}, ids, lengths)
