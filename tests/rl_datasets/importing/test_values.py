"""Columns to arrays: types stay as they are, or change by a cast that is recorded; what does not fit is refused with its row."""

from typing import Any

import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.rlds import read_episodes, write_rlds
from rl_datasets.schema import ArraySpec

T = {"ends": {"kind": "lengths", "column": "length"}, "rows": "steps"}
LENGTH = {"length": [3, 2]}
nan = np.nan


def rows(**arrays: Any) -> dict[str, np.ndarray]:
    """Five rows: an episode of two transitions and one of one."""
    base = {"o": np.arange(10, dtype=np.float32).reshape(5, 2), "a": np.zeros((5, 1), np.float32), "r": np.arange(5.0)}
    return {**base, **LENGTH, **{name: np.asarray(value) for name, value in arrays.items()}}


def joined(found: Any, name: str = "observation") -> np.ndarray:
    return np.concatenate([getattr(episode, name) for episode in found.episodes])


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int8", "int32", "int64", "uint16", "bool"])
def test_what_can_be_stored_stays_as_it_is(imported, dtype) -> None:
    values = (np.arange(10).reshape(5, 2) % 2).astype(dtype)
    found = imported(rows(o=values), **T)
    assert joined(found).dtype == dtype
    np.testing.assert_array_equal(joined(found), values)
    assert "observation:" not in found.notes


def test_float64_becomes_float32_by_a_cast_that_is_recorded(imported) -> None:
    values = np.arange(10).reshape(5, 2) / 3
    found = imported(rows(o=values), **T)
    np.testing.assert_array_equal(joined(found), values.astype(np.float32))
    assert "observation: float64 is stored as float32." in found.notes
    assert "reward: float64 is stored as float32." in found.notes


def test_a_value_beyond_float32_is_refused_and_infinity_is_kept(imported, refused) -> None:
    values = np.arange(10.0).reshape(5, 2)
    values[3, 1] = np.inf
    assert joined(imported(rows(o=values), **T))[3, 1] == np.inf
    values[2, 0] = 1e300
    message = refused(rows(o=values), **T)
    assert "row 2" in message
    assert "1e+300" in message


@pytest.mark.parametrize(("dtype", "value"), [("int8", 128), ("uint8", -1), ("int32", 2**40), ("int64", 0.5), ("int64", np.nan)])
def test_whole_numbers_keep_their_values_or_are_refused(imported, refused, dtype, value) -> None:
    good = np.arange(10.0).reshape(5, 2)
    found = imported(rows(o=good), observation={"columns": "o", "dtype": dtype}, **T)
    np.testing.assert_array_equal(joined(found), good.astype(dtype))
    assert f"observation: float64 is stored as {dtype}." in found.notes
    good[4, 0] = value
    message = refused(rows(o=good), observation={"columns": "o", "dtype": dtype}, **T)
    assert "row 4" in message
    assert "Mend the row or the entry" in message


def test_big_endian_numbers_are_the_same_numbers(imported) -> None:
    values = np.arange(10, dtype=">f4").reshape(5, 2)
    found = imported(rows(o=values), **T)
    assert joined(found).dtype == np.dtype("<f4")
    np.testing.assert_array_equal(joined(found), values)


def test_a_dict_of_an_image_a_vector_and_a_flag(imported, tmp_path) -> None:
    camera = np.arange(5 * 48, dtype=np.uint8).reshape(5, 4, 4, 3)
    flag, pose = np.array([0, 1, 0, 1, 1], np.int8), np.arange(15, dtype=np.float32).reshape(5, 3)
    arrays = rows(camera=camera, flag=flag, pose=pose)
    arrays.pop("o")
    found = imported(arrays, observation={"entries": {"camera": "camera", "pose": "pose", "flag": "flag"}}, **T)
    assert found.spec.observation == {
        "camera": ArraySpec((4, 4, 3), "uint8", 0.0, 255.0),
        "pose": ArraySpec((3,), "float32"),
        "flag": ArraySpec((), "int8"),
    }
    assert found.spec.observation["camera"].is_image
    write_rlds(tmp_path / "toy" / "1.0.0", "toy", "1.0.0", found.spec, {"raw": found.episodes})
    stored = list(read_episodes(tmp_path / "toy" / "1.0.0", "raw"))
    for name, values in (("camera", camera), ("pose", pose), ("flag", flag)):
        np.testing.assert_array_equal(np.concatenate([episode.observation[name] for episode in stored]), values)


