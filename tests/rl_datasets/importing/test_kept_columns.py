"""Columns that are kept with each step, as step metadata: which they are, on which step each row lands, and what is refused."""

import json
from pathlib import Path
from typing import Any

import h5py
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pytest
from hypothesis import given, settings

from rl_datasets.builder import Context, load_builder
from rl_datasets.errors import HindcastError
from rl_datasets.importing.convert import convert
from rl_datasets.importing.mapping import MappingOptions
from rl_datasets.importing.parts import ArrayPart
from rl_datasets.importing.report import ImportReport
from rl_datasets.importing.spec import describe
from rl_datasets.rlds import read_episodes, read_spec, write_rlds
from rl_datasets.rlds.quiet_tensorflow import tfds
from rl_datasets.schema import ArraySpec

FLAGS = {"ends": {"kind": "flags"}, "terminal": "d", "truncated": "t"}


def log(**more: Any) -> dict[str, np.ndarray]:
    """Episodes of 3, 1 and 2 rows: the first one terminal, the others truncated. 101 is row 1 of episode 1."""
    base = {"o": [[0], [1], [2], [100], [200], [201]], "a": np.zeros((6, 1)), "r": np.zeros(6), "d": [0, 0, 1, 0, 0, 0]}
    return {name: np.asarray(values) for name, values in {**base, "t": [0, 0, 0, 1, 0, 1], **more}.items()}


NUMBER = np.array([0, 1, 2, 100, 200, 201]) + 0.25
NOTE = np.array(["r0", "r1", "r2", "r100", "r200", "r201"])


def kept(found: Any, name: str) -> list[list[Any]]:
    return [episode.step_metadata[name].tolist() for episode in found.episodes]


def test_each_row_is_on_its_step_and_a_step_without_a_row_is_blank(imported) -> None:
    found = imported(log(x=NUMBER, note=NOTE), step_metadata=["x", "note"], lost_observation="repeat", **FLAGS)
    assert kept(found, "x") == [[0.25, 1.25, 2.25, 0], [200.25, 201.25]]
    assert kept(found, "note") == [["r0", "r1", "r2", ""], ["r200", "r201"]]
    assert found.spec.step_metadata == {"x": ArraySpec((), "float64"), "note": ArraySpec((), "text")}
    assert "Columns that are kept as step metadata: x, note." in found.notes


def test_the_observation_after_a_dropped_transition_keeps_its_row(imported) -> None:
    assert kept(imported(log(x=NUMBER), step_metadata="x", **FLAGS), "x") == [[0.25, 1.25, 2.25], [200.25, 201.25]]


def test_rows_that_are_steps(imported) -> None:
    found = imported(
        log(x=NUMBER, length=np.array([3, 3])),
        step_metadata={"number": "x"},
        rows="steps",
        ends={"kind": "lengths", "column": "length"},
        ignore=["d", "t"],
    )
    assert kept(found, "number") == [[0.25, 1.25, 2.25], [100.25, 200.25, 201.25]]


def test_one_observation_more_than_actions(imported) -> None:
    arrays = {"o": [[0], [1], [2], [100], [101]], "a": [[0], [0], [0]], "r": [0, 0, 0], "length": [2, 1]}
    beside = {"of_o": np.array([0, 1, 2, 100, 101]), "of_a": np.array([0.5, 1.5, 100.5])}
    ends = {"kind": "lengths", "column": "length"}
    found = imported({**arrays, **beside}, rows="extra_observation", step_metadata="of_*", ends=ends)
    assert kept(found, "of_o") == [[0, 1, 2], [100, 101]]
    assert kept(found, "of_a") == [[0.5, 1.5, 0], [100.5, 0]]


def test_what_patterns_stand_for(imported) -> None:
    arrays = log(**dict.fromkeys(("i/x", "i/y", "z", "rx"), NUMBER))
    options = {"lost_observation": "repeat", **FLAGS}
    assert set(imported(arrays, step_metadata="*", **options).spec.step_metadata) == {"i/x", "i/y", "z", "rx"}
    assert set(imported(arrays, step_metadata="*", ignore=["i/*"], **options).spec.step_metadata) == {"z", "rx"}
    found = imported(arrays, step_metadata=["i/*", "q?"], ignore=["*"], **options)
    assert set(found.spec.step_metadata) == {"i/x", "i/y"}
    assert "Columns that were left out: z, rx." in found.notes
    assert set(imported(arrays, step_metadata="r*", ignore=["i/*", "z"], **options).spec.step_metadata) == {"rx"}  # r is the reward
    assert set(imported(arrays, step_metadata=["r", "rx"], ignore=["i/*", "z"], **options).spec.step_metadata) == {"r", "rx"}


