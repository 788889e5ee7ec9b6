"""hindcast new-dataset: all of it is written, and works, or nothing is."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import rl_datasets.builders
from pipelines.cli import app
from pipelines.commands.new_dataset import run
from pipelines.commands.params_text import insert_entry
from pipelines.commands.templates import experiment_entry
from pipelines.params import load_params, validate_all
from rl_datasets.errors import HindcastError
from rl_datasets.inspection.role_names import ROLES

ROOT = Path(__file__).parents[2]
ENTRY = "  new:\n    builder: gymnasium\n    version: 1.0.0\n    seed: 0\n    source: lock\n    options: {env_id: A}\n"


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with the project's params.yaml, in which builders are found."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    (tmp_path / "requirements.lock").touch()
    monkeypatch.setattr(rl_datasets.builders, "__path__", [*rl_datasets.builders.__path__, str(tmp_path / "datasets/rl_datasets/builders")])
    yield tmp_path
    sys.modules.pop("rl_datasets.builders.mine", None)


def new(name: str, file: Path | None = None, env_id: str = "", *roles: str) -> str:
    console = Console(file=io.StringIO(), width=200)
    run(name, file, env_id, roles, console)
    return console.file.getvalue()


def state(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def log(path: Path) -> Path:
    rng = np.random.default_rng(0)
    ends = np.isin(np.arange(12), (4, 11))
    np.savez(path, observations=rng.normal(size=(12, 2)), actions=rng.uniform(-1, 1, (12, 1)), rewards=np.arange(12.0), terminals=ends)
    return path


def check_written_test_passes(folder: Path, name: str) -> None:
    source = {"PYTHONPATH": f"{ROOT}:{ROOT / 'datasets'}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/rl_datasets/test_{name}.py"]
    done = subprocess.run(command, cwd=folder, env=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_from_a_file(project):
    text = (project / "params.yaml").read_text()
    told = new("mine", log(project / "log.npz"))
    assert "Tried: 2 episodes, 12 transitions, 2 of the ends terminal." in told
    assert "dvc repro evaluate@mine_iql" in told
    validate_all(params := load_params())
    assert params.experiment("mine_iql").evaluate.fitted_q is not None
    assert params.dataset("mine").builder == "npz"
    after = (project / "params.yaml").read_text()
    lines = after.splitlines()
    kept = iter(lines)
    assert all(line in kept for line in text.splitlines())  # every line is there, in its order
    assert lines.index("  mine:") < lines.index(
        "checks:  # docs/checks.md lists them; an entry named as a data set is merged over default, option by option"
    )
    check_written_test_passes(project, "mine")


@pytest.mark.parametrize(
    ("env_id", "action", "transitions", "expected"),
    [
        ("Oven", "[heat]", 5000, ("pendulum", 256, {"seed": 0, "fitted_q": {}})),  # of 500 steps
        (
            "Oven",
            "{columns: heat, categories: [low, high]}",
            50,
            ("cartpole", 32, {"seed": 0, "fitted_q": {"gamma": 0.54}}),
        ),  # of 5 steps, all cut
        ("CartPole-v1", "{columns: push, num_values: 2}", 5000, ("cartpole", 256, {"seed": 0, "episodes": 20})),
    ],
)
def test_an_experiment_is_proposed_that_the_parameters_take(project, env_id, action, transitions, expected):
    options = f"{{env_id: {env_id}, observation: [a], action: {action}, reward: r, terminal: over, ends: {{kind: flags}}}}"
    entry = f"  mine:\n    builder: table\n    version: 1.0.0\n    seed: 0\n    source: requirements.lock\n    options: {options}\n"
    counts = {"episodes": 10, "transitions": transitions, "terminals": 0}
    proposed = experiment_entry("mine", entry, counts)
    text = insert_entry((project / "params.yaml").read_text(), "mine", entry).replace("\nexperiments:\n", f"\nexperiments:\n{proposed}", 1)
    (project / "params.yaml").write_text(text)
    validate_all(params := load_params())
    experiment = params.experiment("mine_iql")
    found = experiment.evaluate.model_dump(exclude_unset=True)
    assert (experiment.preset, experiment.train.batch_size, found) == expected


def test_no_experiment_is_proposed_where_the_entry_does_not_tell_the_kind_of_actions():
    assert (
        experiment_entry("mine", "  mine:\n    builder: rlds\n    options: {splits: [train]}\n", {"episodes": 9, "transitions": 5000}) == ""
    )


def test_from_an_environment(project):
    assert "Tried: 200 episodes" in new("mine", None, "CartPole-v1")
    validate_all(load_params())


def test_a_builder_from_nothing(project):
    told = new("mine")
    assert "Wrote datasets/rl_datasets/builders/mine.py" in told
    assert "Tried: 100 episodes, 2,000 transitions, 0 of the ends terminal." in told
    assert "dvc repro collect@mine check@mine split@mine" in told
    validate_all(load_params())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cartpole_random",), "params.yaml has a data set 'cartpole_random' already"),
        (("Mine",), "'Mine' is no name of a data set"),
        (("mine", None, "CartPol-v1"), "CartPole-v1"),
        (("mine", Path("unknown.npz")), r"Nothing was written, for unknown\.npz does not import yet\. No column was recognised"),
    ],
)
def test_a_failure_leaves_everything_as_it_was(project, arguments, message):
    np.savez(project / "unknown.npz", x=np.arange(5.0), y=np.arange(5.0))
    before = state(project)
    with pytest.raises(HindcastError, match=message):
        new(*arguments)
    assert state(project) == before


def test_what_the_gate_would_stop_is_told(project):
    rewards = np.arange(12.0)
    rewards[3] = np.nan
    rng = np.random.default_rng(0)
    arrays = {"observations": rng.normal(size=(12, 2)), "actions": rng.uniform(-1, 1, (12, 1)), "rewards": rewards}
    np.savez(project / "log.npz", **arrays, terminals=np.arange(12) == 11)
    told = new("mine", project / "log.npz")
    assert "The quality gate will stop it:" in told
    assert "finite" in told


@pytest.mark.parametrize(
    "text", ["datasets:\n  a: {x: 1}\n\n# about checks\nchecks: {}\n", "datasets:\n    a: {x: 1}", "checks: {}\ndatasets:\n"]
)
def test_an_entry_goes_to_the_end_of_its_section(text):
    after = insert_entry(text, "new", ENTRY)
    kept = iter(after.splitlines())
    assert all(line in kept for line in text.splitlines())
    assert "# about checks" not in text or after.index("new:") < after.index("# about checks")


def test_an_empty_section_takes_an_entry():
    after = insert_entry("datasets: {}\nexperiments: {}  # {} none\n", "new", ENTRY, "experiments")
    assert after == f"datasets: {{}}\nexperiments:  # {{}} none\n\n{ENTRY}"
    with pytest.raises(HindcastError, match="has an experiment 'new' already"):
        insert_entry(after, "new", ENTRY, "experiments")


def test_a_section_in_brackets_is_left_to_the_user():
    with pytest.raises(HindcastError, match="not written as a block of lines"):
        insert_entry("datasets: {a: {x: 1}}\n", "new", ENTRY)


def test_the_help_of_inspect_says_what_each_role_is():
    told = CliRunner().invoke(app, ["inspect", "--help"], env={"COLUMNS": "120"}).output
    assert all(f"{role}: {words}" in told for role, words in ROLES.items())
