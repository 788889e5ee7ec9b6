"""The order of a stream: every transition of an epoch once, and batches that do not depend on how they are asked for."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from rl_datasets.windows import Plan

LENGTHS = (5, 9, 4, 12, 7, 7)  # transitions of each shard; a shard of n transitions here has n + 1 steps


def plan(window_steps: int, batch_size: int = 4) -> Plan:
    return Plan(tuple(n + 1 for n in LENGTHS), LENGTHS, window_steps, batch_size)


def rows(a_plan: Plan, start: int, scan: int) -> list[tuple[int, int, int]]:
    """(epoch, window, position) of every row of some batches."""
    return [
        (segment.epoch, segment.window, segment.begin + i)
        for segment in a_plan.segments(start, scan)
        for i in range(segment.target.stop - segment.target.start)
    ]


def test_all_shards_are_one_window_where_they_fit():
    assert plan(50).is_global
    assert plan(50).windows(3) == [[0, 1, 2, 3, 4, 5]]
    assert not plan(49).is_global


@given(st.integers(13, 49), st.integers(0, 1000))
def test_windows_hold_each_shard_once_and_keep_the_cap(window_steps, epoch):
    windows = plan(window_steps).windows(epoch)
    assert sorted(shard for window in windows for shard in window) == list(range(6))
    assert all(sum(LENGTHS[shard] + 1 for shard in window) <= window_steps for window in windows)


def test_the_order_of_shards_changes_from_epoch_to_epoch():
    assert len({str(plan(14).windows(epoch)) for epoch in range(20)}) > 10


@given(st.sampled_from([13, 20, 49, 50]), st.integers(1, 44))
def test_an_epoch_visits_each_position_once_and_drops_only_its_tail(window_steps, batch_size):
    a_plan = plan(window_steps, batch_size)
    visited = rows(a_plan, a_plan.batches_per_epoch * 2, a_plan.batches_per_epoch)
    everything = [(2, w, i) for w, shards in enumerate(a_plan.windows(2)) for i in range(a_plan.size(shards))]
    assert visited == everything[: 44 // batch_size * batch_size]


@given(st.sampled_from([13, 20, 50]), st.integers(0, 40), st.integers(1, 30))
def test_superbatches_are_batches_end_to_end(window_steps, start, scan):
    a_plan = plan(window_steps)
    assert rows(a_plan, start, scan) == [row for batch in range(start, start + scan) for row in rows(a_plan, batch, 1)]


def test_a_position_outside_an_epoch_is_an_error():
    with pytest.raises(IndexError):
        plan(50)._locate(0, sum(LENGTHS))


def test_targets_fill_a_superbatch():
    targets = [segment.target for segment in plan(13).segments(7, 9)]
    assert np.concatenate([np.arange(target.start, target.stop) for target in targets]).tolist() == list(range(36))
