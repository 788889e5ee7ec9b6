"""Every way of marking where episodes end, on three hand-made episodes; and the ways in which the marks can be wrong.

Episode 0 has one transition and is truncated, episode 1 has three and is terminal, episode 2 has two and its end is a time limit.
"""

from typing import Any

import numpy as np
import pytest

LENGTHS = (1, 3, 2)
O = np.array([0.0, 100.0, 101.0, 102.0, 200.0, 201.0], np.float32)  # noqa: E741
NEXT = np.array([1.0, 101.0, 102.0, 103.0, 201.0, 202.0], np.float32)
A = O / 1000
R = O + 0.5
ROWS = {"o": O, "n": NEXT, "a": A, "r": R}
TERMINAL, TRUNCATED = [0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1]
WITH_NEXT = {"next_observation": "n"}

# T + 1 rows an episode
STEPS = {"o": [0, 1, 100, 101, 102, 103, 200, 201, 202], "terminal": [0, 0, 0, 0, 0, 1, 0, 0, 0], "end": [0, 1, 0, 0, 0, 1, 0, 0, 1]}
STEPS |= {"a": [0, 9, 0.1, 0.101, 0.102, 9, 0.2, 0.201, 9], "r": [0.5, 9, 100.5, 101.5, 102.5, 9, 200.5, 201.5, 9]}
STEPS = {name: np.array(values, np.float32) for name, values in STEPS.items()}

FLAGS = {"terminal": "terminal", "truncated": "truncated"}
FLAGGED = {**ROWS, "terminal": TERMINAL, "truncated": TRUNCATED}
BOTH_KINDS = {"terminal": "terminal", "unflagged": "truncated"}


def expected(last: bool = True) -> list[list[tuple[float, ...]]]:
    """The transitions of all three; without `last`, those whose next observation is on a row of its own."""
    episodes, row = [], 0
    for length in LENGTHS:
        rows = range(row, row + length - (not last))
        terminal = [TERMINAL[i] for i in rows]
        episodes.append([(float(O[i]), float(A[i]), float(R[i]), 1.0 - end, float(NEXT[i])) for i, end in zip(rows, terminal, strict=True)])
        row += length
    return [episode for episode in episodes if episode]


def shifted(values: Any, lengths: tuple[int, ...]) -> np.ndarray:
    """One row later in each episode, as rewards that come with the observation after them."""
    parts = np.split(np.asarray(values), np.cumsum(lengths)[:-1])
    return np.concatenate([np.append(np.float32(0), part[:-1]) for part in parts])


