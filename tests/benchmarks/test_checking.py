"""The quality gate against one pass of reading: at most three times as long. A million short episodes take memory of a row each."""

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, run_checks
from rl_datasets.checks.directory import check_directory
from rl_datasets.rlds import RldsReader, read_episodes, write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode

LIMIT = 3.0
SPECS = {
    "episodes of 22 steps": EnvSpec("CartPole-v1", ArraySpec((4,), "float32"), ArraySpec((), "int64", 0, 1, 2)),
    "episodes of 1000 steps": EnvSpec("HalfCheetah-v5", ArraySpec((17,), "float32"), ArraySpec((6,), "float32", -9.0, 9.0)),
}
SIZES = {"episodes of 22 steps": (50_000, 22), "episodes of 1000 steps": (2_000, 1000)}


def episodes(spec: EnvSpec, count: int, length: int) -> Iterator[Episode]:
    random = np.random.default_rng(0)
    for index in range(count):
        observation = random.normal(size=(length + 1, *spec.observation.shape)).astype(np.float32)
        if spec.action.is_discrete:
            action = random.integers(0, 2, length + 1)
        else:
            action = random.normal(size=(length + 1, *spec.action.shape)).astype(np.float32)
        reward, discount = random.normal(size=length + 1).astype(np.float32), np.ones(length + 1, np.float32)
        action[-1] = reward[-1] = discount[-1] = 0
        yield Episode(f"{index:08d}", observation, action, reward, discount, False, {"seed": index, "policy": "p", "environment": "e"})


@pytest.mark.benchmark
@pytest.mark.parametrize("kind", SPECS)
def test_checking_takes_at_most_three_times_as_long_as_reading(kind: str, tmp_path: Path, compare: Callable[..., dict[str, float]]) -> None:
    folder, spec = tmp_path / "toy" / "1.0.0", SPECS[kind]
    count, length = SIZES[kind]
    write_rlds(folder, "toy", "1.0.0", spec, {"raw": episodes(spec, count, length)})

    def check() -> int:
        report = check_directory(RldsReader(folder), ["raw"], Expected.of(spec), CheckParams())
        return int(report.summary["transitions"])

    def read() -> int:
        return sum(episode.length for episode in read_episodes(folder, "raw"))

    ratios = compare(f"Checking {kind}", "transitions", {"check_directory": check, "read_episodes": read})
    assert 1 / ratios["check_directory"] <= LIMIT


@pytest.mark.benchmark
def test_a_million_short_episodes_take_a_row_each() -> None:
    """Of what is kept of an episode, its id and its row, and its sketch; not its steps."""
    spec = SPECS["episodes of 22 steps"]
    peaks = []
    for count in (100_000, 1_000_000):
        made = list(episodes(spec, 1000, 4))
        again = (Episode(**{**vars(made[index % 1000]), "episode_id": f"{index:08d}"}) for index in range(count))
        tracemalloc.start()
        report = run_checks(again, Expected.of(spec), CheckParams.model_validate({"duplicates": "off", "seeds": "off"}))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(report.table) == count
    assert (peaks[1] - peaks[0]) / 900_000 < 2_000


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q"]))
