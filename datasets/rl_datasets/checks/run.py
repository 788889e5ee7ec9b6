"""`run_checks`: all checks in one pass over the episodes, then those of the table, and the numbers for the data card.

To add a check: write the function, name it in one of the tables below with what a user should do, and give it a severity of
the same name in `CheckParams`.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat

import numpy as np
import pandas as pd

from rl_datasets.checks.duplicates import check_duplicates
from rl_datasets.checks.findings import DatasetCheck, EpisodeCheck, EpisodeRow, Expected, Fault, Finding
from rl_datasets.checks.params import CheckParams
from rl_datasets.checks.report import CheckResult, Report
from rl_datasets.checks.structure import (
    check_any,
    check_discount,
    check_episode_ids,
    check_flags,
    check_last_step,
    check_lengths,
    check_spec,
)
from rl_datasets.checks.summary import RunningSummary
from rl_datasets.checks.values import check_action_bounds, check_finite, check_observation_bounds, check_reward_range
from rl_datasets.digest import content_key
from rl_datasets.schema import EnvSpec, Episode

EPISODE_CHECKS: tuple[tuple[str, EpisodeCheck], ...] = (  # of episodes that meet the spec
    ("discount", check_discount),
    ("last_step", check_last_step),
    ("finite", check_finite),
    ("action_bounds", check_action_bounds),
    ("observation_bounds", check_observation_bounds),
    ("reward_range", check_reward_range),
)
DATASET_CHECKS: tuple[tuple[str, DatasetCheck], ...] = (
    ("lengths", check_any),
    ("episode_ids", check_episode_ids),
    ("duplicates", check_duplicates),
)
REMEDIES: Mapping[str, str] = {
    "episode_ids": "Give every episode an id of its own in the builder.",
    "flags": "Write is_first on the first step, is_last on the last, and is_terminal there where the environment terminated.",
    "lengths": "Divide or drop the episode in the builder, or correct max_episode_steps in spec().",
    "spec": "Correct spec() in the builder, or convert the array there.",
    "finite": "Find where the builder or the simulator makes it, and mend or drop the episode.",
    "discount": "Derive the discount from the environment's `terminated` in the builder; truncation keeps 1.",
    "last_step": "Write zeros there; nothing follows the last observation.",
    "action_bounds": "Clip or rescale actions in the builder, correct the bounds in spec(), or raise action_tolerance under 'checks'.",
    "observation_bounds": "Correct the bounds in spec(), or switch the check off under 'checks' where the environment leaves them.",
    "reward_range": "Correct the reward in the builder, or the range in spec(), or set reward_minimum and reward_maximum under 'checks'.",
    "duplicates": "Drop the copies, or vary the seeds. A split never divides them, but they weigh twice.",
}


def run_checks(
    episodes: Iterable[Episode],
    spec: EnvSpec,
    params: CheckParams,
    flags: Iterable[np.ndarray] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Report:
    """Checks all episodes in one pass; memory is that of one episode and a row for each. Same input, same report.

    `flags` gives each episode's flags as they are stored, bool [T+1, 3]; without it they aren't checked. An episode that
    doesn't meet the spec, or has no transition, is given to no further check and is left out of the summary of arrays, for
    its rows cannot be told apart.
    """
    expected = Expected.of(spec, params)
    tally, summary, rows = _Tally(params), RunningSummary(spec), []
    pairs = zip(episodes, repeat(None) if flags is None else flags, strict=flags is not None)
    for episode, stored in pairs:
        tally.add("lengths", check_lengths(episode, expected), episode.episode_id)
        misfits = list(check_spec(episode, expected))
        tally.add("spec", misfits, episode.episode_id)
        if stored is not None:
            tally.add("flags", check_flags(episode, stored), episode.episode_id)
        if episode.length >= 1 and not misfits:
            for name, check in EPISODE_CHECKS:
                tally.add(name, check(episode, expected), episode.episode_id)
            summary.add(episode)
        rows.append(_row(episode))
        advance(1)
    table = pd.DataFrame(rows, columns=list(EpisodeRow._fields))
    for name, check_table in DATASET_CHECKS:
        tally.add(name, check_table(table, expected), "")
    return Report(tally.results(), summary.to_json(table), table)


class _Tally:
    """Counts the faults of each check and keeps the first few."""

    def __init__(self, params: CheckParams) -> None:
        self._params = params
        self._counts = dict.fromkeys(REMEDIES, 0)
        self._kept: dict[str, list[Finding]] = {name: [] for name in REMEDIES}

    def add(self, check: str, faults: Iterable[Fault], episode_id: str) -> None:
        """Does not look at `faults`, which may be a generator, where the check is off."""
        severity = getattr(self._params, check)
        if severity == "off":
            return
        for fault in faults:
            self._counts[check] += 1
            if len(self._kept[check]) < self._params.max_findings:
                found = Finding(check, severity, fault.episode_id or episode_id, fault.step, fault.found, fault.expected, REMEDIES[check])
                self._kept[check].append(found)

    def results(self) -> dict[str, CheckResult]:
        return {name: CheckResult(getattr(self._params, name), self._counts[name], tuple(self._kept[name])) for name in REMEDIES}


def _row(episode: Episode) -> EpisodeRow:
    known = episode.metadata
    policy, seed = str(known.get("policy", "")), int(known.get("seed", -1))
    return EpisodeRow(episode.episode_id, episode.length, episode.episode_return, episode.is_terminal, policy, seed, content_key(episode))
