"""Croissant metadata say where the files are, what they are and what is in them, and mlcroissant takes them."""

import hashlib
import json
import logging
import os

import pytest

from rl_datasets.about import About
from rl_datasets.croissant import croissant
from rl_datasets.files import write_json
from rl_datasets.rlds import RldsReader
from tests.pipelines import foreign_data
from tests.rl_datasets.checks.card_data import SPECS, write_data

COUNTS = {"episodes": 8, "transitions": 120}
ABOUT = About(
    description="A toy.",
    license="https://spdx.org/licenses/MIT.html",
    creators=("A Laboratory",),
    url="https://example.org/toy",
    date_published="2026-01-31",
    citation="@misc{toy}",
)


def fields(described: dict) -> dict[str, dict]:
    episodes = next(each for each in described["recordSet"] if each["@id"] == "episodes")
    steps = next(field for field in episodes["field"] if field["name"] == "steps")
    return {field["@id"]: field for field in (*episodes["field"], *steps["subField"])}


def test_files_are_where_they_say_with_their_checksums(tmp_path):
    path = write_data(tmp_path / "data", "image")
    described = croissant(RldsReader(path), "image", About(), COUNTS, "../data/image/1.0.0")
    objects = {each["@id"]: each for each in described["distribution"] if each["@type"] == "cr:FileObject"}
    assert set(objects) == {file.name for file in path.iterdir() if file.name != "manifest.json"}
    for name, each in objects.items():
        content = (tmp_path / "checks" / each["contentUrl"]).resolve(strict=False)
        assert each["sha256"] == hashlib.sha256((path / name).read_bytes()).hexdigest()
        assert content == path / name
        assert each["contentSize"] == f"{(path / name).stat().st_size} B"


def test_fields_are_those_of_the_examples(tmp_path):
    described = fields(croissant(RldsReader(write_data(tmp_path, "image")), "image", About(), COUNTS, "."))
    assert {name.removeprefix("episodes/") for name in described} == {
        "episode_id", "seed", "policy", "environment", "steps", "steps/observation/camera", "steps/observation/battery", "steps/action",
        "steps/reward", "steps/discount", "steps/is_first", "steps/is_last", "steps/is_terminal",
    }  # fmt: skip
    camera = described["episodes/steps/observation/camera"]
    assert (camera["dataType"], camera["source"]["extract"]["column"]) == ("sc:ImageObject", "steps/observation/camera")
    assert described["episodes/steps/action"]["repeated"]
    assert [described[f"episodes/{name}"]["dataType"] for name in ("policy", "seed")] == ["sc:Text", "sc:Integer"]


def test_step_metadata_are_fields_of_steps(nested, tmp_path):
    described = fields(croissant(RldsReader(nested.write(tmp_path)), "toy", About(), COUNTS, "."))
    kinds = {name: described[f"episodes/steps/metadata/{name}"]["dataType"] for name in nested.spec.step_metadata}
    assert kinds == {"time": "sc:Float", "infos/note": "sc:Text", "infos/pair": "sc:Integer"}
    assert described["episodes/steps/metadata/infos/note"]["source"]["extract"]["column"] == "steps/metadata/infos/note"


def test_what_is_not_known_is_not_said(tmp_path):
    reader = RldsReader(write_data(tmp_path, "vector"))
    known = {"license", "creator", "url", "datePublished", "citeAs"}
    assert known.isdisjoint(croissant(reader, "vector", About(), COUNTS, "."))
    told = croissant(reader, "vector", ABOUT, COUNTS, ".")
    assert known <= set(told)
    assert told["description"] == "A toy. 8 episodes of Arm-v0, 120 transitions, in the RLDS format."


def test_a_file_that_is_missing_is_left_out(tmp_path):
    path = write_data(tmp_path, "vector")
    shard = sorted(path.glob("*tfrecord*"))[0]
    shard.unlink()
    assert shard.name not in json.dumps(croissant(RldsReader(path), "vector", About(), COUNTS, ".")["distribution"][:-1])


def kinds(folder):
    for kind in SPECS:
        yield kind, write_data(folder / "ours", kind)
    yield "robot", foreign_data.robot(folder)
    yield "grid", foreign_data.grid(folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlcroissant_takes_it_without_an_error_or_a_warning(tmp_path, caplog):
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    for name, path in kinds(tmp_path):
        reader = RldsReader(path, lenient=True)
        file = tmp_path / "cards" / name / "croissant.json"
        write_json(file, croissant(reader, name, ABOUT, COUNTS, os.path.relpath(path, file.parent)))
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            dataset = mlcroissant.Dataset(jsonld=str(file))
        assert [record.message for record in caplog.records] == [], name
        assert dataset.metadata.ctx.issues.errors == set()
        assert dataset.metadata.ctx.issues.warnings == set()
        assert [record["splits/name"] for record in dataset.records("splits")] == list(reader.splits)
        assert {record_set.id for record_set in dataset.metadata.record_sets} == {"splits", "episodes"}
