"""The report on hand-made artifacts of two data sets and three experiments; numbers in it are known by heart."""

import dataclasses
import html
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pipelines import paths, report
from pipelines.inputs import parameters_of
from pipelines.params import Params
from rl_datasets.errors import HindcastError
from rl_datasets.files import write_json
from rl_datasets.manifest import Input, Manifest, read_manifest, write_manifest
from rl_datasets.page.html import number
from rl_datasets.similarity import EMPTY, KEPT

KEYS = {
    "experiment", "dataset", "algorithm", "seeds", "episodes", "return_mean", "return_std", "iqm", "iqm_low", "iqm_high",
    "behaviour_return_mean", "normalized_score", "updates", "transitions",
}  # fmt: skip
METRICS = {
    "return_mean": 40.0,
    "return_std": 25.5,
    "return_median": 42.0,
    "iqm": 41.25,
    "iqm_low": 12.5,
    "iqm_high": 60.75,
    "seed_means": [30.0, 50.0],
    "seed_std": 14.1,
    "worst_seed_mean": 30.0,
    "length_mean": 40.0,
    "success_rate": None,
    "behaviour_return_mean": -7.25,
    "normalized_score": None,
}


def make_params(**train: Any) -> Params:
    def experiment(dataset: str, algorithm: str) -> dict[str, Any]:
        options = {"seeds": [4, 2], "updates": 1234, "batch_size": 8, **train}
        return {"dataset": dataset, "algorithm": algorithm, "preset": "p", "train": options, "evaluate": {"episodes": 3, "seed": 0}}

    dataset = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "requirements.lock", "options": {}}
    return Params.model_validate(
        {
            "datasets": {"pole": dataset, "arm": {**dataset, "version": "2.1.0"}, "unused": dataset},
            "checks": {"default": {}},
            "split": {},
            "learners": {"iql": {"p": {}}, "bc": {"p": {}}},
            "experiments": {"pole_iql": experiment("pole", "iql"), "arm_bc": experiment("arm", "bc"), "pole_bc": experiment("pole", "bc")},
        }
    )


def write_dataset(name: str, version: str, verdict: str = "pass", faults: int = 0) -> None:
    folder, params = paths.SPLITS / name / version, make_params()
    write_json(folder / "stats.json", {"transitions": 4321, "episode_return": {"mean": -7.25}})
    episodes = {
        "episode_id": [f"{index:08d}" for index in range(4)],
        "split": ["train", "train", "validation", "test"],
        "length": [5, 5, 5, 5],
        "episode_return": [-8.5, -6.0, 999.0, 999.0],
        "is_terminal": [True, False, True, True],
        "policy": "random",
        "seed": [0, 1, 2, 3],
        "content": [f"{name} {index}" for index in range(4)],
        "reason": "",
    }
    pd.DataFrame(episodes).to_csv(folder / "episodes.csv", index=False)
    np.save(folder / "sketches.npy", np.full((4, KEPT), EMPTY))
    write_manifest(folder, Manifest(f"split@{name}", "ab12cd34ef56" + "0" * 52, parameters_of(f"split@{name}", params)))
    checks = {"finite": {"severity": "fail", "faults": 0}, "duplicates": {"severity": "warn", "faults": faults}}
    write_json(paths.CHECKS / name / "report.json", {"verdict": verdict, "checks": checks})
    write_manifest(paths.CHECKS / name, Manifest(f"check@{name}", "", parameters_of(f"check@{name}", params)))


