"""Bad episodes are not written, and damaged or missing files are named."""

import dataclasses

import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.files import replacing
from rl_datasets.rlds import features, read_episodes, read_spec, shards, write_rlds, writer
from rl_datasets.rlds.example import flags_feature
from rl_datasets.rlds.features import encode_episode
from rl_datasets.schema import ArraySpec, EnvSpec


def write(toy, folder, episodes=None, **options):
    splits = {"train": toy.episodes if episodes is None else episodes}
    return write_rlds(folder, "toy", "1.0.0", toy.spec, **{"splits": splits, **options})


def changed(episode, **metadata):
    return dataclasses.replace(episode, metadata={**episode.metadata, **metadata})


def first_shard(toy, tmp_path):
    folder = toy.write(tmp_path, shards=3)
    return folder, sorted(folder.glob("*.tfrecord-*"))[0]


def test_no_folder(tmp_path):
    with pytest.raises(HindcastError, match=r"nowhere is no RLDS data set: dataset_info.json is missing"):
        list(read_episodes(tmp_path / "nowhere", "train"))


def test_unknown_split_lists_the_known(vector, tmp_path):
    with pytest.raises(HindcastError, match=r"has no split 'raw'\. It has: train"):
        list(read_episodes(vector.write(tmp_path), "raw"))


def test_a_missing_shard_is_named(vector, tmp_path):
    folder, shard = first_shard(vector, tmp_path)
    shard.unlink()
    with pytest.raises(HindcastError, match=f"1 of 3 shards are missing, the first is {shard.name}.*dvc"):
        list(read_episodes(folder, "train"))


def test_a_shard_cut_in_half_is_named(vector, tmp_path):
    folder, shard = first_shard(vector, tmp_path)
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2])
    with pytest.raises(HindcastError, match=rf"{shard.name} \(\d+ bytes\) is damaged after 2 of 4 episodes: .*truncated.*dvc"):
        list(read_episodes(folder, "train"))


def test_a_shard_cut_between_episodes_is_named(vector, tmp_path):
    folder, shard = first_shard(vector, tmp_path)
    content = shard.read_bytes()
    shard.write_bytes(content[: int.from_bytes(content[:8], "little") + 16])
    with pytest.raises(HindcastError, match=rf"{shard.name} holds 1 episodes, but dataset_info.json says 4"):
        list(read_episodes(folder, "train"))


def test_a_flipped_bit_is_noticed(vector, tmp_path):
    folder, shard = first_shard(vector, tmp_path)
    content = bytearray(shard.read_bytes())
    content[100] ^= 1
    shard.write_bytes(content)
    with pytest.raises(HindcastError, match=rf"{shard.name} .* is damaged after 0 of 4 episodes"):
        list(read_episodes(folder, "train"))


@pytest.mark.parametrize("name", ["dataset_info.json", "features.json", "metadata.json"])
def test_a_broken_description_is_named(vector, tmp_path, name):
    folder = vector.write(tmp_path)
    (folder / name).write_text("{")
    with pytest.raises(HindcastError, match=r"the description of the data set .* cannot be read"):
        read_spec(folder)


def test_an_id_that_repeats(vector, tmp_path):
    with pytest.raises(HindcastError, match="'episode-00' occurs twice"):
        write(vector, tmp_path, [*vector.episodes, vector.episodes[0]])
    with pytest.raises(HindcastError, match="'episode-00' is in split 'train' and in 'test'"):
        write(vector, tmp_path, splits={"train": vector.episodes, "test": vector.episodes[:1]})


def test_an_empty_split(vector, tmp_path):
    with pytest.raises(HindcastError, match="Split 'train' would be empty"):
        write(vector, tmp_path, [])


def test_an_episode_that_does_not_fit_the_spec(vector, tmp_path):
    wrong = dataclasses.replace(vector.episodes[3], observation=vector.episodes[3].observation[:, :2])
    with pytest.raises(HindcastError, match=r"'episode-03': observation is float32\[4, 2\], but the spec says float32\[4, 4\]"):
        write(vector, tmp_path, [*vector.episodes[:3], wrong])


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_a_dtype_that_would_lose_digits(dtype, tmp_path):
    spec = EnvSpec("e", {"x": ArraySpec((2,), dtype)}, ArraySpec((), "float32"))
    with pytest.raises(HindcastError, match=f"observation/x is {dtype}, but RLDS files hold only"):
        write_rlds(tmp_path, "toy", "1.0.0", spec, {"train": []})


def test_a_name_that_would_be_ambiguous(tmp_path):
    spec = EnvSpec("e", {"a/b": ArraySpec((2,), "float32")}, ArraySpec((), "float32"))
    with pytest.raises(HindcastError, match="keys of observations are words without '/'"):
        write_rlds(tmp_path, "toy", "1.0.0", spec, {"train": []})


