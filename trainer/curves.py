"""Learning curves as files: `curves.csv`, and TensorBoard's event files. Equal curves give equal bytes."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from rl_datasets.files import write_text
from trainer.points import Row

KEYS = ("step", "seed", "split")
EVENTS = "events.out.tfevents.0"  # TensorBoard looks for "tfevents"; its own writer would add time, host and process


def write_csv(path: Path, rows: Sequence[Row], seeds: Sequence[int]) -> None:
    """Writes columns step, seed, split and the metrics by name; a cell is empty where a split does not have the metric.

    A number is the shortest decimal that reads back as the same float32.
    """
    metrics = sorted({name for row in rows for name in row.metrics})
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*KEYS, *metrics])
    for row in rows:
        for column, seed in enumerate(seeds):
            cells = [_decimal(row.metrics[name][column]) if name in row.metrics else "" for name in metrics]
            table.writerow([row.step, seed, row.split, *cells])
    write_text(path, text.getvalue())


def write_tensorboard(folder: Path, rows: Sequence[Row], seeds: Sequence[int]) -> None:
    """Writes one run a seed and split, `seed_<n>/<split>`, of scalars. Every wall time is 0: TensorBoard shows steps."""
    for column, seed in enumerate(seeds):
        for split in sorted({row.split for row in rows}):
            run = folder / f"seed_{seed}" / split
            run.mkdir(parents=True, exist_ok=True)
            with (run / EVENTS).open("wb") as file:
                writer = RecordWriter(file)
                writer.write(Event(wall_time=0, file_version="brain.Event:2").SerializeToString(deterministic=True))
                for row in rows:
                    if row.split == split:
                        writer.write(_event(row, column).SerializeToString(deterministic=True))


def _event(row: Row, column: int) -> Event:
    values = [Summary.Value(tag=name, simple_value=float(row.metrics[name][column])) for name in sorted(row.metrics)]
    return Event(wall_time=0, step=row.step, summary=Summary(value=values))


def _decimal(value: np.float32) -> str:
    plain = value == 0 or 1e-4 <= abs(value) < 1e7
    return np.format_float_positional(value, trim="-") if plain else np.format_float_scientific(value, trim="-")
