"""Small problems whose values are known in closed form, fitted by the project's own loop."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl_datasets.schema import ArraySpec, EnvSpec, NextAction, Transition
from trainer import loop
from trainer.fitted_q.fitting import FittedQ, Subject, make_fitted_q
from trainer.fitted_q.params import FittedQParams
from trainer.preprocessing import Preprocessor

pytestmark = pytest.mark.slow
PLAIN = Preprocessor((None,), (None,), (None,), np.float32(1), np.float32(0))
CHAIN = EnvSpec("Chain", ArraySpec((), "int64", 0, 2, num_values=3), ArraySpec((), "int64", 0, 1, num_values=2))
LINE = EnvSpec("Line", ArraySpec((1,), "float32"), ArraySpec((1,), "float32", -1.0, 1.0))
STAY, LEAVE = 0, 1
UPDATES = 1500


class Superbatch(NamedTuple):
    transition: Transition
    index: np.ndarray


@dataclass(frozen=True)
class Tabular:
    """A policy: the action of each state, by a table."""

    def act(self, policy: jax.Array, observation: jax.Array) -> jax.Array:
        return policy[observation] if observation.ndim == 1 else jnp.broadcast_to(policy, (len(observation), 1))


def fitted(spec: EnvSpec, batch: Transition, subjects: list[Subject], unit: float = 1.0, **options: Any) -> tuple[FittedQ, loop.Fitted]:
    """Every batch holds all transitions there are."""
    params = FittedQParams(**{"updates": UPDATES, "hidden_sizes": (16,), "learning_rate": 1e-2, "tau": 0.1, "num_critics": 2, **options})
    fitted_q = make_fitted_q(params, spec, Tabular(), PLAIN.__class__((None,), (None,), (None,), np.float32(1 / unit), np.float32(0)))  # type: ignore[arg-type]

    def feed(start: int) -> Iterator[Superbatch]:
        axes = (len(subjects), 50)
        for _ in itertools.count(start):
            everything = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (*axes, *leaf.shape)), batch)
            yield Superbatch(everything, np.zeros((*axes, len(batch.reward)), np.int64))

    seeds = tuple(range(len(subjects)))
    return fitted_q, loop.fit(fitted_q, PLAIN, feed, loop.Plan(seeds, params.updates, params.updates), given=subjects)


def valued(fitted_q: FittedQ, critic: Any, states: Any, actions: Any) -> np.ndarray:
    """q(s, a) of the mean critic, by the behaviour's road, which takes the action that it is given."""
    anybody = Subject(PLAIN, np.zeros(3, np.int64) if fitted_q.spec is CHAIN else np.zeros(1, np.float32), np.bool_(True))
    values: np.ndarray = np.asarray(fitted_q.values(critic, anybody, jnp.asarray(states), jnp.asarray(actions))).mean(0)
    return values


def chain(**changes: Any) -> Transition:
    """States 0 and 1; to stay earns 1, to leave 0 leads to 1 and earns 2, to leave 1 ends all and earns 5. The data stay, then leave."""
    return Transition(
        observation=np.array([0, 0, 1, 1]),
        action=np.array([STAY, LEAVE, STAY, LEAVE]),
        reward=np.float32([1, 2, 1, 5]),
        discount=np.float32([1, 1, 1, 0]),
        next_observation=np.array([0, 1, 1, 2]),
        next_action=NextAction(np.array([LEAVE, STAY, LEAVE, 0]), np.float32([1, 1, 1, 0])),
    )._replace(**changes)


def subject(*actions: Any, behaviour: bool = False, dtype: Any = np.int64) -> Subject:
    return Subject(PLAIN, np.array(actions, dtype), np.bool_(behaviour))


@pytest.mark.parametrize("unit", [1.0, 20.0])
def test_values_of_a_chain_are_those_of_the_closed_form(unit: float) -> None:
    """With gamma 0.8. The policies: leave, leave; stay for ever; stay at 0 but leave 1. And the data's own actions."""
    subjects = [subject(LEAVE, LEAVE, 0), subject(STAY, STAY, 0), subject(STAY, LEAVE, 0), subject(0, 0, 0, behaviour=True)]
    fitted_q, run = fitted(CHAIN, chain(), subjects, unit, gamma=0.8)
    data = chain().observation, chain().action
    leaving = [1 + 0.8 * 6, 2 + 0.8 * 5, 1 + 0.8 * 5, 5]  # v(1) = 5, v(0) = 2 + 0.8 * 5 = 6
    staying = [5, 2 + 0.8 * 5, 5, 5]  # v = 1 / (1 - 0.8) = 5
    waiting = [5, 2 + 0.8 * 5, 1 + 0.8 * 5, 5]
    behaviour = [1 + 0.8 * 6, 2 + 0.8 * 5, 1 + 0.8 * 5, 5]  # q(1, stay) = 5, q(0, leave) = 6, q(0, stay) = 1 + 0.8 * 6
    for critic, expected in zip(run.policies, [leaving, staying, waiting, behaviour], strict=True):
        np.testing.assert_allclose(valued(fitted_q, critic, *data), expected, rtol=0.01)
    estimates = [float(fitted_q.values(c, s, np.array([0]), np.array([LEAVE])).mean()) for c, s in zip(run.policies, subjects, strict=True)]
    np.testing.assert_allclose(estimates, [6, 5, 5, 6], rtol=0.01)  # of pi(0), and of the behaviour's first action, to leave


