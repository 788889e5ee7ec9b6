"""Episodes packed and unpacked are the same episodes."""

import pickle

import numpy as np
import pytest

from rl_datasets.packing import pack, unpack
from rl_datasets.schema import Episode


def episode(index: int, length: int, nested: bool) -> Episode:
    position = np.arange(length + 1, dtype=np.float32) + 100 * index  # 203.0 is step 3 of episode 2
    observation = (
        {"place": position[:, None], "pair": (position.astype(np.int64), position.astype(np.uint8))} if nested else position[:, None]
    )
    return Episode(str(index), observation, position.copy(), position + 0.5, position + 0.25, index % 2 == 0, {"seed": index})


@pytest.mark.parametrize("nested", [False, True])
def test_the_identity(nested: bool) -> None:
    episodes = [episode(index, length, nested) for index, length in enumerate([1, 4, 2])]
    found = list(unpack(pickle.loads(pickle.dumps(pack(episodes)))))
    assert len(found) == 3
    for one, other in zip(found, episodes, strict=True):
        np.testing.assert_equal(vars(one), vars(other))


def test_nothing_packs_to_nothing() -> None:
    assert pack([]) is None
    assert list(unpack(None)) == []
