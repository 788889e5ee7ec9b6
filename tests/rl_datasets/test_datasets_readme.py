"""The page on how to add a data set: its builder runs as printed, and its entries are what params.yaml takes."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import rl_datasets.builders
from pipelines import collect
from pipelines.params import Params, validate_all
from rl_datasets.allocation import time_borders
from rl_datasets.builder import Context, known_builders, load_builder
from rl_datasets.manifest import read_manifest
from rl_datasets.schema import validate_episode
from rl_datasets.splits import SplitParams

REST = {"checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}
PAGE = (Path(__file__).parents[2] / "datasets" / "README.md").read_text(encoding="utf-8")


BLOCKS = [YAML(typ="safe").load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def entries() -> dict[str, Any]:
    return {name: entry for block in BLOCKS for name, entry in block.get("datasets", {}).items()}


@pytest.fixture
def thermostat(tmp_path, monkeypatch):
    """The builder of the page, in a folder that counts as builders/."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "thermostat.py").write_text(code)
    monkeypatch.setattr(rl_datasets.builders, "__path__", [*rl_datasets.builders.__path__, str(tmp_path)])
    yield
    sys.modules.pop("rl_datasets.builders.thermostat", None)


def test_the_builder_is_found_and_gives_valid_episodes(thermostat, tmp_path) -> None:
    assert "thermostat" in known_builders()
    module = load_builder("thermostat")
    builder = module.Builder(module.Options.model_validate(module.example(tmp_path)), Context("thermostat_random"))
    episodes = list(builder.episodes(0))
    assert len(episodes) == 4
    for episode in episodes:
        validate_episode(episode, builder.spec())
        temperature, power = episode.observation[:, 0], episode.action[:, 0]
        for t in range(episode.length):
            assert temperature[t + 1] == pytest.approx(temperature[t] + 2 * power[t] - 0.1 * (temperature[t] - 5), rel=1e-5)
            assert episode.reward[t] == pytest.approx(-abs(temperature[t + 1] - 20), rel=1e-5)


def test_the_entries_are_valid(thermostat) -> None:
    own = {name: entry for name, entry in entries().items() if entry["source"] == "requirements.lock"}
    assert set(own) == {"pendulum_noisy", "thermostat_random"}
    validate_all(Params.model_validate({"datasets": own, **REST}))


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if entry["source"].startswith("data/")])
def test_the_entries_of_imports_work_as_printed(name, tmp_path, monkeypatch) -> None:
    """Each is run on the files that its builder writes for its own example."""
    monkeypatch.chdir(tmp_path)
    entry = entries()[name]
    written, source = tmp_path / "example", tmp_path / entry["source"]
    written.mkdir()
    source.parent.mkdir(parents=True)
    Path(load_builder(entry["builder"]).example(written)["path"]).rename(source)
    params = Params.model_validate({"datasets": {name: entry}, **REST})
    validate_all(params)
    manifest = read_manifest(collect.run(name, params))
    assert manifest.counts["episodes"] >= 2
    assert manifest.counts["rows_read"] >= manifest.counts["transitions"] > 0


def test_the_options_of_splits_and_checks_are_valid() -> None:
    others = {section: value for block in BLOCKS for section, value in block.items() if section in ("split", "checks")}
    assert set(others) == {"split", "checks"}
    datasets = entries()
    params = Params.model_validate_json(json.dumps({**REST, "datasets": datasets, **others}, default=str))
    assert params.split_of("trips").group == "driver"
    assert params.split_of("walker").fractions.test == 0
    order = params.split_of("demonstrations").order
    assert order is not None
    assert time_borders([], order, params.split_of("demonstrations").fractions)["test"] == 1775001600.0
    assert params.checks_of("pendulum_noisy").of("replay").severity == "fail"
    listed = set(re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \|", PAGE, re.MULTILINE))
    assert set(SplitParams.model_fields) <= {name for names in listed for name in names}
