"""A Parquet table with a row a step: id, step, observation, action, reward, flags on the last step, step metadata.

Metadata of an episode are on each of its rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.exporting.exporter import Exported, array_options, blocks, common_options, extra_metadata, unbounded_note
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, named_leaves

SUFFIX = ".parquet"
_OWN = ("episode_id", "step", "action", "reward", "is_terminal", "is_truncated")


def write(path: Path, name: str, spec: EnvSpec, episodes: Iterable[Episode]) -> Exported:
    """Writes one file, a block of episodes a row group. An episode of T transitions is T + 1 rows, the last with its observation alone."""
    import pyarrow.parquet as pq

    del name
    count = transitions = 0
    extra: list[str] = []
    writer: Any = None
    try:
        for block in blocks(episodes):
            extra = extra or extra_metadata(block[0])
            table = _table(block, spec)
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
            count, transitions = count + len(block), transitions + sum(episode.length for episode in block)
    finally:
        if writer is not None:
            writer.close()
    kept = {key: _metadata_column(key) for key in ("policy", "seed", *extra)}
    observation = _mapping(spec.observation, "observation")
    options = {
        **common_options(spec),
        "observation": observation,
        "action": {**_leaf("action", spec.action)},
        "reward": "reward",
        "terminal": "is_terminal",
        "truncated": "is_truncated",
        "ends": {"kind": "ids", "column": "episode_id"},
        "rows": "steps",
        "metadata": kept,
        "ignore": ["step", "metadata_environment"],
    }
    if spec.step_metadata:
        options["step_metadata"] = {key: _kept_column(key) for key in spec.step_metadata}
    lost = ["The environment's id, its step limit, bounds and reference returns, which the entry says instead.", *unbounded_note(spec)]
    return Exported(count, transitions, "table", options, lost)


def _table(block: Sequence[Episode], spec: EnvSpec) -> Any:
    import pyarrow as pa

    steps = [episode.length + 1 for episode in block]
    last = np.cumsum(steps) - 1
    is_terminal = np.zeros(sum(steps), bool)
    is_terminal[last] = [episode.is_terminal for episode in block]
    is_truncated = np.zeros(sum(steps), bool)
    is_truncated[last] = ~is_terminal[last]
    leaves = [dict(named_leaves(episode.observation, "observation")) for episode in block]
    columns: dict[str, Any] = {
        "episode_id": np.repeat(np.array([episode.episode_id for episode in block], object), steps),
        "step": np.concatenate([np.arange(count) for count in steps]),
        **{_column(key): _rows(np.concatenate([leaf[key] for leaf in leaves])) for key, _ in named_leaves(spec.observation, "observation")},
        "action": _rows(np.concatenate([episode.action for episode in block])),
        "reward": np.concatenate([episode.reward for episode in block]),
        "is_terminal": is_terminal,
        "is_truncated": is_truncated,
        **{_kept_column(key): _nested(np.concatenate([episode.step_metadata[key] for episode in block])) for key in spec.step_metadata},
    }
    for key in block[0].metadata:
        values = [episode.metadata[key] for episode in block]
        columns[_metadata_column(key)] = np.repeat(np.array(values, object if isinstance(values[0], str) else None), steps)
    return pa.table({key: value if isinstance(value, pa.Array) else pa.array(value) for key, value in columns.items()})


def _rows(values: np.ndarray) -> Any:
    """Rows of more than one number are lists of a fixed length."""
    import pyarrow as pa

    if values.ndim == 1:
        return values
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), int(np.prod(values.shape[1:])))


def _nested(values: np.ndarray) -> Any:
    """Rows are lists of lists, as deep as they have axes, so that their shape comes back without being said in an entry."""
    import pyarrow as pa

    rows = pa.array(values.reshape(-1))
    for width in reversed(values.shape[1:]):
        rows = pa.FixedSizeListArray.from_arrays(rows, width)
    return rows


def _mapping(nest: Any, name: str) -> Any:
    if isinstance(nest, ArraySpec):
        return _leaf(_column(name), nest)
    if isinstance(nest, Mapping):
        return {"entries": {key: _mapping(part, f"{name}/{key}") for key, part in nest.items()}}
    return {"elements": [_mapping(part, f"{name}/{index}") for index, part in enumerate(nest)]}


def _leaf(column: str, spec: ArraySpec) -> dict[str, Any]:
    options = array_options(column, spec)
    made: dict[str, Any] = {"columns": options} if isinstance(options, str) else dict(options)
    return {**made, "shape": list(spec.shape)} if len(spec.shape) > 1 else made


def _column(name: str) -> str:
    return name.replace("/", "__")


def _kept_column(key: str) -> str:
    return _column(f"step_metadata/{key}")


def _metadata_column(key: str) -> str:
    return f"metadata_{key}"
