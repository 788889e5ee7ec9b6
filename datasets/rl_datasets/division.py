"""`divide`: one raw data set into splits on disk, with the statistics of train and a table of all episodes.

The raw data are read once to see which episodes share their content and where each belongs, and once more for each split
that is written. Memory is that of a block of episodes, and a row and a sketch for each.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rl_datasets.allocation import KINDS, QUARANTINE, Candidate, Placed, allocate
from rl_datasets.builder import RAW_SPLIT
from rl_datasets.checks.drift import Drift, Sample, Sampler, compare
from rl_datasets.digest import DatasetDigest, combined_digest
from rl_datasets.errors import HindcastError
from rl_datasets.files import replacing, write_json
from rl_datasets.leakage import EPISODES, Contents, EpisodeEntry, episode_entry, leaks, write_contents
from rl_datasets.manifest import Input, Manifest, package_versions, read_manifest, write_manifest
from rl_datasets.rlds import Written, read_episodes, read_spec, write_rlds
from rl_datasets.schema import Episode
from rl_datasets.similarity import Sketcher, near_pairs
from rl_datasets.splits import Fractions, SplitParams, Stamp, timestamp
from rl_datasets.stats import FILE_NAME as STATISTICS
from rl_datasets.stats import RunningStatistics
from rl_datasets.words import count

TRAIN = "train"
DRIFT = "drift.json"  # of each other split from train
_NO_REASONS: Mapping[str, str] = {}


class Division(NamedTuple):
    """Where every episode goes, in the order of the raw data."""

    contents: Contents
    notes: tuple[str, ...]


def divide(
    raw: Path,
    folder: Path,
    name: str,
    version: str,
    params: SplitParams,
    inputs: Sequence[Input],
    advance: Callable[[int], None] = lambda _: None,
    quarantine: Mapping[str, str] = _NO_REASONS,
    key_of: Callable[[str], str] = "split.{}".format,
) -> Manifest:
    """Replaces `folder` by the splits of the data set in `raw`, and returns its manifest. Same data and parameters, same bytes.

    `quarantine` has the ids of episodes that go to no split, with the reasons. `advance` is told of each episode that is read, 2 for
    every raw one. `key_of` says where in params.yaml a field of `params` is set. Raises HindcastError where a split would be empty or
    the data in `raw` are not those that its manifest names; `folder` is then as it was.
    """
    source, spec, fractions = read_manifest(raw), read_spec(raw), params.fractions
    division = _assign(raw, source.digest, params, quarantine, advance, key_of)
    entries = division.contents.entries
    running = RunningStatistics(spec)
    samplers = {split: Sampler(spec) for split in fractions.positive()}

    def members(split: str) -> Iterator[Episode]:
        for episode, entry in zip(read_episodes(raw, RAW_SPLIT), entries, strict=True):
            if entry.split == split:
                if split == TRAIN:
                    running.add(episode)
                samplers[split].add(episode)
                advance(1)
                yield episode

    with replacing(folder) as part:
        splits = {split: members(split) for split in fractions.positive()}
        written = write_rlds(part, name, version, spec, splits, versions=source.packages)
        _require_all(entries, written)
        statistics = running.result()
        assert statistics is not None, "train has a positive fraction, and no split is empty"
        write_json(part / STATISTICS, statistics.to_json())
        write_contents(part, division.contents)
        drifts = drift_from_train({split: sampler.result() for split, sampler in samplers.items()})
        write_json(part / DRIFT, {split: drift.to_json() for split, drift in drifts.items()})
        manifest = Manifest(
            job=f"split@{name}",
            digest=written.digest,
            parameters=params.model_dump(mode="json"),
            inputs=tuple(inputs),
            counts=_counts(written, fractions, entries),
            notes=(*source.notes, *division.notes, *drift_notes(drifts)),
            packages=package_versions("numpy", "tensorflow-datasets"),
        )
        write_manifest(part, manifest)
    return manifest


def drift_from_train(samples: Mapping[str, Sample]) -> dict[str, Drift]:
    """Returns how each other split differs from train."""
    return {split: compare(samples[TRAIN], sample) for split, sample in samples.items() if split != TRAIN}


def drift_notes(drifts: Mapping[str, Drift]) -> Iterator[str]:
    """Yields a warning for each split that is unlike train."""
    for split, drift in drifts.items():
        if drift.drifted:
            more = f" and {len(drift.drifted) - 1} more columns" if len(drift.drifted) > 1 else ""
            yield f"'{split}' is unlike train in {drift.drifted[0]}{more}; {DRIFT} has all."


def read_quarantine(path: Path) -> dict[str, str]:
    """Returns the ids in a check's quarantine.csv, with the check and its reason. Raises HindcastError where the file is broken."""
    reasons: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                reasons.setdefault(row["episode_id"], f"{row['check']}: {row['reason']}")
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise HindcastError(
            f"{path} cannot be read as a table with the columns episode_id, check and reason ({type(error).__name__}: {error}). "
            "Restore it with 'dvc checkout --force', or rebuild it with 'dvc repro'."
        ) from error
    return reasons


