"""The train stage on a small data set whose actions follow from its observations, in folders of its own."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines import paths, train
from pipelines.inputs import parameters_of
from pipelines.params import Params
from rl_datasets.division import divide
from rl_datasets.errors import HindcastError
from rl_datasets.files import read_json, write_json
from rl_datasets.manifest import Manifest, read_manifest, write_manifest
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.splits import SplitParams
from trainer.bundle import load_bundle
from trainer.data import batch_bytes
from trainer.evaluation import EvaluationEpisode

SPEC = EnvSpec("Sign-v0", ArraySpec((2,), "float32"), ArraySpec((), "int64", 0, 1, 2))
SPLIT = Path("artifacts/splits/sign/1.0.0")
OUT = Path("artifacts/models/exp")
EPISODES, LENGTH = 60, 8


def episode(number: int) -> Episode:
    """The action says whether the first observed number is above 50: BC on raw observations would not learn it in a few steps."""
    rng = np.random.default_rng(number)
    observation = rng.normal([50, 0], [10, 1], (LENGTH + 1, 2)).astype(np.float32)
    action, ones = (observation[:, 0] > 50).astype(np.int64), np.ones(LENGTH + 1, np.float32)
    action[-1] = ones[-1] = 0
    return Episode(f"{number:03}", observation, action, ones, ones, False, {"seed": number, "policy": "sign", "environment": "Sign-v0"})


def params(preset: dict[str, Any] | None = None, **changes: Any) -> Params:
    options = {"seeds": [4, 0], "updates": 90, "batch_size": 32, "log_every": 40, **changes}
    experiment = {"dataset": "sign", "algorithm": "bc", "preset": "tiny", "train": options, "evaluate": {"episodes": 3, "seed": 0}}
    dataset = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "requirements.lock", "options": {}}
    tiny = {"hidden_sizes": [16], "learning_rate": 0.02, **(preset or {})}
    return Params.model_validate(
        {
            "datasets": {"sign": dataset},
            "checks": {"default": {}},
            "split": {},
            "learners": {"bc": {"tiny": tiny}},
            "experiments": {"exp": experiment},
        }
    )


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder with a split data set."""
    root = tmp_path_factory.mktemp("project")
    raw = root / "artifacts/raw/sign/1.0.0"
    written = write_rlds(raw, "sign", "1.0.0", SPEC, {"raw": map(episode, range(EPISODES))})
    write_manifest(raw, Manifest("collect@sign", written.digest, parameters_of("collect@sign", params())))
    divide(raw, root / SPLIT, "sign", "1.0.0", SplitParams(), ())
    return root


