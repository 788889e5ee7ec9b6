"""Policies of data that no environment goes with: evaluated by fitted Q evaluation, reported, and audited; and both ways at once."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pipelines import check, evaluate, paths, report, split
from pipelines import train as train_stage
from pipelines.inputs import parameters_of
from pipelines.params import Params, validate_all
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import Manifest, read_manifest, write_manifest
from rl_datasets.rlds import write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from trainer.fitted_q.summary import INTERVAL

pytestmark = pytest.mark.slow
OUT = paths.EVALS / "walk_bc"
WALK = EnvSpec("Walk", ArraySpec((2,), "float32"), ArraySpec((1,), "float32", -1, 1))
FITTED = {"gamma": 0.9, "updates": 200, "hidden_sizes": [8], "batch_size": 32}


def walk(number: int) -> Episode:
    """Six steps of a random walk, the first half of the episodes cut, the others terminal; the reward is minus the distance from zero."""
    rng, length = np.random.default_rng(number), 6
    action = np.append(rng.uniform(-1, 1, (length, 1)), [[0]], axis=0).astype(np.float32)
    place = rng.uniform(-2, 2) + np.append([[0]], np.cumsum(action[:-1], axis=0), axis=0)
    observation = np.concatenate([place, np.full((length + 1, 1), number % 5)], axis=1).astype(np.float32)
    reward = np.append(-np.abs(place[1:, 0]), 0).astype(np.float32)
    discount, terminal = np.append(np.ones(length), 0).astype(np.float32), number % 2 == 1
    discount[-2] = 0.0 if terminal else 1.0
    metadata = {"seed": number, "policy": "random", "environment": "Walk"}
    return Episode(f"{number:04d}", observation, action, reward, discount, terminal, metadata)


def make_params(**evaluation: Any) -> Params:
    dataset = {"builder": "table", "version": "1.0.0", "seed": 0, "source": "walks.csv", "options": {}}
    entry = {
        "dataset": "walk",
        "algorithm": "bc",
        "preset": "tiny",
        "train": {"seeds": [3, 1], "updates": 10, "batch_size": 16, "log_every": 5},
        "evaluate": {"seed": 7, **(evaluation or {"fitted_q": FITTED})},
    }
    return Params.model_validate(
        {
            "datasets": {"walk": dataset},
            "checks": {"default": {}},
            "split": {"fractions": {"train": 0.6, "validation": 0.2, "test": 0.2}},
            "learners": {"bc": {"tiny": {"hidden_sizes": [8]}}},
            "experiments": {"walk_bc": entry},
        }
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of a hundred walks, checked, divided and learnt from by the real stages."""
    root = tmp_path_factory.mktemp("walks")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        asked = make_params()
        raw = paths.RAW / "walk" / "1.0.0"
        written = write_rlds(raw, "walk", "1.0.0", WALK, {"raw": [walk(number) for number in range(100)]})
        write_manifest(raw, Manifest("collect@walk", written.digest, parameters_of("collect@walk", asked)))
        check.run("walk", asked)
        split.run("walk", asked)
        train_stage.run("walk_bc", asked)
    return root


