"""What holds for every test: JAX refuses to broadcast ranks silently, uses the CPU, and compiles quickly. And a browser, for all.

What is about the bits of a program takes `as_shipped`; benchmarks compile as ever, and so do processes that tests start, unless they
say otherwise.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MUJOCO_GL", "disabled")

import jax

from tests.browser import Browser, open_browser
from tests.compiling import QUICK, SHIPPED, flags

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_cpu_enable_async_dispatch", False)  # as in training, see trainer/program.py


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "benchmark":
        return
    with pytest.MonkeyPatch.context() as patch:  # read once, where JAX looks for its devices
        patch.setenv("XLA_FLAGS", f"{flags(QUICK)} {os.environ.get('XLA_FLAGS', '')}")
        jax.devices()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with whole pipelines come first, then those with slow tests: the short ones are left for whoever is done early."""
    costs: dict[Path, int] = {}
    for item in items:
        cost = 2 if item.get_closest_marker("e2e") else 1 if item.get_closest_marker("slow") else 0
        costs[item.path] = max(cost, costs.get(item.path, 0))
    items.sort(key=lambda item: -costs[item.path])


@pytest.fixture
def equal_programs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is compiled ahead, as all of training is, equal programs are compiled once."""
    original, done = jax.stages.Lowered.compile, {}

    def compiled(lowered: Any, options: Any = None) -> Any:
        key = lowered.as_text(), lowered.in_tree, lowered.out_tree
        if key not in done:
            done[key] = original(lowered, options)
        return done[key]

    monkeypatch.setattr(jax.stages.Lowered, "compile", compiled)


@pytest.fixture
def as_shipped(equal_programs_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled ahead is compiled as outside the tests, with every optimisation."""
    once = jax.stages.Lowered.compile
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda lowered, options=None: once(lowered, {**SHIPPED, **(options or {})}))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Chromium, for tests of pages; started for the first of them, and skipped where it is not installed."""
    yield from open_browser(tmp_path_factory.mktemp("browser"))
