"""Each kind of file gives the same episodes; and what is no such file is refused with one line and nothing half-built."""

import bz2
import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from pipelines import collect
from pipelines.params import Params
from rl_datasets.builder import Context, load_builder
from rl_datasets.errors import HindcastError
from rl_datasets.importing.source import file_digest, kind_of
from rl_datasets.manifest import read_manifest
from rl_datasets.schema import Episode

ARRAYS = {
    "o": np.array([[0, 1], [2, 3], [100, 101], [102, 103], [104, 105], [200, 201]], np.float32),
    "n": np.array([[2, 3], [4, 5], [102, 103], [104, 105], [106, 107], [202, 203]], np.float32),
    "a": np.array([0, 1, 1, 0, 1, 0]),
    "r": np.arange(6.0),
    "end": np.array([False, True, False, False, False, True]),
    "limit": np.array([False, False, False, False, True, False]),
}
MAPPING = {
    "env_id": "Toy",
    "observation": "o",
    "next_observation": "n",
    "action": "a",
    "reward": "r",
    "terminal": "end",
    "truncated": "limit",
    "ends": {"kind": "flags"},
}
COLUMNS = {**MAPPING, "observation": ["o.0", "o.1"], "next_observation": ["n.*"]}


def flat() -> dict[str, np.ndarray]:
    columns = {f"{name}.{i}": ARRAYS[name][:, i] for name in ("o", "n") for i in range(2)}
    return {**columns, **{name: ARRAYS[name] for name in ("a", "r", "end", "limit")}}


def write_hdf5(path: Path, arrays: dict[str, np.ndarray] = ARRAYS, **options: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **options)


def write_csv(path: Path, opened: Callable[..., Any] = open, delimiter: str = ",") -> None:
    columns = flat()
    lines = [columns, *zip(*(column.tolist() for column in columns.values()), strict=True)]
    with opened(path, "wt") as file:
        file.write("".join(delimiter.join(str(value) for value in line) + "\n" for line in lines))


def write_json(path: Path, opened: Callable[..., Any] = open, nested: bool = True) -> None:
    columns = {name: ARRAYS[name].tolist() for name in ARRAYS}
    if nested:
        columns |= {name: [{"0": a, "1": b} for a, b in ARRAYS[name].tolist()] for name in ("o", "n")}
    with opened(path, "wt") as file:
        for row in zip(*columns.values(), strict=True):
            file.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")


def table() -> Any:
    return pa.table({name: pa.array(list(array)) for name, array in ARRAYS.items()})


def npy_folder(path: Path) -> None:
    path.mkdir()
    for name, array in ARRAYS.items():
        np.save(path / f"{name}.npy", array)


WRITERS: dict[str, tuple[str, Callable[[Path], Any], dict[str, Any]]] = {
    "toy.npz": ("npz", lambda path: np.savez(path, **ARRAYS), MAPPING),
    "packed.npz": ("npz", lambda path: np.savez_compressed(path, **ARRAYS), MAPPING),
    "fortran.npz": ("npz", lambda path: np.savez(path, **{**ARRAYS, "o": np.asfortranarray(ARRAYS["o"])}), MAPPING),
    "folder": ("npz", npy_folder, MAPPING),
    "toy.h5": ("hdf5", write_hdf5, MAPPING),
    "packed.hdf5": ("hdf5", lambda path: write_hdf5(path, chunks=True, compression="gzip"), MAPPING),
    "toy.csv": ("table", write_csv, COLUMNS),
    "toy.tsv": ("table", lambda path: write_csv(path, delimiter="\t"), COLUMNS),
    "toy.csv.gz": ("table", lambda path: write_csv(path, gzip.open), COLUMNS),
    "toy.jsonl": ("table", write_json, COLUMNS),
    "toy.json.bz2": ("table", lambda path: write_json(path, bz2.open), COLUMNS),
    "lists.jsonl": ("table", lambda path: write_json(path, nested=False), MAPPING),
    "toy.parquet": ("table", lambda path: pa.parquet.write_table(table(), path, row_group_size=2), MAPPING),
    "toy.feather": ("table", lambda path: pa.feather.write_feather(table(), path, chunksize=4), MAPPING),
}


