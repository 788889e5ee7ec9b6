"""What inspect finds in small arrays whose oddity is known, and whether the entry that it prints imports them rightly."""

import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.inspection.inspect import inspect
from tests.rl_datasets.inspection.found import LENGTHS, ROWS, STOP, evidence, kinds, last_rows


def test_of_a_cost_less_is_better_and_of_a_reward_that_is_named_more(tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{episode},{step},{step / 7},{step % 3 / 2},{step / 10}" for episode in range(4) for step in range(8)]
    path.write_text("\n".join(["run,step,heat,fan,bill", *rows]) + "\n")
    cost = inspect(path, {"action": ["fan"], "cost": ["bill"]}).entry
    assert "reward: {columns: bill, scale: -1}  # a cost: stored is minus it" in cost
    found = inspect(path, {"action": ["fan"], "reward": ["bill"]})
    assert "reward: bill  # guessed" not in found.entry
    assert "more of it is taken to be better; where less is, --as cost=bill" in found.entry
    assert "4 episodes are too few" in evidence(found, "few_episodes")
    with pytest.raises(HindcastError, match="Both a reward and a cost are named"):
        inspect(path, {"action": ["fan"], "reward": ["bill"], "cost": ["bill"]})


def test_plain_data_have_nothing_odd(look, paste, walk):
    done = last_rows()
    done[STOP[2] - 1] = False
    found = look({**walk(LENGTHS), "terminated": done, "truncated": last_rows() & ~done})
    assert kinds(found) <= {"ends_without_terminal", "few_episodes"}
    pasted = paste(found)
    assert pasted.counts == (5, ROWS, 4)
    assert [e.is_terminal for e in pasted.episodes] == [True, True, False, True, True]
    assert found.trial["transitions"] == ROWS


def test_columns_asked_for_as_step_metadata_are_kept_as_they_are(look, paste, walk):
    clock, site = 1.7e9 + np.arange(ROWS) / 3, np.repeat(["north", "south", "north", "south", "west"], LENGTHS)
    arrays = {**walk(LENGTHS), "terminated": last_rows(), "clock": clock, "site": site, "junk": np.arange(ROWS)[::-1]}
    found = look(arrays, step_metadata=["clock", "site"])
    assert "step_metadata: [clock, site]" in found.entry
    assert "ignore: [junk]  # left out; metadata keeps what has one value an episode, step_metadata what changes" in found.entry
    kept = paste(found).episodes[1].step_metadata
    assert kept["clock"].tolist()[:12] == clock[30:42].tolist()
    assert kept["site"].tolist() == ["south"] * 12 + [""]
    assert "Columns that are kept as step metadata: clock, site." in found.notes


def test_rewards_a_row_late_are_found_by_what_explains_them(look, paste, walk):
    data = walk(LENGTHS)
    reward = data["reward"].copy()
    for start, stop in zip(STOP - LENGTHS, STOP, strict=True):
        reward[start + 1 : stop], reward[start] = data["reward"][start : stop - 1], 0
    arrays = {"observations": data["observation"], "actions": data["action"], "rewards": reward, "episode_terminals": last_rows()}
    found = look({**arrays, "terminals": np.zeros(ROWS, bool)})
    assert {"reward_late", "never_terminal"} <= kinds(found)
    assert "first reward of 5 of 5 episodes is 0" in evidence(found, "reward_late")
    assert "explain 100% of the variance of the next row's reward" in evidence(found, "reward_late")
    pasted = paste(found)
    assert pasted.counts == (5, ROWS - 5, 0)
    for episode, start in zip(pasted.episodes, STOP - LENGTHS, strict=True):
        np.testing.assert_array_equal(episode.reward[:-1], data["reward"][start : start + episode.length])


def test_a_constant_reward_that_begins_with_0_is_a_row_late(look, paste, walk):
    reward = np.ones(ROWS, np.float32)
    reward[STOP - LENGTHS] = 0
    data = walk(LENGTHS)
    found = look({"obs": data["observation"], "acts": data["action"], "rews": reward, "episode_end": last_rows()})
    assert "reward_late" in kinds(found)
    assert all((episode.reward[:-1] == 1).all() for episode in paste(found).episodes)


def test_rewards_that_are_missing_on_first_rows_alone_are_a_row_late(look, paste, walk):
    data = walk(LENGTHS)
    reward = np.roll(data["reward"].astype(np.float64), 1)
    reward[STOP - LENGTHS] = np.nan
    found = look({"obs": data["observation"], "acts": data["action"], "rews": reward, "episode_end": last_rows()})
    assert evidence(found, "reward_late").startswith("The first reward of every episode is missing, and no other.")
    pasted = paste(found)
    assert pasted.counts == (5, ROWS - 5, 0)
    for episode, start in zip(pasted.episodes, STOP - LENGTHS, strict=True):
        np.testing.assert_array_equal(episode.reward[:-1], data["reward"][start : start + episode.length])


def test_rewards_in_their_place_are_left_there(look, walk):
    data = walk(LENGTHS)
    data["reward"][STOP - LENGTHS] = 0  # by chance
    assert "reward_late" not in kinds(look({**data, "done": last_rows()}))
    sparse = np.zeros(ROWS, np.float32)
    sparse[STOP - 1] = 1
    assert "reward_late" not in kinds(look({**data, "reward": sparse, "done": last_rows()}))


def test_a_time_limit_that_is_marked_terminal_is_repaired(look, paste, walk):
    lengths = [20] * 6
    data = walk(lengths)
    terminal = np.arange(120) % 20 == 19
    found = look({**data, "terminal": terminal})
    assert "6 of 6 terminal episodes have just the greatest length, 20 steps" in evidence(found, "time_limit_terminal")
    assert paste(found).counts == (6, 120, 0)
    some = walk([20, 20, 20, 20, 7, 11])
    ends = np.isin(np.arange(98), np.cumsum([20, 20, 20, 20, 7, 11]) - 1)
    found = look({**some, "terminal": ends})
    assert "4 of 6" in evidence(found, "time_limit_terminal")
    assert paste(found).counts == (6, 98, 2)


def test_terminals_of_many_lengths_are_no_time_limit(look, walk):
    assert "time_limit_terminal" not in kinds(look({**walk(LENGTHS), "terminal": last_rows()}))


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ({"episode_lengths": LENGTHS}, "lengths"),
        ({"ends": STOP}, "indices"),
        ({"split_points": STOP[:-1]}, "indices"),
        ({"end_indices": STOP - 1}, "indices"),
        ({"episode_id": np.repeat([7, 3, 9, 1, 4], LENGTHS)}, "ids"),
        ({"unnamed": np.repeat([7, 3, 9, 1, 4], LENGTHS)}, "ids"),
    ],
)
def test_without_an_end_flag_something_else_tells_the_ends(look, paste, ends, kind, walk):
    found = look({**walk(LENGTHS), **ends})
    assert "no_end_flag" in kinds(found)
    pasted = paste(found)
    assert pasted.options["ends"]["kind"] == kind
    assert [episode.length for episode in pasted.episodes] == LENGTHS


