"""What differs is found and ordered, what does not is left alone, also where the steps of an episode are all alike."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from rl_datasets.checks.drift import ROWS, Sampler, _Kept, compare, sample, stability
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

SPEC = EnvSpec(
    "Room-v0",
    {
        "pose": ArraySpec((2,), "float32"),
        "room": ArraySpec((), "int64", 0, 3, num_values=4),
        "camera": ArraySpec((8, 8, 3), "uint8", 0, 255),
    },
    ArraySpec((1,), "float32"),
)


def episode(rng: np.random.Generator, steps: int = 30, shift: float = 0.0, policy: str = "a") -> Episode:
    """Its steps hardly differ from one another, as those of a slow system do: the episode is one draw."""
    place = rng.normal() + shift + 0.01 * rng.normal(size=(steps + 1, 2))
    observation = {
        "pose": place.astype(np.float32),
        "room": np.full(steps + 1, rng.integers(4)),
        "camera": np.full((steps + 1, 8, 8, 3), rng.integers(100), np.uint8),
    }
    action, reward = np.full((steps + 1, 1), rng.normal(), np.float32), np.full(steps + 1, rng.normal(), np.float32)
    return Episode("e", observation, action, reward, np.ones(steps + 1, np.float32), bool(rng.integers(2)), {"policy": policy})


def drawn(seed: int, count: int, **options) -> list[Episode]:
    rng = np.random.default_rng(seed)
    return [episode(rng, int(rng.integers(20, 40)), **options) for _ in range(count)]


def test_the_same_source_gives_no_alarm():
    """Taken for draws of their own, the steps would differ in nearly every pair of sets."""
    alarms = naive = 0
    for seed in range(20):
        a, b = sample(drawn(seed, 200), SPEC), sample(drawn(1000 + seed, 40), SPEC)
        alarms += bool(compare(a, b).drifted)
        naive += stats.ks_2samp(a.numbers["observation/pose[0]"], b.numbers["observation/pose[0]"]).pvalue < 0.01
    assert alarms == 0
    assert naive > 15


def test_what_changed_is_named_most_changed_first():
    changed = [replace(e, reward=e.reward + np.float32(3)) for e in drawn(1, 150, shift=1.0, policy="b")]
    drift = compare(sample(drawn(0, 150), SPEC), sample(changed, SPEC))
    named = [column.column for column in drift.drifted]
    assert set(named) == {"policy", "reward", "return", "observation/pose[0]", "observation/pose[1]"}
    assert [column.psi for column in drift.columns] == sorted((column.psi for column in drift.columns), reverse=True)
    lines = drift.summary()
    assert lines[0].startswith("150 episodes (")
    assert lines[0].endswith("5 of 11 columns differ, the most changed first.")
    assert any(line.startswith("  policy: 'a' 100.0%; then 'b' 100.0% (PSI ") for line in lines)
    assert {column.column for column in drift.columns} >= {"observation/camera mean", "observation/room", "action[0]", "length", "terminal"}
    json.dumps(drift.to_json(), allow_nan=False)


def test_a_shift_of_all_categories():
    moved = [replace(e, observation={**e.observation, "room": np.minimum(e.observation["room"] + 1, 3)}) for e in drawn(0, 200)]
    drift = compare(sample(drawn(0, 200), SPEC), sample(moved, SPEC))
    assert [column.column for column in drift.drifted] == ["observation/room"]
    assert drift.drifted[0].statistic == pytest.approx(0.25, abs=0.06)


def test_the_stability_index_by_hand():
    """(0.3 - 0.5) ln(0.3 / 0.5) + (0.7 - 0.5) ln(0.7 / 0.5) = 0.10217 + 0.06729."""
    assert stability(np.array([0.5, 0.5]), np.array([0.3, 0.7])) == pytest.approx(0.16946, abs=1e-5)
    assert stability(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx(2 * 0.9999 * np.log(1e4), rel=1e-3)
    assert stability(np.array([0.2, 0.8]), np.array([0.2, 0.8])) == 0


def episodes_of_one_step(values: np.ndarray) -> list[Episode]:
    last = np.zeros((2, 1), np.float32)
    arrays = [(np.array([[value], [0]], np.float32), last) for value in values]
    return [Episode("e", o, a, np.zeros(2, np.float32), np.zeros(2, np.float32), False, {"policy": "a"}) for o, a in arrays]


LINE = EnvSpec("Line-v0", ArraySpec((1,), "float32"), ArraySpec((1,), "float32"))


def test_statistic_and_p_value_are_those_of_scipy_where_each_episode_is_one_step():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=300).astype(np.float32), rng.normal(0.2, size=200).astype(np.float32)
    drift = compare(sample(episodes_of_one_step(a), LINE), sample(episodes_of_one_step(b), LINE))
    column = next(column for column in drift.columns if column.column == "observation[0]")
    expected = stats.ks_2samp(a, b, method="asymp")
    assert column.statistic == pytest.approx(expected.statistic)
    assert column.p_value == pytest.approx(stats.kstwobign.sf(expected.statistic * np.sqrt(120)))
    p_values = [each.p_value for each in drift.columns]
    assert [each.corrected for each in drift.columns] == pytest.approx(list(stats.false_discovery_control(p_values)))


@pytest.mark.parametrize(("before", "after"), [(5.0, 4.0), (5.0, 6.0), (0.0, 1e-30)])
def test_a_constant_that_became_another_differs(before, after):
    a, b = (sample(episodes_of_one_step(np.full(100, value)), LINE) for value in (before, after))
    assert [column.column for column in compare(a, b).drifted] == ["observation[0]"]


def test_columns_that_one_set_lacks_are_named():
    narrow = sample(episodes_of_one_step(np.arange(50.0)), LINE)
    drift = compare(narrow, sample(drawn(0, 50), SPEC))
    assert drift.only_before == ("observation[0]",)
    assert "observation/room" in drift.only_after
    assert "Only the first has observation[0]." in drift.summary()


def test_values_that_are_not_finite_are_left_out():
    values = np.arange(100.0)
    values[3], values[4] = np.nan, np.inf
    drift = compare(sample(episodes_of_one_step(values), LINE), sample(episodes_of_one_step(np.full(50, np.nan)), LINE))
    assert not drift.drifted
    assert next(c for c in drift.columns if c.column == "observation[0]").after == "no finite value"


@pytest.mark.parametrize("period", [1, 7, 64, 200])
def test_thinning_keeps_few_and_is_even_whatever_the_period(period):
    kept, rows = _Kept(), 1 << 12
    for start in range(0, 1 << 20, rows):
        kept.add({"x": (np.arange(start, start + rows) % period).astype(np.float64)})
    values = kept.columns()["x"]
    assert ROWS <= len(values) <= 2 * ROWS
    shares = np.bincount(values.astype(int), minlength=period) / len(values)
    np.testing.assert_allclose(shares, 1 / period, rtol=0.05)


def test_a_sample_does_not_depend_on_how_episodes_are_gathered():
    episodes = drawn(3, 60)
    sampler = Sampler(SPEC)
    for each in episodes:
        sampler.add(each)
        sampler._reduce()
    alone, together = sampler.result(), sample(episodes, SPEC)
    np.testing.assert_equal(dict(alone.numbers), dict(together.numbers))
    assert alone.draws == together.draws
    lengths = np.array([each.length for each in episodes])
    assert together.draws["reward"] == pytest.approx(lengths.sum() ** 2 / (lengths**2).sum())
    assert together.draws["return"] == 60
