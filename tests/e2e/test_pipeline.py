"""The whole chain as a user runs it: from parameters to a report, twice, and in another clone, byte for byte."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

SUMMARY_KEYS = {
    "experiment", "dataset", "algorithm", "seeds", "episodes", "return_mean", "return_std", "iqm", "iqm_low", "iqm_high",
    "behaviour_return_mean", "normalized_score", "updates", "transitions",
}  # fmt: skip


def test_the_report_has_every_experiment(finished):
    summary = json.loads((finished.root / "artifacts/report/summary.json").read_text())
    assert [entry["experiment"] for entry in summary] == ["cartpole_iql", "hopper_cql"]
    for entry in summary:
        assert set(entry) == SUMMARY_KEYS
        assert entry["iqm_low"] <= entry["iqm"] <= entry["iqm_high"]
    page = (finished.root / "artifacts/report/index.html").read_text()
    assert "cartpole_iql" in page
    assert 'src="http' not in page
    assert "hopper_cql" in finished.run("hindcast", "results").stdout


def test_a_second_run_does_nothing(finished):
    before = (finished.root / "dvc.lock").read_bytes()
    output = finished.run("dvc", "repro").stdout
    assert "Running stage" not in output
    assert "up to date" in output
    assert (finished.root / "dvc.lock").read_bytes() == before
    assert "up to date" in finished.run("dvc", "status").stdout


def test_another_clone_makes_the_same_bytes(finished, tmp_path):
    """One chain from the environment to the returns: each of its stages, and what one hands to the next."""
    subprocess.run(["git", "clone", "-q", str(finished.root), str(tmp_path / "clone")], check=True)
    clone = type(finished)(tmp_path / "clone")
    clone.run("dvc", "repro", "--force", "evaluate@hopper_cql")
    assert (clone.root / "dvc.lock").read_text() == (finished.root / "dvc.lock").read_text()
    assert clone.run("git", "status", "--porcelain", "--untracked-files=no").stdout == ""
    clone.commit()  # the records of these runs
    clone.run("hindcast", "audit", "evaluate@hopper_cql", "--deep")


def test_what_is_pulled_elsewhere_passes_the_deep_audit_and_is_released(finished, tmp_path):
    """As docs/how-to/remotes.md says: set up, push, clone, pull, audit; then a release, fetched by its name."""
    subprocess.run(["git", "clone", "-q", str(finished.root), str(tmp_path / "here")], check=True)
    here = type(finished)(tmp_path / "here")
    here.run("dvc", "cache", "dir", "--local", str(finished.root / ".dvc/cache"))
    here.run("dvc", "remote", "add", "--default", "store", str(tmp_path / "store"))
    here.run("dvc", "remote", "modify", "store", "verify", "true")
    here.commit()
    here.run("dvc", "push")
    subprocess.run(["git", "clone", "-q", str(here.root), str(tmp_path / "there")], check=True)
    there = type(finished)(tmp_path / "there")
    there.run("dvc", "pull")
    there.run("hindcast", "audit", "--deep", "--remote")
    for key, value in (("user.name", "test"), ("user.email", "test@localhost")):
        there.run("git", "config", key, value)
    there.run("hindcast", "release", "hopper_cql")
    there.run("dvc", "artifacts", "get", ".", "hopper_cql", "--rev", "v1.0.0", "--out", str(tmp_path / "got"))
    bundle = "seed_0/policy.safetensors"
    assert (tmp_path / "got" / bundle).read_bytes() == (finished.root / "artifacts/models/hopper_cql/policies" / bundle).read_bytes()


def test_when_entries_are_deleted_the_lock_is_written_anew_without_running_what_was_run(finished, tmp_path):
    subprocess.run(["git", "clone", "-q", str(finished.root), str(tmp_path / "here")], check=True)
    here = type(finished)(tmp_path / "here")
    here.run("dvc", "cache", "dir", "--local", str(finished.root / ".dvc/cache"))
    here.run("dvc", "checkout")
    params = (here.root / "params.yaml").read_text()
    for name in ("hopper", "hopper_cql"):
        params = re.sub(rf"^  {name}:\n(    .*\n)+", "", params, flags=re.MULTILINE)
    (here.root / "params.yaml").write_text(params)
    here.run("dvc", "repro")
    told = here.run("hindcast", "audit", check=False)
    assert told.returncode == 2
    assert "a run of 'collect@hopper', which dvc.yaml and params.yaml no longer ask for" in told.stdout
    assert "'rm dvc.lock && dvc repro' writes it anew" in told.stdout
    (here.root / "dvc.lock").unlink()
    assert "Running stage" not in here.run("dvc", "repro").stdout
    assert here.run("hindcast", "audit").stdout.splitlines()[-1].startswith("Every link holds")


def test_audit_and_metrics_work(finished):
    assert "holds" in finished.run("hindcast", "audit").stdout
    assert "collect@cartpole" in finished.run("hindcast", "lineage", "cartpole_again").stdout
    assert "return_mean" in finished.run("dvc", "metrics", "show").stdout
    finished.run("dvc", "plots", "show", "--out", str(finished.root.parent / "plots"))
    assert (finished.root.parent / "plots/index.html").is_file()


def test_a_changed_learner_reruns_its_experiments_only(finished):
    status = finished.run("dvc", "repro", "--dry").stdout
    assert "Running stage" not in status
    learner = finished.root / "trainer/learners/cql.py"
    before = learner.read_text()
    try:
        learner.write_text(before + "\n# a change\n")
        (finished.root / "README.md").write_text("changed")
        lines = [line for line in finished.run("dvc", "repro", "--dry").stdout.splitlines() if "Running stage" in line]
    finally:
        learner.write_text(before)
    assert any("train@hopper_cql" in line for line in lines)
    assert not any("cartpole" in line or "collect" in line for line in lines)


def test_tfds_reads_every_data_set_without_this_project(finished, tmp_path):
    code = """
import sys, tensorflow_datasets as tfds
root = sys.argv[1]
assert not any(name in sys.modules for name in ("rl_datasets", "trainer"))
for name, version in (("cartpole", "1.0.0"), ("cartpole_again", "1.2.0"), ("hopper", "1.0.0")):
    builder = tfds.builder_from_directory(f"{root}/artifacts/splits/{name}/{version}")
    assert set(builder.info.splits) == {"train", "validation", "test"}, builder.info.splits
    loaded = tfds.load(name, data_dir=f"{root}/artifacts/splits", split="train")
    episode = next(iter(loaded))
    steps = list(episode["steps"])
    assert bool(steps[0]["is_first"]) and bool(steps[-1]["is_last"]), name
print("read")
"""
    command = [sys.executable, "-I", "-c", code, str(finished.root)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, "read"), result.stderr


def test_every_stage_left_a_record(finished):
    jobs = {path.name for path in (finished.root / "artifacts/records").iterdir()}
    assert {"collect@cartpole", "check@hopper", "split@cartpole_again", "train@cartpole_iql", "evaluate@hopper_cql", "report"} <= jobs


def test_no_artifact_names_this_machine(finished):
    for path in Path(finished.root / "artifacts").rglob("*"):
        if path.is_file() and "records" not in path.parts:
            assert str(finished.root).encode() not in path.read_bytes(), path
