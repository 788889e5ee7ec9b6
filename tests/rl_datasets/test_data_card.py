"""The report and the data card say what was found, and are byte-identical in another process."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.checks import CheckParams, Expected, Report, run_checks
from rl_datasets.checks.histograms import draw_histogram
from rl_datasets.checks.output import failure, write_report
from rl_datasets.manifest import Input, Manifest, read_manifest
from rl_datasets.schema import ArraySpec, EnvSpec, Episode, ReferenceReturns

SPEC = EnvSpec(
    "Toy-v0",
    observation={"joint": ArraySpec((2,), "float32"), "eye": ArraySpec((8, 8, 3), "uint8", 0, 255)},
    action=ArraySpec((), "int64", 0, 2, num_values=3),
    max_episode_steps=9,
    reference_returns=ReferenceReturns(1.5, 20, "a table | of a paper"),
)
MANIFEST = Manifest(
    job="collect@toy",
    digest="d1ce",
    parameters={"seed": 4, "options": {"env_id": "Toy-v0"}},
    inputs=(Input("lock", "requirements.lock", "beef"),),
    notes=("Rewards were float64 and are float32.",),
    packages={"gymnasium": "1.2.3"},
)


def episode(index: int) -> Episode:
    steps = index + 3
    count = np.arange(steps) + 100 * index
    reward, discount = np.ones(steps, np.float32), np.ones(steps, np.float32)
    reward[-1] = discount[-1] = 0
    action = count % 3
    action[-1] = 0
    observation = {"joint": np.stack([count, -count], 1).astype(np.float32), "eye": np.full((steps, 8, 8, 3), index, np.uint8)}
    return Episode(f"toy-{index}", observation, action, reward, discount, False, {"seed": index, "policy": ("random", "expert")[index % 2]})


def report_of(**fields: object) -> Report:
    episodes = [episode(index) for index in range(5)]
    return run_checks([*episodes[:-1], dataclasses.replace(episodes[-1], **fields)], Expected.of(SPEC), CheckParams())  # type: ignore[arg-type]


def write(folder: Path, report: Report) -> tuple[str, dict[str, object]]:
    write_report(folder, "toy", Path("artifacts/raw/toy/1.0.0"), SPEC, MANIFEST, CheckParams(), report)
    return (folder / "card.md").read_text(), json.loads((folder / "report.json").read_text())


def test_the_summary_counts_and_describes_by_hand(tmp_path):
    _, report = write(tmp_path / "toy", report_of())
    summary = report["summary"]
    assert (summary["episodes"], summary["transitions"], summary["terminals"], summary["truncations"]) == (5, 2 + 3 + 4 + 5 + 6, 0, 5)
    assert summary["episode_return"] == pytest.approx(
        {"mean": 4, "std": 2**0.5, "minimum": 2, "q25": 3, "median": 4, "q75": 5, "maximum": 6, "not_finite": 0}
    )
    assert {policy: entry["episodes"] for policy, entry in summary["policies"].items()} == {"expert": 2, "random": 3}
    assert summary["policies"]["expert"]["episode_return"]["mean"] == 4
    first, second = summary["arrays"]["observation/joint"]["columns"]
    assert (first["minimum"], first["maximum"], second["minimum"], second["maximum"]) == (0, 406, -406, 0)
    assert summary["arrays"]["observation/eye"] == {"minimum": 0, "maximum": 4}
    actions = [value for index in range(5) for value in episode(index).action[:-1]]
    assert summary["arrays"]["action"]["counts"] == {str(value): actions.count(value) for value in (0, 1, 2)}


def test_the_report_names_the_data_that_it_is_about(tmp_path):
    folder = tmp_path / "toy"
    _, report = write(folder, report_of(discount=np.zeros(7, np.float32)))
    assert (report["dataset"], report["version"], report["digest"], report["verdict"]) == ("toy", "1.0.0", "d1ce", "fail")
    assert report["checks"]["discount"] == {"severity": "fail", "verdict": "fail", "faults": 1}
    assert report["findings"][0]["episode_id"] == "toy-4"
    manifest = read_manifest(folder)
    assert manifest.inputs == (Input("toy", "artifacts/raw/toy/1.0.0", "d1ce"),)
    assert (manifest.job, manifest.counts["fail_faults"]) == ("check@toy", 1)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [({}, "**PASS.**"), ({"observation": episode(3).observation}, "**FAIL.**"), ({"episode_id": "toy-3"}, "**FAIL.**")],
)
def test_the_card_begins_with_the_verdict(tmp_path, fields, verdict):
    card, _ = write(tmp_path / "toy", report_of(**fields))
    assert card.splitlines()[0] == "# Data card: toy 1.0.0"
    assert card.splitlines()[2].startswith(verdict)


def test_the_card_shows_what_a_reader_needs(tmp_path):
    copy = dataclasses.replace(episode(3), episode_id="copy|of 3")
    report = run_checks([*[episode(index) for index in range(5)], copy], Expected.of(SPEC), CheckParams())
    card, _ = write(tmp_path / "toy", report)
    for words in (
        "**PASS WITH WARNINGS.**",
        "| environment | `Toy-v0` |",
        "| observation/eye | uint8[8, 8, 3] |",
        "| action | int64[], 3 values |",
        "| policies | expert (3 episodes), random (3 episodes) |",
        "random 1.5, expert 20; source: a table \\| of a paper",
        "- Rewards were float64 and are float32.",
        "| warn | duplicates | episode 'toy-3' | the same content in 'copy\\|of 3' |",
        "![Returns](returns.png)",
        "- read `requirements.lock` (lock), content `beef`",
        "- gymnasium 1.2.3",
    ):
        assert words in card, words
    assert {path.name for path in (tmp_path / "toy").iterdir()} == {
        "report.json",
        "quarantine.csv",
        "card.md",
        "returns.png",
        "lengths.png",
        "manifest.json",
    }
    assert "random 1.5" not in card_without_references()


def card_without_references() -> str:
    from rl_datasets.checks.card import card

    spec = dataclasses.replace(SPEC, reference_returns=None)
    text = card("toy", "1.0.0", spec, MANIFEST, report_of())
    assert "none known, so no normalised score" in text
    return text


@pytest.mark.parametrize("episodes", [[], [dataclasses.replace(episode(0), reward=np.float32([np.nan, np.inf, 0]))]])
def test_a_report_is_written_however_bad_the_data_are(tmp_path, episodes):
    card, report = write(tmp_path / "toy", run_checks(episodes, Expected.of(SPEC), CheckParams()))
    assert report["verdict"] == "fail"
    assert "**FAIL.**" in card
    assert (tmp_path / "toy" / "returns.png").stat().st_size > 1000


def test_the_message_of_a_failure_shows_the_first_findings_and_where_the_rest_is():
    episodes = [dataclasses.replace(episode(index), is_terminal=True) for index in range(5)]
    text = failure(run_checks(episodes, Expected.of(SPEC), CheckParams()), Path("artifacts/checks/toy"), "toy")
    assert "has 5 faults" in text
    assert "discount: episode 'toy-2', step 3: found discount 1; expected 0, for its transition leads into a terminal state." in text
    assert "... and 2 more." in text
    assert "artifacts/checks/toy/report.json" in text


def test_another_process_writes_the_same_bytes(tmp_path):
    write(tmp_path / "here", report_of())
    code = f"import runpy; m = runpy.run_path({__file__!r}); m['write'](m['Path']({str(tmp_path / 'there')!r}), m['report_of']())"
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: red\nfont.size: 20\n")  # a user's settings must not show
    environment = {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=environment)
    here, there = (
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / name).iterdir()} for name in ("here", "there")
    )
    assert here == there


def test_many_policies_are_drawn_as_few(tmp_path):
    large = {f"policy {i}": np.arange(20.0 + i) for i in range(7)}
    small = {f"rare policy {i}": np.full(2, float(i)) for i in range(5)}
    draw_histogram(tmp_path / "many.png", {**small, **large}, "return")
    draw_histogram(tmp_path / "few.png", {**large, "other": np.concatenate(list(small.values()))}, "return")
    draw_histogram(tmp_path / "large.png", large, "return")
    assert (tmp_path / "many.png").read_bytes() == (tmp_path / "few.png").read_bytes() != (tmp_path / "large.png").read_bytes()
