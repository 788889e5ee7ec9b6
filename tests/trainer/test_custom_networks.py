"""Networks named by import path: they are found, fit or are refused with a message, learn in an ensemble, and leave their digest."""

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trainer.modules
from rl_datasets.errors import HindcastError
from rl_datasets.schema import ArraySpec, EnvSpec, Transition
from trainer.bundle import Dataset, load_bundle, make_bundle
from trainer.construction import make_critics
from trainer.custom import module_digests
from trainer.learner import load_learner
from trainer.preprocessing import make_preprocessor

DISCRETE = EnvSpec("Toy-v0", ArraySpec((3,), "float32"), ArraySpec((), "int64", 0, 3, num_values=4))
CONTINUOUS = EnvSpec("Toy-v0", ArraySpec((3,), "float32"), ArraySpec((2,), "float32", -2, 2))
CODE = """
import flax.linen as nn
import jax.numpy as jnp
from flax import nnx

class Wide(nn.Module):
    spec: object
    width: int = 8

    @nn.compact
    def __call__(self, observation, action=None):
        inputs = observation if action is None else jnp.concatenate([observation, action], -1)
        outputs = nn.Dense(self.spec.action.num_values or 1)(nn.relu(nn.Dense(self.width)(inputs)))
        return outputs if action is None else outputs[..., 0]

class State(Wide):
    @nn.compact
    def __call__(self, observation):
        return nn.Dense(1)(nn.tanh(nn.Dense(self.width)(observation)))[..., 0]

class Actor(nn.Module):
    spec: object
    scale: float = 1.0

    @nn.compact
    def __call__(self, observation, train=False):
        hidden = nn.Dropout(0.5, deterministic=not train)(nn.Dense(16)(observation))
        if self.spec.action.is_discrete:
            return nn.Dense(self.spec.action.num_values)(hidden)
        size = self.spec.action.shape[0]
        return self.scale * nn.Dense(size)(hidden), nn.Dense(size)(hidden)

class Nnx(nnx.Module):
    def __init__(self, spec, width=8, *, rngs):
        inputs = spec.observation.shape[0] + (0 if spec.action.is_discrete else spec.action.shape[0])
        self.first = nnx.Linear(inputs, width, rngs=rngs)
        self.last = nnx.Linear(width, spec.action.num_values or 1, rngs=rngs)

    def __call__(self, observation, action=None):
        inputs = observation if action is None else jnp.concatenate([observation, action], -1)
        outputs = self.last(nnx.relu(self.first(inputs)))
        return outputs if action is None else outputs[..., 0]

class Normalized(Wide):
    @nn.compact
    def __call__(self, observation, action=None):
        return nn.Dense(self.spec.action.num_values)(nn.BatchNorm(use_running_average=False)(observation))

class Column(Wide):
    @nn.compact
    def __call__(self, observation, action):
        return nn.Dense(1)(observation)

class Broken(Wide):
    def __call__(self, observation, action=None):
        raise RuntimeError("half done")
"""


@pytest.fixture(autouse=True)
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file of the user's in a folder that counts as trainer/modules/."""
    (tmp_path / "nets.py").write_text(CODE)
    (tmp_path / "torn.py").write_text("import nothing_of_this_name\n")
    monkeypatch.setattr(trainer.modules, "__path__", [*trainer.modules.__path__, str(tmp_path)])
    yield tmp_path / "nets.py"
    sys.modules.pop("trainer.modules.nets", None)


def learner(algorithm: str, spec: EnvSpec, **networks: Any) -> Any:
    module = load_learner(algorithm)
    return module.Learner(module.Params(hidden_sizes=(4,), networks=networks), spec, 10)


