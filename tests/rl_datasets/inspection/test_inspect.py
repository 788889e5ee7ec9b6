"""What inspect finds in small files whose oddity is known, and whether the entry that it prints imports them rightly."""

import bz2
import gzip
import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.inspection.inspect import Inspection, inspect

LENGTHS = [30, 12, 25, 40, 8]
ROWS = sum(LENGTHS)
STOP = np.cumsum(LENGTHS)


def kinds(found: Inspection) -> set[str]:
    return {oddity.kind for oddity in found.oddities}


def evidence(found: Inspection, kind: str) -> str:
    (told,) = [oddity.evidence for oddity in found.oddities if oddity.kind == kind]
    return told


def last_rows() -> np.ndarray:
    return np.isin(np.arange(ROWS), STOP - 1)


def test_plain_data_have_nothing_odd(look, paste, walk):
    done = last_rows()
    done[STOP[2] - 1] = False
    found = look({**walk(LENGTHS), "terminated": done, "truncated": last_rows() & ~done})
    assert kinds(found) <= {"ends_without_terminal"}
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


def frame(walk, seed: int = 0) -> pd.DataFrame:
    """Rows of a table with a feature map, one-hot actions, ids of text and columns that say more."""
    data, rng = walk(LENGTHS), np.random.default_rng(seed)
    act = rng.integers(0, 3, ROWS)
    columns = {f"state_features.{i}": data["observation"][:, i] for i in range(2)}
    columns |= {f"next_state_features.{i}": data["next_observation"][:, i] for i in range(2)}
    columns |= {f"action.{i}": np.where(act == i, 1.0, np.nan) for i in range(3)}
    ids = {"mdp_id": np.repeat(list("qzbka"), LENGTHS), "sequence_number": np.concatenate([np.arange(n) for n in LENGTHS])}
    return pd.DataFrame({**ids, **columns, "reward": data["reward"], "propensity": 0.5}).sample(frac=1, random_state=seed)


def as_lines(table: pd.DataFrame) -> bytes:
    """JSON lines with nested maps, as some loggers write them."""
    lines = []
    for row in table.to_dict("records"):
        nested: dict[str, object] = {}
        for name, value in row.items():
            outer, dot, inner = str(name).partition(".")
            if not dot:
                nested[outer] = value
            elif value == value:
                nested.setdefault(outer, {})[inner] = value  # type: ignore[index]
        lines.append(json.dumps(nested))
    return ("\n".join(lines) + "\n").encode()


def check_table(found: Inspection, paste) -> None:
    assert {"random_order", "one_hot", "text_ids", "propensities", "no_end_flag"} <= kinds(found)
    assert "The 5 ids of 'mdp_id' change" in evidence(found, "random_order")
    pasted = paste(found)
    assert pasted.counts == (5, ROWS, 0)
    assert sorted(e.episode_id for e in pasted.episodes) == list("abkqz")
    assert pasted.spec.action.num_values == 3
    lengths = {e.episode_id: e.length for e in pasted.episodes}
    assert [lengths[name] for name in "qzbka"] == LENGTHS


@pytest.mark.parametrize("suffix", ["json", "jsonl.gz", "json.bz2", "ndjson.zst"])
def test_json_lines_of_every_compression(paste, suffix, walk):
    path, text = Path(f"logged.{suffix}"), as_lines(frame(walk))
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "zst": lambda raw: pa.compress(raw, "zstd", asbytes=True)}
    path.write_bytes(pack.get(suffix.rpartition(".")[2], bytes)(text))
    check_table(inspect(path), paste)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather"])
def test_tables_of_every_kind(paste, suffix, walk):
    path = Path(f"logged.{suffix}")
    write = {"parquet": frame(walk).to_parquet, "feather": frame(walk).reset_index(drop=True).to_feather}
    if suffix in write:
        write[suffix](path)
    else:
        frame(walk).to_csv(path, index=False)
    check_table(inspect(path), paste)


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


