"""Reads RLDS directories, ours and foreign.

Our own data carry their EnvSpec and come back exactly as they were written. Foreign data get a spec from their features and
are brought to our alignment: the last action, reward and discount are zero, and the discount into a terminal state is zero,
whichever of the two public conventions they follow.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow_datasets as tfds
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME as MANIFEST
from rl_datasets.recorded import Recorded
from rl_datasets.rlds import features as codec
from rl_datasets.rlds.decoding import LayoutReader, NotCanonical
from rl_datasets.rlds.features import STEP_METADATA, stored_column, stored_steps
from rl_datasets.rlds.form import Arrays, EpisodeForm, Metadata, StoredEpisode, flags_of_one
from rl_datasets.rlds.framing import DamagedFile, read_records
from rl_datasets.rlds.shards import Shard
from rl_datasets.rlds.stored import StoredArray, StoredColumn, StoredTexts
from rl_datasets.schema import EnvSpec, Episode, named_leaves

DESCRIPTION = ("dataset_info.json", "features.json", "metadata.json")
SPEC_KEY, STEPS_KEY = "env_spec", "steps_per_shard"  # in the metadata.json that we write
_MEND = "Restore it with 'dvc checkout --force' or 'dvc pull', or rebuild it with 'dvc repro'."


class SplitCounts(NamedTuple):
    episodes: int
    transitions: int


class RldsReader:
    """An opened RLDS directory. Raises HindcastError where it is none, or where a shard is missing or damaged.

    A lenient one reads of foreign data what it can: `left_out` names what of observations and actions is no array, such as texts,
    and an action that is a nest of arrays becomes one vector of them, in the order of their names.
    """

    def __init__(self, path: Path, lenient: bool = False) -> None:
        self.path = Path(path)
        self.left_out: list[str] = []  # complete once `spec` was asked for
        self._is_lenient = lenient
        info = _open(self.path)
        self.metadata: dict[str, Any] = dict((info.metadata or {}).items())
        self.is_own = SPEC_KEY in self.metadata
        self.splits: tuple[str, ...] = tuple(info.splits)
        self._info = info
        self._columns = {key: feature for key, feature in codec.flat_features(info.features).items() if codec.is_metadata(feature)}
        self._steps = _step_features(info.features, self.path)
        if self.is_own or (self.path / MANIFEST).is_file():
            _ = self.spec  # so that damage is an error now

    @cached_property
    def spec(self) -> EnvSpec:
        """Raises HindcastError where foreign features allow none, such as texts among observations; `arrays` still reads the others."""
        if (self.path / MANIFEST).is_file() and not self.is_own:
            raise HindcastError(f"{self.path}: metadata.json is missing or has lost the environment's description. {_MEND}")
        try:
            if self.is_own:
                return EnvSpec.from_json(self.metadata[SPEC_KEY])
            return codec.derived_spec(self._info.features["steps"].feature, self._info.name, self.left_out if self._is_lenient else None)
        except HindcastError as error:
            raise HindcastError(f"{self.path}: {error}") from error

    @property
    def name(self) -> str:
        """The environment of our own data; of others, the name of the data set."""
        return self.spec.env_id if self.is_own else str(self._info.name)

    @property
    def step_keys(self) -> tuple[str, ...]:
        """The names of the arrays of a step, such as "observation/camera"."""
        return tuple(sorted(self._steps))  # as TFDS keeps them, their order differs between processes

    @property
    def columns(self) -> dict[str, type]:
        """The metadata of an episode by name, each str, int or float."""
        return {key: codec.column_type(feature) for key, feature in sorted(self._columns.items())}

    @property
    def dataset_name(self) -> str:
        """The name that the description gives the data set."""
        return str(self._info.name)

    @cached_property
    def action_keys(self) -> tuple[str, ...]:
        """The array of the action; where that is a nest, its arrays."""
        inside = (key for key in self.step_keys if key.startswith("action/") and self.is_array(key))
        return ("action",) if "action" in self._steps else tuple(inside)

    def is_array(self, key: str) -> bool:
        """Whether an array of a step is numeric and of a fixed shape, so that `arrays` can read it."""
        try:
            codec.array_spec(self._steps[key], key)
        except HindcastError:
            return False
        return True

    def is_text(self, key: str) -> bool:
        """Whether a step has one text of this name."""
        return isinstance(self._steps[key], tfds.features.Text)

    def shards(self, split: str) -> list[Shard]:
        """Returns the files of a split in order; each of them exists."""
        shards = self.described_shards(split)
        missing = [shard.path.name for shard in shards if not shard.path.is_file()]
        if missing:
            raise HindcastError(
                f"{self.path}, split '{split}': {len(missing)} of {len(shards)} shards are missing, the first is {missing[0]}. {_MEND}"
            )
        return shards

    def described_shards(self, split: str) -> list[Shard]:
        """Returns the files of a split in order, whether or not they exist."""
        if split not in self.splits:
            raise HindcastError(f"{self.path} has no split '{split}'. It has: {', '.join(self.splits) or 'none'}.")
        info = self._info.splits[split]
        firsts = np.cumsum([0, *info.shard_lengths]).tolist()
        files = [Path(str(file)) for file in info.filepaths]
        return [Shard(split, *entry) for entry in zip(files, firsts[:-1], info.shard_lengths, strict=True)]

    def steps_per_shard(self, split: str) -> list[int]:
        """Returns the number of steps of each file; one pass over the data where the metadata do not say."""
        if STEPS_KEY in self.metadata:
            return list(self.metadata[STEPS_KEY][split])
        return [sum(len(arrays["reward"]) for arrays, _ in self.arrays([shard], ["reward"])) for shard in self.shards(split)]

    def arrays(self, shards: Sequence[Shard], keys: Sequence[str], columns: Sequence[str] = ()) -> Iterator[tuple[Arrays, Metadata]]:
        """Yields for each episode the arrays [T+1, ...] of a step by key (texts as objects), and the metadata of some columns.

        Keys that the data do not store are left out. Raises HindcastError, naming the file, on any damage.
        """
        arrays, labels = self.stored_arrays(keys), self.stored_columns(columns)
        layouts = LayoutReader()
        for shard in shards:
            for number, record in enumerate(records(shard)):
                yield _decoded(shard, number, record, layouts, arrays, labels)

    def stored_arrays(self, keys: Sequence[str]) -> dict[str, StoredArray | StoredTexts]:
        """Returns how the arrays of a step are stored, of those of these names that are."""
        return {key: stored_steps(self._steps[key], f"steps/{key}") for key in keys if key in self._steps}

    def stored_columns(self, columns: Sequence[str]) -> dict[str, StoredColumn]:
        """Returns how some columns of the metadata are stored."""
        return {key: stored_column(self._columns[key], key) for key in columns}

    def stored_episodes(self, shards: Sequence[Shard], with_metadata: bool = True, with_flags: bool = False) -> Iterator[StoredEpisode]:
        """Yields the episodes of some files in order, as they are stored."""
        keys = self.form.keys(with_flags, with_metadata)
        for arrays, metadata in self.arrays(shards, keys, tuple(self._columns) if with_metadata else ()):
            yield self.form.stored(arrays, metadata, flags_of_one(arrays) if with_flags else None)

    @cached_property
    def form(self) -> EpisodeForm:
        """How the arrays and metadata of its episodes make episodes."""
        observed = tuple(name for name, _ in named_leaves(self.spec.observation, "observation"))
        beside = {name: f"{STEP_METADATA}/{name}" for name in self.spec.step_metadata}
        return EpisodeForm(self.spec.observation, observed, self.action_keys, beside, None if self.is_own else self.spec.env_id)

    def episodes_of(self, shards: Sequence[Shard]) -> Iterator[Episode]:
        """Yields the episodes of some files of one split in order, foreign ones brought to our alignment."""
        for number, stored in enumerate(self.stored_episodes(shards), start=shards[0].first):
            yield self.form.episode(shards[0].split, number, stored)

    def recorded_of(self, shard: Shard) -> Iterator[Recorded]:
        """Yields the episodes of a file as `episodes_of` does, with their flags as they are stored."""
        for number, stored in enumerate(self.stored_episodes([shard], with_flags=True), start=shard.first):
            yield Recorded(self.form.episode(shard.split, number, stored), stored.flags)


def read_episodes(path: Path, split: str) -> Iterator[Episode]:
    """Yields the episodes of a split in the order in which they are stored. Raises HindcastError on missing or damaged files."""
    reader = RldsReader(path)
    return reader.episodes_of(reader.shards(split))


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


def _open(path: Path) -> Any:
    """Returns the tfds DatasetInfo."""
    if not (path / "dataset_info.json").is_file():
        raise HindcastError(f"{path} is no RLDS data set: dataset_info.json is missing. Mend the path, or build the data with 'dvc repro'.")
    try:
        info = tfds.builder_from_directory(str(path)).info
        _ = info.metadata, [split.filepaths for split in info.splits.values()]
    except Exception as error:  # TFDS lets through whatever its JSON and protobuf parsers raise
        raise HindcastError(
            f"{path}: the description of the data set ({', '.join(DESCRIPTION)}) cannot be read: {error}. {_MEND}"
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


def _decoded(
    shard: Shard,
    number: int,
    record: bytes,
    layouts: LayoutReader,
    arrays: Mapping[str, StoredArray | StoredTexts],
    columns: Mapping[str, StoredColumn],
) -> tuple[Arrays, Metadata]:
    try:
        return _decode(record, layouts, arrays, columns)
    except (ValueError, KeyError, DecodeError) as error:
        raise HindcastError(f"{shard.path}, episode {number} of the file, cannot be decoded: {error}. {_MEND}") from error


def _decode(
    record: bytes, layouts: LayoutReader, arrays: Mapping[str, StoredArray | StoredTexts], columns: Mapping[str, StoredColumn]
) -> tuple[Arrays, Metadata]:
    """Returns the arrays of the steps and the metadata. Raises ValueError, KeyError or DecodeError where they are not there."""
    try:
        layout = layouts.read(record)
        steps = {key: array.decode(record, layout[array.key]) for key, array in arrays.items()}
        metadata = {key: column.decode(record, layout[column.key]) for key, column in columns.items()}
    except NotCanonical:
        from rl_datasets.rlds.quiet_tensorflow import tf

        canonical = tf.train.Example.FromString(record).SerializeToString(deterministic=True)
        if canonical == record:
            raise
        return _decode(canonical, layouts, arrays, columns)
    lengths = {key: len(array) for key, array in steps.items()}
    if len(set(lengths.values())) > 1 or not all(lengths.values()):
        raise ValueError(f"its arrays have {lengths} steps")
    return steps, metadata


def records(shard: Shard) -> Iterator[bytes]:
    """Yields the records of a file. Raises HindcastError where it is damaged or holds more or fewer than it should."""
    found = 0
    try:
        for record in read_records(shard.path):
            yield record
            found += 1
    except DamagedFile as error:
        size = f"{shard.path.stat().st_size} bytes" if shard.path.is_file() else "missing"
        raise HindcastError(f"{shard.path} ({size}) is damaged after {found} of {shard.episodes} episodes: {error}. {_MEND}") from error
    if found != shard.episodes:
        raise HindcastError(f"{shard.path} holds {found} episodes, but dataset_info.json says {shard.episodes}. {_MEND}")