def test_a_missing_text_is_empty_and_counted(imported) -> None:
    notes = np.array(["a", None, "c", None, "e", "f"], object)
    part = ArrayPart("toy", "", log())
    part.columns = {**part.columns, "note": ArrayPart("", "", {"note": NOTE}).columns["note"]}
    part._arrays = {**part._arrays, "note": notes}
    options = MappingOptions.model_validate(
        {"env_id": "Toy", "observation": "o", "action": "a", "reward": "r", "step_metadata": "note", "lost_observation": "repeat", **FLAGS}
    )
    report = ImportReport()
    spec, _ = describe(lambda: iter([part]), options)
    found = list(convert([part], options, spec, report))
    assert found[0].step_metadata["note"].tolist() == ["a", "", "c", ""]
    assert "step_metadata/note: 2 missing texts are empty now." in report.notes()


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (
            {"x": NUMBER},
            {},
            r"nothing is said about the column x\. Map them, keep them as metadata or with each step by 'step_metadata: \[x",
        ),
        ({"x": NUMBER}, {"step_metadata": "y"}, "step_metadata names the column 'y', which is not there"),
        ({"x": NUMBER[:3]}, {"step_metadata": "x"}, r"step_metadata\.x names 'x', which has 3 rows, but 6 are expected"),
        ({"x": np.array([None] * 6)}, {"step_metadata": "x"}, r"step_metadata\.x names 'x', a pickled object array"),
        ({"x": np.array([["a", "b"]] * 6)}, {"step_metadata": "x"}, r"step_metadata\.x names 'x', whose rows are texts of shape \[2\]"),
        ({"x": np.array([b"\xff"] * 6)}, {"step_metadata": "x"}, "rows 0 to 6: 'x' holds bytes that are no UTF-8"),
    ],
)
def test_what_cannot_be_kept_is_refused(imported, arrays, options, message) -> None:
    with pytest.raises(HindcastError, match=message):
        imported(log(**arrays), **options, **FLAGS)


def test_floats_beyond_float64_are_cut_to_it_and_said(imported) -> None:
    found = imported(log(x=NUMBER.astype(np.longdouble)), step_metadata="x", **FLAGS)
    assert kept(found, "x") == [[0.25, 1.25, 2.25], [200.25, 201.25]]
    assert found.spec.step_metadata["x"].dtype == "float64"


def test_bytes_of_hdf5_that_are_no_text_are_refused(tmp_path) -> None:
    with h5py.File(tmp_path / "log.h5", "w") as file:
        for name, values in log().items():
            file[name] = values
        file.create_dataset("note", data=[b"\xff"] * 6, dtype=h5py.string_dtype())
    entry = {"env_id": "Toy", "observation": "o", "action": "a", "reward": "r", "step_metadata": "note", **FLAGS}
    with pytest.raises(HindcastError, match=r"log\.h5, rows 0 to 6: 'note' holds bytes that are no UTF-8"):
        built("hdf5", path=str(tmp_path / "log.h5"), **entry)


def test_a_pattern_has_no_name_of_its_own(imported) -> None:
    with pytest.raises(ValueError, match=r"step_metadata\.x is a pattern"):
        imported(log(x=NUMBER), step_metadata={"x": "x*"}, **FLAGS)


def test_all_files_keep_the_same(tmp_path) -> None:
    for name, columns in (("a", log(x=NUMBER)), ("b", log())):
        np.savez(tmp_path / f"{name}.npz", **columns)
    entry = {"env_id": "Toy", "observation": "o", "action": "a", "reward": "r", "step_metadata": "x?", **FLAGS}
    with pytest.raises(HindcastError, match=r"b\.npz: its step metadata differ from those of the source's first part in x"):
        built("npz", path=str(tmp_path), **entry)


def built(kind: str, **options: Any) -> tuple[Any, list[Any]]:
    module = load_builder(kind)
    builder = module.Builder(module.Options.model_validate(options), Context("toy"))
    return builder, list(builder.episodes(0))


def test_a_table_with_rows_in_any_order_keeps_texts_times_and_the_columns_that_order_it(tmp_path) -> None:
    lines = [
        "trip,minute,v,u,r,at,note",
        "b,1,101,0,0,2026-01-31T12:00:01,",
        "a,1,1,0,0,2026-01-31T12:00:02,naß",
        "a,0,0,0,0,,x",
        "b,0,100,0,0,,y",
    ]
    (tmp_path / "trips.csv").write_text("\n".join(lines) + "\n")
    entry = {"env_id": "T", "observation": "v", "action": "u", "reward": "r", "bounds": "data"}
    ends = {"kind": "ids", "column": "trip", "sequence": "minute"}
    builder, found = built("table", path=str(tmp_path / "trips.csv"), ends=ends, step_metadata=["minute", "at", "note"], **entry)
    assert [episode.step_metadata["minute"].tolist() for episode in found] == [[0, 1], [0, 1]]
    assert {name: leaf.dtype for name, leaf in builder.spec().step_metadata.items()} == {"minute": "int64", "at": "text", "note": "text"}
    by_id = {episode.episode_id: episode.step_metadata for episode in found}
    assert by_id["a"]["note"].tolist() == ["x", "naß"]
    assert by_id["b"]["at"].tolist() == ["", "2026-01-31T12:00:01"]


