"""How fast the learners learn: against the machine's matrix products and against d3rlpy, in one run, everything in turns.

`python tests/benchmarks/test_learning.py --write` prints the table and writes it into README.md. Batch 256, observations of 17 and
actions of 6 numbers, two hidden layers of 256 where nothing else is said. d3rlpy is compared with twice: `fit` with `fit`, which is
what users run, and the program that `fit` repeats with `update` on batches made beforehand, the best case for d3rlpy; each time at the
number of threads that suits d3rlpy better. It needs other packages than this project, so it has an environment of its own:
`make benchmark-d3rlpy` makes it, or D3RLPY_PYTHON names a Python that has it. Without it, and without TensorFlow, what needs them is
left out.
"""

import importlib.util
import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import pytest

from tests.benchmarks.runs import SHAPES, SPEC, UPDATES, Subject, compiled, fitting, flops, learner, product
from trainer.learner import known_learners
from trainer.loop import Hooks, Plan, fit

pytestmark = pytest.mark.benchmark
ROOT = Path(__file__).parents[2]
D3RLPY = Path(os.environ.get("D3RLPY_PYTHON", ROOT / ".venv-d3rlpy/bin/python"))
ROUNDS, LIMIT = 9, "limit"
VARIANTS = {
    **{f"iql, {order}": ("iql", {"order": order}) for order in ("sequential", "joint")},
    **{name: (name, {}) for name in known_learners() if name != "iql"},
}
THEIR_UPDATES = {"iql": 20, "cql": 4, "bc": 60}
THREADS = (1, 2)
WAYS = ("fit", "update")  # of training; ours that stands against their `update` is the program that `fit` repeats
EPISODES = 100  # of 1,000 transitions, which the data of `fit` have


@dataclass(frozen=True)
class Measured:
    """Medians over the rounds. A way of ours is (variant, way), one of theirs (algorithm, way, threads)."""

    rates: dict[Any, float]  # updates a second
    shares: dict[str, float]  # of the limit in the same round, by variant
    ratios: dict[tuple[str, str], float]  # to the same way of d3rlpy at its better number of threads, in the same round
    limit: float  # operations a second


