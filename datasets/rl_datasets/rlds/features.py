"""EnvSpec to TFDS features and back, and episodes to what is stored of them; how that comes back is in `stored`.

Stored: floats as float lists, integers and booleans as int64 lists, uint8 arrays as one string of bytes a step. A tuple of
observations is a FeaturesDict with the keys "0", "1", ...; the EnvSpec in the data set's metadata restores it. Step metadata is the
feature `metadata` of a step: there float64 is kept, as one string of bytes a step, and a text is a string.
"""

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.parts import alike, parts
from rl_datasets.recorded import EndToEnd
from rl_datasets.rlds.example import (
    Content,
    Feature,
    bytes_feature,
    encode_example,
    encode_examples,
    flags_feature,
    float_feature,
    int64_feature,
    int_feature,
    rows_feature,
)
from rl_datasets.rlds.stored import IMAGE, StoredArray, StoredColumn, StoredTexts
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, Tree, named_leaves

STEP_METADATA = "metadata"  # the key of a step under which step metadata lie

_STORABLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32")


def check_spec(spec: EnvSpec) -> None:
    """Raises HindcastError where a dtype cannot be stored without loss (float64 above all, which TFDS would cut), or a name cannot."""
    for path, leaf in (*tree.flatten_with_path({"observation": spec.observation}), (("action",), spec.action)):
        name = "/".join(map(str, path))
        if any(not isinstance(key, (str, int)) or "/" in str(key) or key == "" for key in path):
            raise HindcastError(f"{name}: keys of observations are words without '/', but found {path}. Rename them in the builder.")
        if leaf.dtype not in _STORABLE:
            hint = "Cast it to float32 in the builder, and say so in its notes" if leaf.dtype == "float64" else "Convert it in the builder"
            raise HindcastError(f"{name} is {leaf.dtype}, but RLDS files hold only {', '.join(_STORABLE)} without loss. {hint}.")
    _check_step_metadata(spec.step_metadata)


def _check_step_metadata(leaves: Mapping[str, ArraySpec]) -> None:
    for name, leaf in leaves.items():
        if "" in name.split("/") or any(other.startswith(f"{name}/") for other in leaves):
            raise HindcastError(
                f"Step metadata '{name}' has an empty part, or is both an array and a group of '{name}/...'. Rename it in the builder or "
                "the entry."
            )
        if 0 in leaf.shape or not (leaf.dtype in (*_STORABLE, "float64") or (leaf.is_text and leaf.shape == ())):
            raise HindcastError(
                f"Step metadata '{name}' is {leaf.dtype}{list(leaf.shape)}, but RLDS files hold only {', '.join(_STORABLE)}, float64, and "
                "one text a step, and none that is empty. Convert it in the builder, or ignore it."
            )


def dataset_features(spec: EnvSpec, columns: Mapping[str, type]) -> Any:
    """Returns the tfds FeaturesDict of a data set whose episodes have these metadata columns."""
    steps = {
        "observation": _nested_features(spec.observation),
        "action": _array_feature(spec.action),
        "reward": np.float32,
        "discount": np.float32,
        "is_first": np.bool_,
        "is_last": np.bool_,
        "is_terminal": np.bool_,
    }
    if spec.step_metadata:
        steps[STEP_METADATA] = _nested_features(_nest(spec.step_metadata))
    episode = {"episode_id": tfds.features.Text(), **{key: _metadata_feature(kind) for key, kind in columns.items()}}
    return tfds.features.FeaturesDict({"steps": tfds.features.Dataset(steps), **episode})


def encode_episode(episode: Episode, metadata: Mapping[str, str | int | float]) -> bytes:
    """Returns the serialised tf.train.Example of one episode, exactly as TFDS would serialise it with sorted keys."""
    features: dict[str, Feature] = {
        **_flags(episode.length, episode.is_terminal),
        "steps/action": _encode_array(episode.action),
        "steps/reward": float_feature(episode.reward),
        "steps/discount": float_feature(episode.discount),
        "episode_id": bytes_feature([episode.episode_id.encode()]),
    }
    for name, array in named_leaves(episode.observation, "steps/observation"):
        features[name] = _encode_array(array)
    for name, array in episode.step_metadata.items():
        features[f"steps/{STEP_METADATA}/{name}"] = _encode_array(array)
    for key, value in metadata.items():
        features[key] = _encode_metadata(value)
    return encode_example(features)


