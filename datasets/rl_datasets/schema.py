"""The words that every part shares: ArraySpec, EnvSpec, Episode, Transition. NumPy only, no TensorFlow, no JAX.

Alignment (the one definition): an episode of T transitions has T+1 steps. Step t holds o_t, the a_t applied to it, and the
reward_t and discount_t that followed. The last step holds only o_T; its action, reward and discount are zero and never read.
`discount` is the environment's: 0 on the transition into a terminal state, 1 elsewhere, truncation included.
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tree

from rl_datasets.errors import HindcastError

Tree = Any  # a nest of dicts and tuples; the leaves are arrays or ArraySpecs
Array = Any  # NumPy outside of jit, JAX inside, TensorFlow in the stream's graph
Bound = float | tuple[float, ...]

TEXT = "text"  # the dtype of strings: an array of objects, each a str; only step metadata and columns of sources have it


@dataclass(frozen=True)
class ArraySpec:
    """One array of an observation or action: shape without the step axis, NumPy dtype name, inclusive bounds.

    A bound is one float, or one float an element in C order; infinite where there is none. `num_values` is set for a
    category (Gymnasium's Discrete): an integer scalar in [minimum, minimum + num_values). `columns` are the names that the elements have
    in the source, in C order; empty where they have none.
    """

    shape: tuple[int, ...]
    dtype: str
    minimum: Bound = -math.inf
    maximum: Bound = math.inf
    num_values: int | None = None
    columns: tuple[str, ...] = ()

    @property
    def is_discrete(self) -> bool:
        return self.num_values is not None

    @property
    def is_text(self) -> bool:
        return self.dtype == TEXT

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """What arrays of this spec have."""
        return np.dtype(object if self.is_text else self.dtype)

    @property
    def is_image(self) -> bool:
        """A uint8 array of [height, width, channels]."""
        return self.dtype == "uint8" and len(self.shape) == 3 and self.shape[2] <= min(self.shape[:2])

    @property
    def is_bounded(self) -> bool:
        return bool(np.isfinite(self.minimum).all() and np.isfinite(self.maximum).all())

    def subscript(self, element: int) -> str:
        """Returns what follows the array's name for an element, given in C order: "[speed]" where it has a name, else "[2]" or "[0, 1]";
        nothing for a scalar."""
        if self.columns:
            return f"[{self.columns[element]}]"
        places = []
        for size in reversed(self.shape):
            element, place = divmod(element, size)
            places.append(str(place))
        return f"[{', '.join(reversed(places))}]" if places else ""

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (minimum, maximum), each of the spec's shape, float64."""
        low, high = (np.asarray(bound, np.float64) for bound in (self.minimum, self.maximum))
        return tuple(np.broadcast_to(b if b.ndim == 0 else b.reshape(self.shape), self.shape) for b in (low, high))  # type: ignore[return-value]

    def bounded(self, minimum: Any, maximum: Any, num_values: int | None = None) -> "ArraySpec":
        """Returns the spec with these inclusive bounds, each a number or one an element."""
        return dataclasses.replace(self, minimum=as_bound(minimum), maximum=as_bound(maximum), num_values=num_values)

    def zeros(self, *leading: int) -> np.ndarray:
        """Returns an array of zeros, or of empty texts, [*leading, *shape]."""
        shape = (*leading, *self.shape)
        return np.full(shape, "", object) if self.is_text else np.zeros(shape, self.dtype)


@dataclass(frozen=True)
class ReferenceReturns:
    """Returns that scores are normalised by: 100 * (return - random) / (expert - random), and where they come from."""

    random: float
    expert: float
    source: str


@dataclass(frozen=True)
class EnvSpec:
    """What an environment takes and gives, and how to make it again. Hashable, so it can be static under `jit`.

    `step_metadata` declares what data keep of each step beside that. A "/" in a name nests it, as in "infos/height".
    """

    env_id: str
    observation: Tree  # of ArraySpec
    action: ArraySpec
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    reward_range: tuple[float, float] = (-math.inf, math.inf)
    max_episode_steps: int | None = None
    reference_returns: ReferenceReturns | None = None
    step_metadata: Mapping[str, ArraySpec] = field(default_factory=dict)  # by name; also texts and float64

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def without_step_metadata(self) -> "EnvSpec":
        """Returns what a learner and its policy know of the data."""
        return dataclasses.replace(self, step_metadata={})

    def to_json(self) -> dict[str, Any]:
        """Returns plain JSON values; an infinite bound becomes the string "inf" or "-inf". Without step metadata, nothing is said of it."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["observation"] = _encode_tree(self.observation)
        values["action"] = _encode_tree(self.action)
        values["env_kwargs"] = dict(self.env_kwargs)
        values["reward_range"] = _encode_bound(self.reward_range)
        values["reference_returns"] = self.reference_returns and dataclasses.asdict(self.reference_returns)
        kept = values.pop("step_metadata")
        return {**values, "step_metadata": _encode_tree(kept)} if kept else values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "EnvSpec":
        """Raises HindcastError where the values are not what `to_json` gives."""
        try:
            references = values["reference_returns"]
            decoded = {
                "observation": _decode_tree(values["observation"]),
                "action": _decode_tree(values["action"]),
                "reward_range": _decode_bound(values["reward_range"]),
                "reference_returns": references and ReferenceReturns(**references),
                "step_metadata": _decode_tree(values.get("step_metadata", {"dict": {}})),
            }
            return cls(**{**values, **decoded})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise HindcastError(
                f"The stored description of an environment is damaged ({type(error).__name__}: {error}). "
                "Restore the data set or policy with 'dvc checkout --force', or rebuild it."
            ) from error


@dataclass(frozen=True)
class Episode:
    """One episode of T transitions as T+1 steps, aligned as this file's docstring says.

    `metadata` holds strings and numbers only; `seed` (int, -1 where unknown), `policy` and `environment` are always there.
    `step_metadata` is what the spec declares of each step, the last one included; nothing is learnt from it.
    """

    episode_id: str
    observation: Tree  # leaves [T+1, ...]
    action: np.ndarray  # [T+1, ...], last row zero
    reward: np.ndarray  # [T+1] float32, last zero
    discount: np.ndarray  # [T+1] float32, last zero
    is_terminal: bool  # whether o_T is a terminal state; False for a truncated episode
    metadata: Mapping[str, str | int | float] = field(default_factory=dict)
    step_metadata: Mapping[str, np.ndarray] = field(default_factory=dict)  # by name, [T+1, ...]

    @property
    def length(self) -> int:
        """T, the number of transitions."""
        return len(self.reward) - 1

    @property
    def episode_return(self) -> float:
        """Undiscounted sum of rewards, float64."""
        return float(self.reward[:-1].sum(dtype=np.float64))


class NextAction(NamedTuple):
    """What was done at the next observation; nothing where the episode ended there, be it terminal or not."""

    action: Array  # [B, ...], to be read only where it exists
    exists: Array  # [B] float32, 1 or 0


class Transition(NamedTuple):
    """A batch of transitions. Observations are pytrees; no transition crosses an episode's end."""

    observation: Tree  # [B, ...]
    action: Array  # [B, ...]
    reward: Array  # [B] float32
    discount: Array  # [B] float32, the environment's
    next_observation: Tree  # [B, ...]
    next_action: NextAction | tuple[()] = ()  # of learners that ask for it (`LearnerParams.NEXT_ACTION`)


def as_bound(values: Any) -> Bound:
    """One float where all elements agree, else one an element in C order."""
    flat = [float(value) for value in np.ravel(values)]
    return flat[0] if len(set(flat)) == 1 else tuple(flat)


def named_leaves(nest: Tree, root: str) -> list[tuple[str, Any]]:
    """Returns (name, leaf) in a fixed order; a name is the path joined by "/", such as "observation/camera/0"."""
    if isinstance(nest, np.ndarray | ArraySpec):  # by far the commonest, and flattening costs twenty times as much
        return [(root, nest)]
    return [("/".join((root, *map(str, path))), leaf) for path, leaf in tree.flatten_with_path(nest)]


def validate_episode(episode: Episode, spec: EnvSpec) -> None:
    """Raises HindcastError where shapes, dtypes or lengths differ from the spec. Values are the quality gate's matter."""
    episode_validator(spec)(episode)


def episode_validator(spec: EnvSpec) -> Callable[[Episode], None]:
    """Returns what `validate_episode` does, for many episodes of one spec."""
    leaves = [*named_leaves(spec.observation, "observation"), ("action", spec.action), ("reward", _SCALAR), ("discount", _SCALAR)]
    leaves += [(f"step_metadata/{name}", leaf) for name, leaf in spec.step_metadata.items()]
    expected = [(name, leaf.shape, leaf.numpy_dtype) for name, leaf in leaves]
    texts = [name for name, leaf in spec.step_metadata.items() if leaf.is_text]
    is_lone = isinstance(spec.observation, ArraySpec)

    def validate(episode: Episode) -> None:
        if not (is_lone and isinstance(episode.observation, np.ndarray)):
            _require_nested_alike(episode, spec)
        steps = len(episode.reward)
        if steps < 2:
            raise HindcastError(f"Episode '{episode.episode_id}' has {steps} steps; an episode needs at least 2 (one transition).")
        found = (*(leaf for _, leaf in named_leaves(episode.observation, "")), episode.action, episode.reward, episode.discount)
        if spec.step_metadata or episode.step_metadata:
            found = (*found, *_step_metadata(episode, spec))
        for (name, shape, dtype), array in zip(expected, found, strict=True):
            if array.shape != (steps, *shape) or array.dtype != dtype:
                raise HindcastError(
                    f"Episode '{episode.episode_id}': {name} is {array.dtype}{list(array.shape)}, but the spec says "
                    f"{dtype}{[steps, *shape]}. Fix the builder's spec() or the episode."
                )
        for name in texts:
            _require_texts(episode.step_metadata[name], name, episode.episode_id)

    return validate


def _require_nested_alike(episode: Episode, spec: EnvSpec) -> None:
    try:
        tree.assert_same_structure(spec.observation, episode.observation)
    except (TypeError, ValueError) as error:
        raise HindcastError(f"Episode '{episode.episode_id}': observation is nested otherwise than the spec says: {error}") from error


def _step_metadata(episode: Episode, spec: EnvSpec) -> Iterator[np.ndarray]:
    kept = episode.step_metadata
    if kept.keys() != spec.step_metadata.keys():
        raise HindcastError(
            f"Episode '{episode.episode_id}' has the step metadata {', '.join(sorted(kept)) or 'none'}, but the spec says "
            f"{', '.join(sorted(spec.step_metadata)) or 'none'}. Fix the builder's spec() or the episode."
        )
    return (kept[name] for name in spec.step_metadata)


def _require_texts(array: np.ndarray, name: str, episode_id: str) -> None:
    try:
        "".join(array.ravel().tolist()).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise HindcastError(
            f"Episode '{episode_id}': step_metadata/{name} is text, but not each a str that UTF-8 can hold ({error}). Fix the builder."
        ) from error


_SCALAR = ArraySpec((), "float32")


def _encode_bound(bound: Any) -> Any:
    return [_encode_bound(b) for b in bound] if isinstance(bound, tuple) else bound if math.isfinite(bound) else str(bound)


def _decode_bound(bound: Any) -> Any:
    return tuple(_decode_bound(b) for b in bound) if isinstance(bound, list) else float(bound)


def _encode_tree(nest: Tree) -> dict[str, Any]:
    if isinstance(nest, ArraySpec):
        values = {**dataclasses.asdict(nest), "shape": list(nest.shape), "columns": list(nest.columns)}
        if not nest.columns:
            del values["columns"]
        return {"array": {**values, "minimum": _encode_bound(nest.minimum), "maximum": _encode_bound(nest.maximum)}}
    if isinstance(nest, Mapping):
        return {"dict": {key: _encode_tree(value) for key, value in nest.items()}}
    return {"tuple": [_encode_tree(value) for value in nest]}


def _decode_tree(values: Mapping[str, Any]) -> Tree:
    ((kind, content),) = values.items()
    if kind == "dict":
        return {key: _decode_tree(value) for key, value in content.items()}
    if kind == "tuple":
        return tuple(_decode_tree(value) for value in content)
    bounds = {key: _decode_bound(content[key]) for key in ("minimum", "maximum")}
    return ArraySpec(**{**content, "shape": tuple(content["shape"]), "columns": tuple(content.get("columns", ())), **bounds})
