"""The entries that the documentation prints are what params.yaml takes."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipelines.params import Params

ROOT = Path(__file__).parents[2]
DEFAULT = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/experiments.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_an_entry_of_the_docs_is_valid(block):
    added = YAML(typ="safe").load(block)
    params = Params.model_validate({**DEFAULT, **{section: {**DEFAULT[section], **entries} for section, entries in added.items()}})
    for dataset in added["datasets"]:
        assert params.builder_options(dataset)
    for experiment in added.get("experiments", ()):
        assert params.learner_params(experiment)


def test_there_are_entries():
    assert len(BLOCKS) == 3


def test_no_file_that_is_written_by_hand_has_over_400_lines():
    folders, generated = ("pipelines", "datasets", "trainer", "tests", "docs"), {".png", ".pyc"}
    files = [*ROOT.glob("*.*"), *(file for folder in folders for file in (ROOT / folder).rglob("*.*"))]
    files = [file for file in files if file.is_file() and file.suffix not in generated and not file.name.endswith(".lock")]
    lines = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert len(lines) > 300
    assert {name: count for name, count in lines.items() if count > 400} == {}