ORDER = np.array([4, 1, 0, 5, 3, 2])
IDS = np.array(["x", "y", "y", "y", "z", "z"])
SHUFFLED = {name: np.asarray(values)[ORDER] for name, values in {**FLAGGED, "id": IDS, "t": [7, 0, 1, 2, 3, 4]}.items()}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "flags": (FLAGGED, {"ends": {"kind": "flags"}, **FLAGS, **WITH_NEXT}),
    "flags of bool in a column of one": (
        {**ROWS, "terminal": np.array(TERMINAL, bool)[:, None], "truncated": np.array(TRUNCATED, bool)},
        {"ends": {"kind": "flags"}, **FLAGS, **WITH_NEXT},
    ),
    "a value that means terminal": (
        {**ROWS, "kind": np.array([2, 1, 1, 3, 1, 2])},
        {
            "ends": {"kind": "flags"},
            "terminal": {"columns": "kind", "equals": 3},
            "truncated": {"columns": "kind", "equals": 2},
            **WITH_NEXT,
        },
    ),
    "a flag for either kind of end": (
        {**ROWS, "end": [1, 0, 0, 1, 0, 1], "terminal": TERMINAL},
        {"ends": {"kind": "flags", "column": "end"}, "terminal": "terminal", **WITH_NEXT},
    ),
    "starts": (
        {**ROWS, "start": [1, 1, 0, 0, 1, 0], "terminal": TERMINAL},
        {"ends": {"kind": "starts", "column": "start"}, **BOTH_KINDS, **WITH_NEXT},
    ),
    "split points": (
        {**ROWS, "at": [1, 4], "terminal": TERMINAL},
        {"ends": {"kind": "indices", "column": "at"}, **BOTH_KINDS, **WITH_NEXT},
    ),
    "ends after": (
        {**ROWS, "at": [1, 4, 6], "terminal": TERMINAL},
        {"ends": {"kind": "indices", "column": "at"}, **BOTH_KINDS, **WITH_NEXT},
    ),
    "last rows": (
        {**ROWS, "at": [0, 3, 5], "terminal": TERMINAL},
        {"ends": {"kind": "indices", "column": "at", "at": "last"}, **BOTH_KINDS, **WITH_NEXT},
    ),
    "lengths": (
        {**ROWS, "length": LENGTHS, "terminal": [0, 1, 0]},  # one flag an episode
        {"ends": {"kind": "lengths", "column": "length"}, **BOTH_KINDS, **WITH_NEXT},
    ),
    "ids": ({**ROWS, "id": IDS, "terminal": TERMINAL}, {"ends": {"kind": "ids", "column": "id"}, **BOTH_KINDS, **WITH_NEXT}),
    "numbers as ids": (
        {**ROWS, "id": [7.0, 3.0, 3.0, 3.0, 5.0, 5.0], "terminal": TERMINAL},
        {"ends": {"kind": "ids", "column": "id"}, **BOTH_KINDS, **WITH_NEXT},
    ),
    "breaks": ({**ROWS, "terminal": TERMINAL}, {"ends": {"kind": "breaks"}, **BOTH_KINDS, **WITH_NEXT}),
    "steps": (STEPS, {"ends": {"kind": "flags", "column": "end"}, "terminal": "terminal", "rows": "steps"}),
    "steps with rewards a row late": (
        {**STEPS, "r": shifted(STEPS["r"], (2, 4, 3))},
        {"ends": {"kind": "flags", "column": "end"}, "terminal": "terminal", "rows": "steps", "reward_offset": 1},
    ),
    "steps with rewards and actions a row late": (
        {**STEPS, "r": shifted(STEPS["r"], (2, 4, 3)), "a": shifted(STEPS["a"], (2, 4, 3))},
        {"ends": {"kind": "lengths", "column": "length"}, "terminal": "terminal", "rows": "steps", "reward_offset": 1, "action_offset": 1},
    ),
    "one more observation an episode": (
        {**ROWS, "o": STEPS["o"], "length": LENGTHS, "terminal": TERMINAL},
        {"ends": {"kind": "lengths", "column": "length"}, **BOTH_KINDS, "rows": "extra_observation", "ignore": "n"},
    ),
}
CASES["steps with rewards and actions a row late"][0]["length"] = (2, 4, 3)
CASES["steps with rewards and actions a row late"][1]["ignore"] = "end"


@pytest.mark.parametrize("case", CASES)
def test_each_way_of_marking_ends_gives_the_same_transitions(imported, case) -> None:
    arrays, options = CASES[case]
    found = imported(arrays, **options)
    assert found.transitions == expected()
    assert [episode.is_terminal for episode in found.episodes] == [False, True, False]
    assert found.report.kept_transitions == sum(LENGTHS)
    assert found.report.terminals == 1
    assert not found.report.dropped


def test_a_fixed_length(imported) -> None:
    arrays = {
        "o": [0, 1, 100, 101, 200, 201],
        "n": [1, 2, 101, 102, 201, 202],
        "a": np.zeros(6),
        "r": np.arange(6.0),
        "terminal": [0, 1, 0, 0, 0, 0],
    }
    arrays["o"], arrays["n"] = np.float32(arrays["o"]), np.float32(arrays["n"])
    found = imported(arrays, ends={"kind": "fixed", "length": 2}, terminal="terminal", next_observation="n")
    assert [[(o, r, discount) for o, _, r, discount, _ in episode] for episode in found.transitions] == [
        [(0, 0, 1), (1, 1, 0)],
        [(100, 2, 1), (101, 3, 1)],
        [(200, 4, 1), (201, 5, 1)],
    ]
    with_tail = imported(arrays, ends={"kind": "fixed", "length": 4}, next_observation=None, ignore=["n", "terminal"], tail="drop")
    assert [episode.length for episode in with_tail.episodes] == [3]
    assert sum(with_tail.report.dropped.values()) == 3


