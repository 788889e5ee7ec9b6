"""What a stage reads is refused where it was damaged, swapped, or made with other parameters or from other content."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pipelines import paths
from pipelines.inputs import parameters_of, read_input
from pipelines.params import Params
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import FILE_NAME, Input, Manifest, read_manifest, write_manifest

RAW, CHECK, SPLIT = paths.RAW / "pole/1.0.0", paths.CHECKS / "pole", paths.SPLITS / "pole/1.0.0"
MODEL, EVAL = paths.MODELS / "pole_bc", paths.EVALS / "pole_bc"
TABLE = "episode,return\n0,10.5\n1,11.5\n"


def params(**changes: Any) -> Params:
    """`changes` are values by their path in params.yaml, with two underscores for a dot."""
    train = {"seeds": [4, 2], "updates": 50, "batch_size": 8}
    experiment = {"dataset": "pole", "algorithm": "bc", "preset": "p", "train": train, "evaluate": {"episodes": 3, "seed": 0}}
    dataset = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "requirements.lock", "options": {"episodes": 5}}
    values: dict[str, Any] = {
        "datasets": {"pole": dataset},
        "checks": {"default": {}},
        "split": {},
        "learners": {"bc": {"p": {"hidden_sizes": [8]}}},
        "experiments": {"pole_bc": experiment},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        section = values
        for name in parents:
            section = section.setdefault(name, {})
        section[last] = value
    return Params.model_validate(values)


def make(folder: Path, job: str, *inputs: Input, digest: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("table.csv", "notes/list.json", "x.tfrecord-00000-of-00001"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(TABLE)
    write_manifest(folder, Manifest(job, digest or f"digest of {job}", parameters_of(job, params()), inputs))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An artifact of every stage, each made from those before it."""
    monkeypatch.chdir(tmp_path)
    made = [Input("pole", str(RAW), "digest of collect@pole"), Input("check", str(CHECK), "digest of check@pole")]
    make(RAW, "collect@pole")
    make(CHECK, "check@pole", made[0])
    make(SPLIT, "split@pole", *made)
    split = Input("pole", str(SPLIT), "digest of split@pole")
    make(MODEL, "train@pole_bc", split)
    make(EVAL, "evaluate@pole_bc", Input("policy", str(MODEL / "policies/seed_4"), "of the policy"), split)


def test_what_was_made_so_is_read(project: None) -> None:
    assert read_input(EVAL, "evaluate@pole_bc", params(), "table.csv", "notes/list.json") == read_manifest(EVAL)


def test_the_manifest_names_every_file_but_shards(project: None) -> None:
    assert set(read_manifest(RAW).files) == {"table.csv", "notes/list.json"}


