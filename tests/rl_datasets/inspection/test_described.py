"""Directories that say themselves what is what: RLDS and Minari's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.exporting.exporter import load_exporter
from rl_datasets.inspection.inspect import inspect
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

SPEC = EnvSpec("Walk-v0", ArraySpec((2,), "float32"), ArraySpec((1,), "float32", -3.0, 3.0))


def episodes(lengths: list[int]) -> list[Episode]:
    """All of them terminal, and the second element of each observation is 5."""
    made = []
    for number, length in enumerate(lengths):
        rng = np.random.default_rng(number)
        observation = np.stack([rng.normal(size=length + 1), np.full(length + 1, 5)], axis=1).astype(np.float32)
        action = rng.uniform(-3, 3, (length + 1, 1)).astype(np.float32)
        reward, discount = rng.normal(size=length + 1).astype(np.float32), np.ones(length + 1, np.float32)
        action[-1], reward[-1], discount[-2:] = 0, 0, 0
        metadata = {"seed": number, "policy": "p", "environment": "Walk-v0"}
        made.append(Episode(f"walk-{number}", observation, action, reward, discount, True, metadata))
    return made


@pytest.mark.parametrize("depth", ["walk/1.0.0", "walk", "."])
def test_an_rlds_directory(paste, depth):
    write_rlds(Path("data/walk/1.0.0"), "walk", "1.0.0", SPEC, {"train": episodes([5, 9, 7, 3])})
    found = inspect(Path("data") / depth)
    assert found.builder == "rlds"
    assert {oddity.kind for oddity in found.oddities} == {"constant", "actions_outside"}
    assert (found.rows, found.is_whole, found.trial) == (24, True, {"episodes": 4, "transitions": 24, "terminals": 4})
    assert paste(found).counts == (4, 24, 4)


def test_a_time_limit_in_minari_is_repaired(paste):
    load_exporter("minari").write(Path("walk"), "walk", SPEC, episodes([20] * 5))
    found = inspect(Path("walk"))
    assert (found.builder, found.trial["terminals"]) == ("minari", 5)
    (told,) = [oddity.evidence for oddity in found.oddities if oddity.kind == "time_limit_terminal"]
    assert told.startswith("5 of 5 terminal episodes have just the greatest length, 20 steps")
    assert paste(found).counts == (5, 100, 0)


def test_a_huge_one_is_looked_at_in_part(tmp_path):
    spec = replace(SPEC, max_episode_steps=20)
    write_rlds(tmp_path / "walk/1.0.0", "walk", "1.0.0", spec, {"train": episodes([20] * 30)})
    found = inspect(tmp_path / "walk", head_bytes=20 * 20 * 10)
    assert (found.trial["episodes"], found.is_whole) == (10, False)


def test_two_in_one_folder_are_named(tmp_path):
    for name in ("one", "two"):
        write_rlds(tmp_path / name / "1.0.0", name, "1.0.0", SPEC, {"train": episodes([3])})
    with pytest.raises(HindcastError, match=r"holds 2 RLDS data sets\. Name one: "):
        inspect(tmp_path)
