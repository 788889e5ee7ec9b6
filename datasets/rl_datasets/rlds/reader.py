"""Reads RLDS directories, ours and foreign, many episodes at a time.

Our own data carry their EnvSpec and come back exactly as they were written. Foreign data get a spec from their features and
are brought to our alignment: the last action, reward and discount are zero, and the discount into a terminal state is zero,
whichever of the two public conventions they follow.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tree

from rl_datasets.errors import HindcastError
from rl_datasets.rlds import features as codec
from rl_datasets.rlds.quiet_tensorflow import tf, tfds
from rl_datasets.schema import EnvSpec, Episode, Tree, named_leaves

SPEC_KEY, STEPS_KEY = "env_spec", "steps_per_shard"  # in the metadata.json that we write
_BLOCK_BYTES = 4 * 2**20  # of records parsed at once
_BLOCK_RECORDS = 1024
_MEND = "Restore it with 'dvc checkout' or 'dvc pull', or rebuild it with 'dvc repro'."


class SplitCounts(NamedTuple):
    episodes: int
    transitions: int


class Shard(NamedTuple):
    """One file of a split."""

    split: str
    path: Path
    first: int  # number of its first episode in the split
    episodes: int
    record_bytes: int  # the split's mean size of an episode


class Block(NamedTuple):
    """The steps of E whole episodes of one shard, end to end: N steps."""

    lengths: np.ndarray  # [E] steps of each episode
    observation: Tree  # [N, ...]
    action: np.ndarray  # [N, ...]
    reward: np.ndarray  # [N] float32
    discount: np.ndarray  # [N] float32, as stored
    is_terminal: np.ndarray  # [N] bool
    metadata: Mapping[str, Sequence[Any]]  # [E] values by column


class RldsReader:
    """An opened RLDS directory. Raises HindcastError where it is none, or where a shard is missing or damaged."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        info = _open(self.path)
        self.metadata: dict[str, Any] = dict((info.metadata or {}).items())
        self.is_own = SPEC_KEY in self.metadata
        self.splits: tuple[str, ...] = tuple(info.splits)
        self._info = info
        self._columns = {key: feature for key, feature in codec.flat_features(info.features).items() if codec.is_metadata(feature)}
        self._steps = _step_features(info.features, self.path)
        self.spec = self._read_spec()
        self._observation_keys = [name for name, _ in named_leaves(self.spec.observation, "observation")]

    def _read_spec(self) -> EnvSpec:
        if self.is_own:
            return EnvSpec.from_json(self.metadata[SPEC_KEY])
        return codec.derived_spec(self._info.features["steps"].feature, self._info.name)

    def shards(self, split: str) -> list[Shard]:
        """Returns the files of a split in order; each of them exists."""
        if split not in self.splits:
            raise HindcastError(f"{self.path} has no split '{split}'. It has: {', '.join(self.splits) or 'none'}.")
        info = self._info.splits[split]
        files = [Path(str(file)) for file in info.filepaths]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            raise HindcastError(
                f"{self.path}, split '{split}': {len(missing)} of {len(files)} shards are missing, the first is {missing[0]}. {_MEND}"
            )
        mean = int(info.num_bytes) // max(info.num_examples, 1)
        firsts = np.cumsum([0, *info.shard_lengths]).tolist()
        return [Shard(split, *entry, mean) for entry in zip(files, firsts[:-1], info.shard_lengths, strict=True)]

    def steps_per_shard(self, split: str) -> list[int]:
        """Returns the number of steps of each file; one pass over the data where the metadata do not say."""
        if STEPS_KEY in self.metadata:
            return list(self.metadata[STEPS_KEY][split])
        return [sum(int(lengths.sum()) for lengths, _ in self._parsed(shard, ["reward"], [])) for shard in self.shards(split)]

    def blocks(self, shard: Shard, with_metadata: bool = True) -> Iterator[Block]:
        """Yields the episodes of a file in order."""
        columns = list(self._columns) if with_metadata else []
        keys = [key for key in (*self._observation_keys, "action", "reward", "discount", "is_terminal") if key in self._steps]
        for lengths, values in self._parsed(shard, keys, columns):
            steps = int(lengths.sum())
            with _reading(shard):
                arrays = {key: codec.decode_array(self._steps[key], values[f"steps/{key}"].values, steps) for key in keys}
                metadata = {key: codec.decode_metadata(self._columns[key], values[key].values) for key in columns}
            yield Block(
                lengths,
                tree.unflatten_as(self.spec.observation, [arrays[key] for key in self._observation_keys]),
                arrays["action"],
                arrays["reward"].astype(np.float32, copy=False).reshape(steps),
                arrays.get("discount", np.ones(steps)).astype(np.float32, copy=False).reshape(steps),
                arrays.get("is_terminal", np.zeros(steps)).astype(bool, copy=False).reshape(steps),
                metadata,
            )

    def episodes(self, split: str) -> Iterator[Episode]:
        for shard in self.shards(split):
            number = shard.first
            for block in self.blocks(shard):
                yield from self._cut(block, split, number)
                number += len(block.lengths)

    def _cut(self, block: Block, split: str, number: int) -> Iterator[Episode]:
        """Yields the episodes of a block; `number` is that of the first in its split."""
        if not self.is_own:
            block = _aligned(block)
        ends = np.cumsum(block.lengths).tolist()
        leaves = tree.flatten(block.observation)
        columns = dict(block.metadata)
        ids = columns.pop("episode_id", None) or [f"{split}-{number + i:08d}" for i in range(len(ends))]
        unknown: dict[str, Any] = {} if self.is_own else {"seed": -1, "policy": "unknown", "environment": self.spec.env_id}
        start = 0
        for i, end in enumerate(ends):
            rows = slice(start, end)
            yield Episode(
                str(ids[i]),
                tree.unflatten_as(self.spec.observation, [leaf[rows] for leaf in leaves]),
                block.action[rows],
                block.reward[rows],
                block.discount[rows],
                bool(block.is_terminal[end - 1]),
                {**unknown, **{key: values[i] for key, values in columns.items()}},
            )
            start = end

    def _parsed(self, shard: Shard, keys: Sequence[str], columns: Sequence[str]) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
        """Yields (steps of each episode, stored values by key of the Example) for blocks of episodes; raises on any damage."""
        wanted = {**{f"steps/{key}": self._steps[key] for key in keys}, **{key: self._columns[key] for key in columns}}
        ragged = {key: tf.io.RaggedFeature(codec.stored_dtype(feature), row_splits_dtype=tf.int64) for key, feature in wanted.items()}
        records_at_once = min(max(_BLOCK_BYTES // max(shard.record_bytes, 1), 1), _BLOCK_RECORDS)
        found = 0
        with _reading(shard):
            for records in tf.data.TFRecordDataset(str(shard.path)).batch(records_at_once):
                values = tf.io.parse_example(records, ragged)
                lengths = values["steps/reward"].row_lengths().numpy()
                for key in keys:
                    stored = values[f"steps/{key}"].row_lengths().numpy()
                    expected = lengths * codec.values_per_step(self._steps[key])
                    if (stored != expected).any():
                        row = int(np.flatnonzero(stored != expected)[0])
                        raise HindcastError(
                            f"{shard.path}, episode {found + row} of the file: {key} holds {stored[row]} values where {expected[row]} "
                            f"are expected for {lengths[row]} steps. {_MEND}"
                        )
                found += len(lengths)
                yield lengths, values
        if found != shard.episodes:
            raise HindcastError(f"{shard.path} holds {found} episodes, but dataset_info.json says {shard.episodes}. {_MEND}")


def read_episodes(path: Path, split: str) -> Iterator[Episode]:
    """Yields the episodes of a split in the order in which they are stored. Raises HindcastError on missing or damaged files."""
    return RldsReader(path).episodes(split)


def read_spec(path: Path) -> EnvSpec:
    """Returns the spec that was written, or for foreign data the one that its features allow (no bounds)."""
    return RldsReader(path).spec


def read_splits(path: Path) -> dict[str, SplitCounts]:
    """Returns the number of episodes and transitions of each split."""
    reader = RldsReader(path)
    counts = {}
    for split in reader.splits:
        episodes = sum(shard.episodes for shard in reader.shards(split))
        counts[split] = SplitCounts(episodes, sum(reader.steps_per_shard(split)) - episodes)
    return counts


def true_discount(block: Block) -> np.ndarray:
    """Returns discount[t] * (1 - is_terminal[t+1]) within each episode, and zero at its last step: [N] float32."""
    discount = block.discount.copy()
    discount[:-1] *= ~block.is_terminal[1:]
    discount[np.cumsum(block.lengths) - 1] = 0
    return discount


def _aligned(block: Block) -> Block:
    last = np.cumsum(block.lengths) - 1
    action, reward = block.action.copy(), block.reward.copy()
    action[last], reward[last] = 0, 0
    return block._replace(action=action, reward=reward, discount=true_discount(block))


def _open(path: Path) -> Any:
    """Returns the tfds DatasetInfo."""
    if not (path / "dataset_info.json").is_file():
        raise HindcastError(f"{path} is no RLDS data set: dataset_info.json is missing. Mend the path, or build the data with 'dvc repro'.")
    try:
        info = tfds.builder_from_directory(str(path)).info
        _ = info.metadata
    except Exception as error:  # TFDS lets through whatever its JSON and protobuf parsers raise
        raise HindcastError(
            f"{path}: the description of the data set (dataset_info.json, features.json, metadata.json) cannot be read: {error}. {_MEND}"
        ) from error
    if info.file_format != tfds.core.FileFormat.TFRECORD:
        raise HindcastError(f"{path} is stored as {info.file_format.value}, but only tfrecord can be read. Convert it with TFDS first.")
    return info


def _step_features(features: Any, path: Path) -> dict[str, Any]:
    """Returns the features of a step by path. Raises HindcastError where the data are no episodes of steps with rewards."""
    steps = features["steps"] if isinstance(features, tfds.features.FeaturesDict) and "steps" in features else None
    if not isinstance(steps, tfds.features.Sequence):
        raise HindcastError(f"{path} is no RLDS data set: its features are {features!r}, but 'steps', a sequence, is expected.")
    leaves = codec.flat_features(steps.feature)
    if "reward" not in leaves:
        raise HindcastError(f"{path}: the steps hold {sorted(leaves)}, but 'reward' is expected. Import the data with a builder instead.")
    return leaves


@contextmanager
def _reading(shard: Shard) -> Iterator[None]:
    """Turns TensorFlow's errors into one that names the file."""
    try:
        yield
    except (tf.errors.OpError, ValueError) as error:
        found = f"{shard.path} ({shard.path.stat().st_size} bytes)" if shard.path.is_file() else f"{shard.path} (missing)"
        reason = str(getattr(error, "message", error)).split("[Op:")[0].strip()
        raise HindcastError(f"{found} is damaged: {reason}. It should hold {shard.episodes} whole episodes. {_MEND}") from error
