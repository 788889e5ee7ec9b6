"""The report and the data card say what was found, and are byte-identical in another process."""

import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.about import About
from rl_datasets.checks import CheckParams, Expected, Report, run_checks
from rl_datasets.checks.card import Shown, write_card
from rl_datasets.checks.gate import run_gate
from rl_datasets.checks.output import failure, write_report
from rl_datasets.checks.report import CheckResult, Quarantined
from rl_datasets.manifest import Input, read_manifest
from rl_datasets.rlds import RldsReader
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from tests.rl_datasets.checks.card_data import DISCRETE, NOTES, SPECS, VECTOR, make_episode, make_episodes, write_data

FILES = {"report.json", "quarantine.csv", "card.html", "card.md", "croissant.json", "manifest.json"}


def check(folder: Path, kind: str, episodes: list[Episode] | None = None) -> Path:
    """Writes a data set, checks it, and returns the folder of the report."""
    raw = write_data(folder, kind, episodes)
    expected = Expected.of(SPECS[kind], read_manifest(raw))
    report, shown = run_gate(RldsReader(raw), ["raw"], expected, CheckParams())
    write_report(folder / "checks" / kind, kind, raw, expected, CheckParams(), report, shown)
    return folder / "checks" / kind


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    return {kind: check(folder, kind) for kind in SPECS}


