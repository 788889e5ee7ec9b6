"""Where batches wait, and that no result depends on it."""

import itertools
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from trainer.feed import Ahead, TableFeed, choose_feed, scan_length
from trainer.learner import load_learner
from trainer.loop import Fitted, Plan, fit
from trainer.preprocessing import make_preprocessor

SPEC = EnvSpec("Line-v0", ArraySpec((3,), "float32"), ArraySpec((1,), "float32", -1, 1))
STEPS, B = 41, 8  # one episode in four is cut: rows 10, 20, 30 and 40 start no transition
PLAN = Plan((5, 2), 30, 10)
ROW = np.setdiff1d(np.arange(STEPS), [10, 20, 30, 40])


class Table(NamedTuple):
    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    row: np.ndarray
    follows: tuple[()] = ()


class Superbatch(NamedTuple):
    transition: Transition
    index: np.ndarray


def table() -> Table:
    rng = np.random.default_rng(0)
    observation, action = rng.normal(size=(STEPS, 3)).astype(np.float32), rng.uniform(-1, 1, (STEPS, 1)).astype(np.float32)
    return Table(observation, action, observation[:, 0] * 2, np.ones(STEPS, np.float32), ROW)


def indices(scan: int, start: int) -> Any:
    for base in itertools.count(start, scan):
        yield np.stack([[np.random.default_rng([s, base + k]).integers(0, len(ROW), B) for k in range(scan)] for s in PLAN.seeds])


def stream(scan: int, start: int) -> Any:
    held = table()
    for index in indices(scan, start):
        at = held.row[index]
        rest = (held.observation[at], held.action[at], held.reward[at], held.discount[at], held.observation[at + 1])
        yield Superbatch(Transition(*rest), index)


def trained(feed: Any, checkpoints: Any = None, **options: Any) -> Fitted:
    module: Any = load_learner("bc")
    params = module.Params(hidden_sizes=(16,), normalize_observations="none")
    return fit(
        module.Learner(params, SPEC, PLAN.updates), make_preprocessor(params, SPEC, {}), feed, PLAN, checkpoints=checkpoints, **options
    )


def device_feed(scan: int) -> TableFeed:
    return TableFeed(table(), lambda start: indices(scan, start))


class Stopping:
    """Keeps the snapshot after some update, and interrupts the run there; hands it out to the next run."""

    def __init__(self, at: int) -> None:
        self.at, self.snapshot = at, None

    def restore(self) -> Any:
        return self.snapshot

    def due(self) -> bool:
        return self.snapshot is None

    def save(self, snapshot: Any) -> None:
        if snapshot.step >= self.at:
            self.snapshot = snapshot
            raise KeyboardInterrupt

    def describe(self) -> str:
        return ""


def same(found: Fitted, wanted: Fitted) -> None:
    jax.tree.map(np.testing.assert_array_equal, (found.policies, found.rows), (wanted.policies, wanted.rows))


@pytest.mark.slow
def test_either_feed_trains_the_same_bits_and_goes_on_from_the_other(as_shipped: None) -> None:
    wanted = trained(lambda start: stream(4, start))
    same(trained(device_feed(7)), wanted)
    for first, then in ((lambda start: stream(4, start), device_feed(7)), (device_feed(7), lambda start: stream(4, start))):
        checkpoints = Stopping(11)
        with pytest.raises(KeyboardInterrupt):
            trained(first, checkpoints)
        assert 11 <= checkpoints.snapshot.step < 30  # type: ignore[attr-defined]
        same(trained(then, checkpoints), wanted)


def memory(limit: int | None, in_use: int = 0, platform: str = "gpu") -> Any:
    stats = None if limit is None else {"bytes_limit": limit, "bytes_in_use": in_use}
    return SimpleNamespace(platform=platform, device_kind="a device", memory_stats=lambda: stats)


def test_chooses_by_what_fits() -> None:
    assert choose_feed("auto", True, 20 << 20, memory(100 << 20)) == ("device", "the split (20.0 MB) fits on a device")
    chosen, why = choose_feed("auto", True, 20 << 20, memory(100 << 20, 40 << 20))
    assert (chosen, why) == ("stream", "the split (20.0 MB) takes more than 25% of the 60 MB that are free on a device")
    assert choose_feed("auto", False, 20 << 20, memory(1 << 40)) == ("stream", "the split (20.0 MB) is above memory_cap_mb")
    assert choose_feed("stream", True, 1, memory(1 << 40)) == ("stream", "as asked for")
    assert choose_feed("device", True, 1, memory(None, platform="cpu")) == ("device", "as asked for")
    with pytest.raises(
        HindcastError, match=r"feed is 'device', but the split \(20.0 MB\) is above memory_cap_mb. Use feed: auto or stream"
    ):
        choose_feed("device", False, 20 << 20, memory(1 << 40))


def test_scan_length_follows_memory() -> None:
    cpu, gpu = memory(None, platform="cpu"), memory(64 << 30)
    assert [scan_length(5, 1000, cpu), scan_length(4, 1 << 20, cpu), scan_length(8, 1 << 30, cpu)] == [128, 16, 1]
    assert [scan_length(5, 1000, gpu), scan_length(4, 1 << 20, gpu), scan_length(8, 1 << 30, gpu)] == [1024, 256, 1]


def test_prepares_the_next_element_meanwhile_and_raises_when_it_is_wanted() -> None:
    def elements() -> Any:
        yield from (1, 2)
        raise ValueError("three")

    prepared = []
    with Ahead(elements(), lambda element: prepared.append(element) or element * 10) as ahead:
        assert ahead.take() == 10
        ahead.prepare()
        deadline = time.monotonic() + 10
        while prepared != [1, 2] and time.monotonic() < deadline:
            time.sleep(0.001)
        assert prepared == [1, 2]
        assert ahead.take() == 20
        ahead.prepare()
        with pytest.raises(ValueError, match="three"):
            ahead.take()
    with Ahead(iter(()), lambda element: element) as ahead:
        assert ahead.take() is None


def test_counts_what_it_waits() -> None:
    def slow(element: int) -> int:
        time.sleep(0.05)
        return element

    with Ahead(iter((1, 2)), slow) as ahead:
        ahead.take()
        assert ahead.waited >= 0.05
        ahead.prepare()
        time.sleep(0.3)
        before = ahead.waited
        ahead.take()
        assert ahead.waited - before < 0.05
