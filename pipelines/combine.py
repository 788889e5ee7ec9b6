"""Says that one data set goes into another: writes a small file that names it and its digest.

DVC reruns what depends on a folder of such files when one of them changes, and the others' data sets are then not made again.
"""

from pathlib import Path

from pipelines import paths
from pipelines.inputs import read_input
from pipelines.params import Params
from pipelines.stage import main
from rl_datasets.links import Link, write_link


def run(key: str, params: Params) -> Path:
    """Writes artifacts/combine/<into>/<dataset>.json."""
    member = params.combination(key)
    raw = paths.RAW / member.dataset / params.dataset(member.dataset).version
    digest = read_input(raw, f"collect@{member.dataset}", params).digest
    return write_link(paths.COMBINE / member.into, Link(member.dataset, raw.as_posix(), digest))


if __name__ == "__main__":
    main("combine", run)
