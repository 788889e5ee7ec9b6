"""Data sets made of others: combined, filtered, and drawn from."""

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.builder import Context, load_builder
from rl_datasets.builders.subset import place
from rl_datasets.derived import Parent, find_parent, linked_parents
from rl_datasets.derived_example import LENGTHS, write_parent
from rl_datasets.digest import content_key, episode_digest
from rl_datasets.errors import HindcastError
from rl_datasets.links import Link, write_link
from rl_datasets.manifest import read_manifest, write_manifest
from rl_datasets.rlds import read_episodes, read_spec, write_rlds
from rl_datasets.schema import ArraySpec, Episode, validate_episode
from rl_datasets.splits import Fractions, assign_split


def build(name: str, source: Path | None = None, seed: int = 0, **options):
    module = load_builder(name)
    builder = module.Builder(module.Options.model_validate(options), Context("made", source=source))
    return builder, list(builder.episodes(seed))


def link(parent: Parent, digest: str = "") -> Link:
    return Link(parent.name, parent.folder.as_posix(), digest or parent.manifest.digest)


def ids(episodes) -> list[str]:
    return [episode.episode_id for episode in episodes]


@pytest.fixture
def parents(tmp_path) -> list[str]:
    return [write_parent(tmp_path, name).as_posix() for name in ("north", "south")]


def test_combined_episodes_stay_what_they_were(parents):
    builder, episodes = build("combine", parents=parents)
    assert ids(episodes) == [f"{name}-{number}" for name in ("north", "south") for number in range(6)]
    before = [episode for path in parents for episode in find_parent(Path(path)).episodes()]
    assert list(map(episode_digest, episodes)) == list(map(episode_digest, before))
    assert builder.counts == {"from_north": 6, "from_south": 6}
    assert [entered.path for entered in builder.inputs] == [f"{path}/1.0.0" for path in parents]
    assert [entered.digest for entered in builder.inputs] == [find_parent(Path(path)).manifest.digest for path in parents]


def annotated(folder: Path, name: str, **dtypes: str) -> str:
    """A parent whose step metadata have these types; its values are those of the first observation."""
    path = find_parent(write_parent(folder, name)).folder
    spec = replace(read_spec(path), step_metadata={key: ArraySpec((), dtype) for key, dtype in dtypes.items()})

    def kept(episode: Episode) -> dict[str, np.ndarray]:
        return {key: episode.observation[:, 0].astype(dtype) for key, dtype in dtypes.items()}

    episodes = [replace(episode, step_metadata=kept(episode)) for episode in read_episodes(path, "raw")]
    manifest = read_manifest(path)
    shutil.rmtree(path)
    write_rlds(path, name, "1.0.0", spec, {"raw": episodes})
    write_manifest(path, manifest)
    return path.as_posix()


def test_step_metadata_are_kept_where_all_parents_have_them_alike(tmp_path):
    north = annotated(tmp_path, "north", time="float64", wind="float32", tide="int8")
    south = annotated(tmp_path, "south", wind="int64", time="float64")
    builder, episodes = build("combine", parents=[north, south])
    assert builder.spec().step_metadata == {"time": ArraySpec((), "float64")}
    for episode in episodes:
        validate_episode(episode, builder.spec())
        np.testing.assert_array_equal(episode.step_metadata["time"], episode.observation[:, 0])
    assert "north: step metadata that not all parents have alike were left out: tide, wind." in builder.notes
    assert "south: step metadata that not all parents have alike were left out: wind." in builder.notes
    for kind, options in (("filter", {"minimum_length": 3}), ("subset", {"episodes": 2})):
        part, kept = build(kind, parent=north, **options)
        assert set(part.spec().step_metadata) == {"time", "wind", "tide"}
        assert kept
        for episode in kept:
            validate_episode(episode, part.spec())
            np.testing.assert_array_equal(episode.step_metadata["tide"], episode.observation[:, 0].astype(np.int8))


def test_an_id_in_two_parents_names_both(tmp_path, parents):
    again = write_parent(tmp_path / "again", "north").as_posix()
    with pytest.raises(HindcastError, match=r"id 'north-0' is in 'north' \(.*north/1.0.0\) and in 'north' \(.*again/north/1.0.0\)"):
        build("combine", parents=[*parents, again])
    prefixed = ids(build("combine", parents=parents, ids="prefix")[1])
    assert prefixed[5:7] == ["north-north-5", "south-south-0"]