def test_a_tuple_with_next_observations(imported) -> None:
    arrays = {"p": np.float32([0, 1, 10]), "q": np.int32([0, 2, 20]), "p2": np.float32([1, 2, 11]), "q2": np.int32([2, 4, 22])}
    arrays |= {"a": np.zeros(3), "r": np.zeros(3), "length": [2, 1]}
    found = imported(
        arrays,
        observation={"elements": ["p", "q"]},
        next_observation={"elements": ["p2", "q2"]},
        ends={"kind": "lengths", "column": "length"},
    )
    first, second = found.episodes
    assert isinstance(first.observation, tuple)
    assert first.observation[0][:, 0].tolist() == [0, 1, 2]
    assert first.observation[1].tolist() == [0, 2, 4]
    assert second.observation[1].tolist() == [20, 22]


def test_the_last_observation_may_have_another_dtype(imported) -> None:
    arrays = {"o": np.float32([[0.1], [0.2]]), "n": np.float64([[0.2], [0.7]]), "a": np.zeros(2), "r": np.zeros(2), "length": [2]}
    arrays["n"][0] = np.float32(0.2)
    found = imported(arrays, next_observation="n", ends={"kind": "lengths", "column": "length"})
    assert found.episodes[0].observation[:, 0].tolist() == [np.float32(v) for v in (0.1, 0.2, 0.7)]
    assert "observation: float64 is stored as float32." in found.notes


def test_a_stack_of_frames_is_no_image_and_keeps_its_shape(imported) -> None:
    frames = np.arange(5 * 2 * 64 * 64).astype(np.uint8).reshape(5, 2, 64, 64)
    found = imported(rows(o=frames), **T)
    assert found.spec.observation == ArraySpec((2, 64, 64), "uint8", 0.0, 255.0)
    assert not found.spec.observation.is_image
    np.testing.assert_array_equal(joined(found), frames)


def test_text_as_bytes_and_as_categories(imported, refused) -> None:
    words = np.array(["go", "stop", "gö", "", "go"])
    found = imported(rows(o=words), observation={"columns": "o", "text": 4}, **T)
    assert joined(found).dtype == np.uint8
    assert [bytes(row).rstrip(b"\0").decode() for row in joined(found)] == words.tolist()
    assert "5 bytes" in refused(rows(o=np.array(["go", "stop!", "", "", ""])), observation={"columns": "o", "text": 4}, **T)
    found = imported(rows(o=words), observation={"columns": "o", "categories": ["", "go", "gö", "stop"]}, **T)
    assert joined(found).tolist() == [1, 3, 2, 0, 1]
    assert found.spec.observation == ArraySpec((), "int64", 0.0, 3.0, 4)
    message = refused(rows(o=words), observation={"columns": "o", "categories": ["go", "stop"]}, **T)
    assert "row 2" in message
    assert "'gö'" in message
    assert "categories" in refused(rows(o=words), **T)  # said of text that nothing is said of


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_discrete_actions(imported, dtype) -> None:
    actions = np.array([0, 2, 1, 0, 1], dtype)
    given = imported(rows(a=actions), action={"columns": "a", "num_values": 4}, **T)
    assert given.spec.action == ArraySpec((), dtype, 0.0, 3.0, 4)
    found = imported(rows(a=actions[:, None]), **T)
    assert found.spec.action == ArraySpec((), dtype, 0.0, 2.0, 3)
    assert "so 3 actions are assumed" in found.notes
    assert joined(found, "action").tolist() == [0, 2, 0, 0, 0]  # zero on the last step of each episode
    assert joined(found, "action").dtype == dtype


def test_multi_discrete_and_integer_vectors(imported) -> None:
    actions = np.array([[0, 5], [1, 3], [9, 9], [1, 0], [9, 9]], np.int64)
    found = imported(rows(a=actions), action={"columns": "a", "minimum": 0, "maximum": [9, 9]}, **T)
    assert found.spec.action == ArraySpec((2,), "int64", 0.0, 9.0)
    assert joined(found, "action").tolist() == [[0, 5], [1, 3], [0, 0], [1, 0], [0, 0]]
    columns = imported(rows(a0=actions[:, 0], a1=actions[:, 1]), action=["a0", "a1"], ignore="a", **T)
    np.testing.assert_array_equal(joined(columns, "action"), joined(found, "action"))


def test_one_hot_actions_become_an_index(imported, refused) -> None:
    arrays = rows(left=[1, nan, 0, 1, nan], right=[nan, 1, 1, 0, 1.0])  # a feature that is not there is missing
    options = {"action": {"columns": ["left", "right"], "one_hot": True}, "ignore": "a", **T}
    found = imported(arrays, **options)
    assert joined(found, "action").tolist() == [0, 1, 0, 0, 0]
    assert found.spec.action.num_values == 2
    arrays["right"][2] = nan
    message = refused(arrays, **options)
    assert "row 2" in message
    assert "a 1 in one place" in message


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_rewards_of_any_type_are_numbers_of_float32(imported, shape, dtype) -> None:
    found = imported(rows(r=np.array([1, 2, 3, 4, 5], dtype).reshape(shape)), **T)
    assert [episode.reward.tolist() for episode in found.episodes] == [[1, 2, 0], [4, 0]]
    assert found.episodes[0].reward.dtype == np.float32