def imported(kind: str, path: Path, **options: Any) -> tuple[list[Episode], Any]:
    module = load_builder(kind)
    builder = module.Builder(module.Options.model_validate({"path": str(path), **options}), Context("toy"))
    return list(builder.episodes(0)), builder


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_episodes(tmp_path, name) -> None:
    kind, write, mapping = WRITERS[name]
    write(tmp_path / name)
    episodes, builder = imported(kind, tmp_path / name, **mapping)
    assert [(episode.episode_id, episode.length, episode.is_terminal) for episode in episodes] == [
        ("00000000", 2, True),
        ("00000001", 3, False),
        ("00000002", 1, True),
    ]
    assert episodes[1].observation.tolist() == [[100, 101], [102, 103], [104, 105], [106, 107]]
    assert episodes[1].action.tolist() == [1, 0, 1, 0]
    assert episodes[1].reward.tolist() == [2, 3, 4, 0]
    assert {entry.digest for entry in builder.inputs} == {file_digest(path) for path in builder.files}
    assert builder.counts["rows_read"] == 6


def test_groups_of_a_file_are_demonstrations_in_numeric_order(tmp_path) -> None:
    with h5py.File(tmp_path / "demos.hdf5", "w") as file:
        for number in (10, 2):
            group = file.create_group(f"data/demo_{number}")
            group["obs/eef"] = number + np.arange(3, dtype=np.float32)[:, None]
            group["next_obs/eef"] = number + 1 + np.arange(3, dtype=np.float32)[:, None]
            group["actions"], group["rewards"], group["dones"] = np.zeros((3, 2)), np.arange(3.0), np.array([0, 1, 1])
            group["states"] = np.zeros((3, 9))
        file["mask/train"] = np.array([b"demo_2"])
    episodes, builder = imported("hdf5", tmp_path / "demos.hdf5", env_id="Lift", layout="robomimic")
    assert [episode.episode_id for episode in episodes] == ["demo_2", "demo_10"]
    assert episodes[1].observation[:, 0].tolist() == [10, 11, 12, 13]
    assert all(episode.is_terminal for episode in episodes)
    assert any("2 rows have 'dones' set within an episode" in note for note in builder.notes)


def test_the_layout_of_d4rl(tmp_path) -> None:
    arrays = {
        "observations": ARRAYS["o"],
        "actions": ARRAYS["o"],
        "rewards": ARRAYS["r"],
        "terminals": ARRAYS["end"],
        "timeouts": ARRAYS["limit"],
    }
    write_hdf5(tmp_path / "d4rl.hdf5", {**arrays, "infos/qpos": ARRAYS["o"], "metadata/algorithm": np.array(b"SAC")})
    episodes, _ = imported("hdf5", tmp_path / "d4rl.hdf5", env_id="Hopper-v5", layout="d4rl")
    assert [episode.length for episode in episodes] == [1, 2]  # without next_observations, the last transitions are lost
    write_hdf5(tmp_path / "d4rl.hdf5", {**arrays, "next_observations": ARRAYS["n"], "extra": ARRAYS["r"]})
    episodes, _ = imported("hdf5", tmp_path / "d4rl.hdf5", env_id="Hopper-v5", layout="d4rl", ignore="extra")
    assert [(episode.length, episode.is_terminal) for episode in episodes] == [(2, True), (3, False), (1, True)]
    with pytest.raises(ValueError, match="known are d4rl, d3rlpy, d3rlpy2, robomimic"):
        imported("hdf5", tmp_path / "d4rl.hdf5", env_id="Hopper-v5", layout="d4rlx")