def test_old_episodes_keep_their_split_when_others_are_added(parents):
    fractions = Fractions(train=0.5, validation=0.25, test=0.25)

    def splits(episodes) -> dict[str, str]:
        return {episode.episode_id: assign_split(content_key(episode), fractions, 0) for episode in episodes}

    before, after = splits(build("combine", parents=parents[:1])[1]), splits(build("combine", parents=parents)[1])
    assert len(after) == 2 * len(before)
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) > 1


def test_links_name_parents_and_notice_a_change(tmp_path, parents):
    folder = tmp_path / "links"
    for path in parents:
        write_link(folder, link(find_parent(Path(path))))
    builder, episodes = build("combine", source=folder)
    assert (builder.expected_episodes, len(episodes)) == (12, 12)
    write_link(folder, link(find_parent(Path(parents[1])), "0" * 64))
    with pytest.raises(HindcastError, match=r"south\.json links to .* of digest 000000000000, which now has"):
        linked_parents(folder)


def test_a_data_set_made_of_none_says_how_to_name_some(tmp_path):
    with pytest.raises(HindcastError, match=r"'<name>: \{into: made, dataset: <data set>\}'"):
        build("combine", source=tmp_path)
    with pytest.raises(HindcastError, match="holds 0 data sets"):
        build("combine", parents=[tmp_path.as_posix()])


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"minimum_return": 3.0}, [2, 3, 4, 5]),  # returns are 0, 1, 12, 9, 8, 25
        ({"maximum_return": 8.0}, [0, 1, 4]),
        ({"minimum_length": 3, "maximum_length": 4}, [0, 3]),
        ({"is_terminal": True}, [0, 3]),
        ({"policies": ["careful"]}, [1, 3, 5]),
        ({"metadata": {"site": [0, 2]}}, [0, 1, 4, 5]),
        ({"policies": ["bold"], "minimum_length": 3}, [0, 2]),
    ],
)
def test_a_filter_keeps_what_meets_all_conditions(parents, options, kept):
    builder, episodes = build("filter", parent=parents[0], **options)
    assert ids(episodes) == [f"north-{number}" for number in kept]
    assert builder.counts == {"left_out_episodes": 6 - len(kept)}
    assert builder.inputs[0].digest == find_parent(Path(parents[0])).manifest.digest


def test_a_filter_says_which_condition_left_out_what(parents):
    builder, _ = build("filter", source=Path(parents[0]), minimum_length=3, policies=["bold"])
    assert builder.notes[1:] == [
        "2 episodes of 'north' were left out by minimum_length.",
        "2 episodes of 'north' were left out by policies.",
    ]
    with pytest.raises(HindcastError, match="No episode of 'north' is left: 6 by minimum_return"):
        build("filter", parent=parents[0], minimum_return=1e6)
    with pytest.raises(HindcastError, match="metadata names 'sight', but the episodes of 'north' have environment, policy, seed, site"):
        build("filter", parent=parents[0], metadata={"sight": [1]})


def test_notes_of_one_episode_are_in_the_singular(parents):
    one, _ = build("filter", parent=parents[0], minimum_length=6)
    assert one.notes == [
        "1 of the 6 episodes of 'north' was kept.",
        "5 episodes of 'north' were left out by minimum_length.",
    ]
    assert build("filter", parent=parents[0], maximum_length=5)[0].notes[1:] == ["1 episode of 'north' was left out by maximum_length."]
    assert build("subset", parent=parents[0], episodes=1)[0].notes == ["1 of the 6 episodes of 'north' was drawn with seed 0."]


def test_a_subset_is_drawn_by_seed_and_id_alone(tmp_path, parents):
    four = ids(build("subset", parent=parents[0], episodes=4)[1])
    assert len(four) == 4
    assert set(ids(build("subset", parent=parents[0], episodes=2)[1])) < set(four)
    assert four == ids(build("subset", parent=parents[0], episodes=4)[1])
    draws = Counter(tuple(ids(build("subset", parent=parents[0], seed=seed, episodes=4)[1])) for seed in range(8))
    assert len(draws) > 2
    halves = [sum(place(seed, f"north-{number}") < 0.5 for number in range(len(LENGTHS))) for seed in range(100)]
    assert 250 < sum(halves) < 350  # of 600
    assert ids(build("subset", parent=parents[0], seed=3, fraction=0.5)[1]) == [
        f"north-{number}" for number in range(len(LENGTHS)) if place(3, f"north-{number}") < 0.5
    ]
    with pytest.raises(HindcastError, match="7 episodes are asked for, but 'north' has 6"):
        build("subset", parent=parents[0], episodes=7)
