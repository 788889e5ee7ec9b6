"""Arrays to bytes and back, Examples in unusual forms, and the cutting of records into files."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from rl_datasets.rlds.decoding import LayoutReader, NotCanonical, decode_varints, floats, int64s, read_layout, rows, strings
from rl_datasets.rlds.example import bytes_feature, encode_example, encode_varints, int_feature
from rl_datasets.rlds.features import _array_feature, _encode_array, stored_array
from rl_datasets.rlds.quiet_tensorflow import tf, tfds
from rl_datasets.rlds.reader import _decode
from rl_datasets.rlds.shards import ShardWriter
from rl_datasets.schema import ArraySpec

X = b"x"
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"]


@given(st.data(), st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, max_dims=3, max_side=4), st.integers(1, 6))
def test_every_dtype_comes_back_bit_for_bit(data, dtype, shape, steps):
    array = data.draw(hnp.arrays(dtype, (steps, *shape)))
    spec = ArraySpec(shape, dtype)
    record = encode_example({"x": _encode_array(array)})
    found = stored_array(_array_feature(spec), "x").decode(record, read_layout(record)[X])
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


@given(hnp.arrays("int64", st.integers(0, 60)))
def test_varints_come_back(array):
    np.testing.assert_array_equal(decode_varints(encode_varints(array)), array)


@given(st.integers(-(2**63), 2**63 - 1))
def test_one_integer_comes_back(value):
    record = encode_example({"x": int_feature(value)})
    assert int64s(record, read_layout(record)[X]).tolist() == [value]


def test_lists_of_another_kind_are_empty():
    record = encode_example({"x": int_feature(1)})
    stored = read_layout(record)[X]
    assert (floats(record, stored).size, strings(record, stored), rows(record, stored, 4).shape) == (0, [], (0, 4))


def test_rows_of_unequal_size_are_an_error():
    record = encode_example({"x": bytes_feature([b"aaa", b"aa"])})
    with pytest.raises(ValueError, match=r"reshape|rows are not of"):
        rows(record, read_layout(record)[X], 3)


def test_the_unusual_form_is_brought_to_the_usual():
    """Unpacked floats and a map entry with its value before its key, which protobuf allows."""
    unpacked = b"\x0d" + np.float32(1.5).tobytes() + b"\x0d" + np.float32(2.5).tobytes()
    feature = bytes([0x12, len(unpacked)]) + unpacked
    entry = bytes([0x12, len(feature)]) + feature + b"\x0a\x07steps/x"
    features = bytes([0x0A, len(entry)]) + entry
    record = bytes([0x0A, len(features)]) + features
    with pytest.raises(NotCanonical):
        read_layout(record)
    array = stored_array(tfds.features.Tensor(shape=(), dtype=np.float32), "steps/x")
    assert _decode(record, LayoutReader(), {"x": array}, {})[0]["x"].tolist() == [1.5, 2.5]


def test_a_known_layout_is_used_only_where_it_holds():
    """The records have one size, but the second has its strings otherwise, and the third another key."""
    records = [encode_example({"x": bytes_feature(v), "y": int_feature(5)}) for v in ([b"abc", b"d"], [b"a", b"bcd"], [b"abc", b"e"])]
    records.append(encode_example({"z": bytes_feature([b"abc", b"d"]), "y": int_feature(5)}))
    assert len({len(record) for record in records}) == 1
    reader = LayoutReader()
    assert [reader.read(record) for record in records] == [read_layout(record) for record in records]
    assert strings(records[1], reader.read(records[1])[X]) == [b"a", b"bcd"]


@pytest.mark.parametrize("encoding", ["none", "bytes", "zlib"])
def test_each_encoding_of_tfds_is_read(encoding):
    feature = tfds.features.Sequence(tfds.features.Tensor(shape=(2, 3), dtype=np.int32, encoding=encoding))
    values = np.arange(24, dtype=np.int32).reshape(4, 2, 3) * 1000
    features = tfds.features.FeaturesDict({"x": feature})
    serializer = tfds.core.example_serializer.ExampleSerializer(features.get_serialized_info())
    record = serializer.serialize_example(features.encode_example({"x": values}))
    np.testing.assert_array_equal(stored_array(feature.feature, "x").decode(record, read_layout(record)[X]), values)


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=40), min_size=1, max_size=40), st.integers(20, 2000), st.none() | st.integers(1, 12))
def test_shards_are_the_records_end_to_end(tmp_path_factory, records, shard_bytes, shards):
    folder = tmp_path_factory.mktemp("shards")
    writer = ShardWriter(folder, "train", shard_bytes)
    for record in records:
        writer.write(record)
    lengths = writer.shard_lengths(shards)
    files = [folder / f"{number:03d}" for number in range(len(lengths))]
    writer.finish(files, lengths)
    assert sorted(folder.iterdir()) == files
    assert [record.numpy() for record in tf.data.TFRecordDataset([str(file) for file in files])] == records
    ends = np.cumsum(lengths)
    parts = [records[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    assert [file.stat().st_size for file in files] == [sum(16 + len(record) for record in part) for part in parts]  # 16: of its frame
    assert min(lengths) > 0
    assert ends[-1] == len(records)
    if shards:
        assert len(lengths) == min(shards, len(records))
    elif sum(map(len, records)) < 8 * shard_bytes:
        assert len(lengths) == min(8, len(records))
