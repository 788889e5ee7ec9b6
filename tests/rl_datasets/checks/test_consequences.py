"""Faults of files, what severities lead to, the limits of quarantine, and entries of params.yaml merged over default."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, Report, run_checks
from rl_datasets.checks.directory import check_directory
from rl_datasets.errors import HindcastError
from rl_datasets.rlds import RldsReader, write_rlds
from rl_datasets.schema import Episode
from tests.rl_datasets.checks.clean_data import long_ones, pole
from tests.rl_datasets.checks.faults import AT, FILE_FAULTS, ID, FileFault, at, copied, cut, noisy, put


def checked(episodes: list[Episode], **params: object) -> Report:
    return run_checks(episodes, Expected.of(pole().spec), CheckParams.model_validate(params))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "pole" / "1.0.0"
    write_rlds(folder, "pole", "1.0.0", pole().spec, {"raw": pole().episodes}, shards=3)
    return folder


@pytest.mark.parametrize("fault", FILE_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_file_is_a_finding_and_the_rest_is_checked(fault: FileFault, stored: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pole" / "1.0.0"
    folder.mkdir(parents=True)
    for file in stored.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    shards = sorted(folder.glob("*.tfrecord*"))
    fault.put(shards)
    report = check_directory(RldsReader(folder), ["raw"], Expected.of(pole().spec), CheckParams())
    name = fault.file if isinstance(fault.file, str) else shards[fault.file].name
    assert report.verdict == "fail"
    assert [finding.found.startswith(name) for finding in report.results["files"].findings] == [True]
    assert report.summary["episodes"] >= 40


def test_files_as_they_should_be_raise_nothing(stored: Path) -> None:
    report = check_directory(RldsReader(stored), ["raw"], Expected.of(pole().spec), CheckParams())
    assert (report.results["files"].faults, report.summary["episodes"]) == (0, 60)
    assert report.results["flags"].verdict == "pass"


def test_a_quarantined_episode_is_listed_with_its_reason_and_is_a_warning() -> None:
    report = checked(at(put("reward", 12, np.inf))(list(pole().episodes)), finite="quarantine", reward_range="off")
    (entry,) = report.quarantine
    assert (report.verdict, report.faults("quarantine"), report.faults("fail")) == ("warn", 1, 0)
    assert (entry.episode_id, entry.check, entry.step) == (ID, "finite", 12)
    assert entry.reason == "found reward = inf; expected a finite number"
    assert report.to_json()["quarantine"] == [entry._asdict()]


def test_of_copies_the_first_is_kept() -> None:
    report = checked(copied()(list(pole().episodes)), duplicates="quarantine")
    assert [(entry.episode_id, entry.check) for entry in report.quarantine] == [("copy", "duplicates")]
    assert report.quarantine[0].reason == f"found the same content in '{ID}'; expected content of its own for each episode"
    assert report.results["duplicates"].findings[0].found == "the same content in 'copy'"


def test_of_equal_seeds_the_others_are_set_aside_and_name_the_first() -> None:
    episodes = list(pole().episodes)
    episodes[3] = replace(episodes[3], metadata={**episodes[3].metadata, "seed": episodes[1].metadata["seed"]})
    (entry,) = checked(episodes, seeds="quarantine").quarantine
    assert (entry.episode_id, entry.check) == (episodes[3].episode_id, "seeds")
    assert f"the seed {episodes[1].metadata['seed']} in '{episodes[1].episode_id}' too" in entry.reason


def test_a_fault_that_names_no_episode_fails_instead() -> None:
    episodes = [put("observation", (slice(None), 1), 0)(episode) for episode in pole().episodes]
    report = checked(episodes, constant="quarantine")
    assert (report.verdict, report.quarantine, report.faults("fail")) == ("fail", (), 1)
    assert [finding.severity for finding in report.results["constant"].findings] == ["fail"]


@pytest.mark.parametrize(("limit", "verdict"), [(0.1, "warn"), (0.09, "fail")])
def test_more_than_the_limit_set_aside_is_a_failure(limit: float, verdict: str) -> None:
    episodes = [put("reward", 0, np.nan)(episode) if index < 6 else episode for index, episode in enumerate(pole().episodes)]
    report = checked(episodes, finite="quarantine", quarantine_limit=limit)
    assert (report.verdict, len(report.quarantine)) == (verdict, 6)
    if verdict == "fail":
        (finding,) = report.results["quarantine"].findings
        assert finding.found == "6 of 60 episodes set aside (10.0%; most often for finite)"


def test_a_policy_that_is_set_aside_in_whole_is_a_failure() -> None:
    episodes = list(pole().episodes)
    episodes[AT] = put("reward", 0, np.nan)(replace(episodes[AT], metadata={**episodes[AT].metadata, "policy": "rare"}))
    report = checked(episodes, finite="quarantine")
    assert [finding.found for finding in report.results["quarantine"].findings] == ["every episode of the policy 'rare' set aside"]
    assert report.verdict == "fail"


def test_an_entry_is_merged_over_default_option_by_option() -> None:
    default = CheckParams.model_validate({"action_bounds": {"severity": "warn", "tolerance": 0.5}, "duplicates": "off", "max_findings": 3})
    own = CheckParams.model_validate({"action_bounds": {"tolerance": 0.1}, "outliers": "off"})
    merged = own.merged_into(default, "checks.toy", "checks.default")
    assert merged.of("action_bounds").model_dump() == {"severity": "warn", "tolerance": 0.1}
    assert [merged.of(name).severity for name in ("duplicates", "outliers", "finite")] == ["off", "off", "fail"]
    assert merged.max_findings == 3


def test_options_of_two_entries_that_clash_are_named_where_each_stands() -> None:
    low, high = (CheckParams.model_validate({"reward_range": options}) for options in ({"minimum": 1.0}, {"maximum": 0.5}))
    with pytest.raises(HindcastError) as error:
        low.merged_into(high, "checks.toy", "checks.default")
    minimum, maximum = "checks.toy.reward_range.minimum: found 1.0", "checks.default.reward_range.maximum: found 0.5"
    assert str(error.value) == f"params.yaml:\n  {minimum} and {maximum}; minimum is above maximum: mend either"


def test_a_check_that_cannot_be_made_says_why() -> None:
    results = checked(list(pole().episodes)).results
    assert results["images"].verdict == "not applicable"
    assert results["images"].not_applicable == "no observation is an image"
    assert results["time_limits"].not_applicable == "the environment has no time limit that is known, and lengths show none"


def test_of_long_episodes_some_steps_tell_a_copy() -> None:
    """Their steps are chosen by content, so a copy with noise and without its beginning has the same."""
    spec, episodes = long_ones().spec, list(long_ones().episodes)
    copy = replace(cut(episodes[1], 0, 700), episode_id="copy", observation=noisy(cut(episodes[1], 0, 700).observation))
    report = run_checks([*episodes, copy], Expected.of(spec), CheckParams())
    assert [finding.episode_id for finding in report.results["near_duplicates"].findings] == ["copy"]
