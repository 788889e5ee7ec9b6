"""The fast encoder against the protobuf library, bit for bit."""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from rl_datasets.rlds.example import bytes_feature, encode_example, encode_varints, float_feature, int64_feature, rows_feature
from rl_datasets.rlds.quiet_tensorflow import tf

shapes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9)
int_arrays = st.sampled_from(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]).flatmap(
    lambda dtype: hnp.arrays(dtype, shapes)
)
float_arrays = hnp.arrays("float32", shapes, elements=st.floats(width=32))
byte_lists = st.lists(st.binary(max_size=300), max_size=5)
features = st.one_of(
    int_arrays.map(lambda a: (int64_feature(a), tf.train.Feature(int64_list=tf.train.Int64List(value=a.ravel().tolist())))),
    float_arrays.map(lambda a: (float_feature(a), tf.train.Feature(float_list=tf.train.FloatList(value=a.ravel())))),
    st.lists(st.binary(max_size=300), max_size=5).map(
        lambda v: (bytes_feature(v), tf.train.Feature(bytes_list=tf.train.BytesList(value=v)))
    ),
)


@given(st.dictionaries(st.text(max_size=200), features, max_size=8))
def test_equals_deterministic_protobuf(pairs):
    message = tf.train.Example(features=tf.train.Features(feature={key: proto for key, (_, proto) in pairs.items()}))
    assert encode_example({key: encoded for key, (encoded, _) in pairs.items()}) == message.SerializeToString(deterministic=True)


@given(hnp.arrays("uint8", hnp.array_shapes(min_dims=2, max_dims=4, max_side=20)))
def test_one_string_a_row(array):
    proto = tf.train.Feature(bytes_list=tf.train.BytesList(value=[row.tobytes() for row in array]))
    message = tf.train.Example(features=tf.train.Features(feature={"x": proto}))
    assert encode_example({"x": rows_feature(array)}) == message.SerializeToString(deterministic=True)


def test_varints_by_hand():
    assert encode_varints(np.array([0, 1, 127])) == b"\x00\x01\x7f"
    assert encode_varints(np.array([128, 300])) == b"\x80\x01\xac\x02"
    assert encode_varints(np.array([-1])) == b"\xff" * 9 + b"\x01"
    assert encode_varints(np.array([True, False])) == b"\x01\x00"
    assert encode_varints(np.array([2**64 - 1], np.uint64)) == encode_varints(np.array([-1]))


def test_strided_arrays_are_written_in_c_order():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert encode_example({"": float_feature(array.T)}) == encode_example({"": float_feature(array.T.copy())})
    odd = array.astype(np.uint8)[::2]
    assert rows_feature(odd) == rows_feature(odd.copy())