def test_ends_of_equal_length_show_as_jumps(look, paste):
    rng = np.random.default_rng(0)
    smooth = np.concatenate([np.cumsum(rng.normal(size=(25, 3)), axis=0) + 500 * rng.normal(size=3) for _ in range(4)])
    found = look({"obs": smooth.astype(np.float32), "actions": rng.uniform(-1, 1, (100, 2)), "rewards": np.arange(100.0)})
    assert paste(found).options["ends"] == {"kind": "fixed", "length": 25}
    assert "no_end_flag" in kinds(found)


def test_starts_that_are_flagged(look, paste, walk):
    data = walk(LENGTHS)
    del data["next_observation"]
    found = look({**data, "episode_starts": np.isin(np.arange(ROWS), STOP - LENGTHS)})
    assert {"starts_flagged", "no_next_observation"} <= kinds(found)
    assert "set on 5 first rows" in evidence(found, "starts_flagged")
    assert paste(found).counts == (5, ROWS - 5, 0)


def test_one_observation_more_an_episode(look, paste, walk):
    data = walk(LENGTHS)
    pieces = [
        np.concatenate([data["observation"][start:stop], data["next_observation"][stop - 1 : stop]])
        for start, stop in zip(STOP - LENGTHS, STOP, strict=True)
    ]
    arrays = {"obs": np.concatenate(pieces), "acts": data["action"], "rews": data["reward"], "indices": STOP[:-1]}
    found = look({**arrays, "terminal": [True, False, True, True, False]})
    assert f"{ROWS + 5} observations and {ROWS} actions: 5 more" in evidence(found, "extra_observation")
    pasted = paste(found)
    assert pasted.counts == (5, ROWS, 3)
    np.testing.assert_array_equal(pasted.episodes[3].observation, pieces[3])


