"""What holds for every test: JAX refuses to broadcast ranks silently, and uses the CPU."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MUJOCO_GL", "disabled")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_cpu_enable_async_dispatch", False)  # as in training, see trainer/program.py
