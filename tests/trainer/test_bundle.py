"""Policy bundles: stable bytes, exact round trips, and one message for whatever is not a bundle of ours."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, ReferenceReturns
from trainer.bundle import Dataset, load_bundle, make_bundle, stack_bundles
from trainer.learner import load_learner
from trainer.preprocessing import Preprocessor, make_preprocessor

DISCRETE = EnvSpec("Two-v0", ArraySpec((3,), "float32"), ArraySpec((), "int64", 5, 6, 2), reference_returns=ReferenceReturns(0, 1, "here"))
CONTINUOUS = EnvSpec(
    "Nested-v0",
    {"place": ArraySpec((), "int64", 0, 6, 7), "speed": ArraySpec((2,), "float32")},
    ArraySpec((2,), "float32", (-1.0, -20.0), (1.0, 30.0)),
)
NAMES = {DISCRETE.env_id: ("observation", 3), CONTINUOUS.env_id: ("observation/speed", 2)}


def preprocessor_of(spec: EnvSpec, seed: int) -> Preprocessor:
    name, size = NAMES[spec.env_id]
    values = np.random.default_rng(seed).uniform(0.1, 2, (2, size)).astype(np.float32)
    statistics = {"observation": {name: {"mean": values[0].tolist(), "std": values[1].tolist()}}}
    return make_preprocessor(load_learner("bc").Params(), spec, statistics)


def observations(spec: EnvSpec, *leading: int) -> Any:
    rng = np.random.default_rng(3)
    if spec is DISCRETE:
        return rng.normal(size=(*leading, 3))
    return {"place": rng.integers(0, 7, leading), "speed": rng.normal(size=(*leading, 2))}


def save(path: Path, spec: EnvSpec = DISCRETE, seed: int = 0, **changes: Any) -> Any:
    """Writes the initial policy of a seed and returns it."""
    module = load_learner("bc")
    params = module.Params(hidden_sizes=(8, 4), **changes)
    learner = module.Learner(params, spec, 10)
    policy = jax.device_get(learner.policy(learner.init(jax.random.key(seed))))
    make_bundle(
        spec=spec,
        algorithm="bc",
        params=params,
        updates=10,
        seed=seed,
        preprocessor=preprocessor_of(spec, seed),
        policy=policy,
        dataset=Dataset("toy", "1.0.0", "d1"),
    ).save(path)
    return learner, policy


@pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=lambda spec: spec.env_id)
def test_acts_as_the_learner_does_on_normalised_observations(tmp_path: Path, spec: EnvSpec) -> None:
    learner, policy = save(tmp_path / "b", spec)
    bundle = load_bundle(tmp_path / "b")
    observation = observations(spec, 64)
    single = jax.tree.map(lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf, observation)
    expected = jax.jit(learner.act)(policy, preprocessor_of(spec, 0).observation(single))
    actions = bundle.act(observation)
    np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-6)  # two compilations fuse differently
    assert actions.dtype == spec.action.dtype
    assert len(np.unique(actions)) > 1
    assert (bundle.spec, bundle.seed, bundle.algorithm, bundle.dataset) == (spec, 0, "bc", Dataset("toy", "1.0.0", "d1"))


@pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=lambda spec: spec.env_id)
def test_round_trips_are_exact(tmp_path: Path, spec: EnvSpec) -> None:
    _, policy = save(tmp_path / "b", spec)
    bundle = load_bundle(tmp_path / "b")
    for copy in (bundle, pickle.loads(pickle.dumps(bundle))):
        assert jax.tree.structure(copy.policy) == jax.tree.structure(policy)
        for left, right in zip(jax.tree.leaves(copy.policy), jax.tree.leaves(policy), strict=True):
            assert left.tobytes() == right.tobytes()
        np.testing.assert_array_equal(copy.act(observations(spec, 5)), bundle.act(observations(spec, 5)))


def test_equal_policies_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["bundle.json", "policy.safetensors"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_samples_by_seed(tmp_path: Path) -> None:
    save(tmp_path / "b", CONTINUOUS)
    bundle, observation = load_bundle(tmp_path / "b"), observations(CONTINUOUS, 200)
    first = bundle.sample(observation, 1)
    np.testing.assert_array_equal(first, bundle.sample(observation, 1))
    assert (first != bundle.sample(observation, 2)).any()
    low, high = CONTINUOUS.action.bounds()
    assert (first >= low).all()
    assert (first <= high).all()
    assert first.std() > bundle.act(observation).std()


@pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=lambda spec: spec.env_id)
def test_a_stack_acts_as_each_of_its_bundles(tmp_path: Path, spec: EnvSpec) -> None:
    for seed in range(3):
        save(tmp_path / str(seed), spec, seed)
    bundles = [load_bundle(tmp_path / str(seed)) for seed in range(3)]
    observation = observations(spec, 3, 50)
    actions = stack_bundles(bundles)(observation)
    assert actions.dtype == spec.action.dtype
    for seed, bundle in enumerate(bundles):
        np.testing.assert_allclose(actions[seed], bundle.act(jax.tree.map(lambda leaf, s=seed: leaf[s], observation)), rtol=1e-5, atol=1e-6)
    assert (actions[0] != actions[1]).any()


def test_a_stack_refuses_policies_of_two_experiments(tmp_path: Path) -> None:
    save(tmp_path / "a")
    save(tmp_path / "b", learning_rate=0.5)
    with pytest.raises(HindcastError, match="differ in 'params'"):
        stack_bundles([load_bundle(tmp_path / "a"), load_bundle(tmp_path / "b")])
    with pytest.raises(HindcastError, match="at least one"):
        stack_bundles([])


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.zeros((2, 4)), r"'observation' has shape \[2, 4\], but the policy takes \[N\] \+ \[3\]"),
        (np.zeros((1, 2, 3)), r"shape \[1, 2, 3\], but the policy takes \[N\] \+ \[3\]"),
        (np.float32([[0, 0, 0], [0, np.nan, 0]]), r"'observation' holds nan, but a policy acts on numbers"),
    ],
)
def test_refuses_an_observation_that_does_not_fit(tmp_path: Path, observation: np.ndarray, message: str) -> None:
    save(tmp_path / "b")
    with pytest.raises(HindcastError, match=message):
        load_bundle(tmp_path / "b").act(observation)


@pytest.mark.parametrize("spec", [DISCRETE, CONTINUOUS], ids=lambda spec: spec.env_id)
def test_one_observation_gives_one_action(tmp_path: Path, spec: EnvSpec) -> None:
    save(tmp_path / "b", spec)
    bundle, alone = load_bundle(tmp_path / "b"), observations(spec)
    batch = jax.tree.map(lambda leaf: np.expand_dims(leaf, 0), alone)
    for one, many in ((bundle.act(alone), bundle.act(batch)), (bundle.sample(alone, seed=3), bundle.sample(batch, seed=3))):
        np.testing.assert_array_equal(one, many[0])
        assert one.shape == spec.action.shape


def test_refuses_an_observation_nested_otherwise(tmp_path: Path) -> None:
    save(tmp_path / "b", CONTINUOUS)
    with pytest.raises(HindcastError, match="nested otherwise"):
        load_bundle(tmp_path / "b").act({"place": np.zeros(2, np.int64)})


def test_does_not_keep_weights_that_are_not_finite(tmp_path: Path) -> None:
    module = load_learner("bc")
    learner = module.Learner(module.Params(hidden_sizes=(4,)), DISCRETE, 1)
    policy = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), jax.device_get(learner.policy(learner.init(jax.random.key(0)))))
    rest = {"spec": DISCRETE, "algorithm": "bc", "params": learner.params, "updates": 1, "seed": 8, "dataset": Dataset("a", "1.0.0", "d")}
    with pytest.raises(HindcastError, match="policy of seed 8 has weights that are not finite"):
        make_bundle(preprocessor=preprocessor_of(DISCRETE, 0), policy=policy, **rest)


def flip_weight(folder: Path) -> None:
    content = bytearray((folder / "policy.safetensors").read_bytes())
    content[-3] ^= 1
    (folder / "policy.safetensors").write_bytes(content)


def shift_mean(folder: Path) -> None:
    description = json.loads((folder / "bundle.json").read_text())
    description["preprocessor"]["observation"]["observation"]["mean"][0] += 0.25
    (folder / "bundle.json").write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip_weight, r"policy\.safetensors is damaged or missing: it does not have the digest"),
        (shift_mean, r"bundle\.json is damaged or missing: its content does not have the digest that it states.*dvc checkout"),
        (lambda folder: (folder / "policy.safetensors").unlink(), r"policy\.safetensors is damaged or missing: No such file"),
        (lambda folder: (folder / "bundle.json").unlink(), r"bundle\.json is missing"),
        (
            lambda folder: (folder / "bundle.json").write_text('{"format": "onnx"}'),
            "has the format 'onnx', but 'hindcast-policy/1' is expected",
        ),
        (lambda folder: (folder / "bundle.json").write_text("[1]"), "has the format 'list'"),
        (lambda folder: (folder / "bundle.json").write_text("{"), "is not valid JSON"),
        (shutil.rmtree, r"bundle\.json is missing"),
    ],
)
def test_says_what_is_wrong_with_a_folder(tmp_path: Path, damage: Any, message: str) -> None:
    save(tmp_path / "b")
    damage(tmp_path / "b")
    with pytest.raises(HindcastError, match=message):
        load_bundle(tmp_path / "b")


def test_names_the_policies_of_an_experiment_whose_folder_is_given(tmp_path: Path) -> None:
    for seed in (0, 1):
        save(tmp_path / f"walk/policies/seed_{seed}")
    told = r"walk holds the policies of 2 seeds, but one policy is expected. Give one of them: policies/seed_0, policies/seed_1\.$"
    with pytest.raises(HindcastError, match=told):
        load_bundle(tmp_path / "walk")


def test_says_when_the_learner_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "b")
    module = load_learner("bc")
    policy = module.Learner.policy
    monkeypatch.setattr(module.Learner, "policy", lambda self, state: {"renamed": policy(self, state)})
    with pytest.raises(HindcastError, match=r"another version of the learner 'bc'.*Train it again"):
        load_bundle(tmp_path / "b")