def test_metadata_columns_differ(vector, tmp_path):
    odd = changed(vector.episodes[1], seed=0.5)
    with pytest.raises(HindcastError, match=r"'episode-01' has the metadata .*seed \(float\).* but the first episode has .*seed \(int\)"):
        write(vector, tmp_path, [vector.episodes[0], odd])


def test_metadata_columns_that_cannot_be(vector, tmp_path):
    with pytest.raises(HindcastError, match="metadata lacks seed"):
        write(vector, tmp_path, [dataclasses.replace(vector.episodes[0], metadata={"policy": "p", "environment": "e"})])
    with pytest.raises(HindcastError, match="has the key 'steps', which is reserved"):
        write(vector, tmp_path, [changed(vector.episodes[0], steps=1)])
    with pytest.raises(HindcastError, match="metadata 'seed' is 18000000000000000000, but"):
        write(vector, tmp_path, [changed(vector.episodes[0], seed=9 * 10**18 * 2)])


@pytest.mark.parametrize(("name", "version"), [("Toy", "1.0.0"), ("toy-1", "1.0.0"), ("toy", "1.0"), ("toy", "v1.0.0")])
def test_names_that_tfds_cannot_read(vector, tmp_path, name, version):
    with pytest.raises(HindcastError, match="is none that TFDS can read"):
        write_rlds(tmp_path, name, version, vector.spec, {"train": vector.episodes})


def test_a_source_that_fails_leaves_what_was_there(vector, tmp_path):
    target = vector.write(tmp_path)
    before = {path.name: path.read_bytes() for path in target.iterdir()}

    def failing():
        yield from vector.episodes[:5]
        raise HindcastError("the simulator stopped")

    with pytest.raises(HindcastError, match="the simulator stopped"), replacing(target) as part:
        write(vector, part, failing())
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    assert [path.name for path in target.parent.iterdir()] == ["1.0.0"]


FAULTS = {
    "observation": lambda episode: {"observation": episode.observation + np.float32(1)},
    "action": lambda episode: {"action": 1 - episode.action},
    "reward": lambda episode: {"reward": -episode.reward},  # 0 becomes -0
    "discount": lambda episode: {"discount": episode.discount / 2},
    "one step fewer": lambda episode: {name: getattr(episode, name)[1:] for name in ("observation", "action", "reward", "discount")},
    "ending": lambda episode: {"is_terminal": not episode.is_terminal},
    "id": lambda episode: {"episode_id": episode.episode_id + " "},
}


@pytest.mark.parametrize("fault", [*FAULTS, "metadata", "type of metadata", "fewer metadata", "flags"])
def test_a_fault_in_memory_is_noticed(vector, tmp_path, monkeypatch, fault):
    others = {"metadata": {"score": 0.5}, "type of metadata": {"seed": 7.0}}

    def faulty(episode):
        metadata = episode.metadata
        if episode.episode_id == "episode-07":
            episode = dataclasses.replace(episode, **FAULTS.get(fault, lambda _: {})(episode))
            metadata = (
                {k: v for k, v in metadata.items() if k != "score"} if fault == "fewer metadata" else metadata | others.get(fault, {})
            )
            if fault == "flags":
                with monkeypatch.context() as patch:
                    patch.setattr(features, "_flags", endless)
                    return encode_episode(episode, metadata)
        return encode_episode(episode, metadata)

    flags = features._flags

    def endless(length, is_terminal):
        return {**flags(length, is_terminal), "steps/is_last": flags_feature(bytes(length + 1))}

    def encode(episodes):
        return [faulty(episodes.recorded(number).episode) for number in range(len(episodes.episode_id))]

    monkeypatch.setattr(writer, "encode_together", encode)
    with pytest.raises(HindcastError, match=r"first 'episode-07'|cannot be decoded") as error:
        write(vector, tmp_path)
    assert "read back after writing" in str(error.value)


def test_a_fault_on_the_way_to_the_disk_is_noticed(vector, tmp_path, monkeypatch):
    """Records that are valid, but not where they were put."""
    write_records = shards.write_records
    monkeypatch.setattr(shards, "write_records", lambda file, records: write_records(file, [records[i] for i in (0, 1, 3, 2)]))
    with pytest.raises(HindcastError, match="read back after writing, 2 of 4 episodes differ from what was written, first 'episode-02'"):
        write(vector, tmp_path, shards=3)


def test_a_description_of_other_data_is_noticed(vector, tmp_path, monkeypatch):
    other = dataclasses.replace(vector.spec, observation=ArraySpec((2, 2), "float32"))
    described = writer.dataset_features
    monkeypatch.setattr(writer, "dataset_features", lambda _, columns: described(other, columns))
    with pytest.raises(HindcastError, match="00000-of-00003: read back after writing, 4 of 4 episodes differ"):
        write(vector, tmp_path, shards=3)


def test_no_permission(vector, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HindcastError, match="Could not write"):
        write(vector, tmp_path / "file" / "toy")
