"""`fit` against a learner so simple that its weights and curves are computed again here in NumPy."""

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import Transition
from trainer import loop
from trainer.loop import Fitted, Hooks, Plan, Progress, fit
from trainer.preprocessing import Preprocessor
from trainer.program import no_transfer

SEEDS = (3, 8)
S, B = len(SEEDS), 4
PLAIN = Preprocessor((None,), (None,), (None,), np.float32(1), np.float32(0))


class State(NamedTuple):
    step: jax.Array
    key: jax.Array
    weight: jax.Array


@dataclass(frozen=True)
class Trail:
    """weight <- weight / 2 + mean reward: the weight tells which batches came, and in which order. No value is rounded."""

    def init(self, key: jax.Array) -> State:
        return State(jnp.int32(0), key, jax.random.randint(key, (), 0, 1000).astype(jnp.float32))

    def update(self, state: State, batch: Transition) -> tuple[State, dict[str, jax.Array]]:
        assert batch.reward.shape == (B,)
        weight = state.weight / 2 + jnp.mean(batch.reward)
        return State(state.step + 1, jax.random.fold_in(state.key, state.step), weight), {
            "reward": jnp.mean(batch.reward),
            "weight": weight,
        }

    def losses(self, state: State, batch: Transition) -> dict[str, jax.Array]:
        return {"reward": jnp.mean(batch.reward) + state.weight}

    def policy(self, state: State) -> dict[str, jax.Array]:
        return {"weight": state.weight, "step": state.step, "noise": jax.random.uniform(state.key)}


class Superbatch(NamedTuple):
    transition: Transition
    index: np.ndarray


def rewards(seed: int, number: int) -> np.ndarray:
    """[B], of batch `number` of the seed of that position."""
    return np.float32(64 * seed + number % 16) + np.arange(B, dtype=np.float32)


def batches(scan: int, spoilt: tuple[int, int] | None, start: int) -> Iterator[Superbatch]:
    for base in itertools.count(start, scan):
        reward = np.array([[rewards(seed, base + k) for k in range(scan)] for seed in range(S)])
        if spoilt and 0 <= spoilt[1] - base < scan:
            reward[spoilt[0], spoilt[1] - base, 1] = np.nan
        index = np.arange(base, base + scan)[None, :, None] * 100 + np.arange(B) + 10_000 * np.arange(S)[:, None, None]
        zeros = np.zeros((S, scan, B, 1), np.float32)
        yield Superbatch(Transition(zeros, np.zeros((S, scan, B), np.int64), reward, reward, zeros), index)


def feed(scan: int, spoilt: tuple[int, int] | None = None) -> Any:
    return functools.partial(batches, scan, spoilt)


def validation() -> Transition:
    reward = np.float32([[0, 0, 0, 4], [8, 8, 8, 8]])  # [V, B], means 1 and 8
    zeros = np.zeros((2, B, 1), np.float32)
    return Transition(zeros, np.zeros((2, B), np.int64), reward, reward, zeros)


def trail(seed: int, position: int, updates: int) -> list[float]:
    """The weight before and after each update."""
    weights = [float(jax.random.randint(jax.random.key(seed), (), 0, 1000))]
    for number in range(updates):
        weights.append(float(np.float32(weights[-1] / 2 + rewards(position, number).mean())))
    return weights


@pytest.fixture(scope="module")
def run() -> tuple[Fitted, list[Progress]]:
    seen: list[Progress] = []
    return fit(Trail(), PLAIN, feed(5), Plan(SEEDS, 23, 7), validation=validation(), hooks=Hooks(report=seen.append)), seen


def test_every_seed_sees_its_batches_in_order(run: tuple[Fitted, list[Progress]]) -> None:
    for position, seed in enumerate(SEEDS):
        policy = run[0].policies[position]
        np.testing.assert_allclose(policy["weight"], trail(seed, position, 23)[-1], rtol=1e-6)
        assert policy["step"] == 23
        assert policy["noise"] == jax.random.uniform(functools.reduce(jax.random.fold_in, range(23), jax.random.key(seed)))


def test_curves_are_means_over_the_interval_and_over_validation(run: tuple[Fitted, list[Progress]]) -> None:
    rows = run[0].rows
    assert [(row.step, row.split) for row in rows] == [(step, split) for step in (7, 14, 21, 23) for split in ("train", "validation")]
    for position, seed in enumerate(SEEDS):
        weights = trail(seed, position, 23)
        for number, (begin, end) in enumerate([(0, 7), (7, 14), (14, 21), (21, 23)]):
            train, held = rows[2 * number].metrics, rows[2 * number + 1].metrics
            expected = np.mean([rewards(position, k).mean() for k in range(begin, end)])
            np.testing.assert_allclose(train["reward"][position], expected, rtol=1e-6)
            np.testing.assert_allclose(train["weight"][position], np.mean(weights[begin + 1 : end + 1]), rtol=1e-6)
            np.testing.assert_allclose(held["reward"][position], 4.5 + weights[end], rtol=1e-6)
            assert train["reward"].dtype == held["reward"].dtype == np.float32


def test_reports_progress(run: tuple[Fitted, list[Progress]]) -> None:
    seen = run[1]
    assert [progress.step for progress in seen] == [5, 7, 10, 14, 15, 20, 21, 23]  # a call ends with its superbatch or interval
    assert all(progress.updates == 23 and 0 <= progress.waiting <= 1 for progress in seen)
    assert seen[-1].rate > 0
    assert seen[-1].remaining == 0