def test_without_a_future_a_value_is_the_reward() -> None:
    fitted_q, run = fitted(CHAIN, chain(), [subject(STAY, STAY, 0)], gamma=0.0)
    np.testing.assert_allclose(valued(fitted_q, run.policies[0], chain().observation, chain().action), [1, 2, 1, 5], rtol=0.01)


def test_a_cut_goes_on_for_a_policy_and_counts_for_nothing_in_the_behaviour() -> None:
    """The last transition is cut in place of terminal: its next state is 1 again, and nobody knows what was done there."""
    cut = chain(discount=np.float32([1, 1, 1, 1]), next_observation=np.array([0, 1, 1, 1]), reward=np.float32([1, 2, 1, 5]))
    fitted_q, run = fitted(CHAIN, cut, [subject(LEAVE, LEAVE, 0), subject(0, 0, 0, behaviour=True)], gamma=0.8)
    policy = valued(fitted_q, run.policies[0], cut.observation, cut.action)
    np.testing.assert_allclose(policy[3], 5 / (1 - 0.8), rtol=0.01)
    _, other = fitted(CHAIN, cut._replace(reward=np.float32([1, 2, 1, -700])), [subject(0, 0, 0, behaviour=True)], gamma=0.8)
    same_seed = fitted(CHAIN, cut, [subject(0, 0, 0, behaviour=True)], gamma=0.8)[1]
    jax.tree.map(np.testing.assert_array_equal, other.policies[0], same_seed.policies[0])


def test_a_continuous_action_is_valued_where_the_policy_puts_it() -> None:
    """One state for ever, the reward is the action: q(a) = a + gamma c / (1 - gamma) for a policy that always takes c."""
    action = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
    zeros, ones = np.zeros((9, 1), np.float32), np.ones(9, np.float32)
    batch = Transition(zeros, action, action[:, 0], ones, zeros, NextAction(action, ones))
    half, back = (subject(c, dtype=np.float32) for c in (0.5, -1.0))
    fitted_q, run = fitted(LINE, batch, [half, back], gamma=0.8, layer_norm=False)  # whose values bend
    np.testing.assert_allclose(valued(fitted_q, run.policies[0], zeros, action), action[:, 0] + 0.8 * 0.5 / 0.2, atol=0.03)
    np.testing.assert_allclose(valued(fitted_q, run.policies[1], zeros, action), action[:, 0] - 0.8 / 0.2, atol=0.03)
    estimate = fitted_q.values(run.policies[0], half, zeros[:1], action[:1]).mean()
    assert float(estimate) == pytest.approx(2.5, abs=0.03)


def test_a_run_is_a_function_of_its_arguments_and_a_policy_of_its_place_alone() -> None:
    subjects = [subject(LEAVE, LEAVE, 0), subject(STAY, STAY, 0)]
    first, again, alone = (fitted(CHAIN, chain(), given, updates=60)[1] for given in (subjects, subjects, subjects[:1]))
    jax.tree.map(np.testing.assert_array_equal, first.policies, again.policies)
    jax.tree.map(np.testing.assert_array_equal, first.policies[0], alone.policies[0])


def test_seeds_on_a_mesh_are_given_the_same() -> None:
    """The other layout of the loop, as on an accelerator."""
    from trainer.program import Source, shape_of

    subjects = [subject(LEAVE, LEAVE, 0), subject(STAY, STAY, 0)]
    params = FittedQParams(updates=4, hidden_sizes=(8,))
    fitted_q = make_fitted_q(params, CHAIN, Tabular(), PLAIN)  # type: ignore[arg-type]
    from trainer.mesh import MeshProgram
    from trainer.side_by_side import SideBySideProgram

    shapes = jax.tree.map(lambda leaf: shape_of(leaf.shape, leaf.dtype), chain())
    source = Source(fitted_q, PLAIN, (0, 1), shapes, 2, None, None, subjects)
    batches = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (2, 2, *leaf.shape)).copy(), chain())
    programs = [MeshProgram(source, jax.devices()[:1]), SideBySideProgram(source, jax.devices()[0])]
    found = [program.policies(program.update(program.initial, program.put(batches), 0, 2)) for program in programs]  # type: ignore[attr-defined]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), *found)
