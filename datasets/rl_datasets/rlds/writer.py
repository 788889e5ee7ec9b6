"""Writes an RLDS directory: fast, and byte for byte the same for the same episodes.

Episodes stream through; what stays in memory is two digests and two numbers an episode.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
import tree

from rl_datasets.digest import DatasetDigest, combined_digest, content_keys, episode_digests, plain_metadata
from rl_datasets.errors import HindcastError
from rl_datasets.files import WriteError
from rl_datasets.recorded import EndToEnd, end_to_end
from rl_datasets.rlds.features import check_spec, dataset_features, encode_together
from rl_datasets.rlds.reader import SPEC_KEY, STEPS_KEY
from rl_datasets.rlds.shards import ShardWriter
from rl_datasets.rlds.verification import verify
from rl_datasets.schema import EnvSpec, Episode, episode_validator

BYTES, EPISODES = 1 << 20, 1 << 11  # of arrays, and of episodes, that are encoded together; at least one
Metadata = Mapping[str, str | int | float]

_NAME, _VERSION = r"[a-z][a-z0-9_]*", r"\d+\.\d+\.\d+"


@dataclass(frozen=True)
class Written:
    """What a data set holds; each mapping is by split."""

    digest: str  # of all splits together
    digests: Mapping[str, str]
    episodes: Mapping[str, int]
    transitions: Mapping[str, int]


def write_rlds(
    path: Path,
    name: str,
    version: str,
    spec: EnvSpec,
    splits: Mapping[str, Iterable[Episode]],
    shards: int | None = None,
    versions: Mapping[str, str] | None = None,
) -> Written:
    """Writes a data set into the folder `path`, reads it back and compares digests.

    `shards` is the number of files a split (fewer where it has fewer episodes); None makes files of about 64 MB, at least
    eight. `versions` are those of the packages that shaped the data. Ids are unique over all splits, and all episodes have
    the same metadata columns. Raises HindcastError where an episode does not fit the spec, a split is empty, or the disk
    fails; what is then in the folder is of no use.
    """
    _check_names(name, version, splits)
    check_spec(spec)
    gate = _Gate(spec)
    infos, steps = [], {}
    with _disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        for split, episodes in splits.items():
            info, steps[split] = _write_split(path, name, split, gate.records_of(split, episodes), shards)
            infos.append(info)
        _write_description(path, name, version, gate, infos, steps, dict(versions or {}))
        for split in splits:
            verify(path, split, gate.digests[split].episodes)
    digests = {split: gate.digests[split].hexdigest() for split in splits}
    counts = {split: len(gate.digests[split].episodes) for split in splits}
    transitions = {split: sum(steps[split]) - counts[split] for split in splits}
    return Written(combined_digest(digests), digests, counts, transitions)


class _Gate:
    """What every episode passes on its way to the disk, and what is remembered of it."""

    def __init__(self, spec: EnvSpec) -> None:
        self.spec = spec
        self.columns: dict[str, type] = {}  # metadata, as in the first episode
        self.digests: dict[str, DatasetDigest] = {}
        arrays = (*tree.flatten(spec.observation), spec.action, *spec.step_metadata.values())
        self._step_bytes = sum(math.prod(array.shape) * array.numpy_dtype.itemsize for array in arrays)

    def records_of(self, split: str, episodes: Iterable[Episode]) -> Iterator[tuple[bytes, int]]:
        """Yields (record, number of steps). Raises HindcastError at the first episode that must not be written."""
        others, own = list(self.digests.items()), DatasetDigest()
        self.digests[split] = own
        for together in self._together(episodes):
            for other, digest in others:
                if shared := digest.episodes.keys() & set(together.episode_id):
                    raise HindcastError(f"Episode '{min(shared)}' is in split '{other}' and in '{split}'; splits share no episode.")
            own.add_all(together.episode_id, episode_digests(together, content_keys(together)))
            yield from zip(encode_together(together), np.diff(together.starts).tolist(), strict=True)
        if not own.episodes:
            raise HindcastError(f"Split '{split}' would be empty; each split needs an episode. Collect more, or change the fractions.")

    def _together(self, episodes: Iterable[Episode]) -> Iterator[EndToEnd]:
        """Yields the episodes in order, short ones many at once, for one at a time costs more than what is done to them."""
        validate, waiting, labels, size = episode_validator(self.spec), list[Episode](), list[Metadata](), 0
        for episode in episodes:
            validate(episode)
            metadata = plain_metadata(episode)
            self._check_columns(episode.episode_id, metadata)
            _check_integers(episode.episode_id, metadata)
            waiting.append(episode)
            labels.append(metadata)
            size += self._step_bytes * len(episode.reward)
            if size >= BYTES or len(waiting) == EPISODES:
                yield end_to_end(waiting, labels)
                waiting, labels, size = [], [], 0
        if waiting:
            yield end_to_end(waiting, labels)

    def _check_columns(self, episode_id: str, metadata: Metadata) -> None:
        found = {key: type(value) for key, value in metadata.items()}
        if not self.columns:
            _check_first_columns(episode_id, found)
            self.columns = found
        if found != self.columns:
            raise HindcastError(
                f"Episode '{episode_id}' has the metadata {_listed(found)}, but the first episode has {_listed(self.columns)}. "
                "All episodes of a data set have the same columns of the same types; fix the builder."
            )


def _check_integers(episode_id: str, metadata: Metadata) -> None:
    for key, value in metadata.items():
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise HindcastError(f"Episode '{episode_id}': metadata '{key}' is {value}, but an integer has 64 bits here. Fix the builder.")


def _check_first_columns(episode_id: str, columns: Mapping[str, type]) -> None:
    missing = {"seed", "policy", "environment"} - set(columns)
    reserved = [key for key in columns if "/" in key or key in ("steps", "episode_id", "")]
    if missing or reserved:
        fault = f"lacks {', '.join(sorted(missing))}" if missing else f"has the key '{reserved[0]}', which is reserved or holds a '/'"
        raise HindcastError(f"Episode '{episode_id}': metadata {fault}. Found: {_listed(columns)}. Fix the builder.")


def _check_names(name: str, version: str, splits: Iterable[str]) -> None:
    for what, value, pattern in (("name", name, _NAME), ("version", version, _VERSION), *(("split", split, _NAME) for split in splits)):
        if not re.fullmatch(pattern, value):
            raise HindcastError(f"The {what} '{value}' is none that TFDS can read; it must match {pattern}.")


def _write_split(path: Path, name: str, split: str, records: Iterable[tuple[bytes, int]], shards: int | None) -> tuple[Any, list[int]]:
    """Returns the tfds SplitInfo, and the number of steps of each shard."""
    steps, writer = [], ShardWriter(path, split)
    for record, count in records:
        writer.write(record)
        steps.append(count)
    lengths = writer.shard_lengths(shards)
    template = tfds.core.ShardedFileTemplate(data_dir=path, dataset_name=name, split=split, filetype_suffix="tfrecord")
    writer.finish([Path(str(file)) for file in template.sharded_filepaths(len(lengths))], lengths)
    info = tfds.core.SplitInfo(name=split, shard_lengths=lengths, num_bytes=sum(writer.sizes), filename_template=template)
    return info, [sum(steps[end - length : end]) for length, end in zip(lengths, accumulate(lengths), strict=True)]


def _write_description(
    path: Path, name: str, version: str, gate: _Gate, infos: list[Any], steps: Mapping[str, list[int]], versions: Mapping[str, str]
) -> None:
    """Writes features.json, dataset_info.json and metadata.json through TFDS; keys are sorted, so equal data give equal bytes."""
    references = gate.spec.reference_returns
    metadata = {
        SPEC_KEY: gate.spec.to_json(),
        STEPS_KEY: steps,
        "environment": gate.spec.env_id,
        "reference_returns": references and asdict(references),
        "versions": versions,
    }
    identity = tfds.core.DatasetIdentity(name=name, version=tfds.core.Version(version), data_dir=str(path), module_name="")
    info = tfds.core.DatasetInfo(
        builder=identity,
        description=f"Episodes of {gate.spec.env_id} in the RLDS format: one example an episode, its steps nested.",
        features=dataset_features(gate.spec, gate.columns),
        metadata=tfds.core.MetadataDict(json.loads(json.dumps(metadata, sort_keys=True))),
    )
    info.set_file_format(tfds.core.FileFormat.TFRECORD)
    info.set_splits(tfds.core.SplitDict(infos))
    info.write_to_directory(path)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Turns what the system raises while files are written into a WriteError."""
    try:
        yield
    except OSError as error:
        raise WriteError(path, error.strerror or str(error)) from error


def _listed(columns: Mapping[str, type]) -> str:
    return ", ".join(f"{key} ({kind.__name__})" for key, kind in sorted(columns.items())) or "none"