def test_a_folder_of_files(tmp_path) -> None:
    np.savez(tmp_path / "b.npz", **ARRAYS)
    np.savez(tmp_path / "a.npz", **ARRAYS)
    (tmp_path / "README.txt").write_text("not data")
    episodes, builder = imported("npz", tmp_path, **MAPPING)
    assert [episode.episode_id for episode in episodes][2:4] == ["a-00000002", "b-00000000"]
    assert [entry.path for entry in builder.inputs] == [(tmp_path / name).as_posix() for name in ("a.npz", "b.npz")]
    one, _ = imported("npz", tmp_path, files="b*", **MAPPING)
    assert len(one) == 3
    whole, _ = imported(
        "npz", tmp_path, **{**MAPPING, "ends": {"kind": "groups"}, "inner_flags": "ignore", "next_observation": None, "ignore": "n"}
    )
    assert [(episode.episode_id, episode.length) for episode in whole] == [("a", 5), ("b", 5)]


def test_an_id_in_two_files_is_refused_with_both_named(tmp_path) -> None:
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", **ARRAYS, id=np.array(["x", "x", "y", "y", "y", "z"]))
    with pytest.raises(HindcastError, match=r"'x' is in .*a\.npz and again in .*b\.npz"):
        imported("npz", tmp_path, **{**MAPPING, "ends": {"kind": "ids", "column": "id"}})


def test_a_csv_whose_types_show_late(tmp_path, monkeypatch) -> None:
    from rl_datasets.importing import tabletext

    monkeypatch.setattr(tabletext, "_PARSED_AT_ONCE", 64)
    rows = [f"{i},{i if i < 40 else i + 0.5},{'' if i < 40 else 'late'},0,{int(i == 49)}" for i in range(50)]
    (tmp_path / "late.csv").write_text("\n".join(["o,a,word,r,end", *rows]) + "\n")
    mapping = {"env_id": "Toy", "observation": ["o"], "action": ["a"], "reward": "r", "terminal": "end", "ends": {"kind": "flags"}}
    episodes, _ = imported("table", tmp_path / "late.csv", **mapping, ignore="word")
    assert episodes[0].action[:, 0].tolist()[38:42] == [38, 39, 40.5, 41.5]
    with pytest.raises(HindcastError, match="cannot be read as a table"):
        imported("table", tmp_path / "late.csv", **mapping, ignore="word", types={"a": "int64"})


