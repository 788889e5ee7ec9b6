"""What every file in builders/ keeps to, from the moment it is there. Its `example` gives the options of a small data set."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tree

from rl_datasets.builder import Context, known_builders, load_builder
from rl_datasets.digest import DatasetDigest
from rl_datasets.manifest import package_versions
from rl_datasets.rlds import read_episodes, read_spec, write_rlds
from rl_datasets.rlds.quiet_tensorflow import tfds
from rl_datasets.rlds_without_reverb import import_rlds
from rl_datasets.schema import EnvSpec, Episode, named_leaves, validate_episode

SEED = 3


class Built(NamedTuple):
    """A small data set of one builder."""

    name: str
    options: dict[str, Any]
    spec: EnvSpec
    episodes: list[Episode]
    builder: Any

    def again(self, **context: Any) -> list[Episode]:
        module = load_builder(self.name)
        return list(module.Builder(module.Options.model_validate(self.options), Context("example", **context)).episodes(SEED))


@pytest.fixture(scope="module", params=known_builders())
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Built:
    module = load_builder(request.param)
    options = module.example(tmp_path_factory.mktemp(request.param))
    builder = module.Builder(module.Options.model_validate(options), Context("example"))
    return Built(request.param, options, builder.spec(), list(builder.episodes(SEED)), builder)


@pytest.fixture(scope="module")
def written(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rlds") / "example" / "1.0.0"
    write_rlds(path, "example", "1.0.0", built.spec, {"raw": built.episodes}, shards=3)
    return path


def digests(episodes: list[Episode]) -> dict[str, str]:
    """By id; DatasetDigest raises where an id is there twice."""
    digest = DatasetDigest()
    for episode in episodes:
        digest.add(episode)
    return digest.episodes


def test_the_spec_fits_the_episodes(built: Built) -> None:
    assert len(built.episodes) >= 2
    for episode in built.episodes:
        validate_episode(episode, built.spec)
        assert {"seed", "policy", "environment"} <= set(episode.metadata)


def test_the_last_step_is_empty_and_the_discount_says_terminal(built: Built) -> None:
    for episode in built.episodes:
        assert not episode.action[-1].any()
        assert episode.reward[-1] == episode.discount[-1] == 0
        np.testing.assert_array_equal(episode.discount[:-2], 1)
        assert episode.discount[-2] == (0 if episode.is_terminal else 1)


def test_the_same_seed_gives_the_same_digests(built: Built) -> None:
    assert digests(built.again()) == digests(built.episodes)
    assert digests(list(built.builder.episodes(SEED))) == digests(built.episodes)


def test_workers_do_not_change_a_byte_or_the_order(built: Built) -> None:
    found = built.again(workers=2)
    assert digests(found) == digests(built.episodes)
    assert [episode.episode_id for episode in found] == [episode.episode_id for episode in built.episodes]


def test_ids_are_unique(built: Built) -> None:
    assert len({episode.episode_id for episode in built.episodes}) == len(built.episodes)


def test_what_the_builder_reports_can_go_into_a_manifest(built: Built) -> None:
    assert all(isinstance(note, str) and note for note in built.builder.notes)
    assert all(isinstance(count, int) for count in built.builder.counts.values())
    assert all(len(entry.digest) >= 32 for entry in built.builder.inputs)
    assert built.builder.expected_episodes in (None, len(built.episodes) + built.builder.counts.get("lost_episodes", 0))
    package_versions(*built.builder.packages)


def test_unknown_options_are_refused(built: Built) -> None:
    with pytest.raises(ValueError, match="no_such_option"):
        load_builder(built.name).Options.model_validate({**built.options, "no_such_option": 1})


def test_writing_and_reading_is_the_identity(built: Built, written: Path) -> None:
    assert read_spec(written) == built.spec
    found = {episode.episode_id: episode for episode in read_episodes(written, "raw")}
    assert sorted(found) == sorted(episode.episode_id for episode in built.episodes)
    for episode in built.episodes:
        np.testing.assert_equal(vars(found[episode.episode_id]), vars(replace(episode, metadata=dict(episode.metadata))))


def test_the_official_recipe_gives_the_same_transitions(built: Built, written: Path) -> None:
    """Batches of two steps with shift one, as the rlds library's documentation has it; no code of ours on the path."""
    batch = import_rlds().transformations.batch
    config = tfds.ReadConfig(interleave_cycle_length=1)
    data = tfds.builder_from_directory(str(written)).as_dataset(split="raw", read_config=config)
    pairs = data.flat_map(lambda episode: batch(episode["steps"], size=2, shift=1, drop_remainder=True))
    found = list(pairs.as_numpy_iterator())
    expected = list(transitions(built.episodes))
    assert len(found) == len(expected)
    for pair, (first, second) in zip(found, expected, strict=True):
        for key in ("action", "reward", "discount"):
            np.testing.assert_array_equal(pair[key][0], first[key])
        for name, leaf in first["observation"]:
            np.testing.assert_array_equal(at(pair, name)[0], leaf)
        for name, leaf in second["observation"]:
            np.testing.assert_array_equal(at(pair, name)[1], leaf)
        assert not pair["is_last"][0]
        assert not pair["is_terminal"][0]
        assert bool(pair["is_terminal"][1]) == (first["discount"] == 0)


def transitions(episodes: list[Episode]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for episode in episodes:
        rows = [
            {
                "observation": named_leaves(tree.map_structure(lambda leaf, t=t: leaf[t], episode.observation), "observation"),
                **{key: getattr(episode, key)[t] for key in ("action", "reward", "discount")},
            }
            for t in range(episode.length + 1)
        ]
        yield from itertools.pairwise(rows)


def at(nest: Any, name: str) -> Any:
    """TFDS has no tuples: their elements are under "0", "1", ..., as in the names of leaves."""
    for part in name.split("/"):
        nest = nest[part]
    return nest