def test_scale_offset_unit_and_clip_are_recorded(imported) -> None:
    values = np.array([[0, 10], [20, 30], [40, 50], [60, 70], [80, 90]], np.int32)
    observation = {"columns": "o", "scale": 0.5, "offset": -1, "unit": "m/s", "clip": [0, 20]}
    found = imported(rows(o=values), observation=observation, **T)
    np.testing.assert_array_equal(joined(found), np.clip(values * 0.5 - 1, 0, 20).astype(np.float32))
    assert "observation: stored is value * 0.5 + -1, in m/s." in found.notes
    assert "observation: 4 rows had values beyond [0, 20], which were clipped." in found.notes


def test_missing_values_are_replaced_only_where_declared(imported) -> None:
    values = np.array([[0, np.nan], [1, 2], [3, 4], [5, 6], [np.nan, np.nan]], np.float32)
    assert np.isnan(joined(imported(rows(o=values), **T))).sum() == 3
    found = imported(rows(o=values), observation={"columns": "o", "missing": -1}, **T)
    assert joined(found)[0].tolist() == [0, -1]
    assert "3 missing values were replaced by -1" in found.notes
    each = imported(rows(o=values), observation={"columns": "o", "missing": [7, 8]}, **T)
    assert joined(each)[[0, 4]].tolist() == [[0, 8], [7, 8]]
    assert "3 missing values were replaced by 7, 8." in each.notes


def test_the_last_known_value_is_carried_to_the_end_of_its_episode(imported) -> None:
    values = np.array([[nan, 1], [2, nan], [nan, nan], [nan, 5], [6, nan]], np.float32)  # episodes of three rows and two
    found = imported(rows(o=values), observation={"columns": "o", "missing": -1, "carry": True}, **T)
    assert joined(found).tolist() == [[-1, 1], [2, 1], [2, 1], [-1, 5], [6, 5]]
    assert "observation: 4 missing values became the last known one of the episode." in found.notes
    assert "observation: 2 missing values were replaced by -1." in found.notes


@pytest.mark.parametrize("rows_are", ["steps", "extra_observation"])
def test_nothing_is_carried_from_an_episode_that_is_dropped(imported, rows_are) -> None:
    extra = rows_are == "extra_observation"
    lengths = np.array([2, 1, 2]) - extra  # the second has no transition
    arrays = {"o": [[1.0], [nan], [2.0], [nan], [4.0]], "a": np.zeros((sum(lengths), 1)), "r": np.zeros(sum(lengths)), "length": lengths}
    if extra:
        arrays |= {"o": [[1.0], [nan], [nan], [4.0]], "length": [1, 1]}
    options = {"ends": T["ends"], "rows": rows_are, "observation": {"columns": "o", "missing": 0, "carry": True}}
    found = imported({name: np.asarray(value) for name, value in arrays.items()}, **options)
    assert joined(found)[:, 0].tolist() == [1, 1, 0, 4]


def test_numbers_that_stand_for_a_missing_one_are_filled(imported, refused) -> None:
    whole = np.array([[0, -999], [1, 2], [3, -1], [5, 6], [-999, 8]], np.int32)
    marked = {"columns": "o", "missing": 4, "missing_marks": [-999, -1]}
    found = imported(rows(o=whole), observation=marked, **T)
    assert joined(found).dtype == "int32"
    assert joined(found).tolist() == [[0, 4], [1, 2], [3, 4], [5, 6], [4, 8]]
    carried = imported(rows(o=whole), observation={**marked, "carry": True}, **T)
    assert joined(carried).tolist() == [[0, 4], [1, 2], [3, 2], [5, 6], [5, 8]]
    assert "row 0" in refused(rows(o=whole), observation={**marked, "missing": 0.5}, **T)


def test_a_wrong_number_of_fillers_is_refused(refused) -> None:
    assert "observation.missing has 3 numbers, but one or 2 are expected" in refused(
        rows(), observation={"columns": "o", "missing": [1, 2, 3]}, **T
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"observation": {"columns": "o", "carry": True}}, "carry and missing_marks need 'missing'"),
        ({"observation": {"columns": "o", "missing_marks": -1}}, "carry and missing_marks need 'missing'"),
        ({"observation": {"columns": "o", "missing": 0, "carry": True}, "next_observation": "n"}, "with carry has no next_observation"),
    ],
)
def test_options_that_contradict_each_other_are_refused(imported, options, expected) -> None:
    with pytest.raises(ValueError, match=expected):
        imported(rows(n=np.zeros((5, 2))), ends=T["ends"], **options)