@contextmanager
def d3rlpy() -> Iterator[Callable[[str, str, int], Subject]]:
    """d3rlpy in a process of its own: subject(algorithm, way, threads)."""
    numbers = (SHAPES.batch, SHAPES.observation, SHAPES.action, *SHAPES.hidden)
    command = [str(D3RLPY), str(Path(__file__).with_name("d3rlpy_server.py")), *map(str, numbers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdin
        assert server.stdout
        assert server.stdout.readline() == "ready\n", f"{command} does not start"

        def updates(algorithm: str, way: str, threads: int) -> int:
            print(way, algorithm, threads, THEIR_UPDATES[algorithm], file=server.stdin, flush=True)
            assert float(server.stdout.readline()) > 0
            return THEIR_UPDATES[algorithm]

        yield lambda algorithm, way, threads: partial(updates, algorithm, way, threads)
        server.stdin.close()


@pytest.fixture(scope="module")
def measured(take_turns: Callable[..., dict[Any, list[float]]], tmp_path_factory: pytest.TempPathFactory) -> Measured:
    subjects: dict[Any, Subject] = {LIMIT: product()}
    subjects |= {(name, "update"): compiled(algorithm, scan=UPDATES[algorithm], **own) for name, (algorithm, own) in VARIANTS.items()}
    with ExitStack() as stack:
        if D3RLPY.exists():
            subject = stack.enter_context(d3rlpy())
            subjects |= {way: subject(*way) for way in itertools.product(THEIR_UPDATES, WAYS, THREADS)}
            if importlib.util.find_spec("tensorflow") is not None:
                data = cheetah(tmp_path_factory.mktemp("data"))
                for name, (algorithm, own) in VARIANTS.items():
                    if algorithm in THEIR_UPDATES:
                        subjects[name, "fit"] = stack.enter_context(fitting(algorithm, data, **own))
        for once in subjects.values():
            once()
        speeds = take_turns(subjects, ROUNDS)
    limits = speeds.pop(LIMIT)
    shares, ratios = {}, {}
    for (name, way), own in ((key, speeds[key]) for key in speeds if len(key) == 2):
        algorithm, options = VARIANTS[name]
        work, best = flops(algorithm, options), best_of_theirs(speeds, algorithm, way)
        if work and way == "update":
            shares[name] = statistics.median(work * rate / limit for rate, limit in zip(own, limits, strict=True))
        if best:
            ratios[name, way] = statistics.median(ours / theirs for ours, theirs in zip(own, speeds[best], strict=True))
    return Measured({key: statistics.median(values) for key, values in speeds.items()}, shares, ratios, statistics.median(limits))


def cheetah(folder: Path) -> Path:
    """An RLDS directory with EPISODES episodes of SHAPES."""
    from rl_datasets.rlds import write_rlds
    from tests.benchmarks.test_streaming import episode

    path = folder / "cheetah/1.0.0"
    write_rlds(path, "cheetah", "1.0.0", SPEC, {"train": map(episode, range(EPISODES))})
    return path


def best_of_theirs(speeds: Mapping[Any, list[float]], algorithm: str, way: str) -> Any:
    settings = [(algorithm, way, threads) for threads in THREADS if (algorithm, way, threads) in speeds]
    return max(settings, key=lambda setting: statistics.median(speeds[setting])) if settings else None


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, float]]:
    """What one_run.py says of each learner."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "datasets"), *sys.path])}
    found = {}
    for algorithm in known_learners():
        command = [sys.executable, str(Path(__file__).with_name("one_run.py")), algorithm]
        found[algorithm] = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    return found


def test_table(
    measured: Measured, alone: dict[str, dict[str, float]], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    text = table(measured, alone)
    with capsys.disabled():
        print(f"\n{text}")
    if request.config.getoption("--write", default=False):
        write(ROOT / "README.md", jax.default_backend(), text)


def test_iql_reaches_four_fifths_of_the_limit(measured: Measured) -> None:
    on_cpu()
    assert max(measured.shares["iql, joint"], measured.shares["iql, sequential"]) >= 0.80


def test_cql_reaches_72_percent_of_the_limit(measured: Measured) -> None:
    on_cpu()
    assert measured.shares["cql"] >= 0.72


@pytest.mark.parametrize(
    ("name", "way", "bound"), [("iql, joint", "fit", 3), ("iql, sequential", "fit", 3), ("cql", "fit", 1.25), ("cql", "update", 1.25)]
)
def test_faster_than_d3rlpy(measured: Measured, name: str, way: str, bound: float) -> None:
    on_cpu()
    if (name, way) not in measured.ratios:
        pytest.skip(f"there is no {D3RLPY}, which 'make benchmark-d3rlpy' makes, or no TensorFlow, which reads RLDS")
    assert measured.ratios[name, way] >= bound


@pytest.mark.parametrize(("width", "scan", "bound"), [(64, 100, 1.8), (256, 10, 1.0)])
def test_eight_seeds_together(width: int, scan: int, bound: float, compare: Callable[..., dict[str, float]]) -> None:
    options = {"hidden_sizes": (width, width), "order": "joint"}
    subjects = {"together": compiled("iql", 8, scan, **options), "one after another": compiled("iql", 1, 8 * scan, **options)}
    ratios = compare(f"Eight seeds of iql, 2 x {width}", "updates", subjects, rounds=9)
    assert ratios["together"] >= bound


@pytest.mark.parametrize(("width", "seeds", "updates"), [(256, 1, 1_000), (64, 8, 1_000)])
def test_hardly_waits_for_data(width: int, seeds: int, updates: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("there is no TensorFlow, which reads RLDS")
    from rl_datasets.stream import open_stream

    stream = open_stream(cheetah(tmp_path), "train", batch_size=SHAPES.batch, readers=2, memory_cap_mb=2048)
    plan = Plan(tuple(range(seeds)), updates, log_every=updates)
    waiting: list[float] = []
    hooks = Hooks(report=lambda progress: waiting.append(progress.waiting))
    iql = learner("iql", hidden_sizes=(width, width))
    fit(*iql, lambda start: stream.batches(plan.seeds, 64, start), plan, hooks=hooks)
    with capsys.disabled():
        print(f"\nWaiting for data, feed stream, iql of {seeds} seeds, 2 x {width}: {waiting[-1]:.2%} of the time")
    assert waiting[-1] < 0.03


def on_cpu() -> None:
    if jax.default_backend() != "cpu":
        pytest.skip("the bounds are those of a CPU")


def table(measured: Measured, alone: Mapping[str, Mapping[str, float]]) -> str:
    device = processor() if jax.default_backend() == "cpu" else jax.devices()[0].device_kind
    lines = [
        f"{device}, {len(os.sched_getaffinity(0))} cores; a product of two 2048 x 2048 matrices runs at {measured.limit / 1e9:,.0f} "
        f"GFLOP/s. Medians of {ROUNDS} rounds taken in turns.",
        "",
        "| learner | updates/s | share of the limit | updates/s of `fit` | times d3rlpy's `fit` | times its bare `update` | compiles in "
        "| peak memory |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (algorithm, _) in VARIANTS.items():
        cells = [
            name,
            shown(measured.rates[name, "update"]),
            "-" if name not in measured.shares else f"{measured.shares[name]:.0%}",
            shown(measured.rates.get((name, "fit"))),
            *(f"{ratio:.1f}" if (ratio := measured.ratios.get((name, way))) else "-" for way in WAYS),
            f"{alone[algorithm]['compile_seconds']:.1f} s",
            f"{alone[algorithm]['peak_megabytes']:,.0f} MB",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(against(measured) if measured.ratios else ["d3rlpy is not installed."])])


def against(measured: Measured) -> list[str]:
    """What the two columns of d3rlpy compare, and its own rates."""
    rates = [
        f"{algorithm} `{way}` " + " and ".join(f"{shown(measured.rates[algorithm, way, threads])}" for threads in THREADS)
        for algorithm, way in itertools.product(THEIR_UPDATES, WAYS)
    ]
    return [
        f"Times d3rlpy's `fit` compares training as users run it: `trainer.loop.fit` with its default feed on {EPISODES * 1000:,} "
        "transitions against `fit` of d3rlpy 2.8.1 on as many in its replay buffer, without progress bar, files and evaluation. Times its "
        "bare `update` is the best case for d3rlpy, which no run of it reaches: its `update` alone on batches made beforehand, against our "
        "compiled program on batches made beforehand (the first column). Both are taken at d3rlpy's better number of threads. Its "
        f"updates/s with {THREADS[0]} and {THREADS[1]} threads: {'; '.join(rates)}."
    ]


def shown(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def processor() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def write(readme: Path, backend: str, text: str) -> None:
    """Writes the backend's table at the end of the section Speed, or in place of the one that stands there."""
    begin, end = f"<!-- learning on {backend} -->", f"<!-- end of learning on {backend} -->"
    block = f"{begin}\n{text}\n{end}\n"
    head, rest = re.split(r"(?m)^(?=## Speed$)", readme.read_text())
    section, *others = re.split(r"(?m)^(?=## (?!Speed$))", rest, maxsplit=1)
    before, _, after = section.partition(begin)
    section = before + block + after.partition(f"{end}\n")[2] if after else f"{section}{block}\n"
    readme.write_text("".join([head, section, *others]))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "benchmark", "-s", "-q", *sys.argv[1:]]))