def encode_together(episodes: EndToEnd) -> list[bytes]:
    """Returns what `encode_episode` makes of each of many episodes, which all have the same metadata."""
    count, starts, steps = len(episodes.episode_id), episodes.starts[:-1], np.diff(episodes.starts)
    arrays = {"steps/action": episodes.action, "steps/reward": episodes.reward, "steps/discount": episodes.discount}
    names = [name for name, _ in named_leaves(episodes.nest, "steps/observation")]
    arrays |= dict(zip(names, episodes.observation, strict=True))
    arrays |= {f"steps/{STEP_METADATA}/{name}": array for name, array in episodes.step_metadata.items()}
    even = {name: feature for name, array in arrays.items() if _is_even(array, feature := _encode_array(array))}
    each = {name: [*map(_encode_array, np.split(array, starts[1:]))] for name, array in arrays.items() if name not in even}
    each["episode_id"] = [bytes_feature([name.encode()]) for name in episodes.episode_id]
    each |= {name: [*map(_encode_metadata, values)] for name, values in episodes.metadata.items()}  # type: ignore[arg-type]
    kinds = 2 * steps + episodes.is_terminal
    for encoded in each.values():
        sizes = np.array([len(content) for _, content in encoded])
        kinds = np.unique(kinds * (sizes.max() + 1) + sizes, return_inverse=True)[1]
    contents = {name: np.frombuffer(content, np.uint8) for name, (_, content) in even.items()}
    records, which = np.empty(count, object), alike(kinds)
    for group in which.groups:
        length, rows = int(steps[group[0]]), group.tolist()
        features: dict[str, tuple[bytes, Content | np.ndarray]] = {**_flags(length - 1, bool(episodes.is_terminal[group[0]]))}
        for name, (kind, _) in even.items():
            size = len(contents[name]) // len(episodes.reward)
            features[name] = kind, parts(contents[name], starts[group] * size, length * size)
        for name, encoded in each.items():
            joined = b"".join([encoded[row][1] for row in rows])
            features[name] = encoded[rows[0]][0], np.frombuffer(joined, np.uint8).reshape(len(rows), -1)
        records[group] = encode_examples(features, len(rows))
    for other in which.others:
        episode = episodes.recorded(other).episode
        records[other] = encode_episode(episode, episode.metadata)
    return list(records)


def _is_even(array: np.ndarray, feature: Feature) -> bool:
    """Whether each step of an encoded array takes as many bytes."""
    return array.dtype.kind == "f" or len(feature[1]) == array.size or (array.dtype == np.uint8 and array.ndim > 1)


def flat_features(features: Any, root: str = "") -> dict[str, Any]:
    """Returns the leaves of a FeaturesDict by path."""
    if not isinstance(features, tfds.features.FeaturesDict):
        return {root: features}
    return {path: leaf for key in features for path, leaf in flat_features(features[key], f"{root}/{key}" if root else key).items()}


def derived_spec(features: Any, env_id: str, left_out: list[str] | None = None) -> EnvSpec:
    """Returns the spec that the features of foreign RLDS data allow: shapes and dtypes as read, no bounds.

    Raises HindcastError where the steps have no observation or action, or one that cannot be an array of a fixed shape. With
    `left_out`, to which their names are added, such arrays are left out, and an action that is a nest becomes one vector of its arrays.
    """
    for key in ("observation", "action"):
        if key not in features:
            raise HindcastError(f"The steps hold {sorted(features)}, but RLDS steps need '{key}'. Import the data with a builder instead.")
    action = _derived_nest(features["action"], "action", left_out)
    if left_out is not None and not isinstance(action, ArraySpec) and action:
        action = ArraySpec((sum(math.prod(leaf.shape) for leaf in tree.flatten(action)),), "float32")
    if not isinstance(action, ArraySpec):
        raise HindcastError(f"action is a nest of {sorted(action)}, but one array is expected. Import the data with a builder.")
    return EnvSpec(env_id, _derived_nest(features["observation"], "observation", left_out), action)


def stored_array(feature: Any, name: str) -> StoredArray:
    """Returns how the arrays of one feature come back. Raises HindcastError where they are not numeric or of no fixed shape."""
    encoding = _encoding(feature)
    return StoredArray(name, array_spec(feature, name), encoding, partial(_decode_image, feature) if encoding == IMAGE else None)


def _decode_image(feature: Any, image: bytes) -> np.ndarray:
    import rl_datasets.rlds.quiet_tensorflow  # noqa: F401  (with which TFDS decodes images)

    decoded: np.ndarray = feature.decode_example(image).numpy()
    return decoded


