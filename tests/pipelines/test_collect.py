"""The collect stage: what lies where, equal bytes from equal inputs, and nothing half-written."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest
from pydantic import ValidationError

from pipelines import collect
from pipelines.params import Params
from rl_datasets.environments import env_spec, make_env
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import read_manifest
from rl_datasets.rlds import read_episodes, read_spec
from rl_datasets.rollout import episode_seed
from trainer.bundle import Dataset, load_bundle, make_bundle
from trainer.learner import load_learner
from trainer.preprocessing import make_preprocessor

FOLDER = Path("artifacts/raw/toy/1.0.0")
OPTIONS = {"env_id": "CartPole-v1", "episodes": 12, "policy": {"kind": "random"}}
POLICY = Path("artifacts/models/teacher/policies/seed_0")


def params(options: dict[str, Any], workers: int = 1, source: str = "requirements.lock") -> Params:
    entry = {"builder": "gymnasium", "version": "1.0.0", "seed": 7, "source": source, "options": options}
    sections = {"split": {}, "learners": {}, "experiments": {}, "runtime": {"workers": workers}}
    return Params.model_validate({"datasets": {"toy": entry}, "checks": {"default": {}}, **sections})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir())}


def test_writes_episodes_and_says_what_they_are(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collect.run("toy", params(OPTIONS)) == FOLDER
    episodes = list(read_episodes(FOLDER, "raw"))
    assert [episode.metadata["seed"] for episode in episodes] == [episode_seed(7, index) for index in range(12)]
    assert read_spec(FOLDER) == env_spec(make_env("CartPole-v1"), "CartPole-v1")
    manifest = read_manifest(FOLDER)
    transitions = sum(episode.length for episode in episodes)
    assert manifest.job == "collect@toy"
    assert manifest.counts == {"episodes": 12, "transitions": transitions, "lost_episodes": 0}
    assert manifest.parameters["options"] == OPTIONS
    assert manifest.parameters["seed"] == 7
    assert {"gymnasium", "numpy"} <= set(manifest.packages)
    assert list(manifest.notes) == ["reward: the environment's float64 is stored as float32."]
    told = capsys.readouterr().err
    assert f"12 episodes, {transitions} transitions" in told
    assert str(FOLDER) in told


def test_workers_and_a_second_run_give_the_same_bytes(project: Path) -> None:
    collect.run("toy", params(OPTIONS))
    first = files()
    collect.run("toy", params(OPTIONS, workers=2))
    assert files() == first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**OPTIONS, "env_id": "CartPole-v9"}, "no environment 'CartPole-v9'"),
        ({**OPTIONS, "episode": 3}, r"datasets\.toy\.options\.episode: unknown key.*did you mean 'episodes'"),
        ({**OPTIONS, "env_kwargs": {"gravity": 1}}, "could not be made"),
        ({**OPTIONS, "policy": {"kind": "scripted", "name": "pendulum_swing_up"}}, "does not fit environment 'CartPole-v1'"),
    ],
)
def test_an_error_leaves_what_was_there(project: Path, options: dict[str, Any], message: str) -> None:
    collect.run("toy", params(OPTIONS))
    before = files()
    with pytest.raises(HindcastError, match=message):
        collect.run("toy", params(options))
    assert files() == before
    assert [path.name for path in FOLDER.parent.iterdir()] == ["1.0.0"]


BRITTLE = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Brittle(CartPoleEnv):
    def __init__(self, every, render_mode=None):
        super().__init__()
        self.every = every

    def reset(self, *, seed=None, options=None):
        if seed % self.every == 0:
            raise RuntimeError(f"seed {seed} broke it")
        return super().reset(seed=seed)

gym.register("Brittle-v0", entry_point=Brittle, max_episode_steps=9)
"""


