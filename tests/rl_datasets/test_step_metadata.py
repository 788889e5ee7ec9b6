"""What is kept of each step beside what is learnt from: any of it comes back, by our reader and by TFDS's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
import tree
from hypothesis import given, settings

from rl_datasets.digest import content_key, episode_digest
from rl_datasets.errors import HindcastError
from rl_datasets.recording import truncate
from rl_datasets.rlds import read_episodes, read_spec, write_rlds
from rl_datasets.rlds.features import check_spec
from rl_datasets.rlds.quiet_tensorflow import tfds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, validate_episode

NUMBERS = ["bool", "int8", "int64", "uint8", "uint16", "uint64", "float16", "float32", "float64"]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NAMES = ["time", "a/note", "a/b/c", "0"]


def episode(steps: int, **kept: np.ndarray) -> Episode:
    at = np.arange(steps, dtype=np.float32)
    last = np.where(at < steps - 1, at + 1, 0).astype(np.float32)
    metadata = {"seed": 0, "policy": "p", "environment": "e"}
    return Episode("one", at[:, None], last[:, None], last, np.minimum(last, 1), False, metadata, kept)


def spec_of(**leaves: ArraySpec) -> EnvSpec:
    return EnvSpec("e", ArraySpec((1,), "float32"), ArraySpec((1,), "float32"), step_metadata=leaves)


@st.composite
def kept_data(draw: st.DrawFn) -> tuple[EnvSpec, Episode]:
    steps, leaves, kept = draw(st.integers(2, 5)), {}, {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)):
        if draw(st.booleans()):
            leaves[name] = ArraySpec((), "text")
            kept[name] = np.array(draw(st.lists(TEXTS, min_size=steps, max_size=steps)), object)
        else:
            shape, dtype = draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3)), draw(st.sampled_from(NUMBERS))
            leaves[name] = ArraySpec(shape, dtype)
            kept[name] = draw(hnp.arrays(dtype, (steps, *shape)))
    return spec_of(**leaves), episode(steps, **kept)


def by_tfds(folder: Path) -> dict[str, list[Any]]:
    """By path, what TFDS gives for each step."""
    (found,) = tfds.as_numpy(tfds.builder_from_directory(str(folder)).as_dataset(split="train"))
    kept: dict[str, list[Any]] = {}
    for step in found["steps"]:
        for path, value in tree.flatten_with_path(step["metadata"]):
            kept.setdefault("/".join(path), []).append(value.decode() if isinstance(value, bytes) else value)
    return kept


@settings(max_examples=12)
@given(kept_data())
def test_what_is_kept_comes_back(tmp_path_factory, data):
    spec, made = data
    folder = tmp_path_factory.mktemp("kept")
    write_rlds(folder, "kept", "1.0.0", spec, {"train": [made]})
    (found,) = read_episodes(folder, "train")
    assert read_spec(folder) == spec
    assert found.step_metadata.keys() == made.step_metadata.keys()
    theirs = by_tfds(folder)
    for name, array in made.step_metadata.items():
        np.testing.assert_array_equal(found.step_metadata[name], array, strict=True)
        np.testing.assert_array_equal(np.array(theirs[name], array.dtype), array, strict=True)
    assert episode_digest(found) == episode_digest(made)


def test_it_counts_for_the_digest_but_not_for_what_happened():
    plain, time, note = episode(3), np.array([1.0, 2.0, 3.0]), np.array(["a", "b", ""], object)
    kept = replace(plain, step_metadata={"time": time, "note": note})
    others = [
        plain,
        replace(plain, step_metadata={"note": note}),
        replace(plain, step_metadata={"times": time, "note": note}),
        replace(plain, step_metadata={"time": time.astype(np.float32), "note": note}),
        replace(plain, step_metadata={"time": time + np.array([0, 0, 1e-9]), "note": note}),
        replace(plain, step_metadata={"time": time, "note": np.array(["ab", "", ""], object)}),
    ]
    assert len({episode_digest(each) for each in (kept, *others)}) == 7
    assert {content_key(each) for each in (kept, *others)} == {content_key(plain)}
    assert episode_digest(replace(plain, step_metadata={"note": note, "time": time})) == episode_digest(kept)


def test_a_spec_without_it_is_what_it_would_be_had_there_been_none():
    kept = spec_of(time=ArraySpec((), "float64"))
    assert kept.without_step_metadata() == spec_of()
    assert kept.without_step_metadata().to_json() == spec_of().to_json()
    assert "step_metadata" not in spec_of().to_json()
    assert EnvSpec.from_json(kept.to_json()) == kept != spec_of()


def test_the_first_transitions_keep_theirs():
    cut = truncate(episode(5, time=np.arange(5.0)), 2)
    np.testing.assert_array_equal(cut.step_metadata["time"], [0.0, 1.0, 2.0])


TIME, NOTE = ArraySpec((), "float64"), ArraySpec((), "text")


@pytest.mark.parametrize(
    ("spec", "made", "message"),
    [
        (spec_of(), episode(3, time=np.zeros(3)), "has the step metadata time, but the spec says none"),
        (spec_of(time=TIME, note=NOTE), episode(3, time=np.zeros(3)), "has the step metadata time, but the spec says note, time"),
        (spec_of(time=TIME), episode(3, time=np.zeros(2)), r"step_metadata/time is float64\[2\], but the spec says float64\[3\]"),
        (spec_of(time=TIME), episode(3, time=np.zeros(3, np.float32)), "step_metadata/time is float32"),
        (spec_of(note=NOTE), episode(3, note=np.array(["a", "b", "c"])), r"note is <U1\[3\], but the spec says object\[3\]"),
        (spec_of(note=NOTE), episode(3, note=np.array(["a", None, "c"], object)), "step_metadata/note is text, but not each a str"),
        (spec_of(note=NOTE), episode(2, note=np.array(["a", "\ud800"], object)), "a str that UTF-8 can hold"),
    ],
)
def test_what_does_not_meet_the_spec_is_refused(spec, made, message):
    with pytest.raises(HindcastError, match=message):
        validate_episode(made, spec)


@pytest.mark.parametrize(
    ("leaves", "message"),
    [
        ({"a": TIME, "a/b": TIME}, "'a' has an empty part, or is both an array and a group of 'a/...'"),
        ({"/a": TIME}, "'/a' has an empty part"),
        ({"z": ArraySpec((), "complex64")}, r"'z' is complex64\[\], but RLDS files hold only bool, .*float64, and one text a step"),
        ({"note": ArraySpec((2,), "text")}, r"'note' is text\[2\]"),
        ({"gone": ArraySpec((0,), "float32")}, r"'gone' is float32\[0\], but .* none that is empty"),
    ],
)
def test_what_cannot_be_stored_is_refused(leaves, message):
    with pytest.raises(HindcastError, match=message):
        check_spec(spec_of(**leaves))
