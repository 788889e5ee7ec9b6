"""Public files that other people's programs recorded: each oddity is found, and the printed entry imports the file whole.

Counts are taken from the raw files by h5py, NumPy, pandas and json alone.
"""

import bz2
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from rl_datasets.inspection.inspect import inspect

DATA = Path(__file__).parents[4] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the folder of public files (../shared/data) is not here")

Counts = tuple[int, int, int]  # episodes, transitions, terminals


def replay(path: Path) -> Counts:
    with h5py.File(path) as file:
        ends, terminals = file["episode_terminals"][:], file["terminals"][:]
    return int(ends.sum()), int(len(ends) - ends.sum()), int(terminals.sum())


def door(path: Path) -> Counts:
    lengths = np.load(path)["episode_lengths"]
    return len(lengths), int((lengths - 1).sum()), 0


def hopper(path: Path) -> Counts:
    terminal = np.load(path)["terminal"]
    assert np.flatnonzero(terminal).tolist() == [999, 1999]
    return 2, len(terminal), 0  # both on the limit of 1,000 steps


def rollouts(path: Path) -> Counts:
    file = np.load(path)
    assert set(np.diff([0, *file["indices"], len(file["acts"])])) == {200}
    return len(file["terminal"]), len(file["acts"]), 0  # Pendulum never terminates


def starts(path: Path) -> Counts:
    begins = np.load(path)["episode_starts"]
    return int(begins.sum()), int(len(begins) - begins.sum()), 0


def logged(path: Path) -> Counts:
    rows = [json.loads(line) for line in bz2.decompress(path.read_bytes()).splitlines()]
    return len({row["mdp_id"] for row in rows}), len(rows), 0


def dispatch(path: Path) -> Counts:
    table = pd.read_parquet(path)
    assert table.groupby("episode_id").terminal.agg("sum").eq(1).all()
    return table.episode_id.nunique(), len(table), 0  # each on the end of its day


FILES = {
    "cartpole_replay.h5": (replay, {"reward_late": "1,240 of 1,240 episodes is 0", "ends_without_terminal": "195 of 1,240 ends"}),
    "pendulum_replay.h5": (replay, {"reward_late": "498 of 498", "never_terminal": "None of 498", "actions_outside": "-2 to 2"}),
    "door_human_demos.npz": (door, {"no_end_flag": "25 episodes of 223 to 300 rows", "actions_outside": "(82%)", "float64": "actions"}),
    "hopper_expert.npz": (hopper, {"time_limit_terminal": "2 of 2", "actions_outside": "-5.132 to 3.949"}),
    "pendulum_expert_rollouts.npz": (
        rollouts,
        {"extra_observation": "11,256 observations and 11,200 actions", "time_limit_terminal": "56 of 56", "pickled": "infos"},
    ),
    "pendulum_expert_starts.npz": (starts, {"starts_flagged": "100 first rows", "no_next_observation": "100 episodes"}),
    "cartpole_logged.json.bz2": (
        logged,
        {"random_order": "The 26 ids", "one_hot": "action.4, action.5", "text_ids": "'79'", "propensities": "propensity"},
    ),
    "energy_dispatch.parquet": (
        dispatch,
        {"time_limit_terminal": "60 of 60", "flag_never_set": "truncated", "constant": "quality (mixed)"},
    ),
}
ENVIRONMENTS = {"cartpole": "CartPole-v1", "pendulum": "Pendulum-v1", "hopper": "Hopper-v5"}


@pytest.mark.parametrize("name", FILES)
def test_its_oddity_is_found_and_its_entry_imports_it(name, paste, tmp_path):
    shutil.copy(DATA / name, tmp_path / name)
    count, told = FILES[name]
    found = inspect(Path(name))
    evidence = {oddity.kind: oddity.evidence for oddity in found.oddities}
    for kind, words in told.items():
        assert words in evidence[kind]
    pasted = paste(found)
    assert pasted.counts == count(DATA / name)
    assert (found.trial["episodes"], found.trial["transitions"], found.trial["terminals"]) == pasted.counts
    expected = next((env_id for word, env_id in ENVIRONMENTS.items() if name.startswith(word)), None)
    assert expected is None or pasted.spec.env_id == expected


def test_rewards_of_the_replay_are_those_of_pendulum(paste, tmp_path):
    shutil.copy(DATA / "pendulum_replay.h5", tmp_path)
    for episode in paste(inspect(Path("pendulum_replay.h5"))).episodes[:20]:
        angle, speed = np.arctan2(episode.observation[:-1, 1], episode.observation[:-1, 0]), episode.observation[:-1, 2]
        cost = angle**2 + 0.1 * speed**2 + 0.001 * episode.action[:-1, 0] ** 2
        np.testing.assert_allclose(episode.reward[:-1], -cost, atol=2e-3)
