"""Which column inspect takes for the id where no name tells, in tables whose rows stand in the order of a time."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rl_datasets.inspection.inspect import Inspection, inspect
from tests.rl_datasets.inspection.found import evidence, kinds

HOUSES, RUNS, ROWS = ("North", "East", "South"), 4, 10  # runs of a house, rows of a run


def greenhouse(**more: object) -> pd.DataFrame:
    """Three houses that are watered at the same times: 3 * 40 rows in the order of the times, one of each house after the other."""
    day, house = np.repeat(np.arange(RUNS * ROWS), len(HOUSES)), np.tile(np.arange(len(HOUSES)), RUNS * ROWS)
    rng = np.random.default_rng(0)
    told = {
        "when": pd.Timestamp("2027-01-01T07:30:00") + pd.to_timedelta(day, "D"),
        "house": np.array(HOUSES)[house],
        "batch": house * 100 + day // ROWS,
        "wet": rng.normal(size=len(day)),
        "valve": rng.uniform(size=len(day)),
        "yield": rng.normal(size=len(day)),
    }
    return pd.DataFrame({**told, **more})


def looked_at(table: pd.DataFrame, **given: list[str]) -> Inspection:
    table.to_parquet("log.parquet", index=False)
    return inspect(Path("log.parquet"), {"action": ["valve"], "reward": ["yield"], **given})


@pytest.mark.parametrize("given", [{}, {"sequence": ["when"]}], ids=["nothing", "the time"])
def test_runs_of_houses_that_stand_mixed_are_told_apart(paste, given):
    table = greenhouse()
    found = looked_at(table, **given)
    assert "ends: {kind: ids, column: batch, sequence: when}  # guessed: one stretch of 'when' within one 'house' each" in found.entry
    pasted = paste(found)
    assert (pasted.counts, pasted.options["observation"]) == ((12, 120 - 12, 0), "wet")
    second = next(episode for episode in pasted.episodes if episode.episode_id == "101")
    np.testing.assert_array_equal(second.observation[:, 0], table.wet[table.batch == 101].astype(np.float32))
    assert "short_episodes" not in kinds(found)


def test_a_house_alone_is_the_id_where_nothing_else_changes_seldom(paste):
    pasted = paste(looked_at(greenhouse().drop(columns="batch")))
    assert pasted.options["ends"] == {"kind": "ids", "column": "house", "sequence": "when"}
    assert pasted.counts == (3, 117, 0)


def test_nothing_is_guessed_where_a_number_of_each_house_is_that_of_others_too(look):
    found = looked_at(greenhouse(batch=np.repeat(np.arange(40) // 5 % 4, 3)))
    assert "ends: {kind: groups}" in found.entry
    assert "name it with --as id=COLUMN" in evidence(found, "no_end_flag")


def test_an_id_of_rows_that_share_times_is_in_doubt(look):
    found = looked_at(greenhouse(batch=np.repeat(np.arange(40) // ROWS, 3)).drop(columns="house"))
    assert "ends: {kind: ids, column: batch}" in found.entry
    told = "'batch' is taken for the id. Up to 3 of its rows have the same 'when', as where rows of several episodes stand mixed."
    assert evidence(found, "same_times") == told
    assert "same_times" not in kinds(looked_at(greenhouse()))


@pytest.mark.parametrize("clock", ["a time", "a time of day", "a count"])
def test_a_day_is_one_of_each_house(paste, clock):
    day, hour = np.repeat(np.arange(40) // ROWS, 3), np.repeat(np.arange(40) % ROWS, 3)
    when = pd.Timestamp("2027-01-01") + pd.to_timedelta(hour, "h") + pd.to_timedelta(day if clock == "a time" else 0 * day, "D")
    table = greenhouse(day=day, when={"a time": when, "a time of day": when.time, "a count": hour}[clock]).drop(columns="batch")
    found = looked_at(table)
    pasted = paste(found)
    assert pasted.options["ends"] == {"kind": "ids", "column": ["house", "day"], "sequence": "when"}
    assert pasted.counts == (12, 120 - 12, 0)
    second = next(episode for episode in pasted.episodes if episode.episode_id == "East/2")
    np.testing.assert_array_equal(second.observation[:, 0], table.wet[(table.house == "East") & (table.day == 2)].astype(np.float32))


@pytest.mark.parametrize("name", ["patient_id", "person"])
def test_a_patient_has_stays(paste, name):
    person, stay, hour = np.repeat(np.arange(6), 20), np.tile(np.repeat([1, 2], 10), 6), np.tile(np.arange(10), 12)
    when = pd.Timestamp("2027-01-01T07:30:00+02:00") + pd.to_timedelta(person * 90 + stay * 30, "D") + pd.to_timedelta(hour, "h")
    table = greenhouse(when=when, stay=stay, **{name: person}).drop(columns=["batch", "house"])
    found = looked_at(table)
    pasted = paste(found)
    assert pasted.options["ends"] == {"kind": "ids", "column": ["stay", name], "sequence": "when"}
    assert f"guessed: 'when' leaps wherever 'stay' changes within one '{name}'" in found.entry
    assert pasted.counts == (12, 120 - 12, 0)
    one_stay = looked_at(table.assign(when=pd.Timestamp("2027-01-01") + pd.to_timedelta(np.arange(120), "h")))
    assert paste(one_stay).options["ends"]["column"] == name  # nothing leaps: one long stay, in which a number changes


def test_a_time_is_no_id(look):
    found = looked_at(greenhouse(house="all").drop(columns="batch"))
    assert "ends: {kind: groups}" in found.entry
    assert evidence(found, "no_end_flag").endswith(
        "Up to 3 of its rows have the same 'when', as where rows of several episodes stand mixed. "
        "No column was found that tells episodes apart: where there is one, name it with --as id=COLUMN."
    )


def test_rows_in_no_order_are_put_in_that_of_a_time(paste):
    one = greenhouse().query("house == 'East'")
    pasted = paste(looked_at(one.sample(frac=1, random_state=0)))
    assert pasted.options["ends"] == {"kind": "ids", "column": "batch", "sequence": "when"}
    in_order = np.concatenate([e.observation[:, 0] for e in sorted(pasted.episodes, key=lambda e: int(e.episode_id))])
    np.testing.assert_array_equal(in_order, one.wet.astype(np.float32))


def test_most_episodes_of_a_few_rows_are_in_doubt(look):
    table = greenhouse(visit=np.arange(120) // 4).drop(columns=["when", "batch", "house"])
    found = looked_at(table)
    assert evidence(found, "short_episodes") == "30 of the 30 episodes that 'visit' makes have fewer than 6 rows."
    assert "short_episodes" not in kinds(looked_at(table, id=["visit"]))
    assert "short_episodes" not in kinds(looked_at(greenhouse(visit=np.arange(120) // 6).drop(columns=["when", "batch", "house"])))