def test_a_table_that_names_nothing_needs_two_words(paste, walk):
    data = walk(LENGTHS)
    table = {"trip": np.repeat(list("abcde"), LENGTHS), "speed": data["observation"][:, 0], "grade": data["observation"][:, 1]}
    pd.DataFrame({**table, "throttle": data["action"][:, 0], "fuel": data["reward"]}).to_csv("trips.csv", index=False)
    found = inspect(Path("trips.csv"))
    assert found.fault == (
        "No column was recognised as observation, action and reward. Say which: --as action=COLUMN --as reward=COLUMN. "
        "Numbers that are left are then taken to be observed."
    )
    assert 'action: "???"  # not recognised: name the columns, or run again with --as action=COLUMN' in found.entry
    found = inspect(Path("trips.csv"), {"action": ["throttle"], "reward": ["fuel"]})
    assert "observation: [speed, grade]  # guessed: a number with no other role" in found.entry
    assert paste(found).counts == (5, ROWS - 5, 0)


def test_an_id_is_none_of_the_observations_beside_a_flag(paste, walk):
    data = walk(LENGTHS)
    table = {
        "drive": np.repeat(np.arange(5), LENGTHS),
        "tick": np.concatenate([np.arange(n) for n in LENGTHS]),
        "speed": data["observation"][:, 0],
    }
    pd.DataFrame({**table, "push": data["action"][:, 0], "points": data["reward"], "over": last_rows().astype(int)}).to_csv(
        "hill.csv", index=False
    )
    found = inspect(Path("hill.csv"), {"action": ["push"], "reward": ["points"], "terminal": ["over"]})
    pasted = paste(found)
    assert pasted.options["ends"] == {"kind": "ids", "column": "drive", "sequence": "tick"}
    assert (pasted.options["observation"], pasted.counts) == ("speed", (5, ROWS, 5))


@pytest.mark.parametrize("order", ["together", "mixed"])
def test_a_time_orders_the_rows_of_an_id(paste, walk, order):
    data, start = walk(LENGTHS), pd.Timestamp("2026-01-31T12:00:00")
    table = pd.DataFrame({
        "trip": np.repeat(np.arange(5), LENGTHS),
        "clock": [start + pd.Timedelta(seconds=10 * row) for row in range(ROWS)],
        "made": start,
        "speed": data["observation"][:, 0],
        "throttle": data["action"][:, 0],
        "fuel": data["reward"],
    })  # fmt: skip
    if order == "mixed":
        table = table.sample(frac=1, random_state=0)
    table.to_parquet("trips.parquet", index=False)
    pasted = paste(inspect(Path("trips.parquet"), {"action": ["throttle"], "reward": ["fuel"]}))
    assert pasted.options["ends"] == {"kind": "ids", "column": "trip", "sequence": "clock"}
    assert pasted.counts == (5, ROWS - 5, 0)
    whole = np.concatenate([episode.observation[:, 0] for episode in sorted(pasted.episodes, key=lambda episode: int(episode.episode_id))])
    np.testing.assert_array_equal(whole, data["observation"][:, 0].astype(np.float32))


def test_an_environment_that_differs_is_told(paste, walk):
    data = walk(LENGTHS)
    np.savez("log.npz", **data, terminal=last_rows())
    found = inspect(Path("log.npz"), env_id="Pendulum-v1")
    assert evidence(found, "environment_differs") == "Observations of Pendulum-v1 are [3], those of the columns [2]."
    found = inspect(Path("log.npz"), env_id="CartPole-v1")
    assert "actions of CartPole-v1 are one of 2, those of the columns numbers" in evidence(found, "environment_differs")
    assert paste(found).spec.env_id == "CartPole-v1"


def test_actions_that_are_words_and_a_cost(paste, walk):
    data = walk(LENGTHS)
    table = {
        "patient": np.repeat(np.arange(5), LENGTHS),
        "state": data["observation"][:, 0],
        "treatment": np.resize(["drug", "none"], ROWS),
    }
    pd.DataFrame({**table, "cost": -data["reward"], "policy": "doctor"}).to_csv("ward.csv", index=False)
    pasted = paste(inspect(Path("ward.csv")))
    assert pasted.spec.action.num_values == 2
    np.testing.assert_allclose(pasted.episodes[0].reward[:-1], data["reward"][: LENGTHS[0] - 1], rtol=1e-6)


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