def test_columns_are_joined_in_numeric_order_where_they_are_numbered(imported) -> None:
    arrays = rows(**{f"s{number}": np.full(5, number, np.float32) for number in (0, 1, 10, 2)})
    found = imported(arrays, observation="s*", ignore="o", **T)
    assert found.episodes[0].observation[0].tolist() == [0, 1, 2, 10]
    arrays = rows(s_b=np.full(5, 1.0), s_a=np.full(5, 2.0))
    assert imported(arrays, observation="s_*", ignore="o", **T).episodes[0].observation[0].tolist() == [1, 2]


def test_a_flat_column_takes_its_shape(imported, refused) -> None:
    found = imported(rows(o=np.arange(30, dtype=np.uint8).reshape(5, 6)), observation={"columns": "o", "shape": [1, 2, 3]}, **T)
    assert found.episodes[0].observation.shape == (3, 1, 2, 3)
    assert "[4]" in refused(rows(), observation={"columns": "o", "shape": [4]}, **T)


def test_bounds_given_found_and_of_an_environment(imported, refused) -> None:
    arrays = rows(o=np.zeros((5, 3), np.float32), a=np.float32([[-0.5], [0.5], [1.5], [0], [9]]))
    none = imported(arrays, **T)
    assert not none.spec.action.is_bounded
    assert "the action space is unbounded" in none.notes
    given = imported(arrays, action={"columns": "a", "minimum": -1, "maximum": 2}, **T)
    assert (given.spec.action.minimum, given.spec.action.maximum) == (-1, 2)
    found = imported(arrays, bounds="data", **T)
    assert (found.spec.action.minimum, found.spec.action.maximum) == (-0.5, 9)
    assert "bounds are the smallest and largest values found, -0.5 to 9" in found.notes
    known = imported(arrays, bounds="environment", env_id="Pendulum-v1", **T)
    assert (known.spec.action.minimum, known.spec.action.maximum) == (-2, 2)
    assert known.spec.max_episode_steps == 200
    assert "[3]" in refused(rows(), bounds="environment", env_id="Pendulum-v1", **T)
    assert "Pendulum-v7" in refused(rows(), bounds="environment", env_id="Pendulum-v7", **T)


def test_metadata_are_one_value_an_episode(imported, refused) -> None:
    arrays = rows(who=np.array(["x", "x", "x", "y", "y"]), score=[1.5, 2.5], level=[3, 3, 3, 4, 4], won=[True, False])
    found = imported(arrays, metadata={"policy": "who", "score": "score", "level": "level", "won": "won"}, **T)
    assert [dict(episode.metadata) for episode in found.episodes] == [
        {"seed": -1, "policy": "x", "environment": "Toy", "score": 1.5, "level": 3, "won": 1},
        {"seed": -1, "policy": "y", "environment": "Toy", "score": 2.5, "level": 4, "won": 0},
    ]
    arrays["who"][1] = "z"
    message = refused(arrays, metadata={"policy": "who"}, ignore=["score", "level", "won"], **T)
    assert "row 1" in message
    assert "'z'" in message


def test_a_missing_name_is_refused_with_the_nearest(refused) -> None:
    message = refused({**rows(), "observations": np.zeros((5, 1))}, observation="observation", ignore="o", **T)
    assert "observation names the column 'observation', which is not there. Did you mean 'observations'?" in message
    assert "which matches no column" in refused(rows(), observation="x*", ignore="o", **T)


def test_a_column_that_nothing_is_said_of_is_refused(refused, imported) -> None:
    message = refused(rows(extra=np.zeros(5), other=np.zeros(2)), **T)
    assert "nothing is said about the columns extra, other" in message
    assert "ignore: [extra, other]" in message
    assert imported(rows(extra=np.zeros(5)), ignore="ext*", **T).episodes
    assert "'gone'" in refused(rows(), ignore=["gone"], **T)
    assert imported(rows(), ignore=["gone?"], **T).episodes


def test_columns_side_by_side_have_the_same_number_of_rows(refused) -> None:
    message = refused(rows(r=np.zeros(4)), **T)
    assert "'r' (reward) has 4 rows, but 5 are expected" in message


def test_nothing_left_is_an_error(refused) -> None:
    arrays = {**rows(), "length": [1, 1, 1, 1, 1]}
    assert "No transition is left of 5 rows" in refused(arrays, **T)


def test_the_account_must_balance(imported) -> None:
    report = imported(rows(), **T).report
    report.check()
    assert report.rows == report.kept_transitions + report.last_rows == 5
    report.rows += 1
    with pytest.raises(HindcastError, match="6 rows were read"):
        report.check()