def _assign(
    raw: Path,
    digest: str,
    params: SplitParams,
    quarantine: Mapping[str, str],
    advance: Callable[[int], None],
    key_of: Callable[[str], str],
) -> Division:
    """Reads all raw episodes, and says where each goes."""
    candidates: list[Candidate] = []
    entries: list[EpisodeEntry] = []
    content, sketcher = DatasetDigest(), Sketcher(read_spec(raw))
    for episode in read_episodes(raw, RAW_SPLIT):
        content.add(episode)
        sketcher.add(episode)
        entries.append(episode_entry(episode))
        candidates.append(_candidate(episode, entries[-1].content, params, quarantine.get(episode.episode_id, ""), key_of))
        advance(1)
    found = combined_digest({RAW_SPLIT: content.hexdigest()})
    if found != digest:
        raise HindcastError(
            f"{raw} holds content of digest {found[:12]}, but its manifest names {digest[:12]}: the files were changed after they "
            "were made. Restore them with 'dvc checkout --force' or rebuild them with 'dvc repro'."
        )
    if unknown := sorted(set(quarantine) - set(content.episodes)):
        raise HindcastError(f"The quarantine names episode '{unknown[0]}', which is not in {raw}. Run the check again with 'dvc repro'.")
    sketches = sketcher.result()
    pairs = near_pairs(sketches) if params.near_duplicates else near_pairs(sketches[:0])
    placed = allocate(candidates, map(tuple, pairs.tolist()), params)
    entries = [entry._replace(split=to.split, reason=to.reason) for entry, to in zip(entries, placed, strict=True)]
    contents = Contents(entries, sketches)
    return Division(contents, tuple(_notes(contents, candidates, placed, pairs[:, 1].tolist(), params)))


def _candidate(episode: Episode, content: str, params: SplitParams, reason: str, key_of: Callable[[str], str]) -> Candidate:
    known = episode.metadata
    group = content if params.group is None else str(_column(episode, params.group, key_of("group")))
    time = None
    if params.order is not None:
        time = timestamp(
            _column(episode, params.order.time, key_of("order") + ".time"), f"Episode '{episode.episode_id}': '{params.order.time}'"
        )
    kinds = {kind: str(known[kind]) for kind in KINDS if kind in known}
    return Candidate(episode.episode_id, content, group, episode.episode_return, kinds, time, reason)


def _column(episode: Episode, name: str, where: str) -> Stamp:
    if name not in episode.metadata:
        raise HindcastError(
            f"params.yaml:\n  {where}: found '{name}', but the metadata of the episodes are {', '.join(sorted(episode.metadata))}. "
            "Name one of them, or keep the column when the data are imported (metadata in its options)."
        )
    return episode.metadata[name]


def _notes(
    contents: Contents, candidates: Sequence[Candidate], placed: Sequence[Placed], near: Sequence[int], params: SplitParams
) -> Iterator[str]:
    entries = contents.entries
    kept = [entry.content for entry in entries if entry.split != QUARANTINE]
    if copies := len(kept) - len(set(kept)):
        what = "another's content and"
        yield f"{count(copies, f'episode repeats {what} shares', f'episodes repeat {what} share')} its split."
    if near := sorted({place for place in near if placed[place].split != QUARANTINE}):
        first = entries[near[0]].episode_id
        alike = "nearly the same as an earlier one and"
        yield f"{count(len(near), f'episode is {alike} shares', f'episodes are {alike} share')} its split; the first is '{first}'."
    if gate := sum(bool(candidate.reason) for candidate in candidates):
        yield f"{count(gate, 'episode is', 'episodes are')} in quarantine by the quality gate, and in no split; {EPISODES} says why."
    if aside := sum(to.split == QUARANTINE for to in placed) - gate:
        told = count(aside, "episode fits no split without a leak, and is", "episodes fit no split without a leak, and are")
        yield f"{told} set aside; {EPISODES} says why."
    if params.order is not None:
        yield f"Split by '{params.order.time}': {', '.join(_begins(candidates, placed, params.fractions))}."
    in_train = {candidate.kinds.get("policy") for candidate, to in zip(candidates, placed, strict=True) if to.split == TRAIN}
    if absent := sorted({candidate.kinds["policy"] for candidate in candidates if "policy" in candidate.kinds} - in_train):
        yield f"Train has no episode of {len(absent)} of the policies, first '{absent[0]}'. With 'stratify: policy' it has some of each."
    if leaking := len(list(leaks(contents))):
        rest = "of episodes in different splits"
        yield f"{count(leaking, f'pair {rest} is', f'pairs {rest} are')} nearly the same."


def _begins(candidates: Sequence[Candidate], placed: Sequence[Placed], fractions: Fractions) -> Iterator[str]:
    for split in fractions.positive():
        times = [c.time for c, to in zip(candidates, placed, strict=True) if to.split == split and c.time is not None]
        yield f"{split} from {min(times):.15g}"


def _require_all(entries: Sequence[EpisodeEntry], written: Written) -> None:
    """The splits together, and the quarantine, are the data set."""
    kept = [entry for entry in entries if entry.split != QUARANTINE]
    expected, found = (len(kept), sum(e.length for e in kept)), (sum(written.episodes.values()), sum(written.transitions.values()))
    by_split = Counter(entry.split for entry in kept)
    if expected != found or dict(by_split) != dict(written.episodes):
        raise HindcastError(
            f"The splits hold {found} episodes and transitions, but the data set without its quarantine {expected}. Run the stage again."
        )


def _counts(written: Written, fractions: Fractions, entries: Sequence[EpisodeEntry]) -> dict[str, int]:
    episodes = {f"{split}_episodes": written.episodes[split] for split in fractions.positive()}
    aside = sum(entry.split == QUARANTINE for entry in entries)
    transitions = {f"{split}_transitions": written.transitions[split] for split in fractions.positive()}
    return episodes | transitions | ({f"{QUARANTINE}_episodes": aside} if aside else {})
