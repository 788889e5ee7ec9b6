"""The split stage on data on disk: the splits are the data set, copies stay together, and the gate's word counts."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines import check, split
from pipelines.inputs import parameters_of
from pipelines.params import Params
from rl_datasets.digest import content_key
from rl_datasets.errors import HindcastError
from rl_datasets.manifest import Input, Manifest, read_manifest, write_manifest
from rl_datasets.rlds import read_episodes, read_spec, write_rlds
from rl_datasets.schema import ArraySpec, EnvSpec, Episode
from rl_datasets.splits import Fractions, SplitParams, assign_split

RAW = Path("artifacts/raw/toy/1.0.0")
FOLDER = Path("artifacts/splits/toy/1.0.0")
SPEC = EnvSpec(
    "Toy-v0", {"joint": ArraySpec((2,), "float32"), "room": ArraySpec((), "int64", 0, 8, num_values=9)}, ArraySpec((1,), "float32")
)
SPLITS = ("train", "validation", "test")


def episode(index: int) -> Episode:
    """Its fields count up from 100 * index; every seventh repeats the content of the one before."""
    content = index - 1 if index % 7 == 6 else index
    steps = content % 5 + 3
    count = np.arange(steps, dtype=np.float32) + 100 * content
    action, reward, discount = count[:, None] / 8, count / 4, np.ones(steps, np.float32)
    action[-1], reward[-1], discount[-1] = 0, 0, 0
    observation = {"joint": np.stack([count, -count], 1), "room": count.astype(np.int64) % 9}
    metadata = {"seed": index, "policy": "random", "environment": "Toy-v0"}
    return Episode(f"toy-{index:03d}", observation, action, reward.astype(np.float32), discount, False, metadata)


def params(seed: int = 0, checks: dict[str, str] | None = None, **fractions: float) -> Params:
    entry = {"builder": "gymnasium", "version": "1.0.0", "seed": 0, "source": "requirements.lock", "options": {}}
    sections = {"checks": {"default": checks or {}}, "split": {"fractions": fractions, "seed": seed}, "learners": {}, "experiments": {}}
    return Params.model_validate({"datasets": {"toy": entry}, **sections})


def write_raw(episodes: list[Episode]) -> None:
    shutil.rmtree(RAW, ignore_errors=True)
    written = write_rlds(RAW, "toy", "1.0.0", SPEC, {"raw": episodes}, shards=3)
    write_manifest(RAW, Manifest("collect@toy", written.digest, parameters_of("collect@toy", params()), notes=("A note of the builder.",)))


@pytest.fixture(scope="module")
def finished_root(tmp_path_factory):
    """150 episodes, checked and split, in a project of their own."""
    root = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        write_raw([episode(index) for index in range(150)])
        check.run("toy", params())
        assert split.run("toy", params()) == FOLDER
    return root


@pytest.fixture
def finished(finished_root, monkeypatch):
    """The finished project, to look at."""
    monkeypatch.chdir(finished_root)


@pytest.fixture
def project(finished_root, tmp_path, monkeypatch):
    """A copy of the finished project, to change."""
    shutil.copytree(finished_root, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def found_splits() -> dict[str, list[Episode]]:
    return {name: list(read_episodes(FOLDER, name)) for name in SPLITS}


def test_the_splits_together_are_the_data_set(finished):
    found = found_splits()
    together = sorted((e for episodes in found.values() for e in episodes), key=lambda e: e.episode_id)
    assert [e.episode_id for e in together] == [f"toy-{index:03d}" for index in range(150)]
    for index, e in enumerate(together):
        assert content_key(e) == content_key(episode(index))
        assert e.metadata == episode(index).metadata
    assert all(found.values())
    assert read_spec(FOLDER) == SPEC


def test_an_episode_is_where_the_hash_of_its_content_says(project):
    split.run("toy", params(seed=3))
    for name, episodes in found_splits().items():
        assert {assign_split(content_key(e), Fractions(), 3) for e in episodes} == {name}


def test_copies_share_a_split(finished):
    of = {e.episode_id: name for name, episodes in found_splits().items() for e in episodes}
    assert all(of[f"toy-{index:03d}"] == of[f"toy-{index - 1:03d}"] for index in range(6, 150, 7))
    assert list(read_manifest(FOLDER).notes) == [
        "A note of the builder.",
        "21 episodes repeat another's content and share its split.",
    ]


def test_adding_episodes_moves_none(project):
    before = pd.read_csv(FOLDER / "episodes.csv").set_index("episode_id")["split"]
    write_raw([episode(index) for index in range(170)])
    check.run("toy", params())
    split.run("toy", params())
    after = pd.read_csv(FOLDER / "episodes.csv").set_index("episode_id")["split"]
    assert len(after) == 170
    assert (after[before.index] == before).all()


def test_statistics_are_those_of_train_alone(finished):
    train = found_splits()["train"]
    statistics = json.loads((FOLDER / "stats.json").read_text())
    joint = np.concatenate([e.observation["joint"] for e in train]).astype(np.float64)
    np.testing.assert_allclose(statistics["observation"]["observation/joint"]["mean"], joint.mean(0), rtol=1e-12)
    np.testing.assert_allclose(statistics["observation"]["observation/joint"]["std"], joint.std(0), rtol=1e-12)
    assert (statistics["episodes"], statistics["transitions"]) == (len(train), sum(e.length for e in train))
    assert statistics["episode_return"]["maximum"] == max(e.episode_return for e in train)


def test_the_table_has_a_row_an_episode(finished):
    table = pd.read_csv(FOLDER / "episodes.csv")
    columns = ["episode_id", "split", "length", "episode_return", "is_terminal", "policy", "seed", "content", "reason"]
    assert list(table.columns) == columns
    row = table.set_index("episode_id").loc["toy-004"]  # content 4: seven steps, rewards 100.0, 100.25, ...
    assert (row["length"], row["episode_return"], row["is_terminal"], row["policy"], row["seed"]) == (6, 603.75, False, "random", 4)


def test_the_manifest_names_data_and_verdict_and_counts(finished):
    manifest, found = read_manifest(FOLDER), found_splits()
    raw, checked = read_manifest(RAW).digest, read_manifest(Path("artifacts/checks/toy")).digest
    assert manifest.inputs == (Input("toy", "artifacts/raw/toy/1.0.0", raw), Input("check of toy", "artifacts/checks/toy", checked))
    assert manifest.counts == {f"{n}_episodes": len(found[n]) for n in SPLITS} | {
        f"{n}_transitions": sum(e.length for e in found[n]) for n in SPLITS
    }
    assert manifest.parameters == SplitParams().model_dump(mode="json")


def test_a_second_run_writes_the_same_bytes(project):
    first = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    split.run("toy", params())
    assert {path.name: path.read_bytes() for path in FOLDER.iterdir()} == first
    assert {"stats.json", "episodes.csv", "sketches.npy", "manifest.json"} < set(first)


def test_splits_of_fraction_zero_are_not_made(project):
    split.run("toy", params(train=0.5, validation=0.5, test=0))
    assert {json.loads((FOLDER / "dataset_info.json").read_text())["splits"][i]["name"] for i in range(2)} == {"train", "validation"}
    with pytest.raises(HindcastError, match="test"):
        list(read_episodes(FOLDER, "test"))


@pytest.mark.parametrize(("count", "fractions"), [(2, {}), (20, {"train": 0.99, "validation": 0.01, "test": 0})])
def test_an_empty_split_is_refused_and_leaves_what_was(project, count, fractions):
    before = {path: path.read_bytes() for path in FOLDER.iterdir()}
    write_raw([episode(index) for index in range(count)])
    check.run("toy", params())
    with pytest.raises(HindcastError, match=r"would be empty: \d+ different episodes .* are needed"):
        split.run("toy", params(**fractions))
    assert {path: path.read_bytes() for path in FOLDER.iterdir()} == before
    assert [path.name for path in FOLDER.parent.iterdir()] == ["1.0.0"]


def test_data_that_the_gate_did_not_pass_are_refused(project):
    before = (FOLDER / "manifest.json").read_bytes()
    faulty = episode(3)
    faulty.reward[0] = np.nan
    write_raw([episode(0), faulty])
    with pytest.raises(HindcastError, match=r"artifacts/checks/toy was made from artifacts/raw/toy/1\.0\.0 when that had the digest"):
        split.run("toy", params())
    with pytest.raises(HindcastError, match="reward = nan"):
        check.run("toy", params())
    with pytest.raises(HindcastError, match=r"did not pass 'toy'; artifacts/checks/toy/card\.html says why"):
        split.run("toy", params())
    assert (FOLDER / "manifest.json").read_bytes() == before


def test_what_the_gate_sets_aside_is_in_no_split_and_listed_with_the_reason(project):
    before = pd.read_csv(FOLDER / "episodes.csv").set_index("episode_id")["split"]
    episodes = [episode(index) for index in range(150)]
    episodes[8].reward[1] = np.nan
    write_raw(episodes)
    asked = params(checks={"finite": "quarantine"})
    check.run("toy", asked)
    split.run("toy", asked)
    after = pd.read_csv(FOLDER / "episodes.csv", keep_default_na=False).set_index("episode_id")
    assert after.index[after["split"] == "quarantine"].tolist() == ["toy-008"]
    assert after.loc["toy-008", "reason"].startswith("finite: found reward = nan; expected ")
    assert (after["split"].drop("toy-008") == before.drop("toy-008")).all()
    found = {e.episode_id for episodes in found_splits().values() for e in episodes}
    assert found == set(before.index) - {"toy-008"}
    assert read_manifest(FOLDER).counts["quarantine_episodes"] == 1
    (Path("artifacts/checks/toy") / "quarantine.csv").write_text("episode_id,check,step,reason\n")
    with pytest.raises(HindcastError, match=r"quarantine\.csv .* was cut or changed since"):
        split.run("toy", asked)


def test_data_that_never_were_checked_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_raw([episode(index) for index in range(3)])
    with pytest.raises(HindcastError, match=r"artifacts/checks/toy/manifest\.json is missing"):
        split.run("toy", params())


def test_files_that_changed_after_the_check_are_refused(project):
    manifest = read_manifest(RAW)
    write_raw([episode(index) for index in range(149)])
    write_manifest(RAW, manifest)
    with pytest.raises(HindcastError, match=r"content of digest .* were changed after they were made"):
        split.run("toy", params())
