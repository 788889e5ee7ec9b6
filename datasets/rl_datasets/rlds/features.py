"""EnvSpec to TFDS features and back, and arrays to and from what is stored of them.

Stored: floats as float lists, integers and booleans as int64 lists, uint8 arrays as one string of bytes a step. A tuple of
observations is a FeaturesDict with the keys "0", "1", ...; the EnvSpec in the data set's metadata restores it. Step metadata is the
feature `metadata` of a step: there float64 is kept, as one string of bytes a step, and a text is a string.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.rlds.decoding import (
    BYTES,
    FLOATS,
    INT64S,
    StoredList,
    counts_of_varints,
    floats,
    int64s,
    integer,
    rows,
    strings,
    varint_columns,
)
from rl_datasets.rlds.example import (
    Feature,
    bytes_feature,
    bytes_head,
    encode_example,
    flags_feature,
    float_feature,
    int64_feature,
    int_feature,
    rows_feature,
)
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, Tree, named_leaves

STEP_METADATA = "metadata"  # the key of a step under which step metadata lie
LONG = 1 << 12  # bytes

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


class StoredArray:
    """How the arrays of one feature come back from an Example. Raises HindcastError where they are not numeric or of no fixed shape."""

    def __init__(self, feature: Any, name: str) -> None:
        self.key = name.encode()
        self.spec = array_spec(feature, name)
        self._feature = feature
        self._encoding = _encoding(feature)
        self._dtype = np.dtype(self.spec.dtype)
        self._row_bytes = int(np.prod(self.spec.shape)) * self._dtype.itemsize
        self._is_plain = self._encoding == "none" and self._dtype == np.dtype("<f4")

    def decode(self, record: bytes, stored: StoredList) -> np.ndarray:
        """Returns [steps, ...] from a list in a record. Raises ValueError where its values make no whole number of steps."""
        array = self._flat(record, stored)
        if array.dtype != self._dtype:
            array = array.astype(self._dtype)
        return array.reshape(-1, *self.spec.shape) if self.spec.shape else array

    def decode_all(self, records: Sequence[bytes], lists: Sequence[StoredList]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the steps of a list in each record end to end, which may be read-only, and how many there are of each, [E] int64.

        The contents of lists end to end are a list too. Raises ValueError where they cannot be taken together.
        """
        (kind,) = {stored.kind for stored in lists}
        if self._encoding not in ("none", "bytes"):
            raise ValueError(f"steps of {self.key.decode()} are encoded one by one")
        sizes = np.array([stored.end - stored.start for stored in lists])
        parts: Sequence[bytes | memoryview] = records
        if sizes.mean() >= LONG:
            parts = [memoryview(record) for record in records]  # a part of one is no copy, but one more object
        content = b"".join([part[stored.start : stored.end] for part, stored in zip(parts, lists, strict=True)])
        if self._is_plain and kind == FLOATS:
            array = np.frombuffer(content, self._dtype).reshape(-1, *self.spec.shape)
        else:
            array = self.decode(content, StoredList(kind, 0, len(content)))
        if not sizes.all() or not array.size:
            raise ValueError(f"{self.key.decode()} has no step")
        if self._encoding == "none" and self._dtype.kind != "f":
            values, unit = counts_of_varints(content, sizes), math.prod(self.spec.shape)
        else:  # each step takes as much
            values, unit = sizes, len(content) // len(array)
        counts = values // unit
        if (values % unit).any() or counts.sum() != len(array):
            raise ValueError(f"{self.key.decode()} holds no whole number of steps")
        return array, counts

    def decode_alike(self, rows: np.ndarray, stored: StoredList) -> np.ndarray:
        """Returns [N, steps, ...] from the same list of records [N, size] uint8. Raises ValueError where each must be looked at."""
        content = rows[:, stored.start : stored.end]
        if self._is_plain and stored.kind == FLOATS:
            found = np.ascontiguousarray(content).view(self._dtype)
        elif self._encoding == "none" and self._dtype.kind != "f" and stored.kind == INT64S and not (content & 128).any():
            found = content.astype(self._dtype)  # each below 128, one byte
        elif self._encoding == "bytes" and stored.kind == BYTES and content.size:
            head = bytes_head(self._row_bytes)
            table = content.reshape(len(rows), -1, len(head) + self._row_bytes)
            if (table[..., : len(head)] != np.frombuffer(head, np.uint8)).any():
                raise ValueError("its rows are of another size")
            found = np.ascontiguousarray(table[..., len(head) :]).view(self._dtype)
        else:
            raise ValueError("its values are stored in another form")
        return found.reshape(len(rows), -1, *self.spec.shape)

    def holds(self, record: bytes, stored: StoredList, array: np.ndarray) -> bool:
        """Whether what decodes from a record is this array, bit for bit."""
        if self._is_plain and array.dtype == self._dtype:  # then its bytes are what is stored
            return stored.kind == FLOATS and record[stored.start : stored.end] == array.tobytes()
        found = self.decode(record, stored)
        return found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()

    def _flat(self, record: bytes, stored: StoredList) -> np.ndarray:
        if self._encoding == "none":
            if self._dtype.kind == "f":
                return floats(record, stored)
            return int64s(record, stored, self._dtype)
        if self._encoding == "bytes":
            return rows(record, stored, self._row_bytes).view(self._dtype).reshape(-1, *self.spec.shape)
        if self._encoding == "zlib":
            return np.frombuffer(b"".join(zlib.decompress(value) for value in strings(record, stored)), self._dtype).copy()
        import rl_datasets.rlds.quiet_tensorflow  # noqa: F401  (with which TFDS decodes images)

        return np.array([self._feature.decode_example(image).numpy() for image in strings(record, stored)], self._dtype)


