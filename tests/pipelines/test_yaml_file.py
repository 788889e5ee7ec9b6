"""A fault in YAML is named by its file, line and column."""

from pathlib import Path

import pytest

from pipelines.yaml_file import read_yaml
from rl_datasets.errors import HindcastError


def read(tmp_path: Path, content: str | bytes) -> object:
    path = tmp_path / "params.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_yaml(path)


def test_numbers_and_words_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    assert read(tmp_path, "{a: 3e-4, b: on, c: [1, 2]}") == {"a": 3e-4, "b": "on", "c": [1, 2]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", r"params\.yaml, line 3, column 2, is not valid YAML: .*expected ',' or '\]'"),
        ("a: 1\n  b: 2\n", r"params\.yaml, line 2, column 4, is not valid YAML: mapping values are not allowed here"),
        ("a:\n\tb: 2\n", r"params\.yaml, line 2, column 1, is not valid YAML: .*'\\t'"),
        ("a: 1\na: 2\n", r"params\.yaml, line 2, column 1, is not valid YAML: .*duplicate key"),
        ("a: *b\n", r"params\.yaml, line 1, column 4, is not valid YAML: .*undefined alias"),
        ("a: 1\nday: 2026-02-30\n", r"params\.yaml, line 2, column 6, is not valid YAML: '2026-02-30' is no date: day is out of range"),
        ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> other\n", r"params\.yaml, line 2: a merge left its marker '<<<<<<< HEAD'"),
        ("b: 2\n=======\nb: 3\n", r"params\.yaml, line 2: a merge left its marker '======='.*--ours"),
        (b"a: \xff\n", r"params\.yaml is not text in UTF-8: byte 3 is 0xff"),
        ("a: &x\n  b: *x\n", r"params\.yaml is not valid YAML: Circular reference"),
        ("[" * 600, r"params\.yaml is not valid YAML: maximum recursion depth"),
        ("? [1, 2]\n: 3\n", r"params\.yaml.* is not valid YAML: .*keys must be"),
        ("a: \0\n", r"params\.yaml.* is not valid YAML: .*special characters"),
    ],
)
def test_a_fault_is_named_by_its_place(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(HindcastError, match=message) as error:
        read(tmp_path, content)
    assert "<unicode string>" not in str(error.value)
    assert "\n" not in str(error.value)