def write_experiment(params: Params, name: str, **metrics: Any) -> None:
    entry = params.experiments[name]
    folder = paths.EVALS / name
    write_json(folder / "metrics.json", {**METRICS, **metrics})
    seeds, episodes = [4, 4, 4, 2, 2, 2], [0, 1, 2, 0, 1, 2]
    table = {
        "training_seed": seeds,
        "episode": episodes,
        "environment_seed": episodes,
        "episode_return": [10.0, 30.0, 50.0, 40.0, 50.0, 60.0],
        "length": 40,
        "is_terminal": True,
    }
    pd.DataFrame(table).to_csv(folder / "episodes.csv", index=False)
    parameters = parameters_of(f"evaluate@{name}", params)
    note = f"No normalised score: no reference returns are known for {entry.dataset}."
    inputs = [Input("policy of seed 4", "p", "fe" * 32)]
    write_manifest(folder, Manifest(f"evaluate@{name}", "00" * 32, parameters, inputs=inputs, notes=[note]))
    rows = [
        {"step": step, "seed": seed, "split": split, "policy_loss": step / 100 + seed, "q_mean": np.nan if split == "train" else 1.0}
        for step in (500, 1000)
        for seed in (2, 4)
        for split in ("train", "validation")
    ]
    (paths.MODELS / name).mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(paths.MODELS / name / "curves.csv", index=False)
    write_manifest(paths.MODELS / name, Manifest(f"train@{name}", "", parameters_of(f"train@{name}", params)))


def acknowledge(folder: Path) -> None:
    """Makes the manifest name the files as they are now, as it would if a stage had made them so."""
    write_manifest(folder, read_manifest(folder))


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(tmp_path)
    params = make_params()
    write_dataset("pole", "1.0.0")
    write_dataset("arm", "2.1.0", "warn", faults=3)
    for name in params.experiments:
        write_experiment(params, name)
    return params


def edit_table(name: str, version: str, column: str, values: dict[int, str]) -> None:
    path = paths.SPLITS / name / version / "episodes.csv"
    table = pd.read_csv(path, keep_default_na=False)
    for row, value in values.items():
        table.loc[row, column] = value
    table.to_csv(path, index=False)
    acknowledge(path.parent)


def page(params: Params) -> str:
    report.run("", params)
    return (paths.REPORT / "index.html").read_text(encoding="utf-8")