def test_missing_values_are_filled_with_0_or_where_that_is_no_value_with_the_median(paste, walk):
    table = ovens(walk)[["batch", "heat", "mass", "taste"]].assign(push=np.resize([0.5, -0.5], ROWS))
    table.loc[3, "heat"] = np.nan
    roles = {"observation": ["heat", "mass"], "action": ["push"], "reward": ["taste"]}
    table.assign(heat=table.heat - table.heat.min()).to_csv("low.csv", index=False)
    assert paste(inspect(Path("low.csv"), roles)).options["observation"] == {"columns": ["heat", "mass"], "missing": 0.0}
    high = table.assign(heat=table.heat.abs() + 300, mass=12.34)
    high.to_csv("high.csv", index=False)
    pasted = paste(inspect(Path("high.csv"), roles))
    median = float(f"{high.heat.median():.4g}")
    assert pasted.options["observation"] == {"columns": ["heat", "mass"], "missing": [median, 12.34]}
    assert pasted.episodes[0].observation[3, 0] == np.float32(median)


def ovens(walk) -> pd.DataFrame:
    """Rows of a table whose action is one of three words, with a text that changes within episodes and one that does not."""
    data = walk(LENGTHS)
    table = {"batch": np.repeat(list("abcde"), LENGTHS), "heat": data["observation"][:, 0], "mass": data["observation"][:, 1]}
    texts = {"fan": np.resize(["low", "off", "high"], ROWS), "smell": np.resize(["sweet", "burnt"], ROWS), "dough": "rye"}
    return pd.DataFrame({**table, **texts, "taste": data["reward"]})


def test_texts_become_categories_with_what_they_were_found_to_be(paste, walk):
    ovens(walk).to_csv("ovens.csv", index=False)
    found = inspect(Path("ovens.csv"), {"observation": ["heat", "smell", "mass"], "action": ["fan"], "reward": ["taste"]})
    counts = ovens(walk).smell.value_counts()
    words = [oddity.evidence for oddity in found.oddities if oddity.kind == "categories"]
    assert words[0] == f"smell is text of 2 kinds: burnt ({counts['burnt']} rows), sweet ({counts['sweet']} rows)."
    pasted = paste(found)
    assert pasted.options["action"] == {"columns": "fan", "categories": ["high", "low", "off"]}
    smell = {"columns": "smell", "categories": ["burnt", "sweet"]}
    assert pasted.options["observation"] == {"entries": {"numbers": ["heat", "mass"], "smell": smell}}
    assert pasted.spec.observation["smell"].num_values == 2
    assert pasted.episodes[0].observation["smell"][:4].tolist() == [1, 0, 1, 0]
    assert pasted.episodes[0].observation["numbers"].shape[1:] == (2,)


def test_a_text_alone_is_an_observation_and_a_missing_one_a_category(paste, walk):
    table = ovens(walk)
    table.loc[1::2, "smell"] = None
    table.to_parquet("ovens.parquet")
    found = inspect(Path("ovens.parquet"), {"observation": ["smell"], "action": ["fan"], "reward": ["taste"]})
    assert any(f"(none) ({ROWS // 2} rows), sweet" in oddity.evidence for oddity in found.oddities if oddity.kind == "categories")
    pasted = paste(found)
    assert pasted.options["observation"] == {"columns": "smell", "categories": ["", "sweet"]}
    assert pasted.episodes[0].observation[:4].tolist() == [1, 0, 1, 0]


def test_a_text_that_may_be_observed_is_not_left_out_silently(look, paste, walk):
    ovens(walk).to_csv("ovens.csv", index=False)
    found = inspect(Path("ovens.csv"), {"action": ["fan"], "reward": ["taste"]})
    assert evidence(found, "text_left_out") == "Text that changes within episodes: smell (2 texts)."
    assert "--as observation=heat,mass,smell" in next(o.answer for o in found.oddities if o.kind == "text_left_out")
    told = inspect(Path("ovens.csv"), {"observation": ["heat"], "action": ["fan"], "reward": ["taste"]})
    assert "text_left_out" not in kinds(told)


def test_a_wish_that_cannot_be_tried_yet_is_kept_and_told(paste, walk):
    ovens(walk).to_csv("ovens.csv", index=False)
    found = inspect(Path("ovens.csv"), {"reward": ["taste"], "metadata": ["dough"]})
    assert found.fault == (
        "No column was recognised as observation and action. Say which: --as action=COLUMN. "
        "Numbers that are left are then taken to be observed. Whether dough (metadata) has one value an episode cannot be told before."
    )
    assert "metadata: {dough: dough}  # as asked; not tried, for observation and action must be known first" in found.entry
    assert "dough" not in found.entry.partition("ignore:")[2]
