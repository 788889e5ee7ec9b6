"""A policy on disk: `policy.safetensors` (weights) and `bundle.json` (all that is needed to use them and to know their origin).

Equal policies give equal bytes. The JSON holds the digest of the weights and its own, and both are verified when loaded.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, replacing, write_json
from rl_datasets.manifest import package_versions, values_digest
from rl_datasets.schema import EnvSpec, Tree, named_leaves
from trainer.custom import module_digests
from trainer.learner import Learner, LearnerParams, load_learner
from trainer.preprocessing import Preprocessor

FORMAT = "hindcast-policy/1"
WEIGHTS = "policy.safetensors"
DESCRIPTION = "bundle.json"
PACKAGES = ("flax", "jax", "jaxlib", "numpy", "optax")  # those that shape the weights


@dataclass(frozen=True)
class Dataset:
    """What a policy was trained on; `digest` is the content digest of the split data set."""

    name: str
    version: str
    digest: str


@dataclass(frozen=True, eq=False)
class Bundle:
    """A trained policy. It takes raw observations of the environment and gives actions for it. It pickles."""

    description: Mapping[str, Any]  # the content of bundle.json
    learner: Learner[Any]
    preprocessor: Preprocessor
    policy: Tree  # NumPy arrays

    @functools.cached_property
    def spec(self) -> EnvSpec:
        return EnvSpec.from_json(self.description["spec"])

    @property
    def digest(self) -> str:
        return str(self.description["digest"])

    @property
    def seed(self) -> int:
        """The training seed."""
        return int(self.description["seed"])

    @property
    def algorithm(self) -> str:
        return str(self.description["algorithm"])

    @property
    def dataset(self) -> Dataset:
        return Dataset(**self.description["dataset"])

    def act(self, observation: Tree) -> np.ndarray:
        """Returns the deterministic action for a raw observation as the environment gives it, or [N, ...] for N of them, [N, ...].

        In the spec's dtype and bounds. Raises HindcastError where the observation does not fit the spec.
        """
        inputs, alone = self._inputs(observation)
        actions = np.asarray(_act(self.learner, self.preprocessor, self.policy, inputs), self.spec.action.dtype)
        return actions[0] if alone else actions

    def sample(self, observation: Tree, seed: int) -> np.ndarray:
        """Returns an action drawn from the policy, or N of them, as `act`: equal seeds and observations give equal actions."""
        inputs, alone = self._inputs(observation)
        drawn = _sample(self.learner, self.preprocessor, self.policy, jax.random.key(seed), inputs)
        actions = np.asarray(drawn, self.spec.action.dtype)
        return actions[0] if alone else actions

    def save(self, path: Path | str) -> str:
        """Writes the folder `path` whole or not at all, for `load_bundle`. Returns the digest."""
        with replacing(Path(path)) as part:
            (part / WEIGHTS).write_bytes(_weights(_named_arrays(self.policy)))
            write_json(part / DESCRIPTION, self.description)
        return self.digest

    def _inputs(self, observation: Tree) -> tuple[Tree, bool]:
        """The observation with a leading axis [N], and whether it had none."""
        first = np.ndim(observation_leaves(observation, self.spec)[0])
        alone = first == len(tree.flatten(self.spec.observation)[0].shape)
        inputs = check_observation(observation, self.spec, leading=0 if alone else 1)
        return tree.map_structure(lambda leaf: np.expand_dims(leaf, 0), inputs) if alone else inputs, alone

    def __reduce__(self) -> tuple[Any, ...]:
        return _assemble, (self.description, _named_arrays(self.policy))


def make_bundle(
    *,
    spec: EnvSpec,
    algorithm: str,
    params: LearnerParams,
    updates: int,
    seed: int,
    preprocessor: Preprocessor,
    policy: Tree,
    dataset: Dataset,
) -> Bundle:
    """Returns what training made for one seed; `policy` is what `Learner.policy` returned. Raises HindcastError where it isn't finite."""
    tensors = _named_arrays(policy)
    spoilt = sorted(name for name, array in tensors.items() if not np.isfinite(array).all())
    if spoilt:
        raise HindcastError(f"The policy of seed {seed} has weights that are not finite ({', '.join(spoilt[:3])}), so it was not kept.")
    description = {
        "format": FORMAT,
        "algorithm": algorithm,
        "dataset": asdict(dataset),
        "modules": module_digests(params),
        "packages": package_versions(*PACKAGES),
        "params": params.model_dump(mode="json"),
        "preprocessor": preprocessor.to_json(spec),
        "seed": seed,
        "spec": spec.to_json(),
        "updates": updates,
        "weights": hashlib.sha256(_weights(tensors)).hexdigest(),
    }
    return _assemble({**description, "digest": values_digest(description)}, tensors)


