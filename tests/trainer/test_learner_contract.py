"""What every learner in trainer/learners/ owes, from the moment its file exists."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, NextAction, Transition
from trainer.learner import known_learners, load_learner

CATEGORY = ArraySpec((), "int64", 3, 5, num_values=3)  # starts at 3, as Gymnasium's Discrete may
BOX = ArraySpec((2,), "float32", (-2.0, 0.0), (2.0, 10.0))
ACTIONS = {"discrete": CATEGORY, "continuous": BOX}
FLAT = ArraySpec((3,), "float32")
NESTED = {
    "camera": ArraySpec((12, 10, 3), "uint8", 0, 255),
    "cell": ArraySpec((), "int64", 1, 4, num_values=4),
    "flags": (ArraySpec((2,), "int8", 0, 1), ArraySpec((), "bool", 0, 1)),
    "speed": ArraySpec((2, 2), "float32"),
}
SEEDS, BATCH = 2, 6
FAST = {"hidden_sizes": (16,), "learning_rate": 1e-2, "gamma": 0.9}


SHARED = {  # options of trainer/learner.py all at once, each where a learner has it
    "activation": "gelu",
    "action_clip": 0.9,
    "decay_shape": "linear",
    "dropout": 0.2,
    "ema_decay": 0.75,
    "hidden_sizes": (8, 8),
    "initialization": {"hidden": "orthogonal", "output": "orthogonal", "output_gain": 0.5},
    "layer_norm": True,
    "learning_rate": 1e-2,
    "policy_learning_rate": 1e-2,
    "max_grad_norm": 0.5,
    "num_critics": 3,
    "residual": True,
    "state_dependent_std": True,
    "warmup": 4,
}


@dataclass(frozen=True)
class Case:
    algorithm: str
    action: str
    nested: bool = False

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("Toy-v0", NESTED if self.nested else FLAT, ACTIONS[self.action])


@cache
def learner_of(case: Case) -> Any:
    module = load_learner(case.algorithm)
    try:
        return module.Learner(module.Params(**FAST), case.spec, 100)
    except HindcastError:
        pytest.skip(f"{case.algorithm} does not claim {case.action} actions")


@cache
def compiled(case: Case, name: str) -> Any:
    return jax.jit(getattr(learner_of(case), name))


@cache
def first_state(case: Case) -> Any:
    return compiled(case, "init")(jax.random.key(0))


def random_array(rng: np.random.Generator, spec: ArraySpec, size: int) -> np.ndarray:
    low, high = (np.clip(bound, -1e3, 1e3) for bound in spec.bounds())
    if np.issubdtype(np.dtype(spec.dtype), np.floating):
        drawn = rng.uniform(low, high, (size, *spec.shape)) if spec.is_bounded else rng.normal(size=(size, *spec.shape))
        return drawn.astype(spec.dtype)
    return rng.integers(low.astype(int), high.astype(int) + 1, (size, *spec.shape)).astype(spec.dtype)


def random_batch(spec: EnvSpec, seed: int = 0) -> Transition:
    rng = np.random.default_rng(seed)
    observation, next_observation = (jax.tree.map(lambda leaf: random_array(rng, leaf, BATCH), spec.observation) for _ in range(2))
    reward = rng.normal(size=BATCH).astype(np.float32)
    discount = (rng.random(BATCH) < 0.7).astype(np.float32)
    action, next_action = (random_array(rng, spec.action, BATCH) for _ in range(2))
    following = NextAction(next_action, (rng.random(BATCH) < 0.7).astype(np.float32))
    batch = Transition(observation, action, reward, discount, next_observation, following)
    return jax.tree.map(jnp.asarray, batch)  # type: ignore[no-any-return]


def raw(tree: Any) -> list[np.ndarray]:
    """The leaves as NumPy, a typed key as its data."""
    leaves = jax.tree.leaves(tree)
    return [np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x) for x in leaves]


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(raw(one), raw(other), strict=True):
        np.testing.assert_array_equal(a, b)


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


each_learner = pytest.mark.parametrize("algorithm", known_learners())
each_case = pytest.mark.parametrize("case", [Case(a, kind) for a in known_learners() for kind in ACTIONS], ids=str)
nested = [pytest.param(Case(a, kind, nested=True), marks=pytest.mark.slow) for a in known_learners() for kind in ACTIONS]
nested_cases = pytest.mark.parametrize("case", nested, ids=str)


def in_bounds(action: jax.Array, spec: ArraySpec) -> bool:
    low, high = spec.bounds()
    assert action.shape == (BATCH, *spec.shape)
    assert action.dtype == jax.dtypes.canonicalize_dtype(spec.dtype)
    return bool((np.asarray(action) >= low).all() and (np.asarray(action) <= high).all())


@each_learner
def test_claims_a_kind_of_action_and_says_why_not_otherwise(algorithm: str) -> None:
    module, claimed = load_learner(algorithm), 0
    for action in ACTIONS.values():
        try:
            learner = module.Learner(module.Params(), EnvSpec("Toy-v0", FLAT, action), 100)
        except HindcastError:
            with pytest.raises(HindcastError, match="Toy-v0"):
                module.Learner(module.Params(), EnvSpec("Toy-v0", FLAT, action), 100)
            continue
        claimed += 1
        assert learner == module.Learner(module.Params(), EnvSpec("Toy-v0", FLAT, action), 100)
        assert hash(learner) == hash(module.Learner(module.Params(), EnvSpec("Toy-v0", FLAT, action), 100))
    assert claimed
    for integers in (ArraySpec((3,), "int64", 0, 4), ArraySpec((2,), "int8", 0, 1)):
        with pytest.raises(HindcastError, match=r"Toy-v0.*action is int"):
            module.Learner(module.Params(), EnvSpec("Toy-v0", FLAT, integers), 100)


@pytest.mark.slow
@each_case
def test_update_is_pure_and_compiles_once(case: Case) -> None:
    update, state, batch = compiled(case, "update"), first_state(case), random_batch(case.spec)
    before = raw(state)
    once, metrics = update(state, batch)
    again, same_metrics = update(state, batch)
    assert_same((once, metrics), (again, same_metrics))
    assert_same(before, raw(state))
    assert once.step == 1
    assert not np.array_equal(jax.random.key_data(once.key), jax.random.key_data(state.key))
    for seed in range(3):
        once, _ = update(once, random_batch(case.spec, seed))
    assert update._cache_size() == 1
    assert once.step == 4


@pytest.mark.slow
@each_case
def test_metrics_are_finite_scalars_and_validation_reports_them_too(case: Case) -> None:
    state, metrics = compiled(case, "update")(first_state(case), random_batch(case.spec))
    validation = compiled(case, "losses")(state, random_batch(case.spec, 1))
    assert "loss" in metrics
    assert any(name.endswith("grad_norm") for name in metrics)
    assert set(validation) == {name for name in metrics if not name.endswith("grad_norm")}
    for name, value in {**metrics, **validation}.items():
        assert value.shape == (), name
        assert np.isfinite(value), name


@pytest.mark.slow
@each_case
def test_rewards_reach_no_network_but_the_critic_in_one_update(case: Case) -> None:
    """A policy whose gradient saw the critic's loss, or a target whose gradient was not stopped, would move with the rewards.

    So does one that sees the critics after their step; a learner that works in this order has the other one, too.
    """
    learner, state, batch = learner_of(case), first_state(case), random_batch(case.spec)
    update = compiled(case, "update")
    if getattr(learner.params, "order", "joint") != "joint":
        update = jax.jit(replace(learner, params=learner.params.model_copy(update={"order": "joint"})).update)
    one, _ = update(state, batch)
    other, _ = update(state, batch._replace(reward=batch.reward * 100 + 7))
    for name in set(one.params) - {"critic"}:
        assert_same(one.params[name], other.params[name])
    if "critic" in one.params:
        assert any((a != b).any() for a, b in zip(raw(one.params["critic"]), raw(other.params["critic"]), strict=True))


@pytest.mark.slow
@each_case
def test_takes_every_shared_option_and_acts_by_the_average_of_its_policy(case: Case) -> None:
    module, learner = load_learner(case.algorithm), learner_of(case)  # which skips where the action is not claimed
    options = {name: value for name, value in SHARED.items() if name in module.Params.model_fields}
    params = module.Params.model_validate({**options, "decay": module.Params.NETWORKS})
    learner = module.Learner(params, case.spec, 100)
    state = jax.jit(learner.init)(jax.random.key(0))
    after, metrics = jax.jit(learner.update)(state, random_batch(case.spec))
    assert all(np.isfinite(value) for value in metrics.values())
    for name in module.Params.NETWORKS:
        if name in state.params:  # Adam's first step is the learning rate in every direction, here a quarter of it
            steps = [np.abs(a - b).max() for a, b in zip(raw(after.params[name]), raw(state.params[name]), strict=True)]
            np.testing.assert_allclose(max(steps), 1e-2 / 4, rtol=0.05)
    start = raw(learner.policy(state))
    (acting,) = (name for name in module.Params.NETWORKS if name in state.params and same(raw(state.params[name]), start))
    for found, old, new in zip(raw(learner.policy(after)), start, raw(after.params[acting]), strict=True):
        np.testing.assert_allclose(found, 0.75 * old + 0.25 * new, rtol=1e-5, atol=1e-7)


@nested_cases
def test_learns_from_images_categories_and_nests_and_acts_within_bounds(case: Case) -> None:
    batch, update = random_batch(case.spec), compiled(case, "update")
    state, metrics = update(first_state(case), batch)
    assert all(np.isfinite(value) for value in metrics.values())
    policy = compiled(case, "policy")(state)
    wild = jax.tree.map(lambda x: x * 10_000, policy)  # a policy far outside what training would give

    @jax.jit
    def actions(policy: Any, key: jax.Array, observation: Any) -> tuple[jax.Array, jax.Array]:
        return learner_of(case).act(policy, observation), learner_of(case).sample(policy, key, observation)

    for action in (*actions(policy, jax.random.key(1), batch.observation), *actions(wild, jax.random.key(2), batch.observation)):
        assert in_bounds(action, case.spec.action)


@nested_cases
def test_every_leaf_of_an_observation_reaches_the_metrics(case: Case) -> None:
    batch, state, update = random_batch(case.spec), first_state(case), compiled(case, "update")
    _, base = update(state, batch)
    leaves, structure = jax.tree.flatten(batch.observation)
    for position, leaf in enumerate(leaves):
        changed = [*leaves[:position], jnp.flip(leaf, 0), *leaves[position + 1 :]]
        _, metrics = update(state, batch._replace(observation=jax.tree.unflatten(structure, changed)))
        assert any(metrics[name] != base[name] for name in base), f"leaf {position} is never read"


@pytest.mark.slow
@each_case
def test_seeds_train_together_as_they_do_alone(case: Case) -> None:
    learner, keys = learner_of(case), jax.random.split(jax.random.key(5), SEEDS)
    batches = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(random_batch(case.spec, seed) for seed in range(SEEDS)))

    @jax.jit
    def together(keys: jax.Array) -> Any:
        def step(states: Any, _: None) -> tuple[Any, Any]:
            return jax.vmap(learner.update)(states, batches)

        return jax.lax.scan(step, jax.vmap(learner.init)(keys), None, length=3)[0]

    states = together(keys)
    for seed in range(SEEDS):
        alone = compiled(case, "init")(keys[seed])
        for _ in range(3):
            alone, _ = compiled(case, "update")(alone, jax.tree.map(lambda x, seed=seed: x[seed], batches))
        for a, b in zip(raw(jax.tree.map(lambda x, seed=seed: x[seed], states)), raw(alone), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


@each_case
@pytest.mark.parametrize("field", ["reward", "discount", "action", "observation", "next_observation"])
def test_a_batch_of_another_shape_is_refused(case: Case, field: str) -> None:
    learner, batch = learner_of(case), random_batch(case.spec)
    wrong = batch._replace(**{field: getattr(batch, field)[..., None]})
    for method in (learner.update, learner.losses):
        with pytest.raises(HindcastError, match=rf"{field} has shape .*Toy-v0.*needs"):
            jax.eval_shape(method, first_state(case), wrong)


@pytest.mark.slow
@each_learner
def test_solves_a_corridor(algorithm: str) -> None:
    """Three cells, the action 1 leads on and 0 back to the start; the way out pays. Most data goes on, so even a clone does."""
    rng = np.random.default_rng(0)
    cell, action = rng.integers(0, 3, 600), (rng.random(600) < 0.75).astype(np.int64)
    out = (cell == 2) & (action == 1)
    following = np.where(action == 1, np.minimum(cell + 1, 2), 0)
    data = Transition(cell, action, out.astype(np.float32), 1 - out.astype(np.float32), following)
    spec = EnvSpec("Corridor-v0", ArraySpec((), "int64", 0, 2, num_values=3), ArraySpec((), "int64", 0, 1, num_values=2))
    assert trained_action(algorithm, spec, data, np.arange(3)).tolist() == [1, 1, 1]


@pytest.mark.slow
@each_learner
def test_finds_the_best_action_of_a_bandit_with_a_state(algorithm: str) -> None:
    """The reward falls with the squared distance of the action from 2 * sign(s) + 5; the data lie around that at random."""
    rng = np.random.default_rng(0)
    state = rng.choice([-1.0, 1.0], (600, 1)).astype(np.float32)
    best = 2 * state + 5
    action = (best + rng.uniform(-2, 2, best.shape)).astype(np.float32)
    reward = -((action - best) ** 2)[:, 0]
    none = np.zeros(600, np.float32)
    data = Transition(state, action, reward, none, state, NextAction(action, none))
    spec = EnvSpec("Bandit-v0", ArraySpec((1,), "float32"), ArraySpec((1,), "float32", 0.0, 10.0))
    found = trained_action(algorithm, spec, data, np.asarray([[-1.0], [1.0]], np.float32))
    np.testing.assert_allclose(found[:, 0], [3, 7], atol=0.75)


def trained_action(algorithm: str, spec: EnvSpec, data: Transition, observation: np.ndarray) -> np.ndarray:
    """What the learner does after 600 updates on batches of 64."""
    module, updates = load_learner(algorithm), 600
    try:
        learner = module.Learner(module.Params(**{**FAST, "hidden_sizes": (32, 32), "learning_rate": 3e-3}), spec, updates)
    except HindcastError:
        pytest.skip(f"{algorithm} does not claim this action")
    data = jax.tree.map(jnp.asarray, data)

    @jax.jit
    def train(key: jax.Array) -> jax.Array:
        def step(state: Any, key: jax.Array) -> tuple[Any, None]:
            index = jax.random.randint(key, (64,), 0, len(data.reward))
            return learner.update(state, jax.tree.map(lambda x: x[index], data))[0], None

        state, _ = jax.lax.scan(step, learner.init(key), jax.random.split(key, updates))
        return learner.act(learner.policy(state), observation)  # type: ignore[no-any-return]

    return np.asarray(train(jax.random.key(0)))