@pytest.fixture(scope="module")
def trained(split: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, and a model."""
    root = tmp_path_factory.mktemp("trained") / "project"
    shutil.copytree(split, root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert train.run("exp", params()) == OUT
    return root


@pytest.fixture
def project(split: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(split, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_writes_policies_that_learnt_curves_and_a_manifest(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    run = [f"tensorboard/seed_{seed}/{split}/events.out.tfevents.0" for seed in (0, 4) for split in ("train", "validation")]
    policies = [f"policies/seed_{seed}/{name}" for seed in (0, 4) for name in ("bundle.json", "policy.safetensors")]
    assert list(files(OUT)) == sorted(["curves.csv", "manifest.json", *policies, *run])

    curves = pd.read_csv(OUT / "curves.csv")
    steps = curves[curves["split"] == "train"].groupby("seed")["step"].apply(list).to_dict()
    assert steps == {0: [40, 80, 90], 4: [40, 80, 90]}
    assert set(curves["split"]) == {"train", "validation"}

    observation = np.random.default_rng(0).normal([50, 0], [10, 1], (500, 2))
    for seed in (0, 4):
        bundle = load_bundle(OUT / "policies" / f"seed_{seed}")
        assert np.mean(bundle.act(observation) == (observation[:, 0] > 50)) > 0.95
        assert (bundle.seed, bundle.spec, bundle.dataset.digest) == (seed, SPEC, read_manifest(SPLIT).digest)
    assert not (paths.CHECKPOINTS / "exp").exists()

    manifest, transitions = read_manifest(OUT), read_json(SPLIT / "stats.json")["transitions"]
    assert manifest.job == "train@exp"
    assert [(source.path, source.digest) for source in manifest.inputs] == [(SPLIT.as_posix(), read_manifest(SPLIT).digest)]
    assert manifest.counts == {"updates": 90, "transitions": transitions, "dropped_tail": transitions % 32}
    assert manifest.parameters["learner"]["learning_rate"] == 0.02
    assert "evaluate" not in manifest.parameters
    assert str(trained) not in "".join(path.read_bytes().decode(errors="ignore") for path in OUT.rglob("*") if path.is_file())


@pytest.mark.slow
def test_runs_in_another_folder_to_the_same_bytes(trained: Path, project: Path) -> None:
    train.run("exp", params())
    assert files(project / OUT) == files(trained / OUT)


@pytest.mark.slow
def test_a_loss_that_explodes_keeps_the_checkpoint_and_the_old_model(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OUT.mkdir(parents=True)
    (OUT / "curves.csv").write_text("old")
    monkeypatch.setattr("trainer.data.scan_length", lambda *_: 1)  # so that there is a checkpoint after the first update
    kept = r"The last good checkpoint, of 1 updates, is kept in artifacts/checkpoints/exp\."
    with pytest.raises(HindcastError, match=rf"Try a lower learning_rate.* It was seed \d, update 1 .*policy_loss.*{kept}"):
        train.run("exp", params({"learning_rate": 1e37}))
    assert files(OUT) == {"curves.csv": b"old"}
    assert (paths.CHECKPOINTS / "exp" / "1").is_dir()


@pytest.mark.slow
def test_how_batches_are_fed_changes_no_byte(trained: Path, project: Path) -> None:
    """The fixture's feed is `auto`, which on so small a split is the device."""
    values = params().model_dump(mode="json")
    train.run("exp", Params.model_validate({**values, "runtime": {"feed": "stream"}}))
    assert files(project / OUT) == files(trained / OUT)


@pytest.mark.slow
def test_chooses_evaluates_stops_and_warns_as_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`evaluate_policies` is stood in for: two seeds whose returns fall after the second point."""
    returns = iter([(1, 2), (3, 5), (2, 4), (1, 3), (0, 2)])
    made: list[str] = []

    def played(act: Any, make_env: Any, *, policies: int, episodes: int, seed: int) -> list[EvaluationEpisode]:
        observation = np.zeros((policies, 4, 2), np.float32)
        assert act(observation).shape == (policies, 4)
        made.append(make_env.args[0])
        values = next(returns)
        return [EvaluationEpisode(p, e, seed, values[p] + e - 0.5, 7, True, None) for p in range(policies) for e in range(episodes)]

    monkeypatch.setattr("trainer.evaluation.evaluate_policies", played)
    select = {"metric": "environment_return", "mode": "max", "patience": 2}
    train.run("exp", params({"learning_rate": 0.5}, select=select, evaluate_every=20, evaluate_episodes=2, log_every=10))
    curves = pd.read_csv(OUT / "curves.csv")
    played_points = curves[curves["split"] == "environment"]
    assert played_points["step"].tolist() == [20, 20, 40, 40, 60, 60, 80, 80]  # and then both are out of patience
    assert played_points.groupby("seed")["environment_return"].apply(list).to_dict() == {4: [1, 3, 2, 1], 0: [2, 5, 4, 3]}
    assert set(played_points["environment_length"]) == {7}
    assert made == ["Sign-v0"] * 4
    manifest = read_manifest(OUT)
    assert manifest.counts["updates"] == 80
    assert "Training stopped after 80 of 90 updates: every seed was out of patience." in manifest.notes
    chosen = "maximum of environment_return (returns in the environment, which offline data do not have), of a run of 80 updates: "
    assert f"Policies were chosen by the {chosen}seed 4 update 40 (3), seed 0 update 40 (5)." in manifest.notes
    warnings = [note for note in manifest.notes if ", entropy gone: " in note]
    assert warnings, manifest.notes
    assert capsys.readouterr().err.count("entropy gone") == len(warnings)  # each is printed once, and kept


@pytest.mark.slow
def test_a_choice_by_validation_is_a_policy_of_that_update(project: Path) -> None:
    """A run that stops where another one chose ends in the same policies."""
    train.run("exp", params(select={"metric": "loss", "mode": "max"}, log_every=30))  # the largest loss, so not the final policy
    chosen = {name: data for name, data in files(OUT / "policies").items() if name.endswith("safetensors")}
    assert any("seed 4 update 30" in note and "seed 0 update 30" in note for note in read_manifest(OUT).notes)
    train.run("exp", params(updates=30, log_every=30))
    assert chosen == {name: data for name, data in files(OUT / "policies").items() if name.endswith("safetensors")}


def test_returns_choose_only_with_evaluations(project: Path) -> None:
    with pytest.raises(ValueError, match=r"select\.metric environment_return needs evaluate_every"):
        params(select={"metric": "environment_return"})


def test_a_split_smaller_than_a_batch_validates_on_one(project: Path) -> None:
    count = json.loads((SPLIT / "manifest.json").read_text())["counts"]["validation_transitions"]
    batches = train.validation_batches(SPLIT, 1000, {"readers": 1, "memory_cap_mb": 64})
    assert batches is not None
    assert batches.reward.shape == (1, count)
    batches = train.validation_batches(SPLIT, 3, {"readers": 1, "memory_cap_mb": 64})
    assert batches is not None
    assert batches.observation.shape == (min(16, count // 3), 3, 2)


def test_statistics_of_other_data_are_refused(project: Path) -> None:
    write_json(SPLIT / "stats.json", {**read_json(SPLIT / "stats.json"), "transitions": 7})
    with pytest.raises(HindcastError, match=r"stats\.json .* it was cut or changed since\..* 'dvc repro --force split@sign'"):
        train.run("exp", params())
    assert not OUT.exists()


@pytest.mark.parametrize("name", ["stats.json", "manifest.json"])
def test_a_missing_file_of_the_split_is_one_message(project: Path, name: str) -> None:
    (SPLIT / name).unlink()
    with pytest.raises(HindcastError, match=f"{name} is missing. R"):
        train.run("exp", params())


def test_an_unknown_experiment_is_one_message(project: Path) -> None:
    with pytest.raises(HindcastError, match="found 'exq'"):
        train.run("exq", params())


def test_the_bar_stays_when_training_is_done_and_goes_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    with train.reporting("train@exp"):
        pass
    assert "train@exp" in capsys.readouterr().err
    with pytest.raises(ValueError, match="mine"), train.reporting("train@exp"):
        raise ValueError("mine")
    assert capsys.readouterr().err.strip() == ""


def test_batch_bytes() -> None:
    assert batch_bytes(SPEC, 10) == 10 * (2 * 8 + 8 + 4 + 4)