def load_bundle(path: Path | str) -> Bundle:
    """Returns the policy that `Bundle.save` wrote.

    Raises HindcastError where the folder holds no bundle, or one that is damaged, of another format or of other code of the user's.
    """
    path = Path(path)
    _require_one(path)
    description = read_json(path / DESCRIPTION)
    found = description.get("format") if isinstance(description, dict) else type(description).__name__
    if found != FORMAT:
        raise HindcastError(
            f"{path / DESCRIPTION} has the format {found!r}, but {FORMAT!r} is expected. Point to a folder that training wrote."
        )
    if values_digest({key: value for key, value in description.items() if key != "digest"}) != description.get("digest"):
        raise _damaged(path / DESCRIPTION, "its content does not have the digest that it states")
    try:
        weights = (path / WEIGHTS).read_bytes()
    except OSError as error:
        raise _damaged(path / WEIGHTS, error.strerror or str(error)) from error
    if hashlib.sha256(weights).hexdigest() != description["weights"]:
        raise _damaged(path / WEIGHTS, f"it does not have the digest that {DESCRIPTION} states")
    try:
        return _assemble(description, safetensors.numpy.load(weights))
    except (KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise HindcastError(
            f"{path} was written by another version of the learner '{description.get('algorithm')}' and does not fit this one ({error}). "
            "Train it again with 'dvc repro'."
        ) from error


def _require_one(path: Path) -> None:
    """Raises HindcastError where the folder is that of an experiment, which holds a policy for each seed."""
    inner = sorted(description.parent for description in path.glob(f"policies/seed_*/{DESCRIPTION}"))
    if inner and not (path / DESCRIPTION).exists():
        shown = ", ".join(folder.relative_to(path).as_posix() for folder in inner[:3]) + (", ..." if len(inner) > 3 else "")
        raise HindcastError(f"{path} holds the policies of {len(inner)} seeds, but one policy is expected. Give one of them: {shown}.")


def stack_bundles(bundles: Sequence[Bundle]) -> Callable[[Tree], np.ndarray]:
    """Returns one function for S policies: raw observations [S, N, ...] -> deterministic actions [S, N, ...], row s by bundle s.

    The bundles must be of one experiment: same learner, parameters and spec (HindcastError).
    """
    require_alike(bundles)
    spec, learner = bundles[0].spec, bundles[0].learner
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *((bundle.preprocessor, bundle.policy) for bundle in bundles))
    preprocessor, policy = jax.device_put(stacked)

    def act(observation: Tree) -> np.ndarray:
        inputs = check_observation(observation, spec, leading=2)
        return np.asarray(_act_many(learner, preprocessor, policy, inputs), spec.action.dtype)

    return act


def require_alike(bundles: Sequence[Bundle]) -> None:
    """Raises HindcastError unless there are bundles, all of one experiment: same learner, parameters and spec."""
    if not bundles:
        raise HindcastError("No policy bundle was given; at least one is expected.")
    for key in ("algorithm", "params", "spec", "updates"):
        if any(bundle.description[key] != bundles[0].description[key] for bundle in bundles):
            raise HindcastError(f"These policies differ in '{key}', so they cannot act as one experiment. Evaluate them apart.")