class Outline(HTMLParser):
    """Gathers what a browser would: tags with their attributes, and checks that they nest."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_summary_has_one_object_an_experiment_with_exactly_these_keys(params: Params) -> None:
    assert report.run("", params) == paths.REPORT
    summary = json.loads((paths.REPORT / "summary.json").read_text())
    assert [entry["experiment"] for entry in summary] == ["pole_iql", "arm_bc", "pole_bc"]
    assert all(set(entry) == KEYS for entry in summary)
    assert summary[1] == {
        "experiment": "arm_bc",
        "dataset": "arm",
        "algorithm": "bc",
        "seeds": 2,
        "episodes": 6,
        "updates": 1234,
        "transitions": 4321,
        **{key: METRICS[key] for key in KEYS & set(METRICS)},
    }


def test_page_shows_the_numbers(params: Params) -> None:
    text = text_of(page(params))
    assert "3 experiments on 2 data sets" in text
    assert "pole_iql iql 40.0 \u00b1 25.5 41.2 [12.5, 60.8] 30.0 \u22127.25 none 2 \u00d7 3 1,234 4,321" in text
    assert "arm 2.1.0 passed with 3 warnings card of arm 4 2 \u22127.25 \u22128.50 \u22126.00 ab12cd34ef56" in text
    assert "pole 1.0.0 passed card of pole" in text
    assert text.count("No normalised score: no reference returns are known for arm.") == 1
    assert "Experiment Seed 2 Seed 4 pole_iql 50.0 30.0" in text, "a seed's mean stands under its own heading"
    assert "unused" not in text


def test_page_shows_scores_and_success_where_there_are_any(params: Params) -> None:
    assert " Success " not in text_of(page(params)).partition("Returns against")[0]
    write_experiment(params, "pole_iql", normalized_score=93.456, success_rate=0.5)
    text = text_of(page(params))
    assert "30.0 \u22127.25 93.5 50.0% 2 \u00d7 3" in text
    assert "30.0 \u22127.25 none none 2 \u00d7 3" in text


def test_page_needs_nothing_else(params: Params) -> None:
    text = page(params)
    outline = Outline(text)
    assert "http" not in text
    assert "//" not in re.sub(r"<!DOCTYPE.*?>", "", text)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in outline.tags}
    assert not re.search(r"url\(|@import|src=", text)
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] or "" for attributes in outline.of("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert {link for link in links if not link.startswith("#")} == {
        "../checks/pole/card.html",
        "../checks/arm/card.html",
        "summary.json",
        "lineage.html",
    }


def test_page_is_accessible(params: Params) -> None:
    outline = Outline(page(params))
    assert outline.of("html")[0]["lang"] == "en"
    pictures = outline.of("svg")
    assert len(pictures) == 2 + 3 * 2  # distributions of two data sets; two metrics of three experiments
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in pictures)
    assert any("pole_iql: mean 40.0, 6 episodes" in (picture["aria-label"] or "") for picture in pictures)
    assert any("train ends at a mean of 13; validation ends at a mean of 13" in (picture["aria-label"] or "") for picture in pictures)
    assert all(heading.get("scope") in ("col", "row", "rowgroup") for heading in outline.of("th"))


def test_a_curve_has_one_line_a_seed_and_split_and_leaves_out_what_is_not_a_number(params: Params) -> None:
    text = page(params)
    for kind in ("one", "two"):
        assert text.count(f'<polyline class="{kind}"') == 3 * 2 * (1 if kind == "one" else 2)
    assert "nan" not in text.lower()


def test_equal_artifacts_give_equal_bytes(params: Params) -> None:
    first = page(params)
    summary = (paths.REPORT / "summary.json").read_bytes()
    assert page(params) == first
    assert (paths.REPORT / "summary.json").read_bytes() == summary


def table_lines() -> list[str]:
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(report.results_table())
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_results_table_reads_the_summary_and_fits_a_terminal(params: Params) -> None:
    report.run("", params)
    lines = table_lines()
    assert "pole behaviour \u22127.25" in lines
    found = [line for line in lines if line.startswith(("pole_", "arm_"))]
    assert found == [f"{name} 40.0 \u00b1 25.5 41.2 12.5 to 60.8" for name in ("pole_iql", "pole_bc", "arm_bc")]


@pytest.mark.parametrize("text", ["[]", "{}", "[1]", '[{"dataset": "pole"}]', "null", "[[]]"])
def test_a_summary_of_something_else_is_one_message(params: Params, text: str) -> None:
    report.run("", params)
    (paths.REPORT / "summary.json").write_text(text)
    with pytest.raises(
        HindcastError, match=r"summary\.json holds .*, but a list of objects with experiment, dataset, .*'dvc repro --force report'"
    ):
        report.results_table()


def test_results_table_has_scores_where_there_are_any(params: Params) -> None:
    write_experiment(params, "pole_iql", normalized_score=93.456)
    report.run("", params)
    lines = table_lines()
    assert "pole_iql 40.0 \u00b1 25.5 41.2 12.5 to 60.8 93.5" in lines
    assert "pole_bc 40.0 \u00b1 25.5 41.2 12.5 to 60.8 none" in lines


def test_names_are_escaped(params: Params) -> None:
    folder = paths.EVALS / "pole_bc"
    write_manifest(folder, dataclasses.replace(read_manifest(folder), notes=["known for <b>&pole."]))
    assert "known for &lt;b&gt;&amp;pole." in page(params)


PIECES = (
    "artifacts/evals/arm_bc/metrics.json",
    "artifacts/evals/arm_bc/manifest.json",
    "artifacts/evals/arm_bc/episodes.csv",
    "artifacts/models/arm_bc/curves.csv",
    "artifacts/splits/arm/2.1.0/episodes.csv",
    "artifacts/splits/arm/2.1.0/stats.json",
    "artifacts/checks/arm/report.json",
)


@pytest.mark.parametrize("path", PIECES)
def test_a_missing_piece_is_named_and_nothing_is_written(params: Params, path: str) -> None:
    Path(path).unlink()
    with pytest.raises(HindcastError, match=rf"{path} is missing.*dvc repro"):
        report.run("", params)
    assert not paths.REPORT.exists()


def test_an_evaluation_with_other_parameters_is_refused(params: Params) -> None:
    with pytest.raises(
        HindcastError, match=r"artifacts/evals/pole_iql was made with other .* experiments\.pole_iql\.train\.updates was 1234 and is now 99"
    ):
        report.run("", make_params(updates=99))


@pytest.mark.parametrize("rows", [slice(0, 5), [0, 1, 2, 3, 4, 4]])
def test_an_episode_that_is_missing_or_stands_twice_is_an_error(params: Params, rows: Any) -> None:
    path = paths.EVALS / "pole_iql/episodes.csv"
    pd.read_csv(path).iloc[rows].to_csv(path, index=False)
    acknowledge(path.parent)
    with pytest.raises(HindcastError, match="exactly one is expected for each of the 2 training seeds and 3 episodes"):
        report.run("", params)


@pytest.mark.parametrize(
    ("text", "message"), [("", "is not a table"), ("step,seed\n1,2\n", "lacks the columns split"), ("step,seed,split\n", "no rows")]
)
def test_a_broken_table_is_named(params: Params, text: str, message: str) -> None:
    (paths.MODELS / "pole_bc/curves.csv").write_text(text)
    acknowledge(paths.MODELS / "pole_bc")
    with pytest.raises(HindcastError, match=message):
        report.run("", params)


@pytest.mark.parametrize("path", PIECES)
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: bytes([data[0] ^ 1]) + data[1:]])
def test_a_damaged_piece_is_named_and_nothing_is_written(params: Params, path: str, damage: Callable[[bytes], bytes]) -> None:
    Path(path).write_bytes(damage(Path(path).read_bytes()))
    with pytest.raises(HindcastError, match=rf"{path} .*[Rr](estore|ebuild) it"):
        report.run("", params)
    assert not paths.REPORT.exists()


def test_without_experiments_there_is_nothing_to_report(params: Params) -> None:
    with pytest.raises(HindcastError, match="no experiment"):
        report.run("", params.model_copy(update={"experiments": {}}))


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.00"), (9.994, "9.99"), (9.996, "10.0"), (-1234.56, "\u22121,234.6"), (-0.5, "\u22120.50")]
)
def test_number(value: float, text: str) -> None:
    assert number(value) == text


def test_data_sets_that_share_episodes_are_named(params: Params, capsys: pytest.CaptureFixture[str]) -> None:
    """The first of pole is in arm's train too, the last is trained on there; one more is nearly the same."""
    assert " too (" not in page(params)
    edit_table("arm", "2.1.0", "content", {0: "pole 0", 1: "pole 3"})
    for name, version, row in (("pole", "1.0.0", 1), ("arm", "2.1.0", 3)):
        path = paths.SPLITS / name / version / "sketches.npy"
        sketches = np.load(path)
        sketches[row, :8] = np.arange(8, dtype=np.uint64)
        np.save(path, sketches)
        acknowledge(path.parent)
    sentence = (
        "3 of 4 episodes of 'pole' are in 'arm' too (2 equal and 1 nearly the same), such as '00000000'; 2 of them are in another "
        "split there, so that one data set's training holds what the other is measured on."
    )
    assert html.escape(sentence) in page(params)
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_data_set_that_only_repeats_another_is_named_without_alarm(params: Params) -> None:
    edit_table("arm", "2.1.0", "content", {row: f"pole {row}" for row in range(4)})
    assert "such as &#x27;00000000&#x27;; each is in the same split of both." in page(params)
