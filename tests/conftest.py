"""What holds for every test: JAX refuses to broadcast ranks silently, and uses the CPU. And what several share: a browser."""

import os
from collections.abc import Iterator

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MUJOCO_GL", "disabled")

import jax
import pytest

from tests.browser import Browser, open_browser

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_cpu_enable_async_dispatch", False)  # as in training, see trainer/program.py


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium, for tests of pages; started for the first of them, and skipped where it is not installed."""
    yield from open_browser(tmp_path_factory.mktemp("browser"))