@pytest.mark.parametrize(
    "content", ["", TABLE[: len(TABLE) // 2], TABLE.replace("10", "90"), "episode\n0\n1\n", "\0\xff", TABLE + "2,12\n"]
)
@pytest.mark.parametrize("name", ["table.csv", "notes/list.json"])
def test_a_file_that_was_cut_or_changed_is_named_with_what_was_expected(project: None, name: str, content: str) -> None:
    expected = read_manifest(RAW).files[name][:12]
    (RAW / name).write_text(content)
    message = rf"{RAW / name} \([\d,]+ bytes, SHA-256 [0-9a-f]{{12}}\) was made with {expected}: it was cut or changed since\."
    with pytest.raises(HindcastError, match=message) as error:
        read_input(RAW, "collect@pole", params(), name)
    assert f"'dvc checkout --force {RAW / name}', or rebuild it with 'dvc repro --force collect@pole'" in str(error.value)


def test_a_file_that_is_missing_or_came_from_elsewhere_is_named(project: None) -> None:
    (RAW / "table.csv").unlink()
    with pytest.raises(HindcastError, match=rf"{RAW}/table.csv is missing\. Restore it"):
        read_input(RAW, "collect@pole", params(), "table.csv")
    (RAW / "other.csv").write_text(TABLE)
    with pytest.raises(HindcastError, match=r"is not in manifest\.json beside it"):
        read_input(RAW, "collect@pole", params(), "other.csv")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"job": 1}', "\0"])
@pytest.mark.parametrize("damaged", [RAW, EVAL])
def test_a_damaged_manifest_is_named_wherever_in_the_chain_it_is(project: None, damaged: Path, text: str) -> None:
    (damaged / FILE_NAME).write_text(text)
    with pytest.raises(HindcastError, match=rf"{damaged}/manifest\.json (is not valid JSON|lacks)"):
        read_input(EVAL, "evaluate@pole_bc", params())


@pytest.mark.parametrize(
    ("old", "new"), [('"seed": 0', '"seed": 1'), ("digest of collect", "digest of nothing"), ('"inputs": []', '"inputs": {}')]
)
def test_a_manifest_that_was_edited_is_refused(project: None, old: str, new: str) -> None:
    text = (RAW / FILE_NAME).read_text()
    assert old in text
    (RAW / FILE_NAME).write_text(text.replace(old, new, 1))
    with pytest.raises(HindcastError, match=rf"{RAW}/manifest\.json was changed after it was made: .*'dvc checkout --force {RAW}/manifest"):
        read_input(RAW, "collect@pole", params())


def test_two_folders_that_were_swapped_are_refused(project: None) -> None:
    with pytest.raises(HindcastError, match=rf"{RAW} holds what collect@pole made, but what collect@arm makes is expected there"):
        read_input(RAW, "collect@arm", params())


@pytest.mark.parametrize(
    ("folder", "job", "path", "value", "message"),
    [
        (RAW, "collect@pole", "datasets__pole__options__episodes", 6, rf"{RAW} .*: datasets\.pole\.options\.episodes was 5 and is now 6\."),
        (RAW, "collect@pole", "datasets__pole__options__new", 1, r"datasets\.pole\.options\.new was 'nothing' and is now 1\."),
        (
            CHECK,
            "check@pole",
            "checks__pole",
            {"action_bounds": "warn"},
            r"checks\.pole\.action_bounds\.severity was 'fail' and is now 'warn'",
        ),
        (
            SPLIT,
            "split@pole",
            "split__seed",
            3,
            rf"{SPLIT} was made with other .*split\.seed was 0 and is now 3\. Run 'dvc repro split@pole'",
        ),
        (
            SPLIT,
            "split@pole",
            "datasets__pole__seed",
            9,
            rf"{RAW} .*: datasets\.pole\.seed was 0 and is now 9\. Run 'dvc repro collect@pole'",
        ),
        (MODEL, "train@pole_bc", "learners__bc__p__learning_rate", 0.5, r"learners\.bc\.p\.learning_rate was 0\.\d+ and is now 0\.5\."),
        (
            MODEL,
            "train@pole_bc",
            "experiments__pole_bc__train__batch_size",
            4,
            r"experiments\.pole_bc\.train\.batch_size was 8 and is now 4",
        ),
        (EVAL, "evaluate@pole_bc", "experiments__pole_bc__evaluate__seed", 8, rf"{EVAL} .*experiments\.pole_bc\.evaluate\.seed was 0"),
        (
            EVAL,
            "evaluate@pole_bc",
            "learners__bc__p__hidden_sizes",
            [4],
            rf"{MODEL} .*learners\.bc\.p\.hidden_sizes was \[8\] and is now \[4\]",
        ),
        (EVAL, "evaluate@pole_bc", "datasets__pole__version", "1.1.0", r"datasets\.pole\.version was '1\.0\.0' and is now '1\.1\.0'"),
    ],
)
def test_other_parameters_are_named_with_both_values(project: None, folder: Path, job: str, path: str, value: Any, message: str) -> None:
    with pytest.raises(HindcastError, match=message) as error:
        read_input(folder, job, params(**{path: value}))
    assert "dvc repro" in str(error.value)


def test_an_option_that_is_newer_than_the_artifact_counts_only_where_it_is_used(project: None) -> None:
    manifest = read_manifest(MODEL)
    older = {**manifest.parameters, "train": {k: v for k, v in manifest.parameters["train"].items() if k != "log_every"}}
    write_manifest(MODEL, dataclasses.replace(manifest, parameters=older))
    read_input(MODEL, "train@pole_bc", params())
    with pytest.raises(HindcastError, match=r"experiments\.pole_bc\.train\.log_every was 'nothing' and is now 7"):
        read_input(MODEL, "train@pole_bc", params(experiments__pole_bc__train__log_every=7))


def test_what_is_not_here_and_how_a_run_is_made_do_not_count(project: None) -> None:
    (RAW / FILE_NAME).unlink()
    read_input(SPLIT, "split@pole", params(datasets__pole__seed=9))
    read_input(SPLIT, "split@pole", params(runtime__workers=7))


def test_what_was_made_from_other_content_is_refused(project: None) -> None:
    make(RAW, "collect@pole", digest="another digest")
    with pytest.raises(HindcastError, match=rf"{CHECK} was made from {RAW} when that had the digest digest of co; now it has another"):
        read_input(CHECK, "check@pole", params())


def test_a_data_set_that_a_policy_of_a_former_experiment_collected_is_read(project: None) -> None:
    make(RAW, "collect@pole", Input("policy", str(MODEL / "policies/seed_4"), "of the policy"))
    asked = params()
    without = asked.model_copy(update={"experiments": {}})
    assert read_input(RAW, "collect@pole", without).inputs[0].name == "policy"