def test_whole_numbers_with_gaps_become_float64_wherever_the_gap_is(tmp_path) -> None:
    """The gap is in the second file, and a column without one stays as it is, to the last digit."""
    (tmp_path / "a.csv").write_text("o,a,r,count,big\n0,0,0,7,9007199254740993\n1,0,0,8,1\n")
    (tmp_path / "b.csv").write_text("o,a,r,count,big\n2,0,0,,3\n3,0,0,9,4\n")
    entry = {"path": str(tmp_path), "env_id": "T", "observation": "o", "action": "a", "reward": "r", "ends": {"kind": "groups"}}
    builder, (first, second) = built("table", step_metadata="*", **entry)
    assert {name: leaf.dtype for name, leaf in builder.spec().step_metadata.items()} == {"count": "float64", "big": "int64"}
    assert first.step_metadata["big"].tolist() == [9007199254740993, 1]
    np.testing.assert_array_equal(second.step_metadata["count"], [np.nan, 9.0])
    assert first.step_metadata["count"].tolist() == [7.0, 8.0]
    assert "step_metadata/count: some numbers are missing, so they are stored as float64, NaN in the place of these." in builder.notes
    (tmp_path / "b.csv").write_text("o,a,r,count,big\n2,0,0,1,\n3,0,0,9,4\n")
    with pytest.raises(HindcastError, match=r"step_metadata/big has missing values beside whole numbers from 2\*\*53 on"):
        built("table", step_metadata="*", **entry)


def test_foreign_rlds_keep_what_is_named(tmp_path) -> None:
    """Written by TFDS itself: a text and a float64 of each step, and an array that has no fixed shape."""
    steps = {
        "observation": tfds.features.Tensor(shape=(1,), dtype=np.float32),
        "action": tfds.features.Tensor(shape=(1,), dtype=np.float32),
        "reward": np.float32,
        "is_first": np.bool_,
        "is_last": np.bool_,
        "is_terminal": np.bool_,
        "language_instruction": tfds.features.Text(),
        "info": {"time": tfds.features.Tensor(shape=(), dtype=np.float64, encoding="bytes")},
        "boxes": tfds.features.Tensor(shape=(None,), dtype=np.float32),
    }
    features = tfds.features.FeaturesDict({"steps": tfds.features.Dataset(steps)})

    (tmp_path / "robot" / "1.0.0").mkdir(parents=True)
    path = str(tmp_path / "robot" / "1.0.0")
    identity = tfds.core.DatasetIdentity(name="robot", version=tfds.core.Version("1.0.0"), data_dir=path, module_name="")
    writer = tfds.core.SequentialWriter(tfds.core.DatasetInfo(builder=identity, features=features), max_examples_per_shard=5)
    writer.initialize_splits(["train"])

    def step(number: int, t: int) -> dict[str, Any]:
        at = np.float32([100 * number + t])
        flags = {"is_first": t == 0, "is_last": t == 2, "is_terminal": t == 2}
        words = {"language_instruction": f"pick {at[0]:g}", "info": {"time": 1.7e9 + t / 3}, "boxes": np.zeros(2, np.float32)}
        return {"observation": at, "action": at, "reward": 0.0, **flags, **words}

    writer.add_examples({"train": [{"steps": [step(number, t) for t in range(3)]} for number in range(2)]})
    writer.close_all()
    builder, found = built("rlds", path=path, mapping={"step_metadata": "*", "bounds": "data"})
    assert set(builder.spec().step_metadata) == {"info/time", "language_instruction"}
    by_start = {float(e.observation[0, 0]): e.step_metadata for e in found}
    assert by_start[100.0]["language_instruction"].tolist() == ["pick 100", "pick 101", "pick 102"]
    np.testing.assert_array_equal(by_start[0.0]["info/time"], 1.7e9 + np.arange(3) / 3, strict=True)
    assert "Arrays of a step that were left out: boxes." in builder.notes
    assert not built("rlds", path=path, mapping={"bounds": "data"})[0].spec().step_metadata