def check_observation(observation: Tree, spec: EnvSpec, leading: int) -> Tree:
    """Returns the observation nested as the spec says, in its dtypes. Raises HindcastError where it does not fit.

    `leading` is the number of axes before a leaf's own shape. Environments give float64 where data sets hold float32.
    """
    leaves = observation_leaves(observation, spec)
    arrays = [np.asarray(leaf) for leaf in leaves]
    for array, (name, expected) in zip(arrays, named_leaves(spec.observation, "observation"), strict=True):
        named = f" ({', '.join(expected.columns)})" if expected.columns else ""
        if array.ndim != leading + len(expected.shape) or array.shape[leading:] != expected.shape:
            axes = ", ".join(("S", "N")[2 - leading :])
            raise HindcastError(f"'{name}' has shape {list(array.shape)}, but the policy takes [{axes}] + {list(expected.shape)}{named}.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            odd = array.reshape(-1)[int(np.isfinite(array).argmin())]
            raise HindcastError(
                f"'{name}'{named} holds {odd}, but a policy acts on numbers. Fill what is missing as the import of its data did."
            )
    specs = tree.flatten(spec.observation)
    return tree.unflatten_as(spec.observation, [array.astype(s.dtype, copy=False) for array, s in zip(arrays, specs, strict=True)])


def observation_leaves(observation: Tree, spec: EnvSpec) -> list[Any]:
    """Raises HindcastError where the observation is nested otherwise than the spec says."""
    try:
        leaves: list[Any] = tree.flatten_up_to(spec.observation, observation)
    except (TypeError, ValueError) as error:
        raise HindcastError(f"The observation is nested otherwise than the policy's spec says: {error}") from error
    return leaves


@functools.partial(jax.jit, static_argnums=0)
def _act(learner: Learner[Any], preprocessor: Preprocessor, policy: Tree, observation: Tree) -> jax.Array:
    return learner.act(policy, preprocessor.observation(observation))


@functools.partial(jax.jit, static_argnums=0)
def _act_many(learner: Learner[Any], preprocessor: Preprocessor, policy: Tree, observation: Tree) -> jax.Array:
    return jax.vmap(lambda p, w, o: learner.act(w, p.observation(o)))(preprocessor, policy, observation)


@functools.partial(jax.jit, static_argnums=0)
def _sample(learner: Learner[Any], preprocessor: Preprocessor, policy: Tree, key: jax.Array, observation: Tree) -> jax.Array:
    return learner.sample(policy, key, preprocessor.observation(observation))


def _assemble(description: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Bundle:
    """Raises KeyError, TypeError or ValueError where the description or the tensors do not fit the learner."""
    spec = EnvSpec.from_json(description["spec"])
    module = load_learner(description["algorithm"])
    params = module.Params.model_validate(description["params"])
    _require_same_modules(description["modules"], params)
    learner: Learner[Any] = module.Learner(params, spec, description["updates"])
    expected = jax.eval_shape(lambda: learner.policy(learner.init(jax.random.key(0))))
    names = {name: leaf.shape for name, leaf in _named(expected)}
    if names != {name: array.shape for name, array in tensors.items()}:
        raise ValueError(f"it expects weights {names}")
    policy = jax.tree.unflatten(jax.tree.structure(expected), [tensors[name] for name in names])
    return Bundle(description, learner, Preprocessor.from_json(description["preprocessor"], spec), policy)


def _require_same_modules(trained: Mapping[str, str], params: LearnerParams) -> None:
    found = module_digests(params)
    changed = sorted(name for name in found if found[name] != trained.get(name))
    if changed:
        raise HindcastError(
            f"The policy was trained with other versions of {', '.join(changed)} than are here, so it would act otherwise than it learnt. "
            "Restore these files with git, or train again with 'dvc repro'."
        )


def _named(policy: Tree) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(policy)]


def _named_arrays(policy: Tree) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(leaf) for name, leaf in _named(policy)}


def _weights(tensors: Mapping[str, np.ndarray]) -> bytes:
    return safetensors.numpy.save(dict(tensors))  # no metadata: its order is not stable with more than one key


def _damaged(path: Path, what: str) -> HindcastError:
    return HindcastError(
        f"{path} is damaged or missing: {what}. Restore it with 'dvc checkout --force', or train it again with 'dvc repro'."
    )
