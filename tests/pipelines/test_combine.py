"""Data sets that go into another: params.yaml says so, and a small file links them."""

import json

import pytest

from pipelines import combine
from pipelines.collect import run as collect
from pipelines.params import Params
from rl_datasets.derived_example import write_parent
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import read_manifest, write_manifest
from rl_datasets.rlds import read_episodes


def params(**combine_entries) -> Params:
    made = {"builder": "combine", "version": "1.0.0", "seed": 0, "source": "artifacts/combine/both", "options": {}}
    parent = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "lock", "options": {}}
    datasets = {"north": parent, "south": parent, "both": made}
    return Params.model_validate(
        {"datasets": datasets, "combine": combine_entries, "checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}
    )


def test_a_combination_is_linked_and_collected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = params(both_north={"into": "both", "dataset": "north"}, both_south={"into": "both", "dataset": "south"})
    for name in ("north", "south"):
        raw = write_parent(tmp_path / "artifacts/raw", name) / "1.0.0"
        write_manifest(
            raw, read_manifest(raw).__class__(**{**vars(read_manifest(raw)), "parameters": wanted.dataset(name).model_dump(mode="json")})
        )
        combine.run(f"both_{name}", wanted)
    link = json.loads((tmp_path / "artifacts/combine/both/north.json").read_text())
    assert link["path"] == "artifacts/raw/north/1.0.0"
    made = collect("both", wanted)
    assert [entered.path for entered in read_manifest(made).inputs] == ["artifacts/raw/north/1.0.0", "artifacts/raw/south/1.0.0"]
    assert len(list(read_episodes(made, "raw"))) == 12


def test_wrong_entries_are_named():
    with pytest.raises(HindcastError, match=r"combine.x.dataset: found 'nort'.*Did you mean 'north'"):
        params(x={"into": "both", "dataset": "nort"})
    with pytest.raises(HindcastError, match="one that others go into has builder 'combine' and source 'artifacts/combine/north'"):
        params(x={"into": "north", "dataset": "south"})
    with pytest.raises(HindcastError, match="combine: found 'y'; the combinations are: x"):
        params(x={"into": "both", "dataset": "north"}).combination("y")
