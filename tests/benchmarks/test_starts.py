"""Nothing hangs: fifty starts of every learner at several sizes, each in a process with a timeout. Minutes a learner."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from trainer.learner import known_learners

STARTS = 50
SIZES = ((64, 1, 64, 256), (64, 8, 64, 256), (256, 1, 16, 256), (256, 5, 8, 256), (128, 2, 128, 64))  # hidden, seeds, scan, batch


def starts() -> Any:
    """tests/trainer/test_starts.py, which has no package to import it from."""
    spec = importlib.util.spec_from_file_location("starts", Path(__file__).parents[1] / "trainer" / "test_starts.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.benchmark
@pytest.mark.parametrize("algorithm", known_learners())
def test_fifty_starts_end(algorithm: str, tmp_path: Path) -> None:
    start = starts().start
    for number in range(STARTS):
        start(algorithm, SIZES[number % len(SIZES)], tmp_path / "compiled")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-q", *sys.argv[1:]]))