def test_the_groups_of_a_file(imported) -> None:
    groups = {"o": [2, 4, 3], "a": [1, 3, 2], "r": [1, 3, 2], "terminal": [1, 3, 2]}
    arrays = {"o": STEPS["o"], "a": A, "r": R, "terminal": TERMINAL}
    found = imported(arrays, groups, ends={"kind": "groups"}, terminal="terminal", rows="extra_observation")
    assert found.transitions == expected()
    assert [episode.episode_id for episode in found.episodes] == ["demo_0", "demo_1", "demo_2"]


@pytest.mark.parametrize("gaps", ["allow", "refuse"])
def test_ids_with_a_sequence_bring_rows_into_order(imported, gaps) -> None:
    arrays = dict(SHUFFLED) if gaps == "allow" else {**SHUFFLED, "t": np.array([0, 0, 1, 2, 0, 1])[ORDER]}
    ends = {"kind": "ids", "column": "id", "sequence": "t", "gaps": gaps}
    found = imported(arrays, ends=ends, **FLAGS, **WITH_NEXT)
    by_id = dict(zip([episode.episode_id for episode in found.episodes], found.transitions, strict=True))
    assert list(by_id) == ["z", "y", "x"]  # in the order of first appearance
    assert [by_id[name] for name in "xyz"] == expected()


def test_an_id_of_two_columns(imported) -> None:
    houses = {"x": "a", "y": "a/1", "z": "a\\"}
    arrays = {**SHUFFLED, "house": np.array([houses[name] for name in SHUFFLED["id"]]), "day": np.full(6, 7)}
    ends = {"kind": "ids", "column": ["house", "day"], "sequence": "t", "gaps": "allow"}
    found = imported(arrays, ends=ends, ignore="id", **FLAGS, **WITH_NEXT)
    by_id = dict(zip([episode.episode_id for episode in found.episodes], found.transitions, strict=True))
    assert by_id == dict(zip(["a/7", "a\\/1/7", "a\\\\/7"], expected(), strict=True))


@pytest.mark.parametrize("arrays", [{name: FLAGGED[name] for name in FLAGGED if name != "n"}])
def test_without_a_next_observation_the_last_transition_is_dropped_and_counted(imported, arrays) -> None:
    found = imported(arrays, ends={"kind": "flags"}, **FLAGS)
    assert found.transitions == [[(*t[:3], 1.0, t[4]) for t in episode] for episode in expected(last=False)]
    assert not any(episode.is_terminal for episode in found.episodes)
    assert sum(found.report.dropped.values()) == 3
    assert sum(found.report.dropped_episodes.values()) == 1
    assert "3 transitions were dropped: no observation follows" in found.notes
    assert "1 episode lost its terminal transition" in found.notes


def test_a_terminal_transition_is_kept_where_its_observation_is_declared_to_repeat(imported) -> None:
    arrays = {name: FLAGGED[name] for name in FLAGGED if name != "n"}
    found = imported(arrays, ends={"kind": "flags"}, **FLAGS, lost_observation="repeat")
    assert found.transitions[0] == [*expected()[1][:2], (102.0, pytest.approx(0.102), 102.5, 0.0, 102.0)]
    assert found.episodes[0].is_terminal
    assert "1 terminal transition has no observation after it" in found.notes
    assert sum(found.report.dropped.values()) == 2


def rows(count: int) -> dict[str, np.ndarray]:
    return {
        "o": np.arange(count, dtype=np.float32),
        "n": np.arange(count, dtype=np.float32) + 1,
        "a": np.zeros(count),
        "r": np.arange(count) * 1.0,
    }


def test_terminals_and_a_tail_without_a_flag(imported) -> None:
    found = imported({**rows(6), "end": [0, 1, 1, 0, 1, 0]}, ends={"kind": "flags"}, terminal="end", next_observation="n")
    assert [(e.length, e.is_terminal) for e in found.episodes] == [(2, True), (1, True), (2, True), (1, False)]
    assert "1 part ends in rows after the last end" in found.notes
    dropped = imported({**rows(6), "end": [0, 1, 1, 0, 1, 0]}, ends={"kind": "flags"}, terminal="end", next_observation="n", tail="drop")
    assert [(e.length, e.is_terminal) for e in dropped.episodes] == [(2, True), (1, True), (2, True)]
    assert dict(dropped.report.dropped) == {"they follow the last end of the file (tail: drop)": 1}


