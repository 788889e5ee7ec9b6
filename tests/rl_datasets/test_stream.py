"""The stream: right transitions, an order that is a function of seed and batch, and memory under the cap."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.rlds import write_rlds
from rl_datasets.rlds.quiet_tensorflow import tf
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.stream import Part, Stream, Superbatch, open_stream
from rl_datasets.stream import _empty as empty

TRANSITIONS = 69  # of the toy data sets
WINDOWED = 1  # MB: far less than the data of `wide`


@pytest.fixture
def folder(toy, tmp_path):
    return toy.write(tmp_path)


@pytest.fixture
def wide(tmp_path):
    """2 MB in 24 shards, which under a cap of 1 MB are windows of a few shards each."""
    spec = EnvSpec("e", ArraySpec((100,), "float32"), ArraySpec((), "float32"))
    metadata = {"seed": 0, "policy": "p", "environment": "e"}

    def episode(index):
        at = np.arange(700 // (index + 1) + 100, dtype=np.float32) + 1000 * index
        return Episode(str(index), np.repeat(at[:, None], 100, axis=1), at, at, np.ones_like(at), False, metadata)

    write_rlds(tmp_path, "wide", "1.0.0", spec, {"train": map(episode, range(24))}, shards=24)
    return tmp_path


def opened(folder, batch_size=8, readers=2, memory_cap_mb=64) -> Stream:
    return open_stream(folder, "train", batch_size=batch_size, readers=readers, memory_cap_mb=memory_cap_mb)


def take(stream: Stream, seeds, scan, start, batches) -> Superbatch:
    """`batches` consecutive batches as one superbatch."""
    parts = islice(stream.batches(seeds, scan, start), -(-batches // scan))
    return tree.map_structure(lambda *leaves: np.concatenate(leaves, axis=1)[:, :batches], *parts)


def transitions_of(toy):
    """Every transition in stored order, from the episodes themselves."""
    rows = []
    for episode in toy.episodes:
        leaves = tree.flatten(episode.observation)
        for t in range(episode.length):
            discount = 0.0 if episode.is_terminal and t == episode.length - 1 else 1.0
            rows.append(([leaf[t] for leaf in leaves], episode.action[t], episode.reward[t], discount, [leaf[t + 1] for leaf in leaves]))
    return rows


def test_each_row_is_the_transition_that_its_index_names(toy, folder):
    transition, index = take(opened(folder), [0], 4, 0, 8)
    expected = transitions_of(toy)
    for place in np.ndindex(index.shape):
        observation, action, reward, discount, next_observation = expected[index[place]]
        for found, leaf in zip(tree.flatten(transition.observation), observation, strict=True):
            np.testing.assert_array_equal(found[place], leaf)
        for found, leaf in zip(tree.flatten(transition.next_observation), next_observation, strict=True):
            np.testing.assert_array_equal(found[place], leaf)
        np.testing.assert_array_equal(transition.action[place], action)
        assert (transition.reward[place], transition.discount[place]) == (reward, discount)


def test_a_next_action_is_the_episodes_next_one_and_there_is_none_at_its_end(toy, folder, wide):
    stream = open_stream(folder, "train", batch_size=8, readers=2, memory_cap_mb=64, next_action=True)
    transition, index = take(stream, [0], 4, 0, 8)
    expected = [(episode.action[t + 1], float(t + 1 < episode.length)) for episode in toy.episodes for t in range(episode.length)]
    for place in np.ndindex(index.shape):
        action, exists = expected[index[place]]
        assert transition.next_action.exists[place] == exists
        if exists:
            np.testing.assert_array_equal(transition.next_action.action[place], action)
    np.testing.assert_array_equal(stream.table().follows, [exists for _, exists in expected])
    windows = open_stream(wide, "train", batch_size=8, readers=2, memory_cap_mb=WINDOWED, next_action=True)
    transition, _ = take(windows, [0], 64, 0, 200)
    following, exists = transition.next_action  # actions there count on by one
    np.testing.assert_array_equal(following[exists == 1], transition.action[exists == 1] + 1)
    assert next(opened(folder).batches([0], 1)).transition.next_action == ()


def test_nests_and_dtypes_are_those_of_the_spec(toy, folder):
    transition, index = next(opened(folder).batches([0, 1, 2], 5))
    for nest, spec in ((transition.observation, toy.spec.observation), (transition.next_observation, toy.spec.observation)):
        tree.assert_same_structure(nest, spec)
        for leaf, leaf_spec in zip(tree.flatten(nest), tree.flatten(spec), strict=True):
            assert (leaf.shape, leaf.dtype) == ((3, 5, 8, *leaf_spec.shape), leaf_spec.dtype)
            assert leaf.flags.c_contiguous
    assert transition.action.shape == (3, 5, 8, *toy.spec.action.shape)
    assert (transition.reward.dtype, transition.discount.dtype, index.dtype) == (np.float32, np.float32, np.int64)


def test_every_dtype_that_is_stored_comes_through(tmp_path):
    names = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32")
    spec = EnvSpec("e", {name: ArraySpec((2,), name) for name in names}, ArraySpec((), "uint64"))
    top = np.array([0, 2**64 - 1], np.uint64)
    observation = {name: np.array([[0, 1], [1, 1]], name) for name in names}
    metadata = {"seed": 0, "policy": "p", "environment": "e"}
    episode = Episode("0", observation, top[::-1], np.zeros(2, np.float32), np.zeros(2, np.float32), False, metadata)
    write_rlds(tmp_path, "wide", "1.0.0", spec, {"train": [episode]})
    transition, _ = next(opened(tmp_path, batch_size=1).batches([0], 1))
    for name in names:
        np.testing.assert_array_equal(transition.next_observation[name], observation[name][None, None, 1:], strict=True)
    np.testing.assert_array_equal(transition.action, top[None, None, 1:], strict=True)


def test_the_dataset_holds_the_batches(toy, folder):
    stream = opened(folder)
    dataset = stream.dataset([0, 4], 3, start=7)
    assert isinstance(dataset, tf.data.Dataset)
    assert all(leaf.shape[:3] == (2, 3, 8) for leaf in tree.flatten(dataset.element_spec))
    for _ in range(2):  # each iterator begins anew
        for found, expected in zip(dataset.take(3), stream.batches([0, 4], 3, start=7), strict=False):
            assert isinstance(found, Superbatch)
            tree.map_structure(lambda a, b: np.testing.assert_array_equal(a.numpy(), b, strict=True), found, expected)


def test_arrays_pass_through_tensorflow_without_a_copy(monkeypatch, folder):
    made = []
    monkeypatch.setattr("rl_datasets.stream._empty", lambda *args: made.append(empty(*args)) or made[-1])
    batch = next(opened(folder).batches([0], 2))
    addresses = {leaf.ctypes.data for superbatch in made for leaf in tree.flatten(superbatch)}
    assert {leaf.ctypes.data for leaf in tree.flatten(batch)} <= addresses


def test_an_epoch_is_every_transition_once_but_for_the_tail(folder):
    stream = opened(folder)
    assert (stream.transitions, stream.batches_per_epoch, stream.dropped, stream.is_global) == (TRANSITIONS, 8, 5, True)
    epochs = take(stream, [0], 8, 0, 16).index.reshape(2, 64)
    for epoch in epochs:
        assert len(set(epoch.tolist())) == 64
    assert set(epochs[0].tolist()) != set(epochs[1].tolist())
    assert epochs[0].tolist() != sorted(epochs[0].tolist())


def test_batches_that_divide_the_data_drop_nothing(folder):
    stream = opened(folder, batch_size=23)
    assert stream.dropped == 0
    assert sorted(take(stream, [5], 1, 3, 3).index.ravel().tolist()) == list(range(TRANSITIONS))


def test_the_order_is_fixed_for_all_time(vector, tmp_path):
    assert take(opened(vector.write(tmp_path)), [0], 1, 0, 1).index.ravel().tolist() == [40, 50, 18, 2, 11, 68, 9, 20]


@pytest.mark.parametrize("cap", [64, WINDOWED])
def test_batches_depend_on_nothing_but_seed_and_number(wide, cap):
    reference = take(opened(wide, 64, memory_cap_mb=cap), [0, 3], 1, 0, 120)  # more than an epoch
    for readers, scan, start in ((1, 7, 0), (8, 64, 0), (2, 5, 50), (8, 1, 90)):
        found = take(opened(wide, 64, readers, cap), [0, 3], scan, start, 120 - start)
        tree.map_structure(lambda a, b, start=start: np.testing.assert_array_equal(a, b[:, start:]), found, reference)
    alone = take(opened(wide, 64, memory_cap_mb=cap), [3], 9, 0, 120)
    tree.map_structure(lambda a, b: np.testing.assert_array_equal(a, b[1:]), alone, reference)
    assert (reference.index[0] != reference.index[1]).mean() > 0.9


def test_windows_hold_the_same_transitions(wide):
    stream = opened(wide, 64, memory_cap_mb=WINDOWED)
    assert not stream.is_global
    epochs = take(stream, [0], 10, 0, 2 * stream.batches_per_epoch)
    for epoch in np.split(epochs.index[0], 2):
        assert len(np.unique(epoch)) == epoch.size == stream.transitions - stream.dropped
    everything = take(opened(wide, stream.transitions), [0], 1, 0, 1)
    stored = dict(zip(everything.index.ravel().tolist(), everything.transition.reward.ravel().tolist(), strict=True))
    assert [stored[i] for i in epochs.index.ravel().tolist()] == epochs.transition.reward.ravel().tolist()


def test_a_batch_larger_than_the_data(folder):
    with pytest.raises(HindcastError, match="has 69 transitions, fewer than a batch of 70"):
        opened(folder, batch_size=70)


def test_a_cap_that_holds_no_two_shards(tmp_path):
    steps = np.zeros((3000, 100), np.float32)
    metadata = {"seed": 0, "policy": "p", "environment": "e"}
    episode = Episode("0", steps, steps[:, 0], steps[:, 0], steps[:, 0], False, metadata)
    write_rlds(tmp_path, "wide", "1.0.0", EnvSpec("e", ArraySpec((100,), "float32"), ArraySpec((), "float32")), {"train": [episode]})
    with pytest.raises(HindcastError, match=r"largest shard 1.2 MB, but memory_cap_mb = 1 must hold"):
        opened(tmp_path, memory_cap_mb=1)


def test_damage_met_while_reading_reaches_the_caller(folder):
    shard = sorted(folder.glob("*.tfrecord-*"))[2]
    shard.write_bytes(shard.read_bytes()[:-5])
    with pytest.raises(HindcastError, match=f"{shard.name} .* is damaged"):
        next(opened(folder).batches([0], 2))


LEAVE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from rl_datasets.stream import open_stream

stream = open_stream(Path(sys.argv[2]), "train", batch_size=64, readers=2, memory_cap_mb=1)
dropped, held = stream.batches([0], 64), stream.batches([0], 64)
next(dropped), next(held)
del dropped
"""


