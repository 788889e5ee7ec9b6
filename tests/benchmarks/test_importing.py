"""Importing logged data against reading them with their own library: at least half as fast, in memory that does not grow with them.

The size is a million transitions; HINDCAST_TRANSITIONS=10000000 measures the full one.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl_datasets.builder import Context, load_builder

TRANSITIONS = int(os.environ.get("HINDCAST_TRANSITIONS", 1_000_000))
LENGTH, OBSERVATION, ACTION, BLOCK = 1000, 17, 6, 100_000
MAPPING = {"env_id": "HalfCheetah-v5", "reward": "rewards", "truncated": "timeouts", "ends": {"kind": "flags"}}
ARRAYS = {**MAPPING, "observation": "observations", "action": "actions", "terminal": "terminals"}
COLUMNS = {**MAPPING, "observation": "observation_*", "action": "action_*", "terminal": "terminals"}
GROWTH = 100 * 2**20  # bytes of memory that four times the data may take more


def block(number: int, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(number)
    observation, action = (rng.normal(size=(rows, size)).astype(np.float32) for size in (OBSERVATION, ACTION))
    ends = np.arange(number * BLOCK, number * BLOCK + rows) % LENGTH == LENGTH - 1
    reward = rng.normal(size=rows).astype(np.float32)
    return {"observations": observation, "actions": action, "rewards": reward, "terminals": np.zeros(rows, bool), "timeouts": ends}


def blocks(transitions: int) -> Any:
    return (block(number, min(BLOCK, transitions - first)) for number, first in enumerate(range(0, transitions, BLOCK)))


def write_hdf5(path: Path, transitions: int) -> None:
    with h5py.File(path, "w") as file:
        for rows in blocks(transitions):
            for key, values in rows.items():
                if key not in file:
                    file.create_dataset(key, data=values, maxshape=(None, *values.shape[1:]), chunks=(4096, *values.shape[1:]))
                else:
                    file[key].resize(len(file[key]) + len(values), axis=0)
                    file[key][-len(values) :] = values


def write_npz(path: Path, transitions: int) -> None:
    parts = list(blocks(transitions))
    np.savez(path, **{key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def as_columns(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    named = {f"observation_{i}": rows["observations"][:, i] for i in range(OBSERVATION)}
    named |= {f"action_{i}": rows["actions"][:, i] for i in range(ACTION)}
    return named | {key: rows[key] for key in ("rewards", "terminals", "timeouts")}


def write_parquet(path: Path, transitions: int) -> None:
    writer = None
    for rows in blocks(transitions):
        table = pa.table(as_columns(rows))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def write_csv(path: Path, transitions: int) -> None:
    for number, rows in enumerate(blocks(transitions)):
        pd.DataFrame(as_columns(rows)).to_csv(path, mode="a", header=number == 0, index=False)


def read_hdf5(path: Path) -> int:
    with h5py.File(path) as file:
        return min(len(file[key][:]) for key in file)


def read_npz(path: Path) -> int:
    with np.load(path) as file:
        return min(len(file[key]) for key in file.files)


def imported(builder: str, path: Path, options: dict[str, Any]) -> int:
    module = load_builder(builder)
    made = module.Builder(module.Options.model_validate(options), Context("log", source=path))
    return sum(episode.length for episode in made.episodes(0))


KINDS: dict[str, tuple[str, Callable[[Path, int], None], Callable[[Path], int], dict[str, Any], int]] = {
    "hdf5": ("hdf5", write_hdf5, read_hdf5, ARRAYS, TRANSITIONS),
    "npz": ("npz", write_npz, read_npz, ARRAYS, TRANSITIONS),
    "parquet": ("table", write_parquet, lambda path: pq.read_table(path).num_rows, COLUMNS, TRANSITIONS),
    "csv": ("table", write_csv, lambda path: len(pd.read_csv(path)), COLUMNS, 1_000_000),  # no more, for the text is slow to write
}


@pytest.mark.benchmark
@pytest.mark.parametrize("kind", KINDS)
def test_importing_is_at_least_half_as_fast_as_reading(kind: str, tmp_path: Path, compare: Callable[..., dict[str, float]]) -> None:
    builder, write, read, options, transitions = KINDS[kind]
    path = tmp_path / f"log.{kind}"
    write(path, transitions)
    ours, theirs = f"import of {kind}, as episodes", "its own library, read whole"
    subjects = {ours: lambda: imported(builder, path, options), theirs: lambda: read(path)}
    ratios = compare(f"Importing {transitions:,} transitions", "transitions", subjects, rounds=3)
    assert ratios[ours] >= 0.5


def peak_memory(path: Path, builder: str, options: dict[str, Any]) -> int:
    """Of a process that imports a file: bytes."""
    code = (
        "from pathlib import Path; from rl_datasets.builder import Context, load_builder\n"
        f"module = load_builder({builder!r})\n"
        f"made = module.Builder(module.Options.model_validate({options!r}), Context('log', source=Path({str(path)!r})))\n"
        "assert sum(episode.length for episode in made.episodes(0))\n"
        "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"  # getrusage would count the parent's too
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "datasets"}
    )
    return int(done.stdout) * 1024


@pytest.mark.benchmark
@pytest.mark.parametrize("kind", ["hdf5", "parquet"])
def test_memory_does_not_grow_with_the_data(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder, write, _, options, _ = KINDS[kind]
    peaks = []
    for transitions in (TRANSITIONS // 4, TRANSITIONS):
        path = tmp_path / f"{transitions}.{kind}"
        write(path, transitions)
        peaks.append(peak_memory(path, builder, options))
        size = path.stat().st_size
        path.unlink()
    with capsys.disabled():
        quarter, whole, source = (count / 1e6 for count in (*peaks, size))
        print(f"\nMemory of importing {kind}: {quarter:,.0f} MB for a quarter, {whole:,.0f} MB for {source:,.0f} MB of data")
    assert peaks[1] - peaks[0] < GROWTH


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q"]))