def batch_of(spec: EnvSpec, size: int = 6) -> Transition:
    rng = np.random.default_rng(0)
    observation, next_observation = (jnp.asarray(rng.normal(size=(size, 3)), jnp.float32) for _ in range(2))
    action = rng.integers(0, 4, size) if spec is DISCRETE else rng.uniform(-2, 2, (size, 2)).astype(np.float32)
    return Transition(observation, jnp.asarray(action), jnp.ones(size), jnp.ones(size), next_observation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "spec", "critic"),
    [("iql", DISCRETE, "Wide"), ("iql", CONTINUOUS, "Nnx"), ("cql", DISCRETE, "Nnx"), ("cql", CONTINUOUS, "Wide")],
)
def test_a_learner_learns_with_networks_of_the_users_own(algorithm: str, spec: EnvSpec, critic: str) -> None:
    networks: dict[str, Any] = {"critic": {"module": f"trainer.modules.nets:{critic}", "options": {"width": 5}}}
    if algorithm == "iql":
        networks["value"] = {"module": "trainer.modules.nets:State"}
    if algorithm == "iql" or spec is CONTINUOUS:
        networks["policy"] = {"module": "trainer.modules.nets:Actor"}
    own = learner(algorithm, spec, **networks)
    state = jax.jit(own.init)(jax.random.key(0))
    assert {leaf.shape[0] for leaf in jax.tree.leaves(state.params["critic"])} == {2}, "the ensemble stacks two of them"
    assert any(5 in leaf.shape for leaf in jax.tree.leaves(state.params["critic"])), "the option reached the module"
    first, second = (jax.tree.leaves(jax.tree.map(lambda leaf, i=i: leaf[i], state.params["critic"])) for i in range(2))
    assert any((a != b).any() for a, b in zip(first, second, strict=True)), "each critic has weights of its own"
    after, metrics = jax.jit(own.update)(state, batch_of(spec))
    assert all(np.isfinite(value) for value in metrics.values())
    for name in after.params:
        assert any((a != b).any() for a, b in zip(jax.tree.leaves(after.params[name]), jax.tree.leaves(state.params[name]), strict=True))