@pytest.fixture
def project(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


@pytest.fixture(scope="module")
def evaluated(trained: Path) -> dict[str, bytes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(trained)
        evaluate.run("walk_bc", make_params())
        return {path.name: path.read_bytes() for path in sorted(OUT.iterdir())}


def test_the_table_holds_what_the_held_out_episodes_earned(evaluated: dict[str, bytes], project: Path) -> None:
    table = pd.read_csv(io.BytesIO(evaluated["fitted_q.csv"]), dtype={"episode_id": str})
    held_out = pd.read_csv(paths.SPLITS / "walk/1.0.0/episodes.csv", dtype={"episode_id": str}).query("split == 'test'")
    assert sorted(table["episode_id"]) == sorted(held_out["episode_id"])
    for row in table.itertuples():
        episode = walk(int(row.episode_id))
        weights = 0.9 ** np.arange(6)
        assert row.behaviour_return == pytest.approx(float(weights @ episode.reward[:-1]), rel=1e-6)
        assert row.is_terminal == episode.is_terminal
        assert (row.behaviour_rest == 0) == episode.is_terminal
    assert list(table.columns[-2:]) == ["seed_3", "seed_1"]
    assert (pd.read_csv(io.BytesIO(evaluated["episodes.csv"]))).empty


def test_metrics_are_plain_numbers_of_the_table(evaluated: dict[str, bytes]) -> None:
    metrics = json.loads(evaluated["metrics.json"])
    table = pd.read_csv(io.BytesIO(evaluated["fitted_q.csv"]))
    known = table["behaviour_return"] + table["behaviour_rest"]
    means = [table["seed_3"].mean(), table["seed_1"].mean()]
    assert metrics["fitted_q_seed_values"] == pytest.approx(means)
    assert metrics["fitted_q_value"] == pytest.approx(np.mean(means))
    assert metrics["fitted_q_behaviour"] == pytest.approx(known.mean())
    assert metrics["fitted_q_difference"] == pytest.approx(np.mean(means) - known.mean())
    assert metrics["fitted_q_calibration"] == pytest.approx((table["behaviour_value"] - known).mean())
    assert metrics["fitted_q_cut_share"] == pytest.approx(1 - table["is_terminal"].mean())
    assert metrics["fitted_q_value_low"] < metrics["fitted_q_value"] < metrics["fitted_q_value_high"]
    assert not any(isinstance(value, dict | str) for value in metrics.values()), "dvc metrics show is to have plain columns"
    assert "return_mean" not in metrics


def test_the_manifest_says_what_was_assumed_and_warns(evaluated: dict[str, bytes], project: Path) -> None:
    manifest = read_manifest(OUT)
    held_out = len(pd.read_csv(io.BytesIO(evaluated["fitted_q.csv"])))
    assert manifest.counts == {"held_out_episodes": held_out, "updates": 200}
    assert manifest.notes[0].startswith(
        "Fitted Q evaluation: the discounted return (gamma 0.9) of the deterministic policy from the initial"
    )
    assert any(note.startswith("Fitted Q evaluation, cut episodes: ") for note in manifest.notes)
    assert [entry.name for entry in manifest.inputs] == ["policy of seed 3", "policy of seed 1", "walk 1.0.0"]


def test_equal_inputs_give_equal_bytes(evaluated: dict[str, bytes], project: Path) -> None:
    evaluate.run("walk_bc", make_params())
    assert {path.name: path.read_bytes() for path in sorted(OUT.iterdir())} == evaluated


def test_the_report_shows_estimates_where_nothing_was_played(evaluated: dict[str, bytes], project: Path) -> None:
    metrics = json.loads(evaluated["metrics.json"])
    report.run("", make_params())
    page = (paths.REPORT / "index.html").read_text()
    assert 'id="estimates"' in page
    assert 'id="results"' not in page
    assert "fresh environments" not in page.partition("</header>")[0]
    assert "cut episodes" in page
    assert f"walk_bc, estimated: mean {metrics['fitted_q_value']:.2f}".replace("-", "\u2212") in page
    (row,) = json.loads((paths.REPORT / "summary.json").read_text())
    assert row["fitted_q_value"] == metrics["fitted_q_value"]
    assert "return_mean" not in row
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(report.results_table())
    text = console.export_text()
    assert "Discounted returns as the data alone tell them (fitted Q)" in text
    assert INTERVAL in text
    assert INTERVAL in page
    assert "Returns of the final policies" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        ({}, "give episodes .* or fitted_q: {}"),
        ({"fitted_q": {"gamma": 1.0}}, "fitted_q.gamma"),
        ({"fitted_q": {"gama": 0.9}}, "fitted_q.gama"),
    ],
)
def test_what_an_entry_may_say(evaluation: dict[str, Any], message: str) -> None:
    from pipelines.params import EvaluateParams
    from rl_datasets.validation import validated

    with pytest.raises(HindcastError, match=message):
        validated(EvaluateParams, {"seed": 0, **evaluation}, "experiments.x.evaluate")
    assert validated(EvaluateParams, {"seed": 0, "fitted_q": {}}, "").fitted_q.gamma == 0.99  # type: ignore[union-attr]


def test_episodes_without_an_environment_are_refused_by_the_stage(project: Path) -> None:
    asked = make_params(episodes=5)
    with pytest.raises(HindcastError, match=r"no environment 'Walk' here.*put 'fitted_q: \{\}' in the place of 'episodes'"):
        evaluate.run("walk_bc", asked)


