"""Batches for training, from an RLDS directory."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rl_datasets.rlds import read_splits
from rl_datasets.schema import EnvSpec, Transition
from rl_datasets.stream import Stream, open_stream
from trainer.feed import Feed, FeedName, TableFeed, choose_feed, scan_length
from trainer.points import VALIDATION
from trainer.program import default_devices

VALIDATION_BATCHES = 16  # at most so many, the same ones for each point of the curves


def training_feed(stream: Stream, spec: EnvSpec, seeds: Sequence[int], batch_size: int, asked: FeedName) -> tuple[Feed | TableFeed, str]:
    """Returns where batches come from, and which and why in words. It changes no byte of what is trained.

    Raises HindcastError where the device is asked for, and the split does not fit there.
    """
    device = default_devices()[0]
    scan = scan_length(len(seeds), batch_bytes(spec, batch_size), device)
    chosen, why = choose_feed(asked, stream.is_global, stream.table_bytes, device)
    if chosen == "stream":
        return lambda start: stream.batches(seeds, scan, start), f"stream: {why}"
    return TableFeed(stream.table(), lambda start: stream.indices(seeds, scan, start)), f"device: {why}"


def batch_bytes(spec: EnvSpec, batch_size: int) -> int:
    """The size of a batch of transitions."""
    leaves = [*jax.tree.leaves(spec.observation), *jax.tree.leaves(spec.observation), spec.action]
    return batch_size * sum([8, *(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in leaves)])


def validation_batches(path: Path, batch_size: int, options: dict[str, Any]) -> Transition | None:
    """Returns batches [V, B, ...] of the validation split, drawn with seed 0; None where there is none. A small split is one batch."""
    counts = read_splits(path).get(VALIDATION)
    if counts is None:
        return None
    size = min(batch_size, counts.transitions)
    stream = open_stream(path, VALIDATION, batch_size=size, **options)
    batches = stream.batches((0,), min(VALIDATION_BATCHES, counts.transitions // size), 0)
    drawn: Transition = jax.tree.map(lambda leaf: leaf[0], next(batches).transition)
    return drawn
