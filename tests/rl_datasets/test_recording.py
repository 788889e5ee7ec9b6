"""Recordings of many episodes become arrays at once, and travel, and come apart again as they went in."""

import pickle
from typing import Any

import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.recording import Recording, aligned, unpack
from rl_datasets.schema import ArraySpec, EnvSpec, validate_episode

FLAT = ArraySpec((1,), "float32")
NESTED = {"place": ArraySpec((), "int64", 0.0, 999.0, 1000), "pair": (FLAT, ArraySpec((2, 2, 1), "uint8"))}


def observation(spec: EnvSpec, index: int, step: int) -> Any:
    position = 100.0 * index + step  # 203 is step 3 of episode 2
    return [position] if spec.observation is FLAT else {"place": int(position), "pair": (np.array([position]), np.full((2, 2, 1), step))}


def recording(spec: EnvSpec, index: int, length: int) -> Recording:
    """Its actions are 0.5 more and its rewards 0.25 more than the observation that they follow."""
    recorded = Recording(spec, index, observation(spec, index, 0))
    for step in range(length):
        recorded.act([100 * index + step + 0.5])
        recorded.step(observation(spec, index, step + 1), 100 * index + step + 0.25)
    recorded.end(is_terminal=index % 2 == 0, metadata={"seed": index})
    return recorded


@pytest.mark.parametrize("tree", [FLAT, NESTED], ids=["flat", "nested"])
def test_every_row_is_where_it_belongs(tree: Any) -> None:
    spec = EnvSpec("Toy-v0", tree, ArraySpec((1,), "float32"))
    lengths = [1, 4, 2]
    packed = aligned(spec, [recording(spec, index, length) for index, length in enumerate(lengths)])
    episodes = list(unpack(pickle.loads(pickle.dumps(packed))))
    assert [episode.length for episode in episodes] == lengths
    for index, episode in enumerate(episodes):
        validate_episode(episode, spec)
        positions = 100 * index + np.arange(lengths[index] + 1)
        found = episode.observation if tree is FLAT else episode.observation["pair"][0]
        np.testing.assert_array_equal(found[:, 0], positions)
        np.testing.assert_array_equal(episode.action[:, 0], [*(positions[:-1] + 0.5), 0])
        np.testing.assert_array_equal(episode.reward, [*(positions[:-1] + 0.25), 0])
        np.testing.assert_array_equal(episode.discount, [*[1] * (lengths[index] - 1), index % 2, 0])
        assert episode.is_terminal == (index % 2 == 0)
        assert (episode.episode_id, episode.metadata) == (f"{index:08d}", {"seed": index})
        if tree is NESTED:
            np.testing.assert_array_equal(episode.observation["place"], positions)
            np.testing.assert_array_equal(episode.observation["pair"][1][:, 1, 1, 0], np.arange(lengths[index] + 1))


@pytest.mark.parametrize("dtypes", ["ff", "dd", "fd", "df"])
def test_an_array_that_the_environment_uses_again_is_copied_whatever_its_dtype(dtypes: str) -> None:
    """It is float32, as stored, or float64, or the one at the start and the other after it."""
    spec = EnvSpec("Toy-v0", ArraySpec((2, 1), "float32"), ArraySpec((1,), "float32"))
    start, after, action = np.zeros((2, 1), dtypes[0]), np.zeros((2, 1), dtypes[1]), np.zeros(1, dtypes[1])
    recorded = Recording(spec, 0, start)
    start += 100
    for step in (1, 2, 3):
        action[:] = step / 2
        recorded.act(action)
        after[:] = [[step], [-step]]
        recorded.step(after, 0.0)
    (episode,) = unpack(aligned(spec, [recorded]))
    validate_episode(episode, spec)
    np.testing.assert_array_equal(episode.observation[..., 0], [[0, 0], [1, -1], [2, -2], [3, -3]])
    np.testing.assert_array_equal(episode.action[:, 0], [0.5, 1, 1.5, 0])
    episode.observation[0] = 7  # as any other array


def test_a_row_of_another_shape_than_those_before_it_is_an_error() -> None:
    spec = EnvSpec("Toy-v0", FLAT, FLAT)
    recorded = Recording(spec, 0, np.zeros(1, np.float32))
    recorded.act(np.zeros(1, np.float32))
    recorded.step([1.0, 2.0], 0.0)
    with pytest.raises(HindcastError, match="observation changes its shape within an episode"):
        aligned(spec, [recorded])


def test_no_recording_is_no_episode() -> None:
    assert aligned(EnvSpec("Toy-v0", FLAT, FLAT), []) is None
    assert list(unpack(None)) == []


def test_a_nest_unlike_the_spec_is_named() -> None:
    spec = EnvSpec("Toy-v0", NESTED, ArraySpec((1,), "float32"))
    wrong = Recording(spec, 0, {"place": 1, "pair": (np.zeros(1),)})
    wrong.act([0.0])
    wrong.step({"place": 1, "pair": (np.zeros(1),)}, 0.0)
    with pytest.raises(HindcastError, match=r"observation/pair is nested otherwise than its space says \(IndexError"):
        aligned(spec, [wrong])