def test_no_result_depends_on_how_updates_are_cut(as_shipped: None) -> None:
    """Neither on the superbatch's length, nor on where it begins against the logging interval."""
    wanted = fit(Trail(), PLAIN, feed(1), Plan(SEEDS, 30, 12), validation=validation())
    for scan in (7, 64):
        found = fit(Trail(), PLAIN, feed(scan), Plan(SEEDS, 30, 12), validation=validation())
        jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_rewards_are_transformed_on_the_way() -> None:
    double = fit(Trail(), Preprocessor((None,), (None,), (None,), np.float32(2), np.float32(1)), feed(4), Plan((0, 1), 4, 4)).rows
    plain = fit(Trail(), PLAIN, feed(4), Plan((0, 1), 4, 4)).rows
    np.testing.assert_array_equal(double[0].metrics["reward"], 2 * plain[0].metrics["reward"] + 1)


def test_a_run_compiles_once_however_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, _, **kwargs: compiled.append(event))

    def compilations(updates: int, log_every: int) -> int:
        compiled.clear()
        fit(Trail(), PLAIN, feed(10), Plan((0, 1), updates, log_every), validation=validation())
        return sum("backend_compile" in event for event in compiled)

    try:
        compilations(10, 10)  # fills the caches of small operations
        whole = compilations(10, 10)
        assert whole > 0
        assert compilations(97, 13) == whole
    finally:
        jax.monitoring.clear_event_listeners()


def test_a_loss_that_is_not_finite_stops_with_what_one_needs() -> None:
    with pytest.raises(HindcastError) as failure:
        fit(Trail(), PLAIN, feed(5, spoilt=(1, 13)), Plan(SEEDS, 40, 100))
    message = str(failure.value)
    assert message.startswith("Training gave a number that is not finite. Try a lower learning_rate")  # the advice is what one reads
    assert "It was seed 8, update 13 (counted from 0, of 40), in reward, weight. " in message
    assert "held 4 transitions of the train split, the first of them number 11300, 11301, 11302, 11303. No checkpoints" in message


def test_a_stream_that_ends_early_is_an_error() -> None:
    with pytest.raises(HindcastError, match="ended after update 15, but 16 are to be done"):
        fit(Trail(), PLAIN, lambda start: itertools.islice(feed(5)(start), 3), Plan((0, 1), 16, 4))
    with pytest.raises(HindcastError, match="ended after update 0"):
        fit(Trail(), PLAIN, lambda start: iter(()), Plan((0, 1), 16, 4))


@dataclass(frozen=True)
class Steady(Trail):
    """The same, with a weight of some size, so that a leak of states would show."""

    def init(self, key: jax.Array) -> State:
        return State(jnp.int32(0), key, jnp.zeros((1000,)))

    def update(self, state: State, batch: Transition) -> tuple[State, dict[str, jax.Array]]:
        return State(state.step + 1, state.key, state.weight / 2 + 1), {"reward": jnp.mean(batch.reward)}

    def losses(self, state: State, batch: Transition) -> dict[str, jax.Array]:
        return {"reward": jnp.mean(batch.reward) + state.weight[0]}


def resident_kilobytes() -> int:
    fields = [line.split() for line in Path("/proc/self/status").read_text().splitlines()]
    return next(int(values[1]) for values in fields if values[0] == "VmRSS:")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory that the kernel reports")
def test_memory_is_flat_over_100_000_updates() -> None:
    """200 points of curves with validation, and about 800 superbatches."""
    seen: dict[int, int] = {}

    def report(progress: Progress) -> None:
        if progress.step % 10_000 == 0:
            seen[progress.step] = resident_kilobytes()

    fit(Steady(), PLAIN, feed(125), Plan(SEEDS, 100_000, 500), validation=validation(), hooks=Hooks(report=report))
    assert len(seen) == 10
    assert seen[100_000] - seen[20_000] < 4096, seen  # a state of both seeds is 8 KB, a superbatch 24 KB


def test_nothing_leaves_a_compiled_loop_but_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled text has no way out to the host, and what goes in is put there before."""
    texts: list[str] = []
    original = jax.stages.Lowered.compile

    def compiled(lowered: Any, *arguments: Any) -> Any:
        result = original(lowered, *arguments)
        texts.append(result.as_text())
        return result

    monkeypatch.setattr(jax.stages.Lowered, "compile", compiled)
    fit(Trail(), PLAIN, feed(5), Plan(SEEDS, 23, 7), validation=validation())
    assert len(texts) == 2  # the updates and the validation losses, once each
    assert sum("while" in text for text in texts) == 2
    for text in texts:
        assert not re.search(r"callback|infeed|outfeed|\bsend\b|\brecv\b", text)
    with pytest.raises(Exception, match=r"[Dd]isallowed host-to-device transfer"), no_transfer():
        jax.jit(jnp.sin)(np.float32(1)).block_until_ready()


def test_long_calls_are_cut_so_that_one_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CALL_SECONDS", 0.0)  # no call is short enough
    seen: list[Progress] = []
    found = fit(Trail(), PLAIN, feed(20), Plan(SEEDS, 30, 12), validation=validation(), hooks=Hooks(report=seen.append))
    assert [progress.step for progress in seen] == [8, *range(9, 31)]
    wanted = fit(Trail(), PLAIN, feed(20), Plan(SEEDS, 30, 12), validation=validation())
    jax.tree.map(np.testing.assert_array_equal, (found.policies, found.rows), (wanted.policies, wanted.rows))
