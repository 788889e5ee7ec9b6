"""What inspect finds in tables: of every format, with columns of words, and with names that say nothing."""

import bz2
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rl_datasets.inspection.inspect import Inspection, inspect
from tests.rl_datasets.inspection.found import LENGTHS, ROWS, evidence, kinds, last_rows


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


def test_marks_of_missing_values_are_no_part_of_ranges_and_medians(paste):
    """Heat is 20.5, 21.5, ..., 29.5 ten times over, and -999 on four rows that held 20.5, so its known median is 25.5 of 96 values."""
    heat, noise = np.tile(np.arange(20.5, 30), 10), np.random.default_rng(0).normal(size=100)
    heat[[0, 30, 50, 90]] = -999
    table = pd.DataFrame({"run": np.repeat(np.arange(10), 10), "heat": heat, "drift": noise, "push": noise % 1, "taste": noise})
    roles = {"observation": ["heat", "drift"], "action": ["push"], "reward": ["taste"]}
    drift = float(f"{np.median(noise):.4g}")
    table.to_csv("marks.csv", index=False)
    found = inspect(Path("marks.csv"), roles)
    pasted = paste(found)
    assert pasted.options["observation"] == {"columns": ["heat", "drift"], "missing": [25.5, drift], "missing_marks": [-999]}
    assert "# guessed: -999 seems to stand for a missing value" in found.entry
    assert next(line.range for line in found.columns if line.name == "heat") == "20.5 to 29.5, without -999"
    assert "'missing' fills it" in next(oddity.answer for oddity in found.oddities if oddity.kind == "sentinel")
    assert pasted.episodes[0].observation[:2, 0].tolist() == [25.5, 21.5]
    table.assign(heat=np.where(heat == -999, -999, heat - 25)).to_csv("zero.csv", index=False)
    assert paste(inspect(Path("zero.csv"), roles)).options["observation"]["missing"] == 0.0
    whole = table.assign(heat=np.where(heat == -999, -999, heat - 0.5).astype(int)).drop(columns="drift")
    whole.to_csv("whole.csv", index=False)
    told = paste(inspect(Path("whole.csv"), {**roles, "observation": ["heat"]})).options["observation"]
    assert told == {"columns": "heat", "missing": 25.0, "missing_marks": [-999]}


def test_a_mark_that_another_column_holds_as_a_value_is_kept(paste):
    rng = np.random.default_rng(0)
    heat = rng.uniform(20, 30, 100)
    heat[[0, 30, 50, 90]] = -999
    depth = np.where(np.arange(100) == 7, -999.0, rng.uniform(-2000, 0, 100))
    pd.DataFrame(
        {"run": np.repeat(np.arange(10), 10), "heat": heat, "depth": depth, "push": heat % 1, "taste": rng.normal(size=100)}
    ).to_csv("marks.csv", index=False)
    found = inspect(Path("marks.csv"), {"observation": ["heat", "depth"], "action": ["push"], "reward": ["taste"]})
    assert paste(found).options["observation"] == ["heat", "depth"]
    assert next(oddity.answer for oddity in found.oddities if oddity.kind == "sentinel").startswith("Kept; 'missing_marks'")


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
    ovens(walk).rename(columns={"heat": "heat (°C)"}).to_csv("ovens.csv", index=False)
    found = inspect(Path("ovens.csv"), {"action": ["fan"], "reward": ["taste"]})
    answer = next(o.answer for o in found.oddities if o.kind == "text_left_out")
    assert "--as 'observation=heat (°C),mass,smell' stores it as a category, --as step_metadata=smell keeps" in answer


def test_a_log_that_runs_on_is_cut_by_the_column_that_many_rows_share(tmp_path):
    hours = pd.date_range("2026-01-01", periods=72, freq="h")
    log = pd.DataFrame({"day": hours.date.astype(str), "hour": hours, "heat": np.sin(np.arange(72)), "fan": np.cos(np.arange(72))})
    log.assign(score=log.heat * log.fan).to_csv(tmp_path / "house.csv", index=False)
    roles = {"action": ["fan"], "reward": ["score"]}
    answer = next(o.answer for o in inspect(tmp_path / "house.csv", roles).oddities if o.kind == "few_episodes")
    assert "'day' has one value on up to 24 rows: where each value is an episode, say --as id=day." in answer
    log.assign(score=log.heat * log.fan).drop(columns="day").to_csv(tmp_path / "house.csv", index=False)
    answer = next(o.answer for o in inspect(tmp_path / "house.csv", roles).oddities if o.kind == "few_episodes")
    assert "by pandas, frame['day'] = frame['time'].str[:10], and say --as id=day." in answer


def test_a_wish_that_cannot_be_tried_yet_is_kept_and_told(paste, walk):
    ovens(walk).to_csv("ovens.csv", index=False)
    found = inspect(Path("ovens.csv"), {"reward": ["taste"], "metadata": ["dough"]})
    assert found.fault == (
        "No column was recognised as observation and action. Say which: --as action=COLUMN. "
        "Numbers that are left are then taken to be observed. Whether dough (metadata) has one value an episode cannot be told before."
    )
    assert "metadata: {dough: dough}  # as asked; not tried, for observation and action must be known first" in found.entry
    assert "dough" not in found.entry.partition("ignore:")[2]
