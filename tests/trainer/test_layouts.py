"""Seeds and batches over threads, forced devices and processes: bits where no sum is cut, 1e-6 where one is."""

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from tests.compiling import QUICK, flags
from trainer.learner import load_learner
from trainer.preprocessing import make_preprocessor
from trainer.program import Source, compile_program
from trainer.side_by_side import SideBySideProgram

SPEC = EnvSpec("Line-v0", ArraySpec((3,), "float32"), ArraySpec((2,), "float32", -1, 1))
K, B = 6, 8
HERE = Path(__file__).parent


def source(algorithm: str, seeds: tuple[int, ...], hidden: int = 16) -> Source:
    module: Any = load_learner(algorithm)
    params = module.Params(hidden_sizes=(hidden, hidden), normalize_observations="none")
    learner, batch = module.Learner(params, SPEC, 100), jax.tree.map(lambda leaf: leaf[0, 0], batches((0,)))
    validation = jax.tree.map(lambda leaf: leaf[0], batches((9,)))
    return Source(learner, make_preprocessor(params, SPEC, {}), seeds, batch, K, validation, None)


def batches(seeds: tuple[int, ...]) -> Transition:
    """[S, K, B, ...], each seed's its own whatever the others."""
    drawn = np.stack([np.random.default_rng(seed).normal(size=(K, B, 9)).astype(np.float32) for seed in seeds])
    ones = np.ones(drawn.shape[:-1], np.float32)
    return Transition(drawn[..., :3], np.tanh(drawn[..., 3:5]), drawn[..., 5], ones, drawn[..., 6:])


def result(program: Any, seeds: tuple[int, ...]) -> dict[str, np.ndarray]:
    """All that a run hands on, after two cuts of a superbatch."""
    placed = program.put(batches(seeds))
    carry = program.update(program.update(program.initial, placed, 0, 4), placed, 4, K)
    arrays: dict[str, np.ndarray] = program.arrays(carry)
    return {**arrays, **{f"validation {name}": value for name, value in program.losses(carry).items()}}


@pytest.mark.slow
def test_a_seed_side_by_side_has_the_bits_that_it_has_alone(as_shipped: None) -> None:
    assert_bits_of_one_alone("bc")


@pytest.mark.slow
def test_so_has_one_of_a_learner_with_many_networks(equal_programs_once: None) -> None:
    assert_bits_of_one_alone("cql")


def assert_bits_of_one_alone(algorithm: str) -> None:
    seeds, cpu = (4, 0, 7), jax.devices()[0]
    together = result(SideBySideProgram(source(algorithm, seeds), cpu, threads=2), seeds)
    for position, seed in enumerate(seeds):
        alone = result(SideBySideProgram(source(algorithm, (seed,)), cpu, threads=1), (seed,))
        assert together.keys() == alone.keys()
        assert [name for name in alone if together[name][position].tobytes() != alone[name][0].tobytes()] == []


def test_arrays_restore_to_the_same_bits() -> None:
    program = SideBySideProgram(source("bc", (1, 2)), jax.devices()[0])
    arrays = program.arrays(program.initial)
    again = program.arrays(program.restore(arrays))
    assert [name for name in arrays if arrays[name].tobytes() != again[name].tobytes()] == []


def test_a_precision_for_accelerators_is_refused_on_a_cpu() -> None:
    with pytest.raises(HindcastError, match=r"precision: bfloat16 is for an accelerator, but the run is on cpu.*Set precision: float32"):
        compile_program(source("bc", (0,)), None, "bfloat16")


def run_on(devices: int, code: str, timeout: int = 200) -> str:
    chosen = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {flags(QUICK)}"}
    environment = {**os.environ, **chosen, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


DIGEST = """
import hashlib, jax
import test_layouts as t
from trainer.program import compile_program
found = t.result(compile_program(t.source("bc", (4, 0, 7)), None, "float32"), (4, 0, 7))
print(len(jax.devices()), hashlib.sha256(b"".join(found[name].tobytes() for name in sorted(found))).hexdigest())
"""


@pytest.mark.slow
def test_forced_devices_change_no_bit() -> None:
    said = [run_on(devices, DIGEST).split() for devices in (1, 4)]
    assert [count for count, _ in said] == ["1", "4"]
    assert len({digest for _, digest in said}) == 1


ON_FOUR = """
import jax, numpy as np
import test_layouts as t
from trainer.mesh import MeshProgram
from trainer.side_by_side import SideBySideProgram

one, two, four = (3,), (3, 8), (1, 2, 3, 4)
for seeds, count, shape in ((one, 4, (1, 6, 2, 3)), (two, 4, (1, 6, 4, 3)), (two, 3, (2, 6, 4, 3)), (four, 4, (1, 6, 8, 3))):
    source = t.source("bc", seeds)
    mesh = MeshProgram(source, jax.devices()[:count])
    assert mesh.put(t.batches(seeds)).observation.sharding.shard_shape((len(seeds), 6, 8, 3)) == shape, (seeds, count)
    restored = mesh.arrays(mesh.restore(mesh.arrays(mesh.initial)))
    assert all(restored[name].tobytes() == value.tobytes() for name, value in mesh.arrays(mesh.initial).items())
    found, wanted = t.result(mesh, seeds), t.result(SideBySideProgram(source, jax.devices()[0]), seeds)
    assert found.keys() == wanted.keys()
    for name, value in found.items():  # parameters; moments of gradients and metrics are sums over a batch, and relative to their size
        np.testing.assert_allclose(value, wanted[name], rtol=2e-5, atol=1e-6, err_msg=name)
        if ".params" in name:
            np.testing.assert_allclose(value, wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
"""


@pytest.mark.slow
def test_a_mesh_shares_out_seeds_then_batches_and_agrees() -> None:
    run_on(4, ON_FOUR)


PROCESS = """
import sys, jax, numpy as np
jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank, port, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
import test_feed as t
from trainer.loop import fit

assert (jax.process_count(), len(jax.devices())) == (2, 2)

def own_rows(start):
    for superbatch in t.stream(4, start):
        half = slice(rank * t.B // 2, (rank + 1) * t.B // 2)
        yield t.Superbatch(jax.tree.map(lambda leaf: leaf[:, :, half], superbatch.transition), superbatch.index[:, :, half])

fitted = t.trained(own_rows)
np.savez(f"{out}/{rank}.npz", *jax.tree.leaves(fitted.policies))
"""


@pytest.mark.slow
def test_two_processes_feed_their_rows_and_agree_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    t: Any = importlib.import_module("test_feed")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), "XLA_FLAGS": flags(QUICK)}
    command = [sys.executable, "-c", PROCESS]
    started = [
        subprocess.Popen([*command, str(rank), port, str(tmp_path)], env=environment, stderr=subprocess.PIPE, text=True) for rank in (0, 1)
    ]
    said = [process.communicate(timeout=200)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    wanted = jax.tree.leaves(t.trained(lambda start: t.stream(4, start)).policies)
    for rank in (0, 1):
        with np.load(tmp_path / f"{rank}.npz") as found:
            for value, leaf in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(value, leaf, atol=1e-6, rtol=1e-5)