def test_json_whose_fields_show_late(tmp_path, monkeypatch) -> None:
    from rl_datasets.importing import tabletext

    monkeypatch.setattr(tabletext, "_PARSED_AT_ONCE", 128)
    rows = [{"o": float(i), "a": {str(i // 20): 1.0}, "r": 0.0, "end": i == 39} for i in range(40)]
    (tmp_path / "late.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mapping = {"env_id": "Toy", "observation": ["o"], "action": {"columns": "a.*", "one_hot": True}, "reward": "r", "terminal": "end"}
    episodes, _ = imported("table", tmp_path / "late.jsonl", **mapping, ends={"kind": "flags"})
    assert episodes[0].action.tolist() == [0] * 20 + [1] * 19 + [0]


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def object_npz(path: Path) -> None:
    np.savez(path, **{**ARRAYS, "o": np.array([Bomb()] * 6, object)})


def cut(write: Callable[[Path], Any], keep: float) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        write(path)
        path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])

    return run


def zipped(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


REFUSED: dict[str, tuple[str, str, Callable[[Path], Any], list[str]]] = {
    "a truncated HDF5": ("hdf5", "a.hdf5", cut(write_hdf5, 0.6), ["damaged HDF5"]),
    "an HTML page": ("hdf5", "a.hdf5", lambda p: p.write_text("<!DOCTYPE html><html>404</html>"), ["web page (HTML)", "download"]),
    "an empty HDF5": ("hdf5", "a.hdf5", lambda p: p.touch(), ["is empty (0 bytes)"]),
    "an HDF5 without arrays": ("hdf5", "a.hdf5", lambda p: write_hdf5(p, {}), ["not there"]),
    "an empty CSV": ("table", "a.csv", lambda p: p.touch(), ["is empty (0 bytes)"]),
    "a CSV of a header alone": ("table", "a.csv", lambda p: p.write_text(",".join(flat()) + "\n"), ["has no rows"]),
    "a ragged CSV": ("table", "a.csv", lambda p: p.write_text("a,b\n1,2\n3\n"), ["cannot be read as a table", "Expected 2 columns"]),
    "a broken JSON": ("table", "a.jsonl", lambda p: p.write_text('{"a": 1}\n{"a": \n'), ["cannot be read as a table"]),
    "a Git LFS pointer": ("npz", "a.npz", lambda p: p.write_text("version https://git-lfs.github.com/spec/v1\n"), ["Git LFS pointer"]),
    "a truncated npz": ("npz", "a.npz", cut(lambda p: np.savez(p, **ARRAYS), 0.5), ["damaged .npz"]),
    "an object array": ("npz", "a.npz", object_npz, ["'o'", "pickled object array", "never read"]),
    "a pickle": ("npz", "a.npz", lambda p: p.write_bytes(pickle.dumps(Bomb())), ["is a pickle", "never read", "numpy.savez"]),
    "a pickle named .hdf5": ("hdf5", "a.hdf5", lambda p: p.write_bytes(pickle.dumps(Bomb())), ["is a pickle"]),
    "a pickle named .csv": ("table", "a.csv", lambda p: p.write_bytes(pickle.dumps(Bomb())), ["is a pickle"]),
    "an old pickle": ("table", "a.csv", lambda p: p.write_bytes(pickle.dumps(Bomb(), protocol=0)), ["is a pickle"]),
    "a packed pickle": ("table", "a.csv.gz", lambda p: p.write_bytes(gzip.compress(pickle.dumps(Bomb()))), ["is a pickle"]),
    "a PyTorch file": ("npz", "a.npz", lambda p: zipped(p, {"archive/data.pkl": b""}), ["is a pickle"]),
    "a file of another kind": ("hdf5", "a.hdf5", lambda p: zipped(p, {"x.npy": b""}), ["kind zip", "no hdf5"]),
    "no file": ("hdf5", "a.hdf5", lambda p: None, ["does not exist"]),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "exploded").exists()


def collected(builder: str, source: str, **options: Any) -> Path:
    entry = {"builder": builder, "version": "1.0.0", "seed": 0, "source": source, "options": options}
    sections = {"checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}
    return collect.run("toy", Params.model_validate({"datasets": {"toy": entry}, **sections}))


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_and_leaves_nothing(project, case) -> None:
    builder, name, write, words = REFUSED[case]
    write(project / name)
    with pytest.raises(HindcastError) as error:
        collected(builder, name, **(COLUMNS if builder == "table" else MAPPING))
    assert all(word in str(error.value) for word in words), error.value
    assert name in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(project.glob("artifacts/**/*.*"))


def test_an_import_leaves_its_report_in_the_manifest(project) -> None:
    np.savez(project / "toy.npz", **ARRAYS, extra=np.zeros(6))
    manifest = read_manifest(collected("npz", "toy.npz", **MAPPING, ignore=["extra"]))
    assert [(entry.path, entry.digest) for entry in manifest.inputs] == [("toy.npz", file_digest(project / "toy.npz"))]
    assert manifest.counts["episodes"] == 3
    assert manifest.counts["rows_read"] == manifest.counts["transitions"] == 6
    assert manifest.counts["terminals"] == 2
    assert manifest.notes[0] == "6 rows were read: 6 transitions in 3 episodes were kept, 0 transitions were dropped."
    assert "reward: float64 is stored as float32." in manifest.notes
    assert any("extra" in note for note in manifest.notes)


def test_the_kind_of_a_file_is_told_by_its_content(tmp_path) -> None:
    path = tmp_path / "file"
    for content, kind in ((b"1,2\n(3", "other"), (b"(lp0\n.", "pickle"), (b"", "empty"), (b"  <html>", "html"), (b"PAR1", "parquet")):
        path.write_bytes(content)
        assert kind_of(path) == kind
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1))
    path.write_bytes(buffer.getvalue())
    assert kind_of(path) == "npy"
