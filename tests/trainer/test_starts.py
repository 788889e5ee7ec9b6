"""Training starts and ends, in processes of its own, on the shipped versions. tests/benchmarks/test_starts.py does it fifty times."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("one_start.py")
SMALL, LARGE = (64, 8, 100, 256), (256, 2, 16, 256)  # hidden, seeds, scan, batch


def start(algorithm: str, sizes: tuple[int, ...], cache: Path, timeout: float = 240) -> None:
    """Raises subprocess.TimeoutExpired where it hangs. Starts share what they compile."""
    compiled = {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment = {**os.environ, **compiled, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    command = [sys.executable, str(SCRIPT), algorithm, *map(str, sizes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "sizes"), [("bc", LARGE), ("iql", SMALL), ("cql", (64, 2, 16, 256))])
def test_a_start_ends(algorithm: str, sizes: tuple[int, ...], tmp_path_factory: pytest.TempPathFactory) -> None:
    start(algorithm, sizes, tmp_path_factory.getbasetemp() / "compiled")