@pytest.mark.slow
def test_many_actions_of_a_state_give_what_each_gives_alone() -> None:
    params = load_learner("iql").Params(networks={"critic": {"module": "trainer.modules.nets:Wide"}})
    critics, rng = make_critics(params, CONTINUOUS), np.random.default_rng(1)
    weights = critics.init(jax.random.key(0))
    observation, actions = rng.normal(size=(5, 3)), rng.uniform(-1, 1, (7, 5, 2))
    together = critics(weights, observation, actions)
    assert together.shape == (2, 7, 5)
    for i in range(7):
        np.testing.assert_allclose(together[:, i], critics(weights, observation, actions[i]), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_policy_drops_units_in_training_alone() -> None:
    own = learner("iql", CONTINUOUS, policy={"module": "trainer.modules.nets:Actor", "options": {"scale": 0.5}})
    weights, observation = jax.jit(own.init)(jax.random.key(0)).params["policy"], batch_of(CONTINUOUS).observation
    still, again = (own._policy.output(weights, observation)[0] for _ in range(2))
    one, other = (own._policy.output(weights, observation, jax.random.key(i))[0] for i in range(2))
    assert (still == again).all()
    assert (one != other).any()


@pytest.mark.parametrize(
    ("algorithm", "spec", "networks", "message"),
    [
        ("iql", DISCRETE, {"critic": {"module": "nets.Wide"}}, r"networks.critic: found 'nets.Wide', but '<import path>:<class>'"),
        ("iql", DISCRETE, {"critic": {"module": "no_such_file:Wide"}}, r"networks.critic: 'no_such_file' cannot be imported"),
        ("iql", DISCRETE, {"value": {"module": "trainer.modules.torn:A"}}, r"networks.value: .*nothing_of_this_name.*Mend the path"),
        ("bc", DISCRETE, {"policy": {"module": "trainer.modules.nets:Huge"}}, r"has no flax module 'Huge'; it has: Actor, Broken, Column"),
        ("bc", DISCRETE, {"policy": {"module": "trainer.modules.nets:jnp"}}, r"has no flax module 'jnp'"),
        (
            "cql",
            DISCRETE,
            {"critic": {"module": "trainer.modules.nets:Wide", "options": {"depth": 3}}},
            r"networks.critic: Wide\(spec, ...\) does not take the options {'depth': 3}.*Its options are: width",
        ),
        (
            "cql",
            DISCRETE,
            {"critic": {"module": "trainer.modules.nets:Nnx", "options": {"depth": 3}}},
            r"networks.critic: Nnx\(spec, ...\) does not take the options {'depth': 3}.*Its options are: width",
        ),
        (
            "cql",
            CONTINUOUS,
            {"critic": {"module": "trainer.modules.nets:Column"}},
            r"networks.critic: it returns float32\[2, 1\], but float\[2\] is expected",
        ),
        (
            "cql",
            CONTINUOUS,
            {"policy": {"module": "trainer.modules.nets:State"}},
            r"networks.policy: it returns float32\[2\], but float\[2, 2\], float\[2, 2\] is expected",
        ),
        (
            "iql",
            DISCRETE,
            {"critic": {"module": "trainer.modules.nets:Normalized"}},
            r"networks.critic: it keeps state beside its parameters \(batch_stats\)",
        ),
        ("iql", DISCRETE, {"critic": {"module": "trainer.modules.nets:Broken"}}, r"networks.critic: calling it on .*\[2, 3\].*half done"),
        (
            "iql",
            DISCRETE,
            {"value": {"module": "trainer.policies:Value"}},
            r"networks.value: .*'trainer.policies' has no flax module 'Value'",
        ),
        ("cql", DISCRETE, {"policy": {"residual": True}}, r"networks.policy is .*for continuous actions, and environment 'Toy-v0'"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(algorithm: str, spec: EnvSpec, networks: dict[str, Any], message: str) -> None:
    with pytest.raises(HindcastError, match=message):
        learner(algorithm, spec, **networks)


def test_a_module_elsewhere_in_the_project_is_refused() -> None:
    with pytest.raises(HindcastError, match=r"'trainer.construction:Ensemble' lies in the project, but outside trainer/modules/"):
        learner("iql", DISCRETE, critic={"module": "trainer.construction:Ensemble"})


def test_a_module_takes_the_place_of_all_other_choices() -> None:
    params = load_learner("iql").Params
    with pytest.raises(ValueError, match=r"hidden_sizes are for the built-in networks, but module a:B takes their place"):
        params(networks={"critic": {"module": "a:B", "hidden_sizes": (4,)}})
    with pytest.raises(ValueError, match="no module is named"):
        params(networks={"critic": {"options": {"width": 4}}})


def test_the_digest_of_a_module_is_that_of_its_file(nets: Path) -> None:
    params = load_learner("iql").Params(
        networks={"critic": {"module": "trainer.modules.nets:Wide"}, "value": {"module": "trainer.modules.nets:State"}}
    )
    assert module_digests(params) == {"trainer.modules.nets": hashlib.sha256(nets.read_bytes()).hexdigest()}
    assert module_digests(load_learner("iql").Params()) == {}
    with pytest.raises(HindcastError, match=r"there is no such file. Add trainer/modules/gone.py"):
        module_digests(load_learner("iql").Params(encoders={"observation": "trainer.modules.gone:Any"}))


def test_a_policy_acts_by_the_code_that_it_was_trained_with_or_not_at_all(nets: Path, tmp_path: Path) -> None:
    own = learner("bc", DISCRETE, policy={"module": "trainer.modules.nets:Actor"})
    preprocessor = make_preprocessor(load_learner("bc").Params(normalize_observations="none"), DISCRETE, {})
    policy = jax.device_get(jax.jit(own.init)(jax.random.key(0)).params["policy"])
    common = {"spec": DISCRETE, "algorithm": "bc", "params": own.params, "updates": 10, "seed": 0, "preprocessor": preprocessor}
    make_bundle(**common, policy=policy, dataset=Dataset("toy", "1.0.0", "d1")).save(tmp_path / "policy")
    assert load_bundle(tmp_path / "policy").act(np.zeros((2, 3))).shape == (2,)
    nets.write_text(CODE.replace("nn.Dense(16)", "nn.tanh(nn.Dense(16)"))
    with pytest.raises(HindcastError, match=r"trained with other versions of trainer.modules.nets .*train again with 'dvc repro'"):
        load_bundle(tmp_path / "policy")