def test_episodes_without_an_environment_are_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("walks.csv").write_text("place,push,reward,over\n")
    options = {
        "env_id": "Walk",
        "observation": "place",
        "action": "push",
        "reward": "reward",
        "terminal": "over",
        "ends": {"kind": "flags"},
    }
    for evaluation, fault in (({"fitted_q": {}}, False), ({"episodes": 5}, True), ({"episodes": 5, "fitted_q": {}}, True)):
        asked = make_params(**evaluation).model_dump(mode="json")
        asked["datasets"]["walk"]["options"] = options
        params = Params.model_validate(asked)
        if not fault:
            validate_all(params)
            continue
        with pytest.raises(HindcastError, match=r"experiments\.walk_bc\.evaluate\.episodes: There is no environment 'Walk' here.*fitted_q"):
            validate_all(params)


def test_without_a_test_split_there_is_one_message(project: Path) -> None:
    from trainer.api import load_policy
    from trainer.fitted_q.estimate import estimate_returns
    from trainer.fitted_q.params import FittedQParams

    policy = load_policy(paths.MODELS / "walk_bc/policies/seed_3")
    with pytest.raises(HindcastError, match=r"initial states of the split 'holdout'.*has only .*split\.fractions of params\.yaml"):
        estimate_returns([policy], paths.SPLITS / "walk/1.0.0", {}, FittedQParams(), seed=0, train="train", held_out="holdout")


def test_the_audit_computes_the_same_numbers_from_the_table(evaluated: dict[str, bytes]) -> None:
    from pipelines.lineage.audit.estimates import columns_of, expected_metrics

    metrics, columns = json.loads(evaluated["metrics.json"]), columns_of(evaluated["fitted_q.csv"], "fitted_q.csv")
    for name, value in expected_metrics(columns, seed=7).items():
        assert metrics[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
    assert set(metrics) - set(expected_metrics(columns, seed=7)) == {"behaviour_return_mean", "fitted_q_far_share", "fitted_q_flags"}
    assert columns_of(b"episode_id,length,is_terminal,behaviour_return\n", "") == {}
    with pytest.raises(HindcastError, match="here is no table of held-out episodes"):
        columns_of(b"episode_id,is_terminal,behaviour_return\n1,True,x\n", "here")


def test_both_ways_at_once_show_what_is_told_beside_what_is_true(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment whose reward is 1 in each of four steps."""
    import gymnasium as gym

    class Walk(gym.Env[Any, Any]):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.clock = 0
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> Any:
            self.clock += 1
            return np.zeros(2, np.float32), 1.0, self.clock == 4, False, {}

    gym.register("Walk", entry_point=Walk)
    asked = make_params(episodes=3, fitted_q=FITTED)
    try:
        evaluate.run("walk_bc", asked)
    finally:
        gym.registry.pop("Walk")
    metrics = json.loads((OUT / "metrics.json").read_text())
    assert metrics["return_mean"] == 4
    assert metrics["discounted_return_mean"] == pytest.approx(1 + 0.9 + 0.81 + 0.729)
    assert "fitted_q_value" in metrics
    report.run("", asked)
    page = (paths.REPORT / "index.html").read_text()
    assert "walk_bc, played: mean 3.44" in page
    assert "each played with its final weights in fresh environments and valued on held-out data" in page
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(report.results_table())
    text = console.export_text()
    assert "Returns of the final policies" in text
    assert " 3.44 " in text


def test_the_page_names_every_option_number_and_warning() -> None:
    """And its entry is one that params.yaml takes."""
    import re

    from ruamel.yaml import YAML

    from pipelines.params import ExperimentParams
    from trainer.fitted_q import summary
    from trainer.fitted_q.params import FittedQParams

    page = (Path(__file__).parents[2] / "docs/how-to/evaluate-without-an-environment.md").read_text(encoding="utf-8")
    for name, default in FittedQParams().model_dump(mode="json").items():
        assert f"`{name}`" in page
        assert str(default).lower() in page
    source = Path(summary.__file__).read_text(encoding="utf-8")
    kinds = re.findall(r'yield Flag\(\s*"([a-z ]+)"', source)
    assert len(kinds) == len(summary.CHECKS)
    assert all(f"\n| {kind} |" in page for kind in kinds)
    block = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert block is not None
    (entry,) = YAML(typ="safe").load(block[1])["experiments"].values()
    assert ExperimentParams.model_validate(entry).evaluate.fitted_q == FittedQParams()
