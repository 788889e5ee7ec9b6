"""Episodes decoded many at once are those that are decoded one at a time, ours and foreign ones; and damage stays where it is."""

from itertools import chain

import numpy as np
import pytest
import tree

from rl_datasets.recorded import Damage, EndToEnd, Recorded
from rl_datasets.rlds import recorded as module
from rl_datasets.rlds.decoding import counts_of_varints, read_layout
from rl_datasets.rlds.quiet_tensorflow import tf
from rl_datasets.rlds.reader import RldsReader, records
from rl_datasets.rlds.recorded import read_recorded
from tests.pipelines import foreign_data


def one_at_a_time(reader):
    shards = chain.from_iterable(reader.described_shards(split) for split in reader.splits)
    return list(chain.from_iterable(reader.recorded_of(shard) for shard in shards))


def apart(items):
    for item in items:
        yield from [item.recorded(index) for index in range(len(item.episode_id))] if isinstance(item, EndToEnd) else [item]


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for (a, a_flags), (b, b_flags) in zip(found, wanted, strict=True):
        assert (a.episode_id, a.is_terminal, dict(a.metadata)) == (b.episode_id, b.is_terminal, dict(b.metadata))
        assert [type(a.metadata[key]) for key in b.metadata] == [type(value) for value in b.metadata.values()]
        tree.assert_same_structure(a.observation, b.observation)
        arrays = [([*tree.flatten(e.observation), e.action, e.reward, e.discount, flags]) for e, flags in ((a, a_flags), (b, b_flags))]
        for own, other in zip(*arrays, strict=True):
            assert (own.dtype, own.shape, own.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize("size", [1, 300, 1 << 22])
def test_ours_come_end_to_end_as_they_were_written(toy, size, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BYTES", size)
    reader = RldsReader(toy.write(tmp_path, shards=3))
    items = list(read_recorded(reader, reader.splits))
    assert all(isinstance(item, EndToEnd) for item in items)
    assert len(items) == (12 if size == 1 else 3 if size > 300 else len(items))
    assert_same(list(apart(items)), one_at_a_time(reader))


@pytest.mark.parametrize("make", [foreign_data.flat, foreign_data.grid])
def test_foreign_ones_are_aligned_alike(make, tmp_path):
    reader = RldsReader(make(tmp_path))
    items = list(read_recorded(reader, reader.splits))
    assert all(isinstance(item, EndToEnd) for item in items)
    assert_same(list(apart(items)), one_at_a_time(reader))


def test_pictures_of_their_own_encoding_come_one_at_a_time(tmp_path):
    reader = RldsReader(foreign_data.robot(tmp_path), lenient=True)
    items = list(read_recorded(reader, reader.splits))
    assert all(isinstance(item, Recorded) for item in items)
    assert_same(items, one_at_a_time(reader))


def test_what_lies_before_damage_is_there(vector, tmp_path):
    reader = RldsReader(vector.write(tmp_path, shards=3))
    shard = reader.described_shards("train")[0].path
    shard.write_bytes(shard.read_bytes()[:-7])
    whole, damage, *rest = read_recorded(reader, ["train"])
    assert list(whole.episode_id) == ["episode-00", "episode-01", "episode-02"]
    assert isinstance(damage, Damage)
    assert [len(item.episode_id) for item in rest] == [4, 4]


def test_an_episode_whose_arrays_disagree_is_told_as_ever(vector, tmp_path):
    """The third loses a step of its rewards: the two before it are read, and the rest of the file is passed over."""
    reader = RldsReader(vector.write(tmp_path, shards=1))
    shard = reader.described_shards("train")[0]
    written = list(records(shard))
    stored = read_layout(written[2])[b"steps/reward"]
    cut = written[2][: stored.start] + written[2][stored.start + 4 :]  # the lengths in front no longer fit
    with tf.io.TFRecordWriter(str(shard.path)) as file:
        for record in (*written[:2], cut, *written[3:]):
            file.write(record)
    *found, damage = read_recorded(reader, ["train"])
    assert [recorded.episode.episode_id for recorded in found] == ["episode-00", "episode-01"]
    assert isinstance(damage, Damage)
    assert "episode 2 of the file, cannot be decoded" in damage.found


def test_varints_are_counted_in_each_part():
    for content, sizes, counts in ((b"\1\2\3", [2, 1], [2, 1]), (b"\x81\1\2" + b"\x80\x80\1", [3, 3], [2, 1])):
        assert counts_of_varints(np.frombuffer(content, np.uint8), np.array(sizes)).tolist() == counts
