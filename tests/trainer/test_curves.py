"""Curves read back by the readers that people use: text by eye, pandas, and TensorBoard's own."""

import csv
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.curves import EVENTS, _decimal, write_csv, write_tensorboard
from trainer.points import Row

SEEDS = (7, 11)
ROWS = [
    Row(50, "train", {"loss": np.float32([0.1, 3e-9]), "grad_norm": np.float32([1, 2.5])}),
    Row(50, "validation", {"loss": np.float32([-2, np.nan])}),
    Row(80, "train", {"loss": np.float32([1e10, 0]), "grad_norm": np.float32([123456.789, 4])}),
]


def test_csv_is_what_one_expects(tmp_path: Path) -> None:
    write_csv(tmp_path / "curves.csv", ROWS, SEEDS)
    assert (tmp_path / "curves.csv").read_text().splitlines() == [
        "step,seed,split,grad_norm,loss",
        "50,7,train,1,0.1",
        "50,11,train,2.5,3e-09",
        "50,7,validation,,-2",
        "50,11,validation,,nan",
        "80,7,train,123456.79,1e+10",
        "80,11,train,4,0",
    ]


@given(st.floats(width=32))
def test_a_number_reads_back_as_the_same_float32(value: float) -> None:
    read = np.float32(_decimal(np.float32(value)))
    assert read == np.float32(value) or (np.isnan(read) and np.isnan(value))


def test_a_table_of_nothing_has_its_keys(tmp_path: Path) -> None:
    write_csv(tmp_path / "curves.csv", [], SEEDS)
    with (tmp_path / "curves.csv").open() as file:
        assert list(csv.reader(file)) == [["step", "seed", "split"]]


def test_tensorboard_reads_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.notf", types.ModuleType("notf"))  # TensorBoard's switch for "no TensorFlow"
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write_tensorboard(tmp_path, ROWS, SEEDS)
    runs = sorted(path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob(EVENTS))
    assert runs == ["seed_11/train", "seed_11/validation", "seed_7/train", "seed_7/validation"]
    read = EventAccumulator(str(tmp_path / "seed_11" / "train"))
    read.Reload()
    assert read.Tags()["scalars"] == ["grad_norm", "loss"]
    assert [(event.wall_time, event.step, event.value) for event in read.Scalars("grad_norm")] == [(0, 50, 2.5), (0, 80, 4)]
    assert [event.value for event in read.Scalars("loss")] == [np.float32(3e-9), 0]


def test_equal_curves_give_equal_bytes(tmp_path: Path) -> None:
    shuffled = [Row(row.step, row.split, dict(reversed(row.metrics.items()))) for row in ROWS]
    for name, rows in (("a", ROWS), ("b", shuffled)):
        write_tensorboard(tmp_path / name, rows, SEEDS)
        write_csv(tmp_path / name / "curves.csv", rows, SEEDS)
    files = [path for path in (tmp_path / "a").rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()
