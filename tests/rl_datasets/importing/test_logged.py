"""Public files of logged experience, each imported by its entry alone. What is expected is counted from the raw file, without our code."""

import bz2
import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from ruamel.yaml import YAML

from pipelines.params import Params
from rl_datasets.builder import Context, load_builder
from rl_datasets.schema import Episode, validate_episode

DATA = Path(__file__).parents[4] / "shared" / "data"
ENTRIES = YAML(typ="safe").load(Path(__file__).with_name("logged_entries.yaml").read_text())["datasets"]
Expected = list[dict[str, Any]]  # an episode: observation [T+1], action [T], reward [T], terminal

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the public logged files are not in {DATA}")


def imported(key: str) -> tuple[list[Episode], Any]:
    sections = {"checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}
    params = Params.model_validate({"datasets": {key: ENTRIES[key]}, **sections})
    source = DATA / Path(ENTRIES[key]["source"]).name
    builder = load_builder(ENTRIES[key]["builder"]).Builder(params.builder_options(key), Context(key, source=source))
    return list(builder.episodes(0)), builder


def replay(name: str) -> Expected:
    """An episode ends where episode_terminals is 1; the reward of (o_t, a_t) is on the next row; the last row is an observation."""
    with h5py.File(DATA / name) as file:
        columns = {key: file[key][...] for key in ("observations", "actions", "rewards", "terminals", "episode_terminals")}
    episodes, first = [], 0
    for row in range(len(columns["rewards"])):
        if columns["episode_terminals"][row] == 1:
            o, a, r = (columns[key][first : row + 1] for key in ("observations", "actions", "rewards"))
            episodes.append({"observation": o, "action": a[:-1], "reward": r[1:], "terminal": columns["terminals"][row] == 1})
            first = row + 1
    assert first == len(columns["rewards"])
    return episodes


def door() -> Expected:
    """Only the lengths tell the ends; what follows an episode's last action is not there."""
    raw = np.load(DATA / "door_human_demos.npz")
    ends = np.cumsum(raw["episode_lengths"])
    return [
        {
            "observation": raw["observations"][end - length : end],
            "action": np.clip(raw["actions"][end - length : end - 1], -1, 1),
            "reward": raw["rewards"][end - length : end - 1],
            "terminal": False,
        }
        for end, length in zip(ends, raw["episode_lengths"], strict=True)
    ]


def hopper() -> Expected:
    raw = np.load(DATA / "hopper_expert.npz")
    assert np.flatnonzero(raw["terminal"]).tolist() == [999, 1999]
    return [
        {
            "observation": np.concatenate([raw["observation"][rows], raw["next_observation"][rows][-1:]]),
            "action": raw["action"][rows],
            "reward": raw["reward"][rows],
            "terminal": False,  # the limit of 1,000 steps
        }
        for rows in (slice(0, 1000), slice(1000, 2000))
    ]


def rollouts() -> Expected:
    raw = np.load(DATA / "pendulum_expert_rollouts.npz")
    starts = [0, *raw["indices"].tolist(), len(raw["acts"])]
    return [
        {
            "observation": raw["obs"][first + number : last + number + 1],
            "action": raw["acts"][first:last],
            "reward": raw["rews"][first:last],
            "terminal": False,  # Pendulum has no terminal state
        }
        for number, (first, last) in enumerate(itertools.pairwise(starts))
    ]


def starts() -> Expected:
    raw = np.load(DATA / "pendulum_expert_starts.npz")
    firsts = [*np.flatnonzero(raw["episode_starts"]).tolist(), len(raw["actions"])]
    return [
        {"observation": raw["obs"][a:b], "action": raw["actions"][a : b - 1], "reward": raw["rewards"][a : b - 1], "terminal": False}
        for a, b in itertools.pairwise(firsts)
    ]


def logged() -> Expected:
    rows = defaultdict(dict)
    with bz2.open(DATA / "cartpole_logged.json.bz2", "rt") as file:
        for line in file:
            row = json.loads(line)
            rows[row["mdp_id"]][row["sequence_number"]] = row
    episodes = []
    for numbered in rows.values():  # in the order of first appearance
        ordered = [numbered[number] for number in range(len(numbered))]
        observation = [[row["state_features"][k] for k in "0123"] for row in ordered]
        last = [ordered[-1]["next_state_features"][k] for k in "0123"]
        action, reward = [int("5" in row["action"]) for row in ordered], [row["reward"] for row in ordered]
        episodes.append({"observation": [*observation, last], "action": action, "reward": reward, "terminal": len(ordered) < 200})
    return episodes


def dispatch() -> Expected:
    table = pd.read_parquet(DATA / "energy_dispatch.parquet")
    observed = [name for name in table if name.startswith("obs_")]
    episodes = []
    for _, day in table.groupby("episode_id", sort=False):
        day = day.sort_values("step")
        last = day[[f"next_{name}" for name in observed]].to_numpy()[-1:]
        episodes.append(
            {
                "observation": np.concatenate([day[observed].to_numpy(), last]),
                "action": day[[name for name in table if name.startswith("action_")]].to_numpy(),
                "reward": day["reward"].to_numpy(),
                "terminal": False,  # the end of the day
            }
        )
    return episodes


FILES = {
    "cartpole_replay": (lambda: replay("cartpole_replay.h5"), 1240, 98_760, 1045),
    "pendulum_replay": (lambda: replay("pendulum_replay.h5"), 498, 99_502, 0),
    "door_human": (door, 25, 6729 - 25, 0),
    "hopper_expert": (hopper, 2, 2000, 0),
    "pendulum_rollouts": (rollouts, 56, 11_200, 0),
    "pendulum_starts": (starts, 100, 19_900, 0),
    "cartpole_logged": (logged, 26, 3925, 10),
    "energy_dispatch": (dispatch, 60, 1440, 0),
}


@pytest.mark.parametrize("key", FILES)
def test_a_public_file_is_imported_by_its_entry_alone(key) -> None:
    raw, episodes, transitions, terminals = FILES[key]
    expected, (found, builder) = raw(), imported(key)
    assert len(found) == len(expected) == episodes
    assert sum(episode.length for episode in found) == sum(len(episode["reward"]) for episode in expected) == transitions
    assert sum(episode.is_terminal for episode in found) == sum(bool(episode["terminal"]) for episode in expected) == terminals
    for ours, theirs in zip(found, expected, strict=True):
        validate_episode(ours, builder.spec())
        np.testing.assert_array_equal(ours.observation, np.asarray(theirs["observation"]).astype(np.float32))
        np.testing.assert_array_equal(ours.action[:-1], np.asarray(theirs["action"]).astype(ours.action.dtype))
        np.testing.assert_array_equal(ours.reward[:-1], np.asarray(theirs["reward"]).astype(np.float32))
        assert ours.is_terminal == theirs["terminal"]
    assert (builder.counts["terminals"], builder.counts["truncations"]) == (terminals, episodes - terminals)


NOTES = {
    "door_human": ["25 episodes end without a flag and count as truncated.", "no observation follows", "were clipped"],
    "hopper_expert": ["2 terminals on the limit of 1,000 steps became truncations"],
    "pendulum_rollouts": ["56 terminals on the limit of 200 steps became truncations", "left out: infos"],
    "pendulum_starts": ["100 transitions were dropped: no observation follows"],
    "cartpole_logged": [
        "16 terminals on the limit of 200 steps became truncations",
        "26 rows have",
    ],
    "energy_dispatch": ["60 terminals on the limit of 24 steps became truncations", "observation: float64 is stored as float32."],
    "cartpole_replay": ["1,240 rows hold only an episode's last observation"],
}


@pytest.mark.parametrize("key", NOTES)
def test_what_was_assumed_is_said(key) -> None:
    notes = "\n".join(imported(key)[1].notes)
    assert all(note in notes for note in NOTES[key]), notes


def test_columns_that_stay_the_same_are_kept_as_metadata() -> None:
    found, _ = imported("energy_dispatch")
    table = pd.read_parquet(DATA / "energy_dispatch.parquet").drop_duplicates("episode_id")
    assert [episode.metadata["policy"] for episode in found] == table["policy"].tolist()
    assert {episode.metadata["quality"] for episode in found} == {"mixed"}
    assert [episode.episode_id for episode in found] == table["episode_id"].tolist()
