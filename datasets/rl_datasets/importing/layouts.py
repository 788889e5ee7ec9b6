"""Mappings of well-known layouts, by name. An entry's own options take their place, key by key; its `ignore` is added to theirs."""

from collections.abc import Mapping
from typing import Any

from rl_datasets.errors import HindcastError

LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    # https://github.com/Farama-Foundation/D4RL/wiki/Tasks: rows are transitions; next_observations is there since version 2 of MuJoCo.
    "d4rl": {
        "observation": "observations",
        "action": "actions",
        "reward": "rewards",
        "next_observation": "next_observations?",
        "terminal": "terminals",
        "truncated": "timeouts?",
        "ends": {"kind": "flags"},
        "ignore": ["infos/*?", "metadata/*?"],
    },
    # MDPDataset.dump of d3rlpy before version 1: a row is a step, and holds the reward that came with its observation.
    "d3rlpy": {
        "observation": "observations",
        "action": "actions",
        "reward": "rewards",
        "terminal": "terminals",
        "ends": {"kind": "flags", "column": "episode_terminals"},
        "rows": "steps",
        "reward_offset": 1,
        "ignore": ["create_mask?", "mask_size?", "discrete_action?", "version?"],
    },
    # ReplayBuffer.dump of d3rlpy since version 2: arrays of episodes side by side, observations_0 of the first. The last row of a
    # truncated episode is no transition; that of a terminal one is, and no observation follows it.
    "d3rlpy2": {
        "groups": "*_#",
        "observation": "observations*",
        "action": "actions",
        "reward": "rewards",
        "terminal": "terminated",
        "ends": {"kind": "groups"},
        "lost_observation": "repeat",
        "ignore": ["embeddings?"],
    },
    # https://robomimic.github.io/docs/datasets/overview.html: a group is a demonstration; `dones` may be set on several of its last rows.
    "robomimic": {
        "groups": "data/*",
        "observation": "obs/*",
        "action": "actions",
        "reward": "rewards",
        "next_observation": "next_obs/*?",
        "terminal": "dones",
        "ends": {"kind": "groups"},
        "inner_flags": "ignore",
        "ignore": ["states?", "obs/*?", "next_obs/*?"],
    },
}


def with_layout(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options with those of their `layout` filled in. Raises HindcastError where there is none of this name."""
    name = values.get("layout")
    if name is None:
        return dict(values)
    if name not in LAYOUTS:
        raise HindcastError(f"found layout '{name}'; known are {', '.join(LAYOUTS)}. Leave it out and map the columns instead.")
    own = values.get("ignore", [])
    ignored = [*LAYOUTS[name]["ignore"], *([own] if isinstance(own, str) else own)]
    return {**LAYOUTS[name], **values, "ignore": ignored}