def stored_steps(feature: Any, name: str) -> StoredArray | StoredTexts:
    """Returns how one feature of steps comes back. Raises HindcastError where it is neither text nor numeric of a fixed shape."""
    return StoredTexts(name) if isinstance(feature, tfds.features.Text) else stored_array(feature, name)


def stored_column(feature: Any, name: str) -> StoredColumn:
    """Returns how one string or number an episode comes back."""
    return StoredColumn(name, None if isinstance(feature, tfds.features.Text) else stored_array(feature, name))


def array_spec(feature: Any, name: str) -> ArraySpec:
    """Returns the shape and dtype of a feature as it is read: float64 without an encoding is stored and read as float32."""
    usable = isinstance(feature, (tfds.features.Tensor, tfds.features.Image)) and not isinstance(feature, tfds.features.Text)
    if not usable or None in feature.shape or np.dtype(feature.np_dtype).kind not in "biuf":
        raise HindcastError(f"{name} is {feature!r}, but only numeric arrays of a fixed shape can be read. Import the data with a builder.")
    dtype = np.dtype(feature.np_dtype).name
    return ArraySpec(tuple(feature.shape), "float32" if dtype == "float64" and _encoding(feature) == "none" else dtype)


def is_metadata(feature: Any) -> bool:
    """Whether an episode's feature is one string or number."""
    return isinstance(feature, tfds.features.Tensor) and feature.shape == () and not feature._optional


def column_type(feature: Any) -> type:
    """Returns what a metadata feature is read as: str, int or float."""
    if isinstance(feature, tfds.features.Text):
        return str
    return float if np.dtype(feature.np_dtype).kind == "f" else int


def _nest(leaves: Mapping[str, ArraySpec]) -> dict[str, Any]:
    """Leaves by path as nested dicts."""
    nest: dict[str, Any] = {}
    for path, leaf in leaves.items():
        *groups, name = path.split("/")
        inner = nest
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = leaf
    return nest


def _nested_features(nest: Tree) -> Any:
    if isinstance(nest, ArraySpec):
        return _array_feature(nest)
    items = nest.items() if isinstance(nest, Mapping) else enumerate(nest)
    return {str(key): _nested_features(value) for key, value in items}


@lru_cache(maxsize=128)
def _flags(length: int, is_terminal: bool) -> dict[str, Feature]:
    zeros = bytes(length)
    return {
        "steps/is_first": flags_feature(b"\1" + zeros),
        "steps/is_last": flags_feature(zeros + b"\1"),
        "steps/is_terminal": flags_feature(zeros + bytes([is_terminal])),
    }


def _array_feature(spec: ArraySpec) -> Any:
    if spec.is_text:
        return tfds.features.Text()
    encoding = "bytes" if spec.dtype == "float64" or (spec.dtype == "uint8" and spec.shape) else "none"
    return tfds.features.Tensor(shape=spec.shape, dtype=np.dtype(spec.dtype), encoding=encoding)


def _encode_array(array: np.ndarray) -> Feature:
    if array.dtype.kind == "f":
        return float_feature(array) if array.itemsize < 8 else rows_feature(array)
    if array.dtype == object:
        return bytes_feature([text.encode() for text in array])
    return rows_feature(array) if array.dtype == np.uint8 and array.ndim > 1 else int64_feature(array)


def _metadata_feature(kind: type) -> Any:
    if kind is str:
        return tfds.features.Text()
    if kind is int:
        return tfds.features.Scalar(np.int64)
    return tfds.features.Tensor(shape=(), dtype=np.float64, encoding="bytes")  # without an encoding it would be stored as float32


def _encode_metadata(value: str | int | float) -> Feature:
    if isinstance(value, str):
        return _encode_word(value)
    return int_feature(value) if isinstance(value, int) else bytes_feature([np.float64(value).tobytes()])


@lru_cache(maxsize=256)
def _encode_word(value: str) -> Feature:
    return bytes_feature([value.encode()])


def _derived_nest(features: Any, name: str, left_out: list[str] | None) -> Tree:
    """Without what cannot be an array where `left_out` takes its name; a lone one of these is then an empty nest."""
    if isinstance(features, tfds.features.FeaturesDict):
        nests = {key: _derived_nest(features[key], f"{name}/{key}", left_out) for key in features}
        return {key: nest for key, nest in nests.items() if isinstance(nest, ArraySpec) or nest}
    try:
        return array_spec(features, name)
    except HindcastError:
        if left_out is None:
            raise
        left_out.append(name)
        return {}


def _encoding(feature: Any) -> str:
    return str(feature._encoding.value) if isinstance(feature, tfds.features.Tensor) else IMAGE
