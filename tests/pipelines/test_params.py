"""params.yaml: what is read, and that each fault is named by its key's path, its value and what is allowed."""

import re
from pathlib import Path

import pytest

from pipelines.params import load_params, validate_all
from rl_datasets.errors import HindcastError

VALID = """
datasets:
  toy:
    builder: gymnasium
    version: 1.0.0
    seed: 0
    source: requirements.lock
    options: {env_id: CartPole-v1, episodes: 10, policy: {kind: random}}
checks: {default: {}}
split: {fractions: {train: 0.8, validation: 0.1, test: 0.1}, seed: 0}
learners:
  bc: {small: {learning_rate: 3e-4}}
experiments:
  toy_bc: {dataset: toy, algorithm: bc, preset: small, train: {seeds: [0], updates: 10, batch_size: 4}, evaluate: {episodes: 2, seed: 0}}
runtime: {workers: 2}
"""


def load(tmp_path: Path, text: str):
    path = tmp_path / "params.yaml"
    path.write_text(text)
    params = load_params(path)
    validate_all(params)
    return params


def test_reads_numbers_as_dvc_does(tmp_path):
    params = load(tmp_path, VALID)
    assert params.learners["bc"]["small"]["learning_rate"] == 3e-4
    assert params.learner_params("toy_bc").learning_rate == 3e-4
    assert params.builder_options("toy").episodes == 10


def test_models_are_frozen_and_hashable(tmp_path):
    params = load(tmp_path, VALID)
    assert hash(params.learner_params("toy_bc")) == hash(load(tmp_path, VALID).learner_params("toy_bc"))
    with pytest.raises(ValueError, match="frozen"):
        params.experiments["toy_bc"].train.updates = 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed: 0\n    source", "sed: 0\n    source", r"datasets\.toy\.sed: unknown key \(value 0\); did you mean 'seed'\?"),
        ("seed: 0\n    source", "source", r"datasets\.toy\.seed: missing"),
        ("version: 1.0.0", "version: one", r"datasets\.toy\.version: found 'one'; .*\\d"),
        ("source: requirements.lock", "source: /etc/passwd", r"datasets\.toy\.source: found '/etc/passwd'; .*inside the project"),
        ("source: requirements.lock", "source: ../other", r"datasets\.toy\.source: found '\.\./other'; .*inside the project"),
        ("train: 0.8", "train: 1.8", r"split\.fractions\.train: found 1\.8; .*less than or equal to 1"),
        ("train: 0.8", "train: 0.7", r"split\.fractions: .*sum to 0\.9"),
        ("updates: 10", "updates: 0", r"experiments\.toy_bc\.train\.updates: found 0; .*greater than 0"),
        ("updates: 10", "updates: '10'", r"experiments\.toy_bc\.train\.updates: found '10'; .*valid integer"),
        ("updates: 10", "updates: true", r"experiments\.toy_bc\.train\.updates: found True; .*valid integer"),
        ("batch_size: 4", "batch_size: 3e-4", r"experiments\.toy_bc\.train\.batch_size: found 0\.0003; .*integer"),
        ("seeds: [0]", "seeds: [1, 1]", r"experiments\.toy_bc\.train\.seeds: found \[1, 1\]; seeds repeat: \[1, 1\]"),
        ("dataset: toy", "dataset: tow", r"experiments\.toy_bc\.dataset: found 'tow'; the data sets are: toy\. Did you mean 'toy'\?"),
        ("preset: small", "preset: smal", r"experiments\.toy_bc\.preset: found 'smal'; .*learners\.bc.* small"),
        (
            "evaluate: {",
            "evaluate: {fitted_q: {update: 3}, ",
            r"evaluate\.fitted_q\.update: unknown key \(value 3\); did you mean 'updates'\?",
        ),
        ("algorithm: bc", "algorithm: bd", r"experiments\.toy_bc\.algorithm: found 'bd'; .*bc"),
        ("default: {}", "other: {}", r"checks\.default is missing"),
        ("default: {}", "default: {}, other: {}", r"checks\.other: found 'other'; the data sets are: default, toy"),
        ("workers: 2", "workers: two", r"runtime\.workers: found 'two'; .*valid integer"),
        ("builder: gymnasium", "builder: gymnasum", r"datasets\.toy\.builder: There is no builder 'gymnasum'\. Known: .*gymnasium"),
        ("episodes: 10", "episods: 10", r"datasets\.toy\.options\.episods: unknown key"),
        ("learning_rate: 3e-4", "learning_rate: -1", r"learners\.bc\.small\.learning_rate: found -1; .*greater than 0"),
        ("learning_rate: 3e-4", "learning_rate: .inf", r"learners\.bc\.small\.learning_rate: found inf; .*finite"),
        ("learning_rate: 3e-4", "hidden_sizes: [0]", r"learners\.bc\.small\.hidden_sizes\.0: found 0; .*greater than 0"),
        ("source: requirements.lock", "source: .", r"datasets\.toy\.source: found '\.'; must name a file or folder"),
        (
            "seed: 0\n",
            "seed: 0\n    exclude: [a, b, a]\n",
            r"datasets\.toy\.exclude: found \['a', 'b', 'a'\]; 'a' is listed 2 times: list each id once$",
        ),
        ("seed: 0\n", "seed: 0\n    exclude: ['']\n", r"datasets\.toy\.exclude: found \[''\]; an id is empty"),
        (
            "default: {}",
            "default: {replay: {episodes: some}}",
            r"params\.yaml:\n  checks\.default\.replay\.episodes: found 'some'; .*'all', or .*$",
        ),
        ("default: {}", "default: {outliers: }", r"checks\.default\.outliers: found None; a severity \(fail, quarantine, warn or off\) or"),
        (
            "seed: 0\n",
            "seed: 0\n    about: {date_published: '2026-02-30'}\n",
            r"date_published: found '2026-02-30'; no day of the calendar",
        ),
        (
            "train: 0.8, validation: 0.1, test: 0.1}",
            "train: 1.0, validation: 0, test: 0}, datasets: {toy: {grup: a}}",
            r"params\.yaml:\n  split\.datasets\.toy\.grup: unknown key \(value 'a'\); did you mean 'group'\?$",
        ),
        ("source: requirements.lock", "source: nope.txt", r"datasets\.toy\.source: found 'nope\.txt', but there is no such file"),
        ("kind: random", "kind: random, foo: 1", r"datasets\.toy\.options\.policy\.foo: unknown key \(value 1\); allowed here: kind$"),
        ("kind: random", "kind: epsilon, epsilon: 2", r"datasets\.toy\.options\.policy\.epsilon: found 2"),
        ("learning_rate: 3e-4", "lr: 3e-4", r"learners\.bc\.small\.lr: unknown key \(value 0\.0003\)"),
        ("runtime:", "runtim:", r"runtim: unknown key .*did you mean 'runtime'\?"),
    ],
)
def test_names_each_fault(tmp_path, old, new, message):
    assert old in VALID
    with pytest.raises(HindcastError, match=message):
        load(tmp_path, VALID.replace(old, new, 1))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("unit: transition", r"split\.datasets\.toy\.unit: found 'transition'; only 'episode' is possible"),
        ("seed: '3'", r"split\.datasets\.toy\.seed: found '3'; input should be a valid integer"),
        (
            "order: {time: at, validation_from: 5, test_from: 4}",
            r"split\.datasets\.toy\.order\.validation_from: found 5 and split\.datasets\.toy\.order\.test_from: found 4; test",
        ),
        (
            "order: {time: at}, stratify: return",
            r"split\.datasets\.toy\.stratify: found 'return' and split\.datasets\.toy\.order: found {'time': 'at'}; give either",
        ),
        (
            "order: {time: at, validation_from: 5}",
            r"split\.datasets\.toy\.order\.validation_from: found 5 and split\.fractions\.test: found 0\.1; order\.validation_from needs",
        ),
        ("order: {validation_from: 5}", r"split\.datasets\.toy\.order\.time: missing"),
    ],
)
def test_what_is_otherwise_for_a_data_set_is_named_by_its_key_and_nothing_else_is(tmp_path, wrong, words):
    with pytest.raises(HindcastError, match=rf"^params\.yaml:\n  {words}[^\n]*$"):
        load(tmp_path, VALID.replace("test: 0.1}, seed: 0}", f"test: 0.1}}, seed: 0, datasets: {{toy: {{{wrong}}}}}}}"))