def test_timeouts_at_rows_0_1_and_5(imported) -> None:
    found = imported({**rows(6), "end": np.isin(np.arange(6), (0, 1, 5))}, ends={"kind": "flags"}, truncated="end", next_observation="n")
    assert [(e.length, e.is_terminal) for e in found.episodes] == [(1, False), (1, False), (4, False)]
    assert found.episodes[2].observation[:, 0].tolist() == [2, 3, 4, 5, 6]
    np.testing.assert_array_equal(found.episodes[2].discount, [1, 1, 1, 1, 0])


def test_terminal_goes_before_a_time_limit_on_the_same_row(imported) -> None:
    arrays = {**rows(3), "end": [0, 0, 1], "limit": [0, 0, 1]}
    found = imported(arrays, ends={"kind": "flags"}, terminal="end", truncated="limit", next_observation="n")
    assert found.episodes[0].is_terminal
    assert "1 episode ends with terminal and truncated both set" in found.notes


def test_a_terminal_on_the_step_limit_is_repaired_only_where_declared(imported) -> None:
    arrays = {**rows(5), "end": [0, 1, 0, 0, 1]}
    options = {"ends": {"kind": "flags"}, "terminal": "end", "next_observation": "n", "max_episode_steps": 3}
    kept, repaired = imported(arrays, **options), imported(arrays, **options, time_limit="repair")
    assert [e.is_terminal for e in kept.episodes] == [True, True]
    assert "1 terminal is on the limit of 3 steps and was kept" in kept.notes
    assert [e.is_terminal for e in repaired.episodes] == [True, False]
    assert repaired.report.counts()["repaired_time_limits"] == 1
    np.testing.assert_array_equal(repaired.episodes[1].discount, [1, 1, 1, 0])


def test_ends_without_a_flag_are_what_is_declared(imported) -> None:
    options = {"ends": {"kind": "lengths", "column": "length"}, "next_observation": "n"}
    truncated = imported({**rows(3), "length": [1, 2]}, **options)
    terminal = imported({**rows(3), "length": [1, 2]}, **options, unflagged="terminal")
    assert [e.is_terminal for e in truncated.episodes] == [False, False]
    assert [e.is_terminal for e in terminal.episodes] == [True, True]
    assert "2 episodes end without a flag and count as terminal" in terminal.notes


FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "lengths that fall short": (
        {"length": [2, 3]},
        {"ends": {"kind": "lengths", "column": "length"}},
        ["add up to 5", "6 rows", "row 5 is in none"],
    ),
    "lengths that go beyond": (
        {"length": [2, 3, 4]},
        {"ends": {"kind": "lengths", "column": "length"}},
        ["add up to 9", "6 rows", "row 2 of 'length'"],
    ),
    "a length of 0": ({"length": [2, 0, 4]}, {"ends": {"kind": "lengths", "column": "length"}}, ["row 1 of 'length'", "is 0"]),
    "a negative length": ({"length": [7, -1]}, {"ends": {"kind": "lengths", "column": "length"}}, ["row 1 of 'length'", "is -1"]),
    "half a row": ({"length": [1.5, 4.5]}, {"ends": {"kind": "lengths", "column": "length"}}, ["row 0 of 'length'", "1.5", "whole number"]),
    "ends that fall": ({"at": [4, 2]}, {"ends": {"kind": "indices", "column": "at"}}, ["row 1 of 'at'", "before row 2", "(4)"]),
    "an end beyond": ({"at": [4, 9]}, {"ends": {"kind": "indices", "column": "at"}}, ["row 1 of 'at'", "before row 9", "(6)"]),
    "an end at 0": ({"at": [0, 6]}, {"ends": {"kind": "indices", "column": "at"}}, ["row 0 of 'at'", "before row 0"]),
    "a first row that is no start": (
        {"s": [0, 0, 1, 0, 0, 0]},
        {"ends": {"kind": "starts", "column": "s"}},
        ["row 0", "the first is row 2"],
    ),
    "no start": ({"s": np.zeros(6)}, {"ends": {"kind": "starts", "column": "s"}}, ["row 0", "there is none"]),
    "a flag that is 2": ({"end": [0, 0, 2, 0, 0, 1]}, {"ends": {"kind": "flags"}, "terminal": "end"}, ["row 2", "'end'", "2", "0 or 1"]),
    "a flag that is no number": (
        {"end": [0, np.nan, 0, 0, 0, 1]},
        {"ends": {"kind": "flags"}, "terminal": "end"},
        ["row 1", "nan", "0 or 1"],
    ),
    "a terminal within an episode": (
        {"length": [2, 4], "end": [0, 1, 0, 1, 0, 0]},
        {"ends": {"kind": "lengths", "column": "length"}, "terminal": "end"},
        ["row 3", "'end' (terminal)", "goes on to row 5", "inner_flags"],
    ),
    "ids that come back": (
        {"id": [1, 1, 2, 2, 1, 1]},
        {"ends": {"kind": "ids", "column": "id"}},
        ["row 4", "'1'", "first on row 0", "sequence"],
    ),
    "an id that is missing": ({"id": [1, 1, np.nan, 2, 2, 2]}, {"ends": {"kind": "ids", "column": "id"}}, ["row 2", "'id' is missing"]),
    "an empty id": (
        {"id": np.array(["a", "a", "", "b", "b", "b"])},
        {"ends": {"kind": "ids", "column": "id"}},
        ["row 2", "'id' is missing"],
    ),
    "a gap": (
        {"id": [1, 1, 1, 2, 2, 2], "t": [0, 1, 3, 0, 1, 2]},
        {"ends": {"kind": "ids", "column": "id", "sequence": "t"}},
        ["row 2", "episode '1'", "1 and then 3", "gaps: allow"],
    ),
    "a number twice": (
        {"id": [1, 1, 1, 2, 2, 2], "t": [2, 1, 1, 0, 1, 2]},
        {"ends": {"kind": "ids", "column": "id", "sequence": "t", "gaps": "allow"}},
        ["row 2", "episode '1'", "1 twice"],
    ),
    "flags of another length": ({"end": [0, 1]}, {"ends": {"kind": "flags"}, "terminal": "end"}, ["'end' has 2 rows", "6 rows of actions"]),
    "flags neither a row nor an episode": (
        {"length": [2, 4], "end": [0, 1, 0]},
        {"ends": {"kind": "lengths", "column": "length"}, "terminal": "end"},
        ["'end' has 3 rows", "(6)", "(2)"],
    ),
    "a jump within an episode": (
        {"length": [6], "n": np.float32([1, 2, 9, 4, 5, 6])},
        {"ends": {"kind": "lengths", "column": "length"}},
        ["row 2", "next_observation is not the observation", "9.0 and then 3.0", "breaks", "tolerance"],
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_marks_that_are_wrong_are_refused_with_the_row_named(refused, case) -> None:
    arrays, options, words = FAULTS[case]
    message = refused({**rows(6), **arrays}, next_observation="n", **options)
    assert message.startswith("toy.npz")
    assert all(word in message for word in words), message


def test_rows_in_messages_are_those_of_the_file(refused) -> None:
    arrays = {**SHUFFLED, "terminal": np.array([0, 0, 2, 0, 0, 0])[np.argsort(ORDER)][ORDER]}
    message = refused(arrays, ends={"kind": "ids", "column": "id", "sequence": "t", "gaps": "allow"}, **FLAGS, **WITH_NEXT)
    assert f"row {int(np.flatnonzero(arrays['terminal'] == 2)[0])}" in message


def test_a_difference_within_the_tolerance_is_none(imported) -> None:
    arrays = {**rows(3), "n": np.float32([1.0005, 2, 3]), "length": [3]}
    found = imported(arrays, ends={"kind": "lengths", "column": "length"}, next_observation="n", tolerance=1e-3)
    assert found.episodes[0].observation[:, 0].tolist() == [0, 1, 2, 3]


def test_blocks_do_not_change_what_comes_out(imported, monkeypatch) -> None:
    from rl_datasets.importing import convert, ends, flags

    arrays, options = CASES["flags"]
    whole = imported(arrays, **options).transitions
    monkeypatch.setattr(convert, "BLOCK_BYTES", 1)
    monkeypatch.setattr(flags, "BLOCK_ROWS", 2)
    monkeypatch.setattr(ends, "BLOCK_ROWS", 2)
    for case in ("flags", "ids", "breaks", "steps", "one more observation an episode"):
        arrays, options = CASES[case]
        assert imported(arrays, **options).transitions == whole, case
