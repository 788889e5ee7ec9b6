"""What holds for every test: JAX refuses to broadcast ranks silently, uses the CPU, and compiles quickly.

Most of the time of learners' tests went into optimising programs that run for milliseconds. What is about bits takes `as_shipped`;
benchmarks, and processes that tests start, compile as ever.
"""

import os
from typing import Any

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MUJOCO_GL", "disabled")

import jax

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
SHIPPED = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True, "xla_cpu_parallel_codegen_split_count": 32}

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_cpu_enable_async_dispatch", False)  # as in training, see trainer/program.py


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "benchmark":
        return
    with pytest.MonkeyPatch.context() as patch:  # read once, where JAX looks for its devices
        flags = " ".join(f"--{name}={str(value).lower()}" for name, value in QUICK.items())
        patch.setenv("XLA_FLAGS", f"{flags} {os.environ.get('XLA_FLAGS', '')}")
        jax.devices()


@pytest.fixture
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled ahead, as all of training is, is compiled as outside the tests: with every optimisation, equal programs once."""
    original, done = jax.stages.Lowered.compile, {}

    def compiled(lowered: Any, options: Any = None) -> Any:
        key = lowered.as_text(), lowered.in_tree, lowered.out_tree
        if key not in done:
            done[key] = original(lowered, {**SHIPPED, **(options or {})})
        return done[key]

    monkeypatch.setattr(jax.stages.Lowered, "compile", compiled)