class StoredTexts:
    """How the texts of one feature, one a step, come back from an Example."""

    def __init__(self, name: str) -> None:
        self.key = name.encode()

    def decode(self, record: bytes, stored: StoredList) -> np.ndarray:
        """Returns [steps], objects. Raises ValueError where one is not UTF-8."""
        return np.array([value.decode() for value in strings(record, stored)], object)

    def holds(self, record: bytes, stored: StoredList, array: np.ndarray) -> bool:
        """Whether what decodes from a record are these texts."""
        return strings(record, stored) == [text.encode() for text in array]


def stored_steps(feature: Any, name: str) -> StoredArray | StoredTexts:
    """Returns how one feature of steps comes back. Raises HindcastError where it is neither text nor numeric of a fixed shape."""
    return StoredTexts(name) if isinstance(feature, tfds.features.Text) else StoredArray(feature, name)


class StoredColumn:
    """How one string or number an episode comes back from an Example."""

    def __init__(self, feature: Any, name: str) -> None:
        self.key = name.encode()
        self._array = None if isinstance(feature, tfds.features.Text) else StoredArray(feature, name)
        self._is_integer = self._array is not None and self._array.spec.dtype == "int64" and _encoding(feature) == "none"
        self._last: tuple[tuple[int, bytes], str | int | float] | None = None  # what was decoded last

    def decode(self, record: bytes, stored: StoredList) -> str | int | float:
        """Raises ValueError where there is not exactly one value."""
        if self._is_integer:
            return integer(record, stored)
        if self._array is None:
            (text,) = strings(record, stored)
            return text.decode()
        value: bool | int | float = self._array.decode(record, stored).item()
        return int(value) if isinstance(value, bool) else value

    def decode_all(self, records: Sequence[bytes], lists: Sequence[StoredList]) -> list[str | int | float]:
        """Returns the value of each record. Raises ValueError where there is not exactly one in each."""
        if self._array is None:
            return [self._kept(record, stored) for record, stored in zip(records, lists, strict=True)]
        values, counts = self._array.decode_all(records, lists)
        if (counts != 1).any():
            raise ValueError(f"{self.key.decode()} has not one value in each episode")
        return [int(value) if isinstance(value, bool) else value for value in values.reshape(-1).tolist()]

    def decode_alike(self, rows: np.ndarray, stored: StoredList) -> list[str] | list[int] | list[float]:
        """Returns the value of each of many records [N, size] uint8. Raises ValueError where each must be looked at."""
        content = np.ascontiguousarray(rows[:, stored.start : stored.end])
        first, differs = rows[0].tobytes(), content != content[0]
        if not differs.any():  # as in most columns
            return [self.decode(first, stored)] * len(rows)  # type: ignore[return-value]
        if self._is_integer and stored.kind == INT64S:
            return varint_columns(content)
        if self._array is not None:
            (values,) = self._array.decode_alike(rows, stored).T.tolist()
            return [int(value) if isinstance(value, bool) else value for value in values]
        (text,) = strings(first, stored)
        head = content.shape[1] - len(text)
        if differs[:, :head].any():
            raise ValueError("its texts are of other sizes")
        return [value.decode() for value in content[:, head:].copy().view(f"V{len(text)}")[:, 0].tolist()]

    def holds(self, record: bytes, stored: StoredList, value: str | int | float) -> bool:
        """Whether what decodes from a record is this value; one that is not a number is itself."""
        found = self._kept(record, stored)
        return type(found) is type(value) and (found == value or (found != found and value != value))

    def _kept(self, record: bytes, stored: StoredList) -> str | int | float:
        content = stored.kind, record[stored.start : stored.end]
        if self._last is None or self._last[0] != content:  # most columns hold the same in one episode after another
            self._last = content, self.decode(record, stored)
        return self._last[1]


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
    return feature._encoding.value if isinstance(feature, tfds.features.Tensor) else "image"