@pytest.fixture
def brittle(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Options of an environment that raises for every second seed; worker processes find its module on the path."""
    (project / "brittle_environment.py").write_text(BRITTLE)
    monkeypatch.syspath_prepend(str(project))
    yield {**OPTIONS, "episodes": 40, "env_id": "brittle_environment:Brittle-v0", "env_kwargs": {"every": 2}}
    gym.registry.pop("Brittle-v0", None)
    sys.modules.pop("brittle_environment", None)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_on_the_way_leaves_nothing(brittle: dict[str, Any], workers: int) -> None:
    with pytest.raises(HindcastError, match=r"raised in 40 episodes in a row.*RuntimeError: seed \d+ broke it"):
        collect.run("toy", params({**brittle, "env_kwargs": {"every": 1}}, workers))
    assert not list(FOLDER.parent.glob("**/*"))


def test_many_notes_are_shown_in_part_and_kept_whole(brittle: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    collect.run("toy", params(brittle))
    manifest = read_manifest(FOLDER)
    assert manifest.counts["lost_episodes"] == 20
    assert len(manifest.notes) == 21
    told = capsys.readouterr().err
    assert "20 lost episodes" in told
    assert "11 more notes" in told


@pytest.fixture
def teacher(project: Path) -> Path:
    """An untrained policy for CartPole, as training leaves one."""
    spec = env_spec(make_env("CartPole-v1"), "CartPole-v1")
    module = load_learner("bc")
    preset = module.Params(hidden_sizes=(8,))
    learner = module.Learner(preset, spec, 1)
    preprocessor = make_preprocessor(preset, spec, {"observation": {"observation": {"mean": [0.0] * 4, "std": [1.0] * 4}}})
    policy = jax.device_get(learner.policy(learner.init(jax.random.key(0))))
    dataset = Dataset("toy", "1.0.0", "d")
    bundle = make_bundle(
        spec=spec, algorithm="bc", params=preset, updates=1, seed=0, preprocessor=preprocessor, policy=policy, dataset=dataset
    )
    bundle.save(POLICY)
    return POLICY


@pytest.mark.slow
def test_a_trained_policy_collects_the_next_data_set(teacher: Path) -> None:
    options = {**OPTIONS, "episodes": 3, "policy": {"kind": "bundle", "path": str(teacher)}}
    collect.run("toy", params(options, source="artifacts/models/teacher"))
    bundle = load_bundle(teacher)
    for episode in read_episodes(FOLDER, "raw"):
        np.testing.assert_array_equal(episode.action[:-1], bundle.act(episode.observation)[:-1])
        assert episode.metadata["policy"] == str(teacher)
    manifest = read_manifest(FOLDER)
    assert [entry.path for entry in manifest.inputs] == [str(teacher)]
    assert {"gymnasium", "jax"} <= set(manifest.packages)
    alone = files()
    collect.run("toy", params(options, workers=2, source="artifacts/models/teacher"))
    assert files() == alone


def test_what_is_read_must_lie_in_the_source(teacher: Path) -> None:
    options = {**OPTIONS, "policy": {"kind": "bundle", "path": str(teacher)}}
    with pytest.raises(
        HindcastError, match=r"datasets\.toy\.source: found 'requirements.lock', but the data set is made from 'artifacts/models"
    ):
        collect.run("toy", params(options))


def test_a_bundle_that_is_not_there_is_one_message(project: Path) -> None:
    options = {**OPTIONS, "policy": {"kind": "bundle", "path": str(POLICY)}}
    with pytest.raises(HindcastError, match=r"bundle.json is missing"):
        collect.run("toy", params(options, source="artifacts/models/teacher"))


def test_an_error_is_one_message_and_exit_code_1(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "params.yaml").write_text(
        "datasets:\n  toy:\n    builder: gymnasium\n    version: 1.0.0\n    seed: 7\n    source: requirements.lock\n"
        "    options: {env_id: CartPole-v9, episodes: 12, policy: {kind: random}}\n"
        "checks: {default: {}}\nsplit: {}\nlearners: {}\nexperiments: {}\n"
    )
    monkeypatch.setattr(sys, "argv", ["collect", "toy"])
    with pytest.raises(SystemExit, match="1"):
        collect.main("collect", collect.run)
    told = capsys.readouterr().err
    assert told.startswith("collect@toy failed. There is no environment 'CartPole-v9' here. Its newest version is 'CartPole-v1'.")
    assert "Traceback" not in told


def test_excluded_episodes_are_left_out_and_no_other_changes(project: Path) -> None:
    collect.run("toy", params(OPTIONS))
    whole = {episode.episode_id: episode for episode in read_episodes(FOLDER, "raw")}
    section = params(OPTIONS).model_dump()
    section["datasets"]["toy"]["exclude"] = ["00000003", "00000007"]
    collect.run("toy", Params.model_validate(section))
    left = {episode.episode_id: episode for episode in read_episodes(FOLDER, "raw")}
    assert sorted(set(whole) - set(left)) == ["00000003", "00000007"]
    assert all(np.array_equal(left[name].observation, whole[name].observation) for name in left)
    manifest = read_manifest(FOLDER)
    assert (manifest.counts["episodes"], manifest.counts["excluded_episodes"]) == (10, 2)
    assert manifest.parameters["exclude"] == ["00000003", "00000007"]
    assert "2 of its episodes were left out by their ids." in manifest.notes
    before = files()
    section["datasets"]["toy"]["exclude"] = ["12"]
    with pytest.raises(HindcastError, match=r"datasets\.toy\.exclude: found '12', but the builder makes no episode of this id"):
        collect.run("toy", Params.model_validate(section))
    assert files() == before
    section["datasets"]["toy"]["exclude"] = [7]  # YAML reads 00000007 as a number where it has no quotes
    with pytest.raises(ValidationError, match=r"datasets\.toy\.exclude"):
        Params.model_validate(section)