class Outline(HTMLParser):
    """Elements that are open, the text of a page, and what it refers to."""

    VOID = ("meta", "img", "br")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text, self.links, self.ids = "", [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [value for key, value in values.items() if key in ("href", "src")]
        self.ids += [values["id"]] if "id" in values else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.links += [value for key, value in attrs if key in ("href", "src")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += " ".join(data.split()) + " "


@pytest.mark.parametrize("kind", SPECS)
def test_the_page_is_whole_and_needs_nothing_else(checked, kind):
    assert {path.name for path in checked[kind].iterdir()} == FILES
    page = Outline((checked[kind] / "card.html").read_text())
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        inside = link.startswith("#") and link[1:] in page.ids
        assert inside or link in FILES or link.startswith("data:image/png;base64,"), link[:80]
    assert "http" not in re.sub(r"content [0-9a-f]+", "", (checked[kind] / "card.html").read_text().replace("https://spdx.org", ""))


def test_the_page_shows_what_a_reader_needs(checked):
    text = Outline((checked["vector"] / "card.html").read_text()).text
    for words in (
        "vector 1.0.0",
        "Passed. Every check that is switched on passed.",
        "No check found anything.",
        "3 end in a terminal state",
        "2 float32 in [\u22121, 1]",
        "careful (4 episodes), wild <b> (4 episodes)",
        "A Laboratory",
        "https://spdx.org/licenses/MIT.html",
        *NOTES,
        "read data/log.csv (log), content beef",
        f"High return {max(make_episodes('vector'), key=lambda e: e.episode_return).episode_id} return",
        "First, low return run-000 return",
    ):
        assert words in text, words


def test_a_failing_card_says_so_first_and_shows_what_was_found(checked):
    page = (checked["failing"] / "card.html").read_text()
    text = Outline(page).text
    assert "Failed. Nothing is made from this data until the findings below are mended." in text
    assert "episode 'run-002', step 3 observation[1] = nan a finite number" in text
    assert "episode 'run-004', step 5 action[0] = 7.5 between -1 and 1" in text
    assert "the same content in 'copy|of <1>'" in text
    assert text.index("Failure finite") < text.index("Warning duplicates") < text.rindex(" Summary ")
    assert "<1>" not in page
    markdown = (checked["failing"] / "card.md").read_text()
    assert markdown.splitlines()[0] == "# Data card: failing 1.0.0"
    assert markdown.splitlines()[2].startswith("**Failed.**")
    assert "| episode 'run-001' | the same content in 'copy\\|of <1>' |" in markdown
    assert "### Failure: finite (1 fault)" in markdown


def test_markdown_holds_every_number_of_the_page(checked):
    markdown = (checked["discrete"] / "card.md").read_text()
    for words in (
        "| environment | `Grid-v0` |",
        "| observation | one of 25 values (int64) |",
        "random 1.50, expert 20.0; source: a table \\| of a paper",
        f"- {NOTES[0]}",
        "- read data/log.csv (log), content beef",
        "| action (0: ",
        '"builder": "python"',
    ):
        assert words in markdown, words


def test_images_are_frames_and_no_more_than_eight_an_episode(checked):
    page = (checked["image"] / "card.html").read_text()
    frames = re.findall(r'<img src="data:image/png;base64,[^"]+" width="16" height="12" alt="observation/camera at step (\d+)">', page)
    assert len(frames) == 3 * 8  # the first is the low one
    assert frames[:8] == ["0", "2", "3", "5", "7", "9", "10", "12"]  # of an episode of 12 transitions


def test_what_is_set_aside_and_what_could_not_be_checked_is_shown(tmp_path):
    report = run_checks(make_episodes("vector"), Expected.of(VECTOR), CheckParams())
    results = {
        **report.results,
        "finite": CheckResult("quarantine", 1, ()),
        "flags": CheckResult("fail", 0, (), 0, "the data have no flags"),
    }
    aside = dataclasses.replace(report, results=results, quarantine=(Quarantined("run-002", "finite", 3, "found NaN; expected a number"),))
    write_card(tmp_path, "vector", "1.0.0", Expected.of(VECTOR), About(), aside, Shown())
    text = Outline((tmp_path / "card.html").read_text()).text
    assert "1 episode set aside, and in no split." in text
    assert "1 episode is set aside, and in no split." in text.split("Findings")[0]
    assert "; 1 set aside" in text.split("Findings")[0]
    assert "1 episode is set aside, and in no split." in (tmp_path / "card.md").read_text().splitlines()[2]
    assert "run-002 finite 3 found NaN; expected a number" in text
    assert "not applicable: the data have no flags" in text
    assert "They carry no manifest" in text


TOY = EnvSpec(
    "Toy-v0",
    observation={"joint": ArraySpec((2,), "float32"), "eye": ArraySpec((8, 8, 3), "uint8", 0, 255)},
    action=ArraySpec((), "int64", 0, 2, num_values=3),
    max_episode_steps=9,
)


def toy(index: int) -> Episode:
    steps = index + 3
    count = np.arange(steps) + 100 * index
    reward, discount = np.ones(steps, np.float32), np.ones(steps, np.float32)
    reward[-1] = discount[-1] = 0
    action = count % 3
    action[-1] = 0
    observation = {"joint": np.stack([count, -count], 1).astype(np.float32), "eye": np.full((steps, 8, 8, 3), index, np.uint8)}
    return Episode(f"toy-{index}", observation, action, reward, discount, False, {"seed": index, "policy": ("random", "expert")[index % 2]})


def toy_report(**fields: object) -> Report:
    episodes = [toy(index) for index in range(5)]
    return run_checks([*episodes[:-1], dataclasses.replace(episodes[-1], **fields)], Expected.of(TOY), CheckParams())  # type: ignore[arg-type]


def test_the_summary_counts_and_describes_by_hand():
    summary = toy_report().summary
    assert (summary["episodes"], summary["transitions"], summary["terminals"], summary["truncations"]) == (5, 2 + 3 + 4 + 5 + 6, 0, 5)
    assert summary["episode_return"] == pytest.approx(
        {"mean": 4, "std": 2**0.5, "minimum": 2, "q25": 3, "median": 4, "q75": 5, "maximum": 6, "not_finite": 0}
    )
    assert {policy: entry["episodes"] for policy, entry in summary["policies"].items()} == {"expert": 2, "random": 3}
    assert summary["policies"]["expert"]["episode_return"]["mean"] == 4
    first, second = summary["arrays"]["observation/joint"]["columns"]
    assert (first["minimum"], first["maximum"], second["minimum"], second["maximum"]) == (0, 406, -406, 0)
    assert (summary["arrays"]["observation/eye"]["minimum"], summary["arrays"]["observation/eye"]["maximum"]) == (0, 4)
    actions = [value for index in range(5) for value in toy(index).action[:-1]]
    assert summary["arrays"]["action"]["counts"] == {str(value): actions.count(value) for value in (0, 1, 2)}


def test_step_metadata_are_named_and_not_checked(nested, tmp_path):
    raw = nested.write(tmp_path)
    expected = Expected.of(nested.spec, None)
    report, shown = run_gate(RldsReader(raw), ["train"], expected, CheckParams())
    write_report(tmp_path / "checks", "toy", raw, expected, CheckParams(), report, shown)
    told = "time (one float64), infos/note (one text), infos/pair (2 uint8 in [0, 255]); not checked"
    assert told in (tmp_path / "checks" / "card.md").read_text()
    assert told in Outline((tmp_path / "checks" / "card.html").read_text()).text


def test_the_report_names_the_data_that_it_is_about(tmp_path):
    episodes = make_episodes("vector")
    episodes[4].discount[2] = 0
    folder = check(tmp_path, "vector", episodes)
    report, digest = json.loads((folder / "report.json").read_text()), read_manifest(tmp_path / "vector/1.0.0").digest
    assert (report["dataset"], report["version"], report["digest"], report["verdict"]) == ("vector", "1.0.0", digest, "fail")
    assert report["checks"]["discount"] == {"severity": "fail", "verdict": "fail", "faults": 1}
    assert report["findings"][0]["episode_id"] == "run-004"
    manifest = read_manifest(folder)
    assert manifest.inputs == (Input("vector", (tmp_path / "vector/1.0.0").as_posix(), digest),)
    assert (manifest.job, manifest.counts["fail_faults"]) == ("check@vector", 1)


@pytest.mark.parametrize("episodes", [[], [dataclasses.replace(toy(0), reward=np.float32([np.nan, np.inf, 0]))]])
def test_a_card_is_written_however_bad_the_data_are(tmp_path, episodes):
    report = run_checks(episodes, Expected.of(TOY), CheckParams())
    write_card(tmp_path, "toy", "1.0.0", Expected.of(TOY), About(), report, Shown())
    assert "Failed." in Outline((tmp_path / "card.html").read_text()).text
    assert "**Failed.**" in (tmp_path / "card.md").read_text()


def test_the_message_of_a_failure_shows_the_first_findings_and_where_the_rest_is():
    episodes = [dataclasses.replace(toy(index), is_terminal=True) for index in range(5)]
    text = failure(run_checks(episodes, Expected.of(TOY), CheckParams()), Path("artifacts/checks/toy"), "toy")
    assert "has 5 faults" in text
    assert "discount: episode 'toy-2', step 3: found discount 1; expected 0, for its transition leads into a terminal state." in text
    assert "... and 2 more." in text
    assert "artifacts/checks/toy/report.json" in text
    assert "artifacts/checks/toy/card.html" in text


@pytest.mark.slow
def test_another_process_writes_the_same_bytes(tmp_path):
    here = check(tmp_path / "here", "image")
    code = f"import runpy; m = runpy.run_path({__file__!r}); m['check'](m['Path']({str(tmp_path / 'there')!r}), 'image')"
    environment = {"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    digests = [
        {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name != "manifest.json"}
        for folder in (here, tmp_path / "there/checks/image")
    ]
    assert digests[0] == digests[1]


def test_many_policies_are_drawn_as_few(tmp_path):
    episodes = [
        dataclasses.replace(make_episode(DISCRETE, index), metadata={"seed": index, "policy": f"policy {index:02d}"}) for index in range(12)
    ]
    report = run_checks(episodes, Expected.of(DISCRETE), CheckParams())
    write_card(tmp_path, "many", "1.0.0", Expected.of(DISCRETE), About(), report, Shown())
    text = Outline((tmp_path / "card.html").read_text()).text
    assert "5 other policies: mean" in text
    assert "policy 06: mean" in text
    assert "policy 07: mean" not in text