def write_minari(folder: Path, style: str) -> Path:
    """Two episodes of two steps; infos of a number, and in a group a vector and a text."""
    data = folder / "data"
    data.mkdir(parents=True)
    box = {"type": "Box", "dtype": "float32", "shape": [1], "low": [-1.0], "high": [1.0]}
    spaces = {"observation_space": json.dumps(box), "action_space": json.dumps(box)}
    (data / "metadata.json").write_text(json.dumps({"data_format": style, "total_episodes": 2, **spaces}))
    for number in range(2):
        at = np.arange(3.0) + 100 * number
        infos = {"x": at, "deep": {"v": np.stack([at, -at], axis=1), "word": [f"w{step:g}" for step in at]}}
        steps = {"observations": np.float32(at[:, None] / 1000), "actions": np.float32(np.zeros((2, 1))), "rewards": np.zeros(2)}
        flags = {"terminations": np.zeros(2, bool), "truncations": np.array([False, True])}
        if style == "hdf5":
            with h5py.File(data / "main_data.hdf5", "a") as file:
                group = file.create_group(f"episode_{number}")
                for key, values in {**steps, **flags, "infos/x": infos["x"], "infos/deep/v": infos["deep"]["v"]}.items():
                    group[key] = values
                group.create_dataset("infos/deep/word", data=infos["deep"]["word"], dtype=h5py.string_dtype())
        else:
            padded = {
                key: list(np.concatenate([values, values[-1:]])) if len(values) == 2 else list(values)
                for key, values in {**steps, **flags}.items()
            }
            deep = pa.StructArray.from_arrays([pa.array(list(infos["deep"]["v"])), pa.array(infos["deep"]["word"])], ["v", "word"])
            column = pa.StructArray.from_arrays([pa.array(infos["x"]), deep], ["x", "deep"])
            fixed = {
                key: pa.array(values, pa.list_(pa.float32(), 1)) if key in ("observations", "actions") else pa.array(values)
                for key, values in padded.items()
            }
            (data / str(number)).mkdir()
            pyarrow.feather.write_feather(
                pa.table({**fixed, "infos": column}), data / str(number) / "part.arrow", compression="uncompressed"
            )
            (data / str(number) / "metadata.json").write_text("{}")
    return folder


@pytest.mark.parametrize("style", ["hdf5", "arrow"])
def test_infos_of_minari(tmp_path, style) -> None:
    path = str(write_minari(tmp_path / "toy", style))
    builder, found = built("minari", path=path, mapping={"env_id": "Toy", "step_metadata": "infos/*"})
    assert found[1].step_metadata["infos/x"].tolist() == [100.0, 101.0, 102.0]
    assert found[1].step_metadata["infos/deep/v"].tolist() == [[100.0, -100.0], [101.0, -101.0], [102.0, -102.0]]
    assert found[0].step_metadata["infos/deep/word"].tolist() == ["w0", "w1", "w2"]
    assert not any("infos" in note and "left out" in note for note in builder.notes)
    plain, _ = built("minari", path=path, mapping={"env_id": "Toy"})
    assert not plain.spec().step_metadata
    assert any("infos, where there are any, were left out" in note for note in plain.notes)


@settings(max_examples=10)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.data())
def test_an_import_that_is_written_and_read_keeps_all(tmp_path_factory, lengths, data) -> None:
    rows = sum(lengths)
    texts = data.draw(
        st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4), min_size=rows, max_size=rows)
    )
    numbers = data.draw(st.lists(st.floats(width=64), min_size=rows, max_size=rows))
    arrays = {"o": np.arange(rows)[:, None], "a": np.zeros((rows, 1)), "r": np.zeros(rows), "note": np.array(texts), "x": np.array(numbers)}
    folder = tmp_path_factory.mktemp("kept")
    np.savez(folder / "log.npz", **arrays, length=np.array(lengths))
    entry = {"env_id": "Toy", "observation": "o", "action": "a", "reward": "r", "bounds": "data", "step_metadata": "*"}
    builder, found = built("npz", path=str(folder / "log.npz"), ends={"kind": "lengths", "column": "length"}, **entry)
    write_rlds(folder / "out", "toy", "1.0.0", builder.spec(), {"raw": iter(found)})
    assert read_spec(folder / "out") == builder.spec()
    starts = dict(zip(np.cumsum([0, *lengths[:-1]]).tolist(), lengths, strict=True))
    for episode in read_episodes(folder / "out", "raw"):
        start = int(episode.observation[0, 0])
        part = slice(start, start + starts[start])
        assert episode.step_metadata["note"].tolist() == texts[part]
        np.testing.assert_array_equal(episode.step_metadata["x"], np.array(numbers)[part], strict=True)
