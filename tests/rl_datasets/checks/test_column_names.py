"""The names of joined columns go from the import to findings and card; data without names are stored as they always were."""

import csv
from pathlib import Path

import numpy as np
import pytest

from rl_datasets.about import About
from rl_datasets.builder import RAW_SPLIT, Context, load_builder
from rl_datasets.checks import CheckParams, Expected
from rl_datasets.checks.card import write_card
from rl_datasets.checks.gate import run_gate
from rl_datasets.rlds import RldsReader, write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec

OPTIONS = {
    "env_id": "Trips",
    "observation": ["speed", "grade_*"],
    "action": {"columns": "throttle", "minimum": 0, "maximum": 1},
    "reward": "fuel",
    "ends": {"kind": "ids", "column": "trip"},
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trips")
    with (folder / "trips.csv").open("w", newline="") as file:
        log = csv.writer(file)
        log.writerow(["trip", "speed", "grade_1", "grade_2", "throttle", "fuel"])
        rng = np.random.default_rng(0)
        for trip in range(12):
            for step in range(30):
                speed = 1e9 if (trip, step) == (7, 12) else rng.normal(20, 3)
                log.writerow([trip, speed, *rng.normal(0, 1, 2), rng.uniform(), rng.normal()])
    module = load_builder("table")
    builder = module.Builder(module.Options.model_validate(OPTIONS), Context("trips", source=folder / "trips.csv"))
    path = folder / "trips" / "1.0.0"
    write_rlds(path, "trips", "1.0.0", builder.spec(), {RAW_SPLIT: builder.episodes(0)})
    return path


def test_a_finding_and_the_card_name_the_column(imported, tmp_path):
    reader = RldsReader(imported)
    assert reader.spec.observation.columns == ("speed", "grade_1", "grade_2")
    expected = Expected.of(reader.spec)
    report, shown = run_gate(reader, [RAW_SPLIT], expected, CheckParams())
    (finding,) = report.results["outliers"].findings
    assert (finding.episode_id, finding.step) == ("7", 12)
    assert finding.found.startswith("observation[speed] = 1e+09")
    write_card(tmp_path, "trips", "1.0.0", expected, About(), report, shown)
    page, markdown = ((tmp_path / name).read_text() for name in ("card.html", "card.md"))
    for name in ("observation[speed]", "observation[grade_1]", "observation[grade_2]", "action"):
        assert f"<figcaption>{name}</figcaption>" in page
        assert name in markdown
    assert "observation[0]" not in page + markdown


def test_a_spec_without_names_is_stored_as_it_was():
    spec = EnvSpec("Toy", {"a": ArraySpec((2,), "float32", columns=("x", "y")), "b": ArraySpec((2, 2), "float32")}, ArraySpec((), "int64"))
    stored = spec.to_json()
    assert stored["observation"]["dict"]["a"]["array"]["columns"] == ["x", "y"]
    assert set(stored["observation"]["dict"]["b"]["array"]) == {"shape", "dtype", "minimum", "maximum", "num_values"}
    assert EnvSpec.from_json(stored) == spec


@pytest.mark.parametrize(
    ("spec", "element", "subscript"),
    [
        (ArraySpec((2,), "float32", columns=("x", "y")), 1, "[y]"),
        (ArraySpec((3,), "float32"), 2, "[2]"),
        (ArraySpec((2, 3), "float32"), 4, "[1, 1]"),
        (ArraySpec((), "float32"), 0, ""),
    ],
)
def test_an_element_is_named_by_its_column_or_its_place(spec, element, subscript):
    assert spec.subscript(element) == subscript
