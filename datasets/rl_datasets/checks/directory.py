"""`check_directory`: the quality gate on the episodes of any RLDS directory, ours or another's."""

from collections.abc import Callable, Sequence

from rl_datasets.checks.expected import Expected
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.report import Report
from rl_datasets.checks.run import run_checks
from rl_datasets.rlds.reader import RldsReader
from rl_datasets.rlds.recorded import read_recorded


def check_directory(
    reader: RldsReader,
    splits: Sequence[str],
    expected: Expected,
    params: CheckParams,
    advance: Callable[[int], None] = lambda _: None,
) -> Report:
    """Checks the episodes of some splits together. Files that cannot be read are findings."""
    return run_checks(read_recorded(reader, splits), expected, params, advance)


def described_episodes(reader: RldsReader, splits: Sequence[str]) -> int:
    """Returns how many episodes some splits should hold by their description. Raises HindcastError where there is none."""
    return sum(shard.episodes for split in splits for shard in reader.described_shards(split))
