"""hindcast export: a collected data set in another format, and the entry that it prints reads it back."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from ruamel.yaml import YAML

from pipelines.commands.export import run
from rl_datasets.builder import Context, load_builder
from rl_datasets.derived_example import LENGTHS, write_parent
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import read_manifest, write_manifest

ENTRY = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "lock", "options": {}}


@pytest.fixture
def collected(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rest = {"checks": {"default": {}}, "split": {}, "learners": {}, "experiments": {}}
    with Path("params.yaml").open("w") as file:
        YAML(typ="safe").dump({"datasets": {"north": ENTRY}, **rest}, file)
    raw = write_parent(tmp_path / "artifacts/raw", "north") / "1.0.0"
    write_manifest(raw, replace(read_manifest(raw), parameters=ENTRY))
    return tmp_path


@pytest.mark.parametrize(("style", "out"), [("d4rl", "out/north.hdf5"), ("minari", "out/north"), ("parquet", "north.parquet")])
def test_the_printed_entry_reads_it_back(collected, style, out):
    console = Console(file=io.StringIO(), width=200)
    run("north", style, Path(out), console)
    told = console.file.getvalue()
    assert f"6 episodes, {sum(LENGTHS)} transitions: {out}" in told
    assert "What the format cannot hold:" in told
    (entry,) = YAML(typ="safe").load(told.partition("An entry that reads it back:\n")[2]).values()
    module = load_builder(entry["builder"])
    builder = module.Builder(module.Options.model_validate(entry["options"]), Context("again", source=Path(entry["source"])))
    assert [episode.length for episode in builder.episodes(0)] == list(LENGTHS)
    assert not list(collected.rglob("*.partial"))
    with pytest.raises(HindcastError, match=f"{out} exists already"):
        run("north", style, Path(out), console)


def test_a_failure_leaves_nothing(collected):
    with pytest.raises(HindcastError, match="no export format 'csv'"):
        run("north", "csv", Path("out.csv"), Console(file=io.StringIO()))
    shard = next((collected / "artifacts/raw/north/1.0.0").glob("*.tfrecord*"))
    shard.chmod(0o644)
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(HindcastError, match="is damaged"):
        run("north", "parquet", Path("out.parquet"), Console(file=io.StringIO()))
    assert not [path for path in collected.iterdir() if "out" in path.name]