def test_unflagged_breaks_are_ends(look, paste, walk):
    flagged = last_rows()
    flagged[STOP[1] - 1] = False
    found = look({**walk(LENGTHS), "terminal": flagged})
    assert "on 1 rows, the first is row 41" in evidence(found, "breaks")
    assert paste(found).counts == (5, ROWS, 4)


def test_without_any_other_sign_breaks_tell_the_ends(look, paste, walk):
    found = look(walk(LENGTHS))
    assert f"differ on 4 of {ROWS} rows" in evidence(found, "breaks")
    assert paste(found).counts == (5, ROWS, 0)


def test_a_small_difference_is_a_tolerance(look, paste, walk):
    data = walk(LENGTHS)
    data["next_observation"] = data["next_observation"] + np.float32(1e-6)
    found = look({**data, "terminal": last_rows()})
    assert "by " in evidence(found, "breaks")
    assert paste(found).counts == (5, ROWS, 5)


def test_types_ranges_and_repeats(look, paste, walk):
    data = {name: np.concatenate([values, values]) for name, values in walk(LENGTHS).items()}
    data["action"] = 3 * data["action"].astype(np.float64)
    data["observation"] = np.concatenate([data["observation"], np.full((2 * ROWS, 1), 5, np.float32)], axis=1)
    del data["next_observation"]
    found = look({**data, "done": np.tile(last_rows(), 2), "site": np.full(2 * ROWS, 4)})
    assert f"{ROWS} of {2 * ROWS} rows (50.0%)" in evidence(found, "repeated_rows")
    outside = int((np.abs(data["action"]) > 1).sum())
    assert f"{outside} of {2 * ROWS} rows ({outside / 2 / ROWS:.0%}) have an action outside [-1, 1]" in evidence(found, "actions_outside")
    assert evidence(found, "float64").startswith("action: float64")
    constant = [oddity.evidence for oddity in found.oddities if oddity.kind == "constant"]
    assert "site (4)" in constant[0]
    assert "observation (1 of 3)" in constant[1]
    pasted = paste(found)
    low, high = pasted.spec.action.bounds()
    assert (low[0], high[0]) == (np.float32(data["action"].min()), np.float32(data["action"].max()))


def test_pickled_objects_are_told_and_never_opened(look, paste, tmp_path, walk):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "opened",))

    found = look({**walk(LENGTHS), "terminal": last_rows(), "infos": np.array([Bomb()] * ROWS, object)})
    assert "infos: pickled objects" in evidence(found, "pickled")
    assert paste(found).counts == (5, ROWS, 5)
    assert not (tmp_path / "opened").exists()


