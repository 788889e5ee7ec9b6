"""Digests follow content: any change of a field changes them, and nothing else does."""

import dataclasses

import numpy as np
import pytest

from rl_datasets.digest import DatasetDigest, content_key, episode_digest, plain_metadata
from rl_datasets.errors import HindcastError
from rl_datasets.schema import Episode


def episode(episode_id: str = "a", **changes) -> Episode:
    steps = np.arange(4, dtype=np.float32)
    fields = {
        "observation": {"position": np.stack([steps, steps + 10], axis=1), "token": np.array([1, 2, 3, 0])},
        "action": steps[:, None] / 8,
        "reward": steps,
        "discount": np.array([1, 1, 0, 0], np.float32),
        "is_terminal": True,
        "metadata": {"seed": 3, "policy": "random", "environment": "e"},
    }
    return Episode(episode_id, **{**fields, **changes})


def test_the_digest_is_fixed_for_all_time():
    assert content_key(episode()) == "476cdd296a84fb5d925a040ceb9ffed2d5db86fe54e8ea9be405adca840a27dc"
    assert episode_digest(episode()) == "4f15be823b2d11ebffeafd56978e544f2b091c5a8103802ec17a853fdd498e42"


CHANGES = [
    {"observation": {"position": np.zeros((4, 2), np.float32), "token": np.array([1, 2, 3, 0])}},
    {"observation": {"place": episode().observation["position"], "token": np.array([1, 2, 3, 0])}},
    {"observation": {"position": episode().observation["position"].reshape(4, 1, 2), "token": np.array([1, 2, 3, 0])}},
    {"observation": {"position": episode().observation["position"], "token": np.array([1, 2, 3, 0], np.int32)}},
    {"action": np.zeros((4, 1), np.float32)},
    {"reward": np.array([0, 1, 2, 4], np.float32)},
    {"discount": np.array([1, 1, 1, 0], np.float32)},
    {"is_terminal": False},
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_every_field_counts(change):
    assert content_key(episode(**change)) != content_key(episode())


def test_id_and_metadata_count_for_the_episode_but_not_for_its_content():
    for other in (episode("b"), episode(metadata={"seed": 4, "policy": "random", "environment": "e"})):
        assert content_key(other) == content_key(episode())
        assert episode_digest(other) != episode_digest(episode())


def test_memory_layout_and_byte_order_do_not_count():
    original = episode()
    position = original.observation["position"]
    for same in (np.asfortranarray(position), position.astype(">f4"), np.repeat(position, 2, axis=0)[::2]):
        assert content_key(episode(observation={**original.observation, "position": same})) == content_key(original)


def test_the_order_of_adding_does_not_count():
    first, second = DatasetDigest(), DatasetDigest()
    for name in ("a", "b", "c"):
        first.add(episode(name))
    for name in ("c", "a", "b"):
        second.add(episode(name))
    assert first.hexdigest() == second.hexdigest()
    second.add(episode("d"))
    assert first.hexdigest() != second.hexdigest()


def test_an_id_is_added_once():
    digest = DatasetDigest()
    digest.add(episode("a"))
    with pytest.raises(HindcastError, match="Episode id 'a' occurs twice"):
        digest.add(episode("a"))


def test_numbers_of_numpy_are_plain():
    odd = episode(metadata={"seed": np.int64(3), "success": np.bool_(True), "score": np.float32(0.5)})
    assert plain_metadata(odd) == {"seed": 3, "success": 1, "score": 0.5}
    assert [type(value) for value in plain_metadata(odd).values()] == [int, int, float]
    assert episode_digest(odd) == episode_digest(dataclasses.replace(odd, metadata=plain_metadata(odd)))


def test_metadata_of_another_type_is_refused():
    with pytest.raises(HindcastError, match="metadata 'goal' is a list"):
        episode_digest(episode(metadata={"goal": [1, 2]}))


@pytest.mark.parametrize("ids", [["b", "b"], ["b", "a"]])
def test_an_id_that_occurs_twice_is_told_also_among_many(ids):
    digest = DatasetDigest()
    digest.add_all(["a"], ["0"])
    with pytest.raises(HindcastError, match=f"'{ids[1]}' occurs twice"):
        digest.add_all(ids, ["1", "2"])
