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