def test_demonstrations_in_groups(paste, walk):
    data = walk(LENGTHS)
    with h5py.File("demos.hdf5", "w") as file:
        for number, (start, stop) in enumerate(zip(STOP - LENGTHS, STOP, strict=True)):
            group = file.create_group(f"data/demo_{number}")
            group["obs/pose"], group["next_obs/pose"] = data["observation"][start:stop], data["next_observation"][start:stop]
            group["actions"], group["rewards"] = data["action"][start:stop], data["reward"][start:stop]
            group["dones"] = (np.arange(stop - start) >= stop - start - 2).astype(np.int64)
    pasted = paste(inspect(Path("demos.hdf5")))
    assert pasted.counts == (5, ROWS, 5)
    assert pasted.options["groups"] == "data/*"


def test_an_environment_that_differs_is_told(paste, walk):
    data = walk(LENGTHS)
    np.savez("log.npz", **data, terminal=last_rows())
    found = inspect(Path("log.npz"), env_id="Pendulum-v1")
    assert evidence(found, "environment_differs") == "Observations of Pendulum-v1 are [3], those of the columns [2]."
    found = inspect(Path("log.npz"), env_id="CartPole-v1")
    assert "actions of CartPole-v1 are one of 2, those of the columns numbers" in evidence(found, "environment_differs")
    assert paste(found).spec.env_id == "CartPole-v1"


def test_a_huge_file_is_looked_at_in_part(look, tmp_path, walk):
    data = walk([50] * 40)
    np.savez(tmp_path / "log.npz", **data, episode_lengths=[50] * 40)
    found = inspect(tmp_path / "log.npz", head_bytes=20_000)
    assert (found.total_rows, found.is_whole) == (2000, False)
    assert found.rows % 50 == 0
    assert 0 < found.rows < 2000
    assert found.trial["episodes"] == found.rows // 50
    pd.DataFrame({"episode": np.repeat(np.arange(40), 50), "obs": data["observation"][:, 0], "action": data["action"][:, 0],
                  "reward": data["reward"]}).to_csv(tmp_path / "log.csv", index=False)  # fmt: skip
    found = inspect(tmp_path / "log.csv", head_bytes=20_000)
    assert not found.is_whole
    assert 0 < found.rows < 2000
    np.savez_compressed(tmp_path / "packed.npz", **data, done=np.arange(2000) % 50 == 49)
    found = inspect(tmp_path / "packed.npz", head_bytes=4_000)
    assert not found.is_whole
    assert 0 < found.rows < 2000


def test_what_cannot_be_imported_is_one_line(tmp_path, walk):
    page = tmp_path / "page.hdf5"
    page.write_text("<!doctype html><html></html>")
    with pytest.raises(HindcastError, match="is a web page"):
        inspect(page)
    with pytest.raises(HindcastError, match="does not exist"):
        inspect(tmp_path / "none.npz")
    np.savez(tmp_path / "a.npz", **walk(LENGTHS))
    with pytest.raises(HindcastError, match="There is no role 'acton'"):
        inspect(tmp_path / "a.npz", {"acton": ["action"]})


def test_the_report_is_plain_json(look, walk):
    told = json.loads(json.dumps(look({**walk(LENGTHS), "terminal": last_rows()}).to_json(), allow_nan=False))
    assert told["columns"][0] == {"name": "observation", "dtype": "float32", "shape": [2], "rows": ROWS,
                                  "range": told["columns"][0]["range"], "role": "observation"}  # fmt: skip
    assert told["trial"]["terminals"] == 5


def test_a_value_that_stands_for_a_missing_one_is_named(look, walk):
    arrays = walk([20] * 10)
    arrays["observation"][5::50, 1] = -999
    del arrays["next_observation"]
    ids = np.repeat(np.arange(10), 20)
    assert "observation (-999 on 4 of 200 rows)" in evidence(look({**arrays, "episode": ids}), "sentinel")
    assert "sentinel" not in kinds(look({**walk([20] * 10), "episode": ids}))