def test_false_is_off(tmp_path):
    params = load(tmp_path, VALID.replace("default: {}", "default: {outliers: false}"))
    assert params.checks_of("toy").of("outliers").severity == "off"


def test_names_all_faults_at_once(tmp_path):
    with pytest.raises(HindcastError) as error:
        load(tmp_path, VALID.replace("updates: 10", "updates: 0").replace("workers: 2", "workers: 0"))
    assert len(re.findall(r"found 0;", str(error.value))) == 2


def test_names_all_names_at_once_that_are_not_defined(tmp_path):
    text = (
        VALID.replace("dataset: toy", "dataset: tow")
        .replace("preset: small", "preset: smal")
        .replace("default: {}", "default: {}, other: {}")
    )
    with pytest.raises(HindcastError) as raised:
        load(tmp_path, text)
    assert [line.split(":")[0] for line in str(raised.value).splitlines()] == [
        "params.yaml", "  experiments.toy_bc.dataset", "  experiments.toy_bc.preset", "  checks.other"
    ]  # fmt: skip


def test_an_unknown_learner_lists_the_known_ones(tmp_path):
    with pytest.raises(HindcastError, match=r"learners\.nosuch: There is no learner 'nosuch'\. Known: .*iql"):
        load(tmp_path, VALID.replace("  bc:", "  nosuch:").replace("algorithm: bc", "algorithm: nosuch"))


@pytest.mark.parametrize(("text", "message"), [("a: [", "not valid YAML"), ("- 1", "mapping of sections"), ("", "mapping of sections")])
def test_refuses_what_is_no_mapping(tmp_path, text, message):
    with pytest.raises(HindcastError, match=message):
        load(tmp_path, text)


def test_a_missing_file_says_where_to_run(tmp_path):
    with pytest.raises(HindcastError, match="project's root"):
        load_params(tmp_path / "params.yaml")