@pytest.mark.slow
def test_leaving_early_is_silent(wide):
    """At the end of the process, windows are still being read."""
    datasets = str(Path(__file__).parents[2] / "datasets")
    command = [sys.executable, "-W", "error", "-c", LEAVE, datasets, str(wide)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


MEASURE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from rl_datasets.rlds import write_rlds
from rl_datasets.rlds.quiet_tensorflow import tf
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.stream import open_stream

def resident(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) / 1024

steps = np.ones((2500, 99), np.float32)
metadata = {"seed": 0, "policy": "p", "environment": "e"}
episodes = (Episode(str(i), steps, steps[:, 0], steps[:, 0], steps[:, 0], False, metadata) for i in range(64))
spec = EnvSpec("e", ArraySpec((99,), "float32"), ArraySpec((), "float32"))
write_rlds(Path(sys.argv[2]), "big", "1.0.0", spec, {"train": episodes}, shards=32)
del steps, episodes
numbers = tf.data.Dataset.from_generator(lambda: range(3), output_signature=tf.TensorSpec((), tf.int64))
list(numbers.prefetch(1).as_numpy_iterator())  # what tf.data itself takes
open("/proc/self/clear_refs", "w").write("5")  # the peak counts from here
before = resident("VmRSS")
stream = open_stream(Path(sys.argv[2]), "train", batch_size=256, readers=2, memory_cap_mb=CAP)
peaks = []
batches = stream.batches([0, 1, 2], 16)
for epoch in range(3):
    for _ in range(stream.batches_per_epoch // 16):
        next(batches)
    peaks.append(resident("VmHWM") - before)
print(*peaks, stream.is_global)
"""


@pytest.mark.slow
def test_memory_levels_off_under_the_cap(tmp_path):
    """61 MB of data under a cap of 16 MB, in a process of its own."""
    datasets = str(Path(__file__).parents[2] / "datasets")
    command = [sys.executable, "-c", MEASURE.replace("CAP", "16"), datasets, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    *peaks, is_global = result.stdout.split()
    first, _, third = map(float, peaks)
    assert is_global == "False"
    assert third < 16 + 40  # beside the windows: three superbatches of 10 MB, and one episode a reader
    assert third < first + 12


@pytest.mark.parametrize(("cap", "count"), [(64, 2), (WINDOWED, 4)])
def test_parts_are_the_rows_of_the_same_batches(wide, cap, count):
    """Each of several processes feeds its own rows, and they need not start where a window does."""
    whole = take(opened(wide, 24, memory_cap_mb=cap), [3, 0], 5, 7, 40)
    for number in range(count):
        stream = opened(wide, 24, memory_cap_mb=cap)
        parts = list(islice(stream.batches([3, 0], 5, 7, Part(number, count)), 8))
        rows = slice(number * 24 // count, (number + 1) * 24 // count)
        part = tree.map_structure(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
        tree.map_structure(lambda a, b, rows=rows: np.testing.assert_array_equal(a, b[:, :, rows]), part, whole)


def test_a_batch_that_cannot_be_shared_evenly(folder):
    with pytest.raises(HindcastError, match="batch_size is 8, but 3 processes are to share each batch evenly"):
        opened(folder).batches([0], 4, 0, Part(1, 3))


def test_the_table_and_its_indices_are_the_batches(toy, folder):
    stream = opened(folder)
    table = stream.table()
    for start in (0, 13):
        batches, indices = stream.batches([5, 1], 6, start), stream.indices([5, 1], 6, start)
        for superbatch, index in islice(zip(batches, indices, strict=False), 4):
            np.testing.assert_array_equal(index, superbatch.index)
            row, transition = table.row[index], superbatch.transition
            tree.map_structure(lambda a, b, row=row: np.testing.assert_array_equal(a[row], b), table.observation, transition.observation)
            following = transition.next_observation
            tree.map_structure(lambda a, b, row=row: np.testing.assert_array_equal(a[row + 1], b), table.observation, following)
            for name in ("action", "reward", "discount"):
                np.testing.assert_array_equal(getattr(table, name)[row], getattr(transition, name))
