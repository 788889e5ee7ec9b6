"""Summaries of files are the same whoever reads them; what another process cannot read, this one does, or says what is wrong with it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rl_datasets import workers
from rl_datasets.digest import content_key, episode_digest
from rl_datasets.errors import HindcastError
from rl_datasets.rlds import RldsReader, summary
from rl_datasets.rlds.shards import Shard
from rl_datasets.rlds.summary import Summary, Wanted, summaries
from rl_datasets.stats import Statistics, statistics
from tests.rl_datasets.conftest import Toy, vector_toy

SHARDS = 5


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three processes read the data of a test; the names of the files that this one reads."""
    names: list[str] = []
    read = summary.read_end_to_end

    def noted(reader: RldsReader, shard: Shard, **options: bool) -> Any:
        names.append(shard.path.name)
        return read(reader, shard, **options)

    monkeypatch.setattr(summary, "read_end_to_end", noted)
    monkeypatch.setattr(summary, "SHARE", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    return names


def read(path: Path) -> list[Summary]:
    reader = RldsReader(path)
    return list(summaries(reader, reader.shards("train"), Wanted(rows=True, spec=reader.spec)))


def check(found: list[Summary], toy: Toy) -> None:
    assert [name for part in found for name in part.episode_id] == [episode.episode_id for episode in toy.episodes]
    assert [digest for part in found for digest in part.digests] == [*map(episode_digest, toy.episodes)]
    assert [key for part in found for key in part.content_keys] == [*map(content_key, toy.episodes)]
    assert [length for part in found for length in part.lengths] == [episode.length for episode in toy.episodes]
    assert [value for part in found for value in part.returns] == [episode.episode_return for episode in toy.episodes]
    first, *others = (part.statistics for part in found)
    for other in others:
        first.join(other)
    joined, expected = first.result(), statistics(toy.episodes, toy.spec)
    assert (joined.episodes, joined.transitions) == (expected.episodes, expected.transitions)
    for ours, theirs in zip(numbers(joined), numbers(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def numbers(found: Statistics) -> list[Any]:
    moments = [*found.observation.values(), *found.action.values(), found.reward, found.episode_return]
    return [number for each in moments for number in each if number is not None]


def test_processes_take_their_part(toy: Toy, read_here: list[str], tmp_path: Path) -> None:
    check(read(toy.write(tmp_path, shards=SHARDS)), toy)
    assert [int(name.split("-")[-3]) for name in read_here] == [0, 1]


def test_small_data_are_read_by_this_process(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_start", pytest.fail)
    check(read(toy.write(tmp_path, shards=SHARDS)), toy)


def test_where_no_process_starts_this_one_reads_all(read_here: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(workers, "_start", fail)
    check(read(vector_toy().write(tmp_path, shards=SHARDS)), vector_toy())
    assert len(read_here) == SHARDS


@pytest.mark.parametrize("damaged", range(SHARDS))
def test_damage_is_told_in_the_same_words(damaged: int, read_here: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vector_toy().write(tmp_path, shards=SHARDS)
    file = sorted(path.glob("*.tfrecord*"))[damaged]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(HindcastError, match=f"{file.name}.*is damaged") as by_several:
        read(path)
    assert read_here[-1] == file.name
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with pytest.raises(HindcastError) as by_one:
        read(path)
    assert str(by_one.value) == str(by_several.value)


@pytest.mark.slow
def test_a_process_that_summarises_does_without_tfds() -> None:
    program = "import sys, rl_datasets.rlds.summary; print({'tensorflow', 'tensorflow_datasets'} & set(sys.modules) or 'light')"
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("light", "")
